//! The content that fills the screen: a list to choose from, or a text.

use protocol::Worktree;

use crate::app::cursors::Cursors;
use crate::here::AskedServer;
use crate::pager::Pager;
use crate::picker::Picker;

/// The views that fill the screen: one of both at most is shown, the list first.
#[derive(Debug, Default)]
pub(super) struct Filling {
    list: Option<Choosing>,
    reading: Option<Reading>,
    /// True if the terminal shows the alternate screen for it.
    is_overlaid: bool,
}

impl Filling {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_none() && self.reading.is_none()
    }

    pub(super) fn list(&self) -> Option<&Choosing> {
        self.list.as_ref()
    }

    pub(super) fn list_mut(&mut self) -> Option<&mut Choosing> {
        self.list.as_mut()
    }

    pub(super) fn open_list(&mut self, list: Choosing) {
        self.list = Some(list);
    }

    pub(super) fn close_list(&mut self) -> Option<Choosing> {
        self.list.take()
    }

    pub(super) fn reading_mut(&mut self) -> Option<&mut Reading> {
        self.reading.as_mut()
    }

    pub(super) fn open_reading(&mut self, reading: Reading) {
        self.reading = Some(reading);
    }

    pub(super) fn close_reading(&mut self) -> Option<Reading> {
        self.reading.take()
    }

    /// Says whether the alternate screen is wanted. Returns whether that is a change.
    pub(super) fn overlay(&mut self, wants: bool) -> bool {
        std::mem::replace(&mut self.is_overlaid, wants) != wants
    }
}

/// An open list.
#[derive(Debug)]
pub(super) struct Choosing {
    pub(super) picker: Picker,
    pub(super) what: What,
    /// Where each page begins, as far as that is known.
    pub(super) cursors: Cursors,
    /// The thread whose preview was asked for.
    pub(super) previewed: Option<String>,
    /// When rows that a search still waits for are late, in milliseconds.
    pub(super) late_at: Option<u64>,
}

/// The kind of rows in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Threads,
    /// The models of some providers.
    Models(Vec<ProviderModels>),
    /// A model of a server that is to become a provider.
    ServerModels(AskedServer),
    Themes,
    /// A message that waits.
    Queue,
    /// A command that runs.
    Terminals,
    /// An agent of the thread.
    Agents,
    /// An earlier message of the user's.
    Messages(Vec<Message>),
    /// A block of code, to be copied.
    Code(Vec<String>),
    /// A worktree of a thread.
    Worktrees(Vec<Worktree>),
}

/// The models of a provider in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProviderModels {
    /// Id of the provider.
    pub(super) provider: String,
    /// For people.
    pub(super) name: String,
    /// Names and descriptions, or why they are not known.
    pub(super) models: Result<Vec<ListedModel>, String>,
}

/// A model in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedModel {
    pub(super) model: String,
    pub(super) title: String,
    pub(super) detail: String,
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

/// The source of a text.
#[derive(Debug)]
pub(super) enum Of {
    /// Lines that are complete.
    Lines,
    /// A thread, whose turns are read page by page, the latest first.
    Thread {
        id: String,
        cursor: Option<String>,
        /// True if its events come for this view alone.
        is_subscribed: bool,
    },
}
