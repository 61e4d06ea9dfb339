//! The threads that connections have joined at other servers.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;
use services::connections::Connections;
use services::door::OpenElsewhere;
use services::peer::{ConnectionId, Peer};
use services::thread_order::thread_of;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::elsewhere::link::Link;

/// The threads that the connections of a server have joined elsewhere, by connection.
#[derive(Default)]
pub(crate) struct Elsewhere {
    /// Serves other servers of this home.
    pub(crate) door: OnceLock<AbortHandle>,
    next_link: AtomicU64,
    of: Mutex<HashMap<ConnectionId, Arc<Joined>>>,
}

/// The threads that one connection has joined at other servers.
pub(crate) struct Joined {
    pub(super) peer: Arc<Peer>,
    /// Held while a connection is made; the last server that did not answer then, and when.
    pub(super) connecting: tokio::sync::Mutex<Option<(String, Instant)>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By the owner of the door.
    links: HashMap<String, Arc<Link>>,
    /// By their ids.
    threads: HashMap<String, JoinedThread>,
    /// Those whose link has ended, until another one has them or this server does. The senders are dropped then.
    moving: HashMap<String, watch::Receiver<()>>,
    /// The connection has ended.
    is_gone: bool,
}

/// A thread at another server.
#[derive(Clone, Debug)]
pub(super) struct JoinedThread {
    pub(super) place: OpenElsewhere,
    /// The number of the link through which it was joined.
    link: u64,
    pub(super) turn: Turn,
    /// Position of its last event, if the client asked for positions.
    pub(super) cursor: Option<String>,
    /// Its server has unloaded it: what it says of that is passed on, and requests are carried out here.
    is_unloaded: bool,
}

/// The turn of a joined thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    None,
    Running(String),
    /// One ran when the client joined.
    Unknown,
}

/// A thread whose link has ended. Requests about it wait until this is dropped.
pub(super) struct Lost {
    pub(super) thread: JoinedThread,
    pub(super) joined: Arc<Joined>,
    _moved: watch::Sender<()>,
}

impl Drop for Lost {
    fn drop(&mut self) {
        self.joined.state().moving.remove(&self.thread.place.thread_id);
    }
}

impl Elsewhere {
    /// Forgets a connection that ended. Its links to other servers end.
    pub(crate) fn detach(&self, connection: ConnectionId) {
        let joined = self.lock().remove(&connection);
        if let Some(joined) = joined {
            joined.close();
        }
    }

    /// Returns whether a request of a connection is about a thread that it has joined elsewhere.
    pub(crate) fn has(&self, connection: ConnectionId, params: Option<&RawValue>) -> bool {
        let Some(joined) = self.find(connection) else { return false };
        thread_of(params).is_some_and(|thread| joined.has(&thread))
    }

    /// The threads of a connection; `None` when it has ended.
    pub(super) fn of(&self, connections: &Connections, peer: &Arc<Peer>) -> Option<Arc<Joined>> {
        let mut of = self.lock();
        // A connection is removed there first, and here second.
        let is_there = connections.contains(peer.id);
        let new = || Arc::new(Joined::new(peer.clone()));
        is_there.then(|| of.entry(peer.id).or_insert_with(new).clone())
    }

    /// The place of a thread that a connection has joined. Waits while that changes.
    pub(super) async fn place(
        &self,
        connection: ConnectionId,
        thread: &str,
    ) -> Option<OpenElsewhere> {
        let joined = self.find(connection)?;
        joined.settled(thread).await;
        joined.place(thread)
    }

    /// Forgets that a connection has joined a thread at a place, unless it has joined it at another one meanwhile.
    pub(super) fn leave(&self, connection: ConnectionId, place: &OpenElsewhere) {
        let Some(joined) = self.find(connection) else { return };
        let mut state = joined.state();
        let is_there = |thread: &JoinedThread| thread.place.owner == place.owner;
        if state.threads.get(&place.thread_id).is_some_and(is_there) {
            state.threads.remove(&place.thread_id);
        }
    }

    /// A number for a new link.
    pub(super) fn next_link(&self) -> u64 {
        self.next_link.fetch_add(1, Ordering::Relaxed)
    }

    fn find(&self, connection: ConnectionId) -> Option<Arc<Joined>> {
        self.lock().get(&connection).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConnectionId, Arc<Joined>>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Joined {
    pub(super) fn new(peer: Arc<Peer>) -> Self {
        Self { peer, connecting: tokio::sync::Mutex::default(), state: Mutex::default() }
    }

    /// Returns whether the client gets the events of a thread.
    pub(super) fn is_joined(&self, thread: &str) -> bool {
        self.state().threads.contains_key(thread)
    }

    fn place(&self, thread: &str) -> Option<OpenElsewhere> {
        let state = self.state();
        let joined = state.threads.get(thread).filter(|joined| !joined.is_unloaded)?;
        Some(joined.place.clone())
    }

    pub(super) fn turn(&self, thread: &str) -> Option<Turn> {
        self.state().threads.get(thread).map(|joined| joined.turn.clone())
    }

    pub(super) fn leave(&self, thread: &str) {
        self.state().threads.remove(thread);
    }

    pub(super) fn set_turn(&self, thread: &str, turn: Turn) {
        if let Some(joined) = self.state().threads.get_mut(thread) {
            joined.turn = turn;
        }
    }

    pub(super) fn set_unloaded(&self, thread: &str) {
        if let Some(joined) = self.state().threads.get_mut(thread) {
            joined.is_unloaded = true;
        }
    }

    pub(super) fn set_cursor(&self, thread: &str, cursor: String) {
        if let Some(joined) = self.state().threads.get_mut(thread) {
            joined.cursor = Some(cursor);
        }
    }

    /// The position of the last event that came through an earlier link, unless there are newer ones.
    pub(super) fn keep_cursor(&self, thread: &JoinedThread) {
        let mut state = self.state();
        if let Some(joined) = state.threads.get_mut(&thread.place.thread_id)
            && joined.place.owner == thread.place.owner
            && joined.cursor.is_none()
        {
            joined.cursor.clone_from(&thread.cursor);
        }
    }

    pub(super) fn link(&self, owner: &str) -> Option<Arc<Link>> {
        self.state().links.get(owner).cloned()
    }

    /// From now on the client's requests to `owner` go through this link.
    ///
    /// # Errors
    /// The link, or the client's connection, has ended.
    pub(super) fn insert_link(&self, owner: &str, link: &Arc<Link>) -> io::Result<()> {
        let mut state = self.state();
        // Under the lock under which its end is noted.
        if state.is_gone || link.has_ended() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let replaced = state.links.insert(owner.to_owned(), link.clone());
        drop(state);
        drop(replaced);
        Ok(())
    }

    /// Notes the end of a link, and returns the threads that were joined through it.
    pub(super) fn lost(
        self: &Arc<Self>,
        owner: &str,
        number: u64,
        ended: &watch::Sender<bool>,
    ) -> Vec<Lost> {
        let mut state = self.state();
        ended.send_replace(true);
        let link = state.links.extract_if(|of, link| of == owner && link.number == number).next();
        let threads: Vec<_> = state.threads.extract_if(|_, thread| thread.link == number).collect();
        let open = threads.into_iter().filter(|(_, thread)| !thread.is_unloaded);
        let lost = open.map(|(id, thread)| {
            let (moved, moving) = watch::channel(());
            state.moving.insert(id, moving);
            Lost { thread, joined: self.clone(), _moved: moved }
        });
        let lost: Vec<Lost> = lost.collect();
        drop(state);
        drop(link);
        lost
    }

    /// Notes the threads in the result of a request that `place` answered through a link.
    pub(super) fn note(&self, method: &str, place: &OpenElsewhere, link: u64, result: &RawValue) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Answer {
            thread: Option<Thread>,
            review_thread_id: Option<String>,
            turn: Option<Started>,
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
        #[derive(Deserialize)]
        struct Started {
            id: String,
        }
        let (thread, turn) = match method {
            // No notification follows, unlike those of archived, deleted and unloaded threads.
            "thread/unsubscribe" => return self.leave(&place.thread_id),
            "thread/resume" | "thread/fork" => {
                let answer: Option<Answer> = serde_json::from_str(result.get()).ok();
                let Some(thread) = answer.and_then(|answer| answer.thread) else { return };
                let is_active = thread.status.is_some_and(|status| status.kind == "active");
                (thread.id, if is_active { Turn::Unknown } else { Turn::None })
            }
            "review/start" => {
                let answer: Option<Answer> = serde_json::from_str(result.get()).ok();
                let Some(Answer { review_thread_id: Some(thread), turn: Some(turn), .. }) = answer
                else {
                    return;
                };
                // A review in the thread itself changes nothing about who has joined it.
                if thread == place.thread_id {
                    return;
                }
                (thread, Turn::Running(turn.id))
            }
            _ => return,
        };
        let place = place.of_thread(&thread);
        let mut state = self.state();
        let before = state.threads.remove(&thread).filter(|before| before.link == link);
        let cursor = before.and_then(|before| before.cursor);
        let joined = JoinedThread { place, link, turn, cursor, is_unloaded: false };
        state.threads.insert(thread, joined);
    }

    fn has(&self, thread: &str) -> bool {
        self.place(thread).is_some() || self.state().moving.contains_key(thread)
    }

    /// Waits while another server, or this one, is about to take a thread over.
    async fn settled(&self, thread: &str) {
        loop {
            let Some(mut moving) = self.state().moving.get(thread).cloned() else { return };
            // Nothing is sent: the sender is dropped.
            let _ = moving.changed().await;
        }
    }

    fn close(&self) {
        let mut state = self.state();
        state.is_gone = true;
        let links = std::mem::take(&mut state.links);
        state.threads.clear();
        drop(state);
        drop(links);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
