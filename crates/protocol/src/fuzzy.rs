//! Searching files by approximate name.

use serde::{Deserialize, Serialize};

use crate::common::Empty;
use crate::table::{methods, notifications};

methods! {
    Fuzzy, FuzzyMethods;

    /// Searches once, in files and folders below `roots`.
    FuzzyFileSearch = "fuzzyFileSearch",
        fuzzy_file_search(FuzzyFileSearchParams) -> FuzzyFileSearchResponse,
        Stable, Begins, [];

    /// Starts a search session, whose query can change.
    FuzzyFileSearchSessionStart = "fuzzyFileSearch/sessionStart",
        fuzzy_file_search_session_start(FuzzyFileSearchSessionStartParams) -> Empty,
        Experimental, Begins, [];

    /// Changes the session's query.
    FuzzyFileSearchSessionUpdate = "fuzzyFileSearch/sessionUpdate",
        fuzzy_file_search_session_update(FuzzyFileSearchSessionUpdateParams) -> Empty,
        Experimental, Ordered, [];

    /// Ends the session.
    FuzzyFileSearchSessionStop = "fuzzyFileSearch/sessionStop",
        fuzzy_file_search_session_stop(FuzzyFileSearchSessionStopParams) -> Empty,
        Experimental, Ordered, [];
}

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// Results for the current query.
    FuzzyFileSearchSessionUpdated = "fuzzyFileSearch/sessionUpdated", FuzzyFileSearchSessionUpdatedNotification, Experimental;

    /// The results are complete.
    FuzzyFileSearchSessionCompleted = "fuzzyFileSearch/sessionCompleted", FuzzyFileSearchSessionCompletedNotification, Experimental;
}

/// Parameters of `fuzzyFileSearch`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FuzzyFileSearchParams {
    /// Words that a path must contain, each as letters in order; one with a capital letter is case-sensitive.
    pub query: String,
    /// Absolute paths of folders, 16 at most.
    pub roots: Vec<String>,
    /// A later search of this connection with the same token cancels this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancellation_token: Option<String>,
}

/// Result of `fuzzyFileSearch`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FuzzyFileSearchResponse {
    pub files: Vec<FuzzyFileSearchResult>,
}

/// A match; results are sorted best first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FuzzyFileSearchResult {
    /// As the request names it.
    pub root: String,
    /// Relative to `root`; what is not UTF-8 in it is replaced by U+FFFD.
    pub path: String,
    pub match_type: FuzzyFileSearchMatchType,
    pub file_name: String,
    /// The score of the match; more is better.
    pub score: u32,
    /// Indices of the characters of `path` that matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub indices: Option<Vec<u32>>,
}

/// Kind of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FuzzyFileSearchMatchType {
    File,
    Directory,
}

/// Parameters of `fuzzyFileSearch/sessionStart`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FuzzyFileSearchSessionStartParams {
    /// Chosen by the client, unique within its connection.
    pub session_id: String,
    /// Absolute paths of folders, 16 at most.
    pub roots: Vec<String>,
}

/// Parameters of `fuzzyFileSearch/sessionUpdate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FuzzyFileSearchSessionUpdateParams {
    pub session_id: String,
    pub query: String,
}

/// Parameters of `fuzzyFileSearch/sessionStop`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FuzzyFileSearchSessionStopParams {
    pub session_id: String,
}

/// Payload of `fuzzyFileSearch/sessionUpdated`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FuzzyFileSearchSessionUpdatedNotification {
    pub session_id: String,
    pub query: String,
    pub files: Vec<FuzzyFileSearchResult>,
}

/// Payload of `fuzzyFileSearch/sessionCompleted`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FuzzyFileSearchSessionCompletedNotification {
    pub session_id: String,
}
