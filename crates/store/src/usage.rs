//! The usage and cost of model responses: one row for each response, which stays when its thread is
//! deleted, without the thread's name. Threads that are older than this table have one row with
//! what is known of them.

/// The usage of a response. Token counts and cost are `None` where they are not known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageRecord {
    /// Id of the turn.
    pub turn: Option<String>,
    /// Unix milliseconds.
    pub at_ms: i64,
    /// Provider id.
    pub provider: String,
    /// Model id.
    pub model: String,
    /// Service tier, if it is not the provider's default.
    pub service_tier: Option<String>,
    /// All input tokens.
    pub input: Option<i64>,
    /// Of these, tokens read from the provider's prompt cache.
    pub cached_input: Option<i64>,
    /// Of these, tokens written to it.
    pub cache_write: Option<i64>,
    /// All output tokens.
    pub output: Option<i64>,
    /// Of these, tokens spent on reasoning.
    pub reasoning_output: Option<i64>,
    /// In picodollars (10^-12 US dollars).
    pub cost: Option<i64>,
}

/// A stored [`UsageRecord`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRow {
    /// Grows with each row.
    pub key: i64,
    /// Id of the thread, unless it was deleted.
    pub thread: Option<String>,
    /// Folder of the thread at that time.
    pub project: String,
    /// The usage.
    pub record: UsageRecord,
}

/// Which rows to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageQuery {
    /// Only rows after the one with this key.
    pub after: i64,
    /// Only rows from this time on, in Unix milliseconds.
    pub from_ms: i64,
    /// Only rows before this time.
    pub to_ms: i64,
    /// Most rows.
    pub limit: u32,
}
