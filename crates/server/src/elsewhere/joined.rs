//! The threads that connections have joined at other servers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use jsonrpc::{Client, ErrorObject, RequestId};
use serde::Deserialize;
use serde_json::value::RawValue;
use services::door::OpenElsewhere;
use services::peer::{ConnectionId, Peer};
use tokio::task::AbortHandle;

/// The threads that the connections of a server have joined elsewhere, by connection.
#[derive(Default)]
pub(crate) struct Elsewhere {
    /// Serves other servers of this home.
    pub(crate) door: OnceLock<AbortHandle>,
    of: Mutex<HashMap<ConnectionId, Arc<Joined>>>,
}

/// The threads that one connection has joined at other servers.
pub(crate) struct Joined {
    pub(super) peer: Arc<Peer>,
    /// Held while a connection is made.
    pub(super) connecting: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// By the owner of the door.
    pub(super) links: HashMap<String, Arc<Link>>,
    /// By their ids.
    pub(super) threads: HashMap<String, JoinedThread>,
}

/// A thread at another server.
#[derive(Clone, Debug)]
pub(super) struct JoinedThread {
    pub(super) place: OpenElsewhere,
    pub(super) turn: Turn,
}

/// The turn of a joined thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    None,
    Running(String),
    /// One ran when the client joined.
    Unknown,
}

/// The outcome of a request to another server.
pub(super) enum Asked {
    /// Its response is queued.
    Answered,
    Refused(ErrorObject),
    /// No server is there.
    NoDoor,
    /// It does not answer.
    Silent,
    /// The other server ended before it answered.
    Lost,
}

/// The request of a client, to be forwarded.
pub(crate) struct Forwarded<'r> {
    /// `None`: the client gets no response.
    pub(crate) id: Option<&'r RequestId>,
    pub(crate) method: &'r str,
    pub(crate) params: Option<&'r RawValue>,
}

impl Elsewhere {
    /// Forgets a connection that ended.
    pub(crate) fn detach(&self, connection: ConnectionId) {
        self.lock().remove(&connection);
    }

    pub(super) fn of(&self, peer: &Arc<Peer>) -> Arc<Joined> {
        let new = || Arc::new(Joined::new(peer.clone()));
        self.lock().entry(peer.id).or_insert_with(new).clone()
    }

    /// The place of a thread that a connection has joined.
    pub(super) fn place(&self, connection: ConnectionId, thread: &str) -> Option<OpenElsewhere> {
        self.lock().get(&connection)?.place(thread)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConnectionId, Arc<Joined>>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Joined {
    fn new(peer: Arc<Peer>) -> Self {
        Self { peer, connecting: tokio::sync::Mutex::default(), state: Mutex::default() }
    }

    pub(super) fn place(&self, thread: &str) -> Option<OpenElsewhere> {
        self.state().threads.get(thread).map(|joined| joined.place.clone())
    }

    pub(super) fn join(&self, thread: &str, place: &OpenElsewhere, turn: Turn) {
        let place = place.of_thread(thread);
        self.state().threads.insert(thread.to_owned(), JoinedThread { place, turn });
    }

    pub(super) fn leave(&self, thread: &str) {
        self.state().threads.remove(thread);
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection to another server. Dropping it closes it.
pub(super) struct Link {
    pub(super) client: Client,
    pub(super) relaying: AbortHandle,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.relaying.abort();
    }
}

impl Joined {
    /// Notes the threads in the result of a request that `place` answered.
    pub(super) fn note(&self, method: &str, place: &OpenElsewhere, result: &RawValue) {
        #[derive(Deserialize)]
        struct Answer {
            thread: Option<Thread>,
        }
        #[derive(Deserialize)]
        struct Thread {
            id: String,
            status: Option<Status>,
        }
        #[derive(Deserialize)]
        struct Status {
            #[serde(rename = "type")]
            kind: String,
        }
        match method {
            "thread/unsubscribe" | "thread/archive" | "thread/delete" => {
                self.leave(&place.thread_id);
            }
            "thread/resume" | "thread/fork" | "thread/rollback" => {
                let answer: Option<Answer> = serde_json::from_str(result.get()).ok();
                let Some(thread) = answer.and_then(|answer| answer.thread) else { return };
                let is_active = thread.status.is_some_and(|status| status.kind == "active");
                self.join(&thread.id, place, if is_active { Turn::Unknown } else { Turn::None });
            }
            _ => {}
        }
    }
}
