//! The threads that are loaded, by id, and the locks under which single threads are loaded and unloaded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hooks::EndReason;
use jsonrpc::{Notification, encode_notification};
use protocol::{
    ThreadClosed, ThreadIdNotification, ThreadStatus, ThreadStatusChanged,
    ThreadStatusChangedNotification,
};
use serde::Serialize;

use crate::connections::Connections;
use crate::thread_locks::{ThreadLock, ThreadLocks};
use crate::thread_port::{Command, ThreadHandle};

/// The threads that are loaded, by id.
pub struct LoadedThreads {
    loaded: Mutex<Loaded>,
    locks: ThreadLocks,
    connections: Arc<Connections>,
}

#[derive(Default)]
struct Loaded {
    handles: HashMap<String, ThreadHandle>,
    /// Threads that are being archived or deleted.
    ending: HashMap<String, EndReason>,
    phase: Phase,
}

/// A thread that is being archived or deleted, until this is dropped.
pub struct EndingThread<'a> {
    threads: &'a LoadedThreads,
    id: &'a str,
}

impl Drop for EndingThread<'_> {
    fn drop(&mut self) {
        self.threads.loaded().ending.remove(self.id);
    }
}

/// The phase of the server: running or ending. A thread that is loaded meanwhile ends with the
/// others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    Draining,
    Closed,
}

impl LoadedThreads {
    pub fn new(connections: Arc<Connections>) -> Self {
        Self { loaded: Mutex::default(), locks: ThreadLocks::default(), connections }
    }

    /// Waits until this thread is not being loaded, unloaded, edited, archived or deleted. While the
    /// lock lives, no other task does that.
    pub async fn lock(&self, id: &str) -> ThreadLock {
        self.locks.lock(id).await
    }

    /// The loaded thread of that id.
    pub fn get(&self, id: &str) -> Option<ThreadHandle> {
        self.loaded().handles.get(id).cloned()
    }

    /// Adds a thread that was just loaded.
    pub fn insert(&self, id: String, handle: ThreadHandle) {
        let mut loaded = self.loaded();
        // The first command of the thread, so there is room for it.
        match loaded.phase {
            Phase::Open => {}
            Phase::Draining => handle.send_first(Command::Drain),
            Phase::Closed => handle.end_first(EndReason::Shutdown),
        }
        loaded.handles.insert(id, handle);
    }

    /// All of them.
    pub fn all(&self) -> Vec<ThreadHandle> {
        self.loaded().handles.values().cloned().collect()
    }

    /// Their ids, sorted.
    pub fn ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.loaded().handles.keys().cloned().collect();
        ids.sort_unstable();
        ids
    }

    /// Returns all of them. One that is loaded from now on starts no turn.
    pub fn begin_draining(&self) -> Vec<ThreadHandle> {
        let mut loaded = self.loaded();
        if loaded.phase == Phase::Open {
            loaded.phase = Phase::Draining;
        }
        loaded.handles.values().cloned().collect()
    }

    /// Removes and returns all of them. One that is loaded from now on ends at once.
    pub fn drain(&self) -> Vec<ThreadHandle> {
        let mut loaded = self.loaded();
        loaded.phase = Phase::Closed;
        loaded.handles.drain().map(|(_, handle)| handle).collect()
    }

    /// Removes a thread whose actor has ended; one that was loaded again since stays.
    pub fn remove_ended(&self, id: &str) {
        let is_other =
            |other: &String, handle: &mut ThreadHandle| other != id || handle.status().is_some();
        self.loaded().handles.retain(is_other);
    }

    /// Begins to archive or delete a thread, whose lock the caller holds: from now on requests about it are
    /// answered with the reason.
    pub fn begin_end<'a>(&'a self, id: &'a str, reason: EndReason) -> EndingThread<'a> {
        self.loaded().ending.insert(id.to_owned(), reason);
        EndingThread { threads: self, id }
    }

    /// Returns why a thread is ending, while it is being archived or deleted.
    pub fn ending(&self, id: &str) -> Option<EndReason> {
        self.loaded().ending.get(id).copied()
    }

    /// Ends a loaded thread: its turn is interrupted, its commands are killed. Returns whether it
    /// was loaded. Without its lock, another request may load it again at once.
    pub async fn end(&self, id: &str, reason: EndReason) -> bool {
        let Some(handle) = self.get(id) else { return false };
        handle.end(reason).await;
        handle.ended().await;
        self.remove_ended(id);
        true
    }

    /// Unloads a thread and notifies every client.
    pub fn unload(&self, thread: &str) {
        self.loaded().handles.remove(thread);
        self.notify_closed(thread);
    }

    /// Notifies every client that a thread has been closed.
    pub fn notify_closed(&self, thread: &str) {
        self.notify_unloaded(thread);
        let params = ThreadIdNotification { thread_id: thread.to_owned() };
        self.connections.notify_all::<ThreadClosed>(&params);
    }

    /// Notifies every client that a thread is no longer loaded.
    pub fn notify_unloaded(&self, thread: &str) {
        let status = ThreadStatusChangedNotification {
            thread_id: thread.to_owned(),
            status: ThreadStatus::NotLoaded,
        };
        self.connections.notify_all::<ThreadStatusChanged>(&status);
    }

    /// Notifies every client of something about a thread. While the thread is loaded, the
    /// notification takes its position among the thread's events.
    pub async fn notify_all_about<N: Notification<Params: Serialize>>(
        &self,
        thread: &str,
        params: &N::Params,
    ) {
        let Ok(message) = encode_notification(N::NAME, params) else { return };
        let announce = Command::Announce { method: N::NAME, message };
        let is_sent = match self.get(thread) {
            Some(handle) => handle.send(announce).await,
            None => false,
        };
        if !is_sent {
            self.connections.notify_all::<N>(params);
        }
    }

    fn loaded(&self) -> MutexGuard<'_, Loaded> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
