//! Fuzzy file search. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{
    Empty, FuzzyFileSearchParams, FuzzyFileSearchResponse, FuzzyFileSearchSessionStartParams,
    FuzzyFileSearchSessionStopParams, FuzzyFileSearchSessionUpdateParams, FuzzyMethods,
};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl FuzzyMethods<Cx> for Server {
    not_implemented! {
        fuzzy_file_search(FuzzyFileSearchParams) -> FuzzyFileSearchResponse = "fuzzyFileSearch";
        fuzzy_file_search_session_start(FuzzyFileSearchSessionStartParams) -> Empty = "fuzzyFileSearch/sessionStart";
        fuzzy_file_search_session_update(FuzzyFileSearchSessionUpdateParams) -> Empty = "fuzzyFileSearch/sessionUpdate";
        fuzzy_file_search_session_stop(FuzzyFileSearchSessionStopParams) -> Empty = "fuzzyFileSearch/sessionStop";
    }
}
