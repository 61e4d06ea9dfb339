//! Requests to clients that belong to no thread: a task of the server waits for the answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jsonrpc::ErrorObject;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::connection::ConnectionId;

/// An answer of a client.
pub(crate) type Answer = Result<Box<RawValue>, ErrorObject>;

/// A request that waits for answers. Dropped, it takes no more.
pub(crate) struct DirectRequest {
    id: i64,
    answers: mpsc::UnboundedReceiver<Answer>,
    waiting: Arc<DirectRequests>,
}

/// The requests of this kind that wait.
#[derive(Default)]
pub(super) struct DirectRequests {
    by_id: Mutex<BTreeMap<i64, Waiting>>,
}

struct Waiting {
    method: &'static str,
    /// The clients that have not answered: each adds one answer at most.
    clients: Vec<ConnectionId>,
    answers: mpsc::UnboundedSender<Answer>,
}

impl DirectRequest {
    /// The next answer; `None` when every client has answered or left.
    pub(crate) async fn next(&mut self) -> Option<Answer> {
        self.answers.recv().await
    }
}

impl Drop for DirectRequest {
    fn drop(&mut self) {
        self.waiting.lock().remove(&self.id);
    }
}

impl DirectRequests {
    pub(super) fn open(
        self: &Arc<Self>,
        id: i64,
        method: &'static str,
        clients: Vec<ConnectionId>,
    ) -> DirectRequest {
        let (sender, answers) = mpsc::unbounded_channel();
        self.lock().insert(id, Waiting { method, clients, answers: sender });
        DirectRequest { id, answers, waiting: self.clone() }
    }

    /// The method of a request that waits for this client.
    pub(super) fn method(&self, connection: ConnectionId, id: i64) -> Option<&'static str> {
        let all = self.lock();
        all.get(&id).filter(|one| one.clients.contains(&connection)).map(|one| one.method)
    }

    /// Takes the answer of a client.
    pub(super) fn answer(&self, connection: ConnectionId, id: i64, answer: Answer) {
        let mut all = self.lock();
        let Some(waiting) = all.get_mut(&id) else { return };
        // The task may have stopped waiting.
        let _ = waiting.answers.send(answer);
        waiting.clients.retain(|client| *client != connection);
        if waiting.clients.is_empty() {
            all.remove(&id);
        }
    }

    /// A connection has ended.
    pub(super) fn left(&self, connection: ConnectionId) {
        self.lock().retain(|_, waiting| {
            waiting.clients.retain(|client| *client != connection);
            !waiting.clients.is_empty()
        });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i64, Waiting>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
