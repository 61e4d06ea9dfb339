//! Requests to clients that belong to no thread: a task of the server waits for the answers. Also numbers
//! all requests of the server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use jsonrpc::{ErrorObject, Method, encode_request};
use protocol::MessageInfo;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::peer::{ConnectionId, Peer};

/// An answer of a client.
pub type Answer = Result<Box<RawValue>, ErrorObject>;

/// A request that waits for answers. Dropped, it takes no more.
pub struct DirectRequest {
    id: i64,
    message: Bytes,
    answers: mpsc::UnboundedReceiver<Answer>,
    waiting: Arc<DirectRequests>,
}

/// The requests of this kind that wait.
#[derive(Default)]
pub struct DirectRequests {
    next: AtomicI64,
    by_id: Mutex<BTreeMap<i64, Waiting>>,
}

struct Waiting {
    method: &'static str,
    /// The clients that may answer: each adds one answer at most, unless it takes more.
    clients: Vec<ConnectionId>,
    answers: mpsc::UnboundedSender<Answer>,
    /// Every answer is taken, until the request is dropped: who asks decides which one counts.
    takes_more: bool,
}

impl DirectRequest {
    /// Its id on the wire.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Its text, to send it again.
    pub fn message(&self) -> &Bytes {
        &self.message
    }

    /// The next answer; `None` when every client has answered or left.
    pub async fn next(&mut self) -> Option<Answer> {
        self.answers.recv().await
    }
}

impl Drop for DirectRequest {
    fn drop(&mut self) {
        self.waiting.lock().remove(&self.id);
    }
}

impl DirectRequests {
    /// An id on the wire for a request of the server: integers from 0.
    pub fn next_id(&self) -> i64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns whether a request of the server has this id.
    pub fn has_issued(&self, id: i64) -> bool {
        (0..self.next.load(Ordering::Relaxed)).contains(&id)
    }

    /// Sends a request to these clients; `None` without one.
    pub fn send<M: Method<Params: Serialize>>(
        self: &Arc<Self>,
        params: &M::Params,
        clients: &[Arc<Peer>],
    ) -> Option<DirectRequest> {
        self.send_as(self.next_id(), (M::NAME, false), params, clients)
    }

    /// Sends a request of another server to a client, with an id of [`DirectRequests::next_id`]. It takes answers until
    /// it is dropped. `None` if it has no JSON form.
    pub fn forward(
        self: &Arc<Self>,
        id: i64,
        info: &'static MessageInfo,
        params: &RawValue,
        client: &Arc<Peer>,
    ) -> Option<DirectRequest> {
        self.send_as(id, (info.name, true), params, std::slice::from_ref(client))
    }

    fn send_as<P: Serialize + ?Sized>(
        self: &Arc<Self>,
        id: i64,
        (method, takes_more): (&'static str, bool),
        params: &P,
        clients: &[Arc<Peer>],
    ) -> Option<DirectRequest> {
        let message = encode_request(&id.into(), method, params).ok()?;
        let connections: Vec<ConnectionId> = clients.iter().map(|peer| peer.id).collect();
        if connections.is_empty() {
            return None;
        }
        let (sender, answers) = mpsc::unbounded_channel();
        let waiting = Waiting { method, clients: connections, answers: sender, takes_more };
        self.lock().insert(id, waiting);
        clients.iter().for_each(|peer| peer.send(message.clone()));
        Some(DirectRequest { id, message, answers, waiting: self.clone() })
    }

    /// The method of a request that waits for this client.
    pub fn method(&self, connection: ConnectionId, id: i64) -> Option<&'static str> {
        let all = self.lock();
        all.get(&id).filter(|one| one.clients.contains(&connection)).map(|one| one.method)
    }

    /// Takes the answer of a client.
    pub fn answer(&self, connection: ConnectionId, id: i64, answer: Answer) {
        let mut all = self.lock();
        let Some(waiting) = all.get_mut(&id) else { return };
        // The task may have stopped waiting.
        let _ = waiting.answers.send(answer);
        if waiting.takes_more {
            return;
        }
        waiting.clients.retain(|client| *client != connection);
        if waiting.clients.is_empty() {
            all.remove(&id);
        }
    }

    /// A connection has ended.
    pub fn left(&self, connection: ConnectionId) {
        self.lock().retain(|_, waiting| {
            waiting.clients.retain(|client| *client != connection);
            !waiting.clients.is_empty()
        });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i64, Waiting>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
