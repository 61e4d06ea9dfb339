//! What the answers of calls are for.

use serde_json::Value;

use crate::app::dialogs::Continuation;
use crate::composer::Draft;
use crate::picker::Need;

/// What the answer of a call is for.
#[derive(Debug)]
pub(super) enum Then {
    Configure,
    /// A new thread.
    Open,
    /// A thread that exists, whose turns are read afterwards.
    Reopen,
    /// A page of its turns.
    Turns,
    /// Rows of a list to choose from.
    List(Listing),
    /// The latest thread, to be opened with this method.
    Latest(&'static str),
    Turn(Draft),
    Steer(Draft),
    /// Files for the composer's search with this token.
    Files(u64),
    Skills,
    /// A rollback with files.
    Undone,
    /// Only a refusal is of interest; this is what was wanted.
    Done(&'static str),
    /// Goes on with what it gave, or with the refusal.
    Run(Continuation),
    /// Information to be printed.
    Show(fn(&Value) -> String),
}

/// What a call for a list is about.
#[derive(Debug)]
pub(super) enum Listing {
    Threads(Need),
    Preview(String),
    Models,
}
