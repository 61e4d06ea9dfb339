//! Search in what was said in threads (experimental).

use serde::{Deserialize, Serialize};

use crate::common::{Empty, RequestId, RequestIdShape, SortDirection};
use crate::table::{methods, notifications};
use crate::thread_list::{ThreadListCwdFilter, ThreadSortKey, ThreadSourceKind};
use crate::thread_record::Thread;

methods! {
    Search, SearchMethods;

    /// Searches messages of the user and of the agent, commands and names of changed files, in turns that have
    /// ended. A turn matches if it has all words of the term, without regard to case; the last word may be
    /// incomplete from three letters on. `thread/list` with `searchTerm` searches names and first messages.
    ThreadSearch = "thread/search",
        thread_search(ThreadSearchParams) -> ThreadSearchResponse,
        Experimental, Begins, [];

    /// As `thread/search`; `thread/search/partial` reports the threads as they are found, before the response.
    ThreadSearchStream = "thread/search/stream",
        thread_search_stream(ThreadSearchParams) -> ThreadSearchResponse,
        Experimental, Begins, [];

    /// Cancels a search of this connection, which is then answered with an error. An unknown id is no error: the
    /// search may have ended.
    ThreadSearchCancel = "thread/search/cancel",
        thread_search_cancel(ThreadSearchCancelParams) -> Empty,
        Experimental, Ordered, [];

    /// Another name of `thread/search/cancel`.
    ThreadSearchStreamCancel = "thread/search/stream/cancel",
        thread_search_stream_cancel(ThreadSearchCancelParams) -> Empty,
        Experimental, Ordered, [];

    /// Finds a text in the messages of one thread, literally but without regard to case.
    ThreadSearchOccurrences = "thread/searchOccurrences",
        thread_search_occurrences(ThreadSearchOccurrencesParams) -> ThreadSearchOccurrencesResponse,
        Experimental, Concurrent, [];
}

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// Threads that a `thread/search/stream` of this connection has found since the notification before.
    ThreadSearchPartial = "thread/search/partial", ThreadSearchPartialNotification, Experimental;
}

/// Parameters of `thread/search` and `thread/search/stream`; filters apply before pagination.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadSearchParams {
    /// 1 to 1000 characters.
    pub search_term: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
    /// `cli` and `editor` when absent or empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_kinds: Option<Vec<ThreadSourceKind>>,
    /// Must match exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<ThreadListCwdFilter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort_key: Option<ThreadSortKey>,
    /// Defaults to newest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort_direction: Option<SortDirection>,
    /// Cursor of the previous page; null for the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A page of found threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSearchResponse {
    pub data: Vec<ThreadSearchResult>,
    /// Null on the last page.
    pub next_cursor: Option<String>,
    /// Cursor for reading in the opposite direction.
    pub backwards_cursor: Option<String>,
    /// True while turns of an earlier version are being indexed: they are not found yet.
    pub indexing: bool,
}

/// A thread in which a text was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSearchResult {
    pub thread: Thread,
    /// The newest turn that matches.
    pub turn_id: String,
    /// The part of it that matches.
    pub snippet: String,
}

/// Parameters of `thread/search/cancel`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadSearchCancelParams {
    /// Id of the request that searches.
    #[schemars(with = "RequestIdShape")]
    pub request_id: RequestId,
}

/// Payload of `thread/search/partial`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSearchPartialNotification {
    /// Id of the request that searches.
    #[schemars(with = "RequestIdShape")]
    pub request_id: RequestId,
    pub data: Vec<ThreadSearchResult>,
}

/// Parameters of `thread/searchOccurrences`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadSearchOccurrencesParams {
    pub thread_id: String,
    /// 1 to 1000 characters.
    pub search_term: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A page of occurrences, newest first. With a cursor it may have fewer than the limit, or none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSearchOccurrencesResponse {
    pub data: Vec<ThreadSearchOccurrence>,
    /// Null when the whole thread was searched.
    pub next_cursor: Option<String>,
}

/// A message that contains a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSearchOccurrence {
    pub turn_id: String,
    pub item_id: String,
    /// The part around the first occurrence.
    pub snippet: String,
    /// Its characters that match.
    pub snippet_match_range: SnippetMatchRange,
    /// Cursor with which `thread/turns/list` begins at this turn.
    pub turn_cursor: String,
}

/// Positions in a snippet, in characters; the end is exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SnippetMatchRange {
    pub start: u32,
    pub end: u32,
}
