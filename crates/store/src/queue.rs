//! The queue of a thread: messages that wait for a turn of their own. The entries are opaque JSON
//! text; the caller bounds their number and size.

/// A queued entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedEntry {
    /// Id, unique in its thread.
    pub id: String,
    /// The entry, JSON.
    pub payload: String,
}

/// A change of a thread's queue.
#[derive(Debug, Clone)]
pub enum QueueWrite {
    /// Appends an entry with a new id.
    Add(QueuedEntry),
    /// Replaces the payload of the entry with this id.
    Replace(QueuedEntry),
    /// Removes an entry. Together with [`crate::Write::StartTurn`] in one commit, this starts it
    /// exactly once.
    Remove {
        /// Id of the entry.
        id: String,
    },
    /// Sets the order; names every entry exactly once.
    Reorder {
        /// Ids of the entries.
        ids: Vec<String>,
    },
}
