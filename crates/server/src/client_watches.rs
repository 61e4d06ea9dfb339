//! Watches of clients with `fs/watch`. A watch has the client's own name, belongs to its connection
//! and ends with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use file_watch::{Watch, Watcher};
use protocol::FsChanged;
use protocol::fs::FsChangedNotification;
use tokio::task::AbortHandle;

use services::error::{Error, start_of};
use services::peer::{ConnectionId, Gate, Peer};

/// Watches of one connection. The next one is refused.
const MAX_WATCHES: usize = 256;
/// Bytes of a watch's name. A longer one is refused.
const MAX_NAME: usize = 1_024;
/// While a client leaves as many bytes unread, it is sent no changes: they wait in the watch, which has a bound
/// that leads to an overflow.
const UNREAD_BYTES: usize = 1 << 20;

/// All watches of clients.
pub(crate) struct ClientWatches {
    watcher: Watcher,
    table: Arc<Mutex<Table>>,
}

type Key = (ConnectionId, String);

#[derive(Default)]
struct Table {
    watches: HashMap<Key, Entry>,
    next: u64,
}

struct Entry {
    /// Distinguishes it from an earlier one of the same name.
    number: u64,
    /// `None` while it begins.
    task: Option<AbortHandle>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// The name of a watch that begins; dropping it frees the name.
pub(crate) struct Registration {
    table: Arc<Mutex<Table>>,
    peer: Arc<Peer>,
    key: Key,
    number: u64,
    is_kept: bool,
}

impl ClientWatches {
    /// Watches with `watcher`, of which a process has one.
    pub(crate) fn new(watcher: Watcher) -> Self {
        Self { watcher, table: Arc::default() }
    }

    /// Returns the watcher for all clients.
    pub(crate) fn watcher(&self) -> &Watcher {
        &self.watcher
    }

    /// Reserves a name.
    ///
    /// # Errors
    /// The name is in use or too long, or the connection has as many watches as it may.
    pub(crate) fn register(&self, peer: Arc<Peer>, name: String) -> Result<Registration, Error> {
        if name.len() > MAX_NAME {
            let message =
                format!("`watchId` has {} bytes; at most {MAX_NAME} are allowed", name.len());
            return Err(Error::invalid_params(message));
        }
        let mut table = lock(&self.table);
        let key = (peer.id, name);
        if table.watches.contains_key(&key) {
            let message = format!("a watch named `{}` already exists", start_of(&key.1));
            return Err(Error::wrong_state(message)
                .next_step("choose another `watchId`, or end that watch with `fs/unwatch`"));
        }
        let own = table.watches.keys().filter(|(owner, _)| *owner == peer.id).count();
        if own >= MAX_WATCHES {
            let message = format!(
                "the connection has {own} watches; at most {MAX_WATCHES} are \
                allowed"
            );
            return Err(Error::wrong_state(message)
                .next_step("end one with `fs/unwatch`, or watch a folder above with `recursive`"));
        }
        table.next += 1;
        let number = table.next;
        table.watches.insert(key.clone(), Entry { number, task: None });
        drop(table);
        Ok(Registration { table: self.table.clone(), peer, key, number, is_kept: false })
    }

    /// Ends a watch, if there is one.
    pub(crate) fn end(&self, connection: ConnectionId, name: &str) {
        lock(&self.table).watches.remove(&(connection, name.to_owned()));
    }

    /// Ends the watches of a connection.
    pub(crate) fn end_all(&self, connection: ConnectionId) {
        lock(&self.table).watches.retain(|(owner, _), _| *owner != connection);
    }
}

impl Registration {
    /// Reports the changes of the watch to the client from now on, once the gate is open.
    ///
    /// # Errors
    /// The watch was ended while it began.
    pub(crate) fn follow(mut self, watch: Watch, gate: Gate) -> Result<(), Error> {
        let table = self.table.clone();
        let mut table = lock(&table);
        let number = self.number;
        let entry = table.watches.get_mut(&self.key).filter(|entry| entry.number == number);
        let Some(entry) = entry else {
            return Err(Error::wrong_state("`fs/unwatch` ended the watch before it had started"));
        };
        let follower = Follower {
            table: self.table.clone(),
            peer: self.peer.clone(),
            key: self.key.clone(),
            number,
        };
        entry.task = Some(tokio::spawn(follower.run(watch, gate)).abort_handle());
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if !self.is_kept {
            remove(&self.table, &self.key, self.number);
        }
    }
}

/// Passes the changes of a watch on to its client.
struct Follower {
    table: Arc<Mutex<Table>>,
    peer: Arc<Peer>,
    key: Key,
    number: u64,
}

impl Follower {
    async fn run(self, watch: Watch, gate: Gate) {
        gate.opened().await;
        loop {
            watch.ready().await;
            self.peer.outbox.below(UNREAD_BYTES).await;
            let change = watch.take();
            let text = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
            let params = FsChangedNotification {
                watch_id: self.key.1.clone(),
                changed_paths: change.paths.into_iter().map(text).collect(),
                overflow: change.overflow,
            };
            // Locked, so that nothing follows the response to `fs/unwatch`.
            let table = lock(&self.table);
            if table.watches.get(&self.key).is_none_or(|entry| entry.number != self.number) {
                return;
            }
            self.peer.notify::<FsChanged>(&params);
        }
    }
}

fn remove(table: &Mutex<Table>, key: &Key, number: u64) {
    let mut table = lock(table);
    if table.watches.get(key).is_some_and(|entry| entry.number == number) {
        table.watches.remove(key);
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
