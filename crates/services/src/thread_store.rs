//! The store of threads as the server uses it, in SQLite or in the database of `[store]`: opened on first
//! use, with the turns of dead servers closed before a client can see them.

use std::path::PathBuf;
use std::sync::Arc;

use protocol::connection::WarningNotification;
use session::PolicyBound;
use store::{
    OpenedThread, QueuedEntry, SqliteConfig, Store, StoredThread, ThreadRecord, TurnRow, Write,
};
use tokio::sync::{Notify, OnceCell, watch};

use crate::allowed::{Allowed, ThreadAbove};
use crate::config_source::{ConfigSource, Loaded};
use crate::connections::Connections;
use crate::door::Door;
use crate::error::{Error, ErrorKind};
use crate::options::Options;
use crate::recovery::{self, OrphanOutcome};
use crate::salvage_report;
use crate::stored;
use crate::thread_database::postgres_config;

/// The store of threads.
pub struct ThreadStore {
    store: OnceCell<Store>,
    options: Arc<Options>,
    config: Arc<ConfigSource>,
    connections: Arc<Connections>,
    /// A turn of any thread has ended.
    turn_ended: Arc<Notify>,
    /// Open before the first thread is leased, until someone takes it.
    door: watch::Sender<Option<Door>>,
}

impl ThreadStore {
    pub fn new(
        options: Arc<Options>,
        config: Arc<ConfigSource>,
        connections: Arc<Connections>,
    ) -> Self {
        let (store, turn_ended) = (OnceCell::new(), Arc::default());
        let door = watch::Sender::new(None);
        Self { store, options, config, connections, turn_ended, door }
    }

    /// Waits until the store is open, and returns the door at which other servers ask for its threads. One caller gets
    /// it.
    pub async fn door(&self) -> Option<Door> {
        let mut opened = self.door.subscribe();
        // The sender lives as long as this.
        opened.wait_for(Option::is_some).await.ok()?;
        drop(opened);
        let mut taken = None;
        self.door.send_modify(|door| taken = door.take());
        taken
    }

    /// The folder of this home's database, with the files that stay on this machine: the doors of servers, and the
    /// changes that can be undone.
    pub fn folder(&self) -> PathBuf {
        // A broken configuration is reported by the request that needs it.
        match self.config.own() {
            Ok(loaded) => loaded.resolved.config.sqlite_home,
            Err(_) => self.options.home.clone(),
        }
    }

    /// Notified after the stored end of a turn.
    pub fn turn_ended(&self) -> &Arc<Notify> {
        &self.turn_ended
    }

    /// The store, opened by the first caller.
    ///
    /// # Errors
    /// It cannot be opened; the next call tries again.
    pub async fn get(&self) -> Result<&Store, Error> {
        self.store.get_or_try_init(|| self.open()).await.map_err(|error| {
            error.with_kind(ErrorKind::Failed).within("the store of threads cannot be used")
        })
    }

    /// The store, if it is open.
    pub fn opened(&self) -> Option<&Store> {
        self.store.get()
    }

    async fn open(&self) -> Result<Store, Error> {
        let (dir, database) = match self.config.own() {
            Ok(Loaded { resolved, .. }) => {
                (resolved.config.sqlite_home, resolved.config.thread_database)
            }
            Err(error) => (self.options.home.clone(), self.config.thread_database(error)?),
        };
        let now = self.options.clock.now_ms();
        let owner = self.options.ids.next();
        let store = match database {
            Some(database) => Store::open(postgres_config(database, owner.clone()).await?).await?,
            None => {
                let config = SqliteConfig {
                    salvage: true,
                    lost_turn_error: Some(salvage_report::lost_record()),
                    ..SqliteConfig::new(dir.clone(), now, owner.clone())
                };
                Store::open(config).await?
            }
        };
        match Door::open(&dir, &owner).await {
            Ok(door) => drop(self.door.send_replace(Some(door))),
            Err(error) => tracing::warn!(
                target: "server::store",
                "other servers of this home cannot use the threads that this one has open: {error}"
            ),
        }
        for (thread_id, message) in salvage_report::messages(store.notices()) {
            tracing::warn!(target: "server::store", "{message}");
            let params = WarningNotification { thread_id, message };
            self.connections.notify_all::<protocol::Warning>(&params);
        }
        recovery::close_orphans(&store, now).await?;
        Ok(store)
    }

    /// Returns the stored policies of threads above an agent.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn threads_above(&self, ids: Vec<String>) -> Result<Vec<ThreadAbove>, Error> {
        let mut above = Vec::with_capacity(ids.len());
        for id in ids {
            let found = self.get().await?.thread(&id).await?;
            // A thread that lost its settings to damage, or was deleted, bounds nothing further.
            let settings = found.map(|found| found.record.settings).unwrap_or_default();
            let stored = match settings.as_str() {
                "" => None,
                json => Some(stored::settings(&id, json)?),
            };
            above.push(ThreadAbove { id, stored: stored.as_ref().map(PolicyBound::of) });
        }
        Ok(above)
    }

    /// Stores a new thread.
    pub async fn create(&self, thread: &NewThread) -> Result<(), Error> {
        let create = Write::CreateThread(Box::new(thread.0.clone()));
        Ok(self.get().await?.commit(vec![create]).await?)
    }

    /// Stores a new thread that begins with the turns of `parent`, up to `last_turn`.
    pub async fn fork(
        &self,
        thread: &NewThread,
        parent: String,
        last_turn: Option<String>,
    ) -> Result<(), Error> {
        let record = Box::new(thread.0.clone());
        Ok(self.get().await?.commit(vec![Write::Fork { record, parent, last_turn }]).await?)
    }

    /// Takes the lease of a stored thread that is not loaded, and returns the thread with its newest
    /// turn and its queue. Turns that ended with their server are closed.
    pub async fn open_thread(
        &self,
        thread: &str,
    ) -> Result<(StoredThread, Option<TurnRow>, Vec<QueuedEntry>), Error> {
        let store = self.get().await?;
        let OpenedThread { stored, last_turn, orphans, queue } = store.open_thread(thread).await?;
        let now = self.options.clock.now_ms();
        recovery::close(store, orphans, now, &OrphanOutcome::Interrupted).await?;
        Ok((stored, last_turn, queue))
    }

    /// Writes to a thread that is not loaded, under its lease.
    pub async fn write_unloaded(&self, thread: &str, writes: Vec<Write>) -> Result<(), Error> {
        Ok(self.get().await?.write_unloaded(thread, writes).await?)
    }

    /// Checks that no other living server has a stored thread open.
    ///
    /// # Errors
    /// One has it: the error names its place.
    pub async fn check_not_elsewhere(&self, thread: &str) -> Result<(), Error> {
        // The lease is taken and released.
        self.write_unloaded(thread, Vec::new()).await
    }

    /// Lets another server have a thread.
    pub async fn release(&self, thread: &str) {
        if let Ok(store) = self.get().await {
            // A lease that cannot be released ends with this server.
            let _ = store.release(thread).await;
        }
    }

    /// Closes the turns that servers left in flight when they died.
    pub async fn close_orphans(&self) -> Result<(), Error> {
        let now = self.options.clock.now_ms();
        Ok(recovery::close_orphans(self.get().await?, now).await?)
    }

    /// Closes the store. Waits for one that is still opening, which may be a salvage.
    pub async fn close(&self) {
        if let Ok(store) = self.get().await {
            // What could not be written was reported to its callers already.
            let _ = store.close().await;
        }
    }
}

/// The record of a thread that is about to be stored, with settings that the requirements allow.
pub struct NewThread(ThreadRecord);

impl NewThread {
    pub fn new(record: ThreadRecord, settings: &Allowed<session::Settings>) -> Self {
        Self(ThreadRecord {
            model_provider: settings.provider.clone(),
            model: settings.model.clone(),
            cwd: settings.cwd.display().to_string(),
            settings: settings.to_json(),
            ..record
        })
    }

    pub fn id(&self) -> &str {
        &self.0.id
    }

    pub fn into_record(self) -> ThreadRecord {
        self.0
    }
}
