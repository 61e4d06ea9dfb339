//! The content that fills the screen: a list to choose from, or a text.

use crate::pager::Pager;
use crate::picker::Picker;

/// An open list.
#[derive(Debug)]
pub(super) struct Choosing {
    pub(super) picker: Picker,
    pub(super) what: What,
    /// Where each page begins, as far as that is known, for the search with this token.
    pub(super) cursors: (u64, Vec<Option<String>>),
    /// The thread whose preview was asked for.
    pub(super) previewed: Option<String>,
    /// When rows that a search still waits for are late, in milliseconds.
    pub(super) late_at: Option<u64>,
}

/// The choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Threads,
    Models,
    Themes,
    /// A message that waits.
    Queue,
    /// A command that runs.
    Terminals,
    /// An agent of the thread.
    Agents,
    /// An earlier message of the user's.
    Messages(Vec<Message>),
    /// The way to go back to one.
    /// A block of code, to be copied.
    Code(Vec<String>),
}

/// An earlier message, and what it takes to go back to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) text: String,
    /// Turns from it on.
    pub(super) turns: u32,
    /// The turn before.
    pub(super) before: Option<String>,
}

/// A text that is read.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) pager: Pager,
    pub(super) of: Of,
}

/// The kind of content.
#[derive(Debug)]
pub(super) enum Of {
    /// Lines that are complete.
    Lines,
    /// A thread, whose turns are read page by page, the latest first.
    Thread {
        id: String,
        cursor: Option<String>,
        /// True if its events arrive for this view alone.
        is_subscribed: bool,
    },
}
