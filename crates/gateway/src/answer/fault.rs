//! Why the gateway ends an answer, as its client and the log learn it.

use std::time::Duration;

use gateway_store::ledger::Ended;
use wire::{Failure, FailureKind};

/// The fault of an answer that goes on.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// Its output is far beyond the request's maximum.
    Endless,
    /// Nothing but keep-alives for too long.
    Stalled,
    /// It is a stream of another wire, as the message says.
    OtherWire(String),
}

impl Fault {
    /// The end of the answer, and its cause for the log. `most` is the time for which keep-alives are borne.
    pub(super) fn cause(&self, most: Duration) -> (Ended, String) {
        match self {
            Self::Endless => {
                (Ended::Cut, "its output is far beyond the request's maximum".to_owned())
            }
            Self::OtherWire(message) => (Ended::Cut, message.clone()),
            Self::Stalled => {
                let seconds = most.as_secs_f32();
                (Ended::Stalled, format!("it sent nothing but keep-alives for {seconds} s"))
            }
        }
    }
}

/// The failure in which a stream ends.
pub(super) fn failure(fault: Option<&Fault>, ended: Ended) -> Failure {
    let (kind, message) = match (fault, ended) {
        (Some(Fault::Endless), _) => (
            FailureKind::Malformed,
            "The model server sent far more than the request's maximum of output tokens.",
        ),
        (Some(Fault::OtherWire(message)), _) => (FailureKind::OtherWire, &**message),
        (Some(Fault::Stalled), _) => (
            FailureKind::Timeout,
            "The model's response has stalled: its server only keeps the connection alive. Please try again.",
        ),
        (None, Ended::Stalled) => {
            (FailureKind::Timeout, "The model server sent nothing for too long. Please try again.")
        }
        (None, _) => (
            FailureKind::Disconnected,
            "The model server closed the stream before the response was complete.",
        ),
    };
    Failure::new(kind, message)
}
