//! The threads that are loaded, by id. Loading, unloading, archiving and deleting exclude each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jsonrpc::{Notification, encode_notification};
use protocol::{
    ThreadClosed, ThreadIdNotification, ThreadStatus, ThreadStatusChanged,
    ThreadStatusChangedNotification,
};
use serde::Serialize;

use crate::connections::Connections;
use crate::thread::{Command, ThreadHandle};

/// See the module.
pub(crate) struct LoadedThreads {
    handles: Mutex<HashMap<String, ThreadHandle>>,
    /// Held while a thread is loaded, unloaded, archived or deleted.
    loading: tokio::sync::Mutex<()>,
    connections: Arc<Connections>,
}

impl LoadedThreads {
    pub(crate) fn new(connections: Arc<Connections>) -> Self {
        Self { handles: Mutex::default(), loading: tokio::sync::Mutex::default(), connections }
    }

    /// While the guard lives, no thread is loaded, unloaded, archived or deleted.
    pub(crate) async fn lock_loading(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.loading.lock().await
    }

    /// See [`LoadedThreads::lock_loading`]; `None` while the lock is held.
    pub(crate) fn try_lock_loading(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        self.loading.try_lock().ok()
    }

    /// The loaded thread of that id.
    pub(crate) fn get(&self, id: &str) -> Option<ThreadHandle> {
        self.lock().get(id).cloned()
    }

    pub(crate) fn insert(&self, id: String, handle: ThreadHandle) {
        self.lock().insert(id, handle);
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<ThreadHandle> {
        self.lock().values().cloned().collect()
    }

    /// Their ids, sorted.
    pub(crate) fn ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.lock().keys().cloned().collect();
        ids.sort_unstable();
        ids
    }

    /// Removes and returns all of them.
    pub(crate) fn drain(&self) -> Vec<ThreadHandle> {
        self.lock().drain().map(|(_, handle)| handle).collect()
    }

    /// Removes a thread whose actor has ended; one that was loaded again since stays.
    pub(crate) fn remove_ended(&self, id: &str) {
        self.lock().retain(|other, handle| other != id || handle.status().is_some());
    }

    /// Ends a loaded thread: its turn is interrupted, its commands are killed. Returns whether it
    /// was loaded. The caller holds the loading lock.
    pub(crate) async fn end(&self, id: &str) -> bool {
        let Some(handle) = self.get(id) else { return false };
        handle.send(Command::Shutdown).await;
        handle.ended().await;
        self.lock().remove(id);
        true
    }

    /// Unloads a thread and notifies every client.
    pub(crate) fn unload(&self, thread: &str) {
        self.lock().remove(thread);
        self.notify_closed(thread);
    }

    /// Notifies every client that a thread has been closed.
    pub(crate) fn notify_closed(&self, thread: &str) {
        self.notify_unloaded(thread);
        let params = ThreadIdNotification { thread_id: thread.to_owned() };
        self.connections.notify_all::<ThreadClosed>(&params);
    }

    /// Notifies every client that a thread is no longer loaded.
    pub(crate) fn notify_unloaded(&self, thread: &str) {
        let status = ThreadStatusChangedNotification {
            thread_id: thread.to_owned(),
            status: ThreadStatus::NotLoaded,
        };
        self.connections.notify_all::<ThreadStatusChanged>(&status);
    }

    /// Notifies every client of something about a thread. While the thread is loaded, the
    /// notification takes its position among the thread's events.
    pub(crate) async fn notify_all_about<N: Notification<Params: Serialize>>(
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

    fn lock(&self) -> MutexGuard<'_, HashMap<String, ThreadHandle>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
