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
