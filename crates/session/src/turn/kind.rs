//! The purpose of a turn, and its beginning.

use std::sync::Arc;

use super::review::Review;

/// The purpose of a turn.
pub(crate) enum Kind {
    /// The model works on the user's input.
    Ordinary {
        /// Kept parts of the history when the turn began: those are finished business.
        kept_before: usize,
    },
    /// The history is compacted.
    Compaction,
    /// A change is reviewed.
    Review(Box<Review>),
    /// Commands of the user run.
    Shell,
}

/// The beginning of a turn.
pub(crate) struct Beginning {
    pub(crate) kind: Kind,
    /// The caller that started it; `None`: it starts by itself.
    pub(crate) reply: Option<u64>,
    /// True if the model is asked at once.
    pub(crate) asks_model: bool,
    pub(crate) output_schema: Option<Arc<str>>,
    /// In place of the thread's service tier.
    pub(crate) service_tier: Option<Option<String>>,
}

impl Beginning {
    /// Of a turn that does not ask the model at once.
    pub(crate) fn new(kind: Kind, reply: u64) -> Self {
        let (output_schema, service_tier) = (None, None);
        Self { kind, reply: Some(reply), asks_model: false, output_schema, service_tier }
    }
}
