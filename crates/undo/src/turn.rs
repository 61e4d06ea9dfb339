//! Whose changes are recorded.

/// A turn of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The thread at the root of the agents that work together; `thread` where it works alone.
    pub tree: String,
    pub thread: String,
    pub turn: String,
}
