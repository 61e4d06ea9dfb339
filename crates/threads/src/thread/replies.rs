//! Requests that wait for the machine's reply.

use std::collections::HashMap;

use session::{Answer, Refusal};

use services::error::Error;
use services::peer::Gate;
use services::thread_port::AnswerSender;

/// The requests that wait for the machine's reply.
#[derive(Default)]
pub(crate) struct Replies {
    waiting: HashMap<u64, WaitingRequest>,
    last: u64,
}

/// A handler that waits, and the response after which the thread continues.
struct WaitingRequest {
    answer: AnswerSender,
    gate: Gate,
}

impl Replies {
    /// Numbers a request.
    pub(super) fn register(&mut self, answer: AnswerSender, gate: Gate) -> u64 {
        self.last += 1;
        self.waiting.insert(self.last, WaitingRequest { answer, gate });
        self.last
    }

    /// Answers a request and waits until its response is queued.
    pub(super) async fn send(&mut self, reply: u64, result: Result<Answer, Refusal>) {
        self.send_result(reply, result.map_err(Error::from)).await;
    }

    /// As [`Replies::send`], with the error of what came before the machine.
    pub(super) async fn send_result(&mut self, reply: u64, result: Result<Answer, Error>) {
        let Some(WaitingRequest { answer, gate }) = self.waiting.remove(&reply) else { return };
        if answer.send(result).is_ok() {
            gate.opened().await;
        }
    }

    /// Drops all of them: their handlers report that the thread is no longer loaded.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}
