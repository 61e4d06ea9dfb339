//! The queue of a thread, as its actor and the handlers exchange it, and its bounds.

use protocol::{QueuedSubmission, ThreadQueuePause, UserInput};
use session::UserContent;
use store::QueuedEntry;
use tokio::sync::oneshot;

use super::AnswerSender;
use crate::error::Error;
use crate::peer::Gate;

/// Messages in a queue; further ones are refused.
pub const MAX_QUEUED: usize = 100;
/// Bytes of all messages of a queue, as JSON; what exceeds them is refused.
pub const MAX_QUEUED_BYTES: usize = 8 << 20;

/// A request about a thread's queue. A change is answered when it is stored.
pub enum QueueRequest {
    Add {
        input: Vec<UserInput>,
        client_id: String,
        answer: QueueAnswer<QueuedSubmission>,
    },
    List {
        answer: oneshot::Sender<QueueView>,
    },
    Update {
        id: String,
        input: Vec<UserInput>,
        answer: QueueAnswer<QueuedSubmission>,
    },
    /// Answers whether the message was there.
    Delete {
        id: String,
        answer: QueueAnswer<bool>,
    },
    Reorder {
        ids: Vec<String>,
        answer: QueueAnswer<()>,
    },
}

/// Where the result of a change of a queue goes.
pub type QueueAnswer<T> = oneshot::Sender<Result<T, Error>>;

/// A thread's queue at one moment.
#[derive(Clone, Debug, Default)]
pub struct QueueView {
    pub messages: Vec<QueuedSubmission>,
    pub pause: Option<ThreadQueuePause>,
}

/// A message of the queue that is ready to start its turn, or the reason why it cannot.
pub struct QueuedStart {
    /// The message as it was prepared: when it has changed since, it does not start.
    pub message: QueuedSubmission,
    pub content: Result<Vec<UserContent>, Error>,
    /// The request that starts it; `None` when it is its turn.
    pub asked: Option<(AnswerSender, Gate)>,
}

/// A message as it is stored.
pub fn stored_message(message: &QueuedSubmission) -> QueuedEntry {
    let payload = serde_json::to_string(message).expect("plain data");
    QueuedEntry { id: message.id.clone(), payload }
}

/// The stored messages of a queue. One that an earlier or later program wrote in another shape is left
/// out, and stays stored.
pub fn stored_queue(entries: &[QueuedEntry]) -> Vec<QueuedSubmission> {
    entries.iter().filter_map(|entry| serde_json::from_str(&entry.payload).ok()).collect()
}
