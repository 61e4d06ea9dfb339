//! The state of a thread in place of events that are gone.

/// The events of a thread in place of those that are gone: its turns as they are.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Replaced {
    /// The turns, oldest first, with the items that this version of the crate knows.
    pub turns: Vec<protocol::Turn>,
    /// They replace this turn and all later ones; `None`: all.
    pub from_turn_id: Option<String>,
    /// Set unless older turns from there on are missing.
    pub is_complete: bool,
    /// Why the events are gone.
    pub reason: ReplacedReason,
    /// The position after them.
    pub cursor: Option<String>,
    /// The number of events that the agent received before it.
    pub(crate) order: u64,
}

/// Why events of a thread are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplacedReason {
    /// The thread was unloaded or the server restarted in the meantime.
    Reloaded,
    /// The server no longer has the events, or turns were rolled back.
    TooOld,
    /// The events were not read, and too many of them waited.
    Lagged,
    /// Another reason.
    Other,
}

impl Replaced {
    pub(crate) fn lagged(turns: Vec<protocol::Turn>, cursor: Option<String>, order: u64) -> Self {
        let (from_turn_id, is_complete, reason) = (None, true, ReplacedReason::Lagged);
        Self { turns, from_turn_id, is_complete, reason, cursor, order }
    }
}
