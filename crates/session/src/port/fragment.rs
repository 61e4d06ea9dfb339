//! The parts of the history that the model sees, as ready-made JSON of the Responses API.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;

/// One model item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The item as JSON.
    pub text: Arc<str>,
    /// The fragment's treatment by a compaction.
    pub mark: Mark,
    /// The text that is stored in its place, when it holds a secret of the user.
    pub stored: Option<Arc<str>>,
    /// True if it is stored ahead of its place in the history, which a copy takes when the model
    /// receives it.
    pub is_waiting: bool,
}

/// Added to the stored number of the mark of a part that waits.
const WAITING: u8 = 16;

/// The treatment of a part of the history by a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// Stored by a version without marks: derived from the contents.
    #[default]
    Unknown,
    /// Written again: settings and environment.
    Context,
    /// Kept word for word: the user's messages.
    Kept,
    /// Summarized.
    Summarized,
    /// Kept word for word: messages that a client added, and input of another agent. They are not the
    /// user's own words.
    Pinned,
    /// Replaced: the note of an earlier compaction about the messages that it did not keep.
    Omitted,
}

impl Mark {
    /// As a number, for the store.
    pub fn code(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::Context => 1,
            Self::Kept => 2,
            Self::Summarized => 3,
            Self::Pinned => 4,
            Self::Omitted => 5,
        }
    }

    /// The reverse of [`Mark::code`].
    pub fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Context,
            2 => Self::Kept,
            3 => Self::Summarized,
            4 => Self::Pinned,
            5 => Self::Omitted,
            _ => Self::Unknown,
        }
    }
}

impl Fragment {
    pub(crate) fn new(text: Arc<str>, mark: Mark) -> Self {
        Self { text, mark, stored: None, is_waiting: false }
    }

    /// A part of a stored history.
    pub fn from_stored(text: Arc<str>, code: u8) -> Self {
        let is_waiting = code & WAITING != 0;
        Self { is_waiting, ..Self::new(text, Mark::from_code(code & !WAITING)) }
    }

    /// The mark as a number for the store, and whether the part waits.
    pub fn stored_code(&self) -> u8 {
        self.mark.code() | if self.is_waiting { WAITING } else { 0 }
    }

    /// The item as it is stored, without what the user keeps secret.
    pub fn stored_text(&self) -> &Arc<str> {
        self.stored.as_ref().unwrap_or(&self.text)
    }

    /// Something that a compaction sums up.
    pub(crate) fn summarized(text: Arc<str>) -> Self {
        Self::new(text, Mark::Summarized)
    }

    /// Something that a compaction keeps.
    pub(crate) fn kept(text: Arc<str>) -> Self {
        Self::new(text, Mark::Kept)
    }

    /// Returns whether a compaction keeps it word for word.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self.effective_mark(), Mark::Kept | Mark::Pinned)
    }

    /// The mark, derived from the contents where none was stored.
    pub(crate) fn effective_mark(&self) -> Mark {
        if self.mark != Mark::Unknown {
            return self.mark;
        }
        let head: Head<'_> = match serde_json::from_str(&self.text) {
            Ok(head) => head,
            Err(_) => return Mark::Summarized,
        };
        match (&*head.kind, head.role.as_deref()) {
            ("message", Some("developer" | "system")) => Mark::Context,
            ("message", Some("user")) if self.text.contains("<environment_context>") => {
                Mark::Context
            }
            ("message", Some("user")) => Mark::Kept,
            _ => Mark::Summarized,
        }
    }
}

/// The head of a model item.
#[derive(Deserialize)]
pub(crate) struct Head<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) role: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) call_id: Option<Cow<'a, str>>,
}
