//! The shared parts of the dialog: answers, effects of keys, and rows.

use jsonrpc::ErrorObject;
use serde::Serialize;
use serde_json::Value;

use crate::text::Line;

/// The answer to the server, and the transcript's words about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The result of the request, in the shape of the protocol, or the error.
    pub reply: Result<Value, ErrorObject>,
    /// The decision, on one line.
    pub summary: Line,
    /// An address to open in the user's browser.
    pub open: Option<String>,
    /// A further action of the program.
    pub follow_up: FollowUp,
}

/// An action of the program besides answering.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FollowUp {
    /// Nothing.
    #[default]
    None,
    /// Tells the agent what to do instead, in the turn that asked.
    Instruct(String),
    /// Interrupts the turn that asked.
    StopTurn,
    /// Lets the thread edit files in its folder from the next turn on, too.
    AllowEdits,
}

impl Answer {
    /// An answer without anything besides.
    pub(super) fn new(reply: Result<Value, ErrorObject>, summary: Line) -> Self {
        Self { reply, summary, open: None, follow_up: FollowUp::None }
    }

    pub(super) fn and(self, follow_up: FollowUp) -> Self {
        Self { follow_up, ..self }
    }
}

/// The effect of a key on a control.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Stay,
    /// It has no use for the key.
    Ignored,
    Notice(String),
    /// The user decided; `accepts` says whether that allows anything.
    Done {
        answer: Answer,
        accepts: bool,
    },
}

impl Step {
    /// An answer that allows nothing.
    pub(super) fn refused(answer: Answer) -> Self {
        Self::Done { answer, accepts: false }
    }
}

/// Rows of a control; those in `focus` are to be displayed if any are.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    pub(super) lines: Vec<Line>,
    pub(super) focus: std::ops::Range<usize>,
    pub(super) cursor: Option<(usize, usize)>,
}

/// The result as it is sent.
pub(super) fn encoded(response: &impl Serialize) -> Result<Value, ErrorObject> {
    serde_json::to_value(response).map_err(|error| ErrorObject::internal(error.to_string()))
}
