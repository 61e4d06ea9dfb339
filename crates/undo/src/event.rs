//! The record of one change.

use std::path::PathBuf;

use crate::state::State;

/// A stored change of a turn.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) path: PathBuf,
    pub(crate) before: Option<State>,
    pub(crate) after: Option<State>,
    /// True if others may have made it: threads whose calls ran at the same time, or anyone who
    /// changed something before the end of a crashed process was noticed.
    pub(crate) is_uncertain: bool,
}
