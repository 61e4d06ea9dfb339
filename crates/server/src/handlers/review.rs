//! Reviews. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{ReviewMethods, ReviewStartParams, ReviewStartResponse};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl ReviewMethods<Cx> for Server {
    not_implemented! {
        review_start(ReviewStartParams) -> ReviewStartResponse = "review/start";
    }
}
