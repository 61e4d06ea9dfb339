//! The purposes of calls' answers.

use std::path::PathBuf;

use protocol::ThreadItem;
use serde_json::Value;

use crate::composer::Draft;
use crate::picker::Need;

/// The purpose of a call's answer.
#[derive(Debug)]
pub(super) enum Then {
    Configure,
    /// A new thread.
    Open,
    /// A thread that exists, whose turns are read afterwards.
    Reopen,
    /// The same; this text is to be edited in it.
    ReopenWith(String),
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
    /// The plan of a rollback.
    UndoPlanned,
    /// A rollback of so many turns; this text is to be edited.
    Undone {
        turns: u32,
        text: Option<String>,
    },
    /// Only a refusal is of interest; this is what was wanted.
    Done(&'static str),
    /// One that goes on with its answer by itself.
    Run,
    /// Information to be printed.
    Show(fn(&Value) -> String),
}

impl Then {
    /// The message that was sent.
    pub(super) fn draft(&self) -> Option<&Draft> {
        match self {
            Self::Turn(draft) | Self::Steer(draft) => Some(draft),
            _ => None,
        }
    }
}

/// The subject of a call for a list.
#[derive(Debug)]
pub(super) enum Listing {
    Threads(Need),
    Preview(String),
    Models,
    /// The user's messages.
    Messages,
    /// Earlier turns of this thread, which is read.
    Earlier(String),
    Export(Box<Exporting>),
}

/// An export whose turns are still being read.
#[derive(Debug)]
pub(super) struct Exporting {
    pub(super) path: PathBuf,
    pub(super) items: Vec<ThreadItem>,
    pub(super) thread: String,
}
