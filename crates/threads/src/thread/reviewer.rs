//! Requests to the model of an approvals reviewer: they run in parallel with the thread's own response, each in
//! a task that reports the whole answer. The session decides what an answer means.

use std::collections::BTreeMap;
use std::sync::Arc;

use session::{Failure, FailureKind, ModelEvent, ModelItem, ResponseUsage, ReviewResponse};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use crate::thread::model_stream::Response;
use services::allowed::MachineInput;
use services::thread_port::Command;

/// Bytes of one answer; a longer one is a failure.
const MAX_BYTES: usize = 256 * 1024;

/// The requests to a reviewer's model. Requests end when it is dropped.
pub struct Reviewer {
    sender: mpsc::Sender<Command>,
    tasks: JoinSet<()>,
    running: BTreeMap<u64, AbortHandle>,
}

impl Reviewer {
    pub fn new(sender: mpsc::Sender<Command>) -> Self {
        Self { sender, tasks: JoinSet::new(), running: BTreeMap::new() }
    }

    /// Reads a response and reports it. Returns the report of a request that could not be sent.
    pub(super) fn start(
        &mut self,
        review: u64,
        response: Result<Response, Failure>,
    ) -> Option<MachineInput> {
        while self.tasks.try_join_next().is_some() {}
        self.running.retain(|_, task| !task.is_finished());
        let response = match response {
            Ok(response) => response,
            Err(failure) => return Some(MachineInput::Reviewed { review, outcome: Err(failure) }),
        };
        let sender = self.sender.clone();
        let task = self.tasks.spawn(async move {
            let outcome = read(response).await;
            // A thread that has ended needs no answer.
            let _ = sender.send(Command::Input(MachineInput::Reviewed { review, outcome })).await;
        });
        self.running.insert(review, task);
        None
    }

    /// Ends a request.
    pub(super) fn cancel(&mut self, review: u64) {
        if let Some(task) = self.running.remove(&review) {
            task.abort();
        }
    }

    /// Ends all requests.
    pub(super) fn clear(&mut self) {
        self.tasks.abort_all();
        self.running.clear();
    }
}

/// A whole answer of a model.
#[derive(Default)]
pub(super) struct ModelAnswer {
    /// Each as it is for the history, and as it was understood.
    pub(super) items: Vec<(Arc<str>, ModelItem)>,
    pub(super) usage: ResponseUsage,
}

/// Reads a whole answer of messages.
pub(super) async fn read(stream: Response) -> Result<ReviewResponse, Failure> {
    let ModelAnswer { items, usage } = read_items(stream).await?;
    let mut response = ReviewResponse { usage, ..ReviewResponse::default() };
    for (_, item) in items {
        match item {
            ModelItem::Message { text, .. } => response.messages.push(text.into()),
            ModelItem::Reasoning { .. } => {}
            _ => response.other_items += 1,
        }
    }
    Ok(response)
}

/// Reads a whole answer.
pub(super) async fn read_items(mut stream: Response) -> Result<ModelAnswer, Failure> {
    let mut answer = ModelAnswer::default();
    let mut bytes = 0;
    while let Some(events) = stream.next().await {
        for event in events {
            match event {
                ModelEvent::ItemDone { raw, item, .. } => {
                    bytes += raw.len();
                    answer.items.push((raw, item));
                }
                ModelEvent::TextDelta { text, .. }
                | ModelEvent::SummaryDelta { text, .. }
                | ModelEvent::ReasoningDelta { text, .. } => bytes += text.len(),
                ModelEvent::ItemAdded { .. }
                | ModelEvent::PatchPreview { .. }
                | ModelEvent::SummaryPartAdded { .. }
                | ModelEvent::Notice(_)
                | ModelEvent::Held
                | ModelEvent::Paused
                | ModelEvent::Sent => {}
                ModelEvent::Completed { usage } => {
                    answer.usage = usage;
                    return Ok(answer);
                }
                ModelEvent::Failed(failure) => return Err(failure),
            }
        }
        if bytes > MAX_BYTES {
            let message = format!("its answer is longer than {} KiB", MAX_BYTES / 1024);
            return Err(Failure::new(FailureKind::Other, message));
        }
    }
    let kind = FailureKind::ResponseStreamDisconnected;
    Err(Failure::new(kind, "the response ended early"))
}
