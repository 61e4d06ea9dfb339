//! The server as a whole: what its connections and threads share, its start and its end.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jsonrpc::{CloseReason, Notification, Spool, encode_notification};
use protocol::{
    Load, ThreadClosed, ThreadIdNotification, ThreadStatus, ThreadStatusChanged,
    ThreadStatusChangedNotification,
};
use sandbox::Sandbox;
use serde::Serialize;
use serde_json::{Map, Value};
use store::{OpenOptions, Store, StoreError};
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

use protocol::connection::WarningNotification;

use crate::client_processes::ClientProcesses;
use crate::config_source::{ConfigSource, Loaded};
use crate::config_watch::{self, Watching};
use crate::connection::{ConnectionId, Peer};
use crate::error::{Error, ErrorKind};
use crate::in_flight::InFlight;
use crate::notify::Notifier;
use crate::options::Options;
use crate::provider::Models;
use crate::requests::Requests;
use crate::rules::SharedRules;
use crate::snapshots::Snapshots;
use crate::thread::{Command, ThreadHandle};
use crate::{salvaged, warnings};

/// The application server. Cheap to clone: all clones are the same server.
#[derive(Clone)]
pub struct Server {
    pub(crate) core: Arc<Core>,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The home folder cannot be made or is not private.
    #[error("the agent's home {path} cannot be made; set AGENT_HOME to a folder of your own")]
    Home {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// What all connections and threads share.
pub(crate) struct Core {
    pub(crate) options: Options,
    pub(crate) config: ConfigSource,
    pub(crate) model: model::Client,
    pub(crate) models: Models,
    /// Tools of threads, with their definitions written once.
    pub(crate) offers: Mutex<session::OfferCache>,
    pub(crate) notifier: Notifier,
    pub(crate) sandbox: Sandbox,
    pub(crate) rules: SharedRules,
    /// For work on files that a client, the model or a workspace names.
    pub(crate) files: files::Pool,
    /// Of login shells.
    pub(crate) snapshots: Snapshots,
    pub(crate) requests: Requests,
    pub(crate) client_processes: ClientProcesses,
    store: OnceCell<Store>,
    /// Held while a thread is loaded, unloaded, archived or deleted.
    pub(crate) loading: tokio::sync::Mutex<()>,
    threads: Mutex<HashMap<String, ThreadHandle>>,
    connections: AtomicU64,
    peers: Mutex<HashMap<ConnectionId, Arc<Peer>>>,
    warmed: AtomicBool,
    watching: OnceLock<Watching>,
    /// The server is going to end: nothing new is begun.
    draining: AtomicBool,
    /// Requests that are not answered. What came when the server drained already is not counted.
    pub(crate) unanswered: InFlight,
    /// Where messages wait that clients have not read.
    pub(crate) spool: Arc<Spool>,
    /// See [`LONG_ANSWERS_AT_ONCE`].
    long_answers: Semaphore,
}

/// Bytes that wait on disk for all slow clients together.
const SPOOL_BYTES: usize = 1 << 30;
/// Answers as long as a thread that are made at the same time, for all connections. What is made
/// and not read waits on disk.
const LONG_ANSWERS_AT_ONCE: usize = 2;

/// How long the end of the server waits for clients that read nothing of the end.
pub const CLOSE_GRACE: Duration = Duration::from_secs(2);
/// How long the end of the server waits for its threads, and then for its store.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(4);

impl Server {
    /// Makes a server. Nothing slow happens here: the store opens in the background.
    ///
    /// # Errors
    /// A home that cannot be made.
    pub fn start(options: Options, sandbox: Sandbox) -> Result<Self, StartError> {
        make_home(&options.home)
            .map_err(|source| StartError::Home { path: options.home.clone(), source })?;
        let core = Arc::new(Core {
            spool: spool(options.home.clone()),
            long_answers: Semaphore::new(LONG_ANSWERS_AT_ONCE),
            config: ConfigSource::new(&options),
            model: model_server::ScriptedTransport::client(),
            models: Models::default(),
            offers: Mutex::default(),
            notifier: Notifier::default(),
            sandbox,
            rules: SharedRules::new(&options),
            files: files::Pool::default(),
            snapshots: Snapshots::default(),
            requests: Requests::default(),
            client_processes: ClientProcesses::default(),
            store: OnceCell::new(),
            loading: tokio::sync::Mutex::default(),
            threads: Mutex::default(),
            connections: AtomicU64::new(0),
            peers: Mutex::default(),
            warmed: AtomicBool::new(false),
            watching: OnceLock::new(),
            draining: AtomicBool::new(false),
            unanswered: InFlight::default(),
            options,
        });
        let (logging, home) = (Arc::downgrade(&core), core.options.home.clone());
        core.options.log_file.set_folder(move || {
            logging.upgrade().map_or_else(|| home.join("log"), |core| core.log_folder())
        });
        let opening = core.clone();
        tokio::spawn(async move {
            // A failure is told by the first request that needs the store.
            let _ = opening.store().await;
        });
        Ok(Self { core })
    }

    /// Begins nothing new, and waits until every running turn has come to a safe point and every
    /// request is answered, for `grace` at most. [`Server::shutdown`] is to follow.
    pub async fn drain(&self, grace: Duration) {
        self.core.draining.store(true, Ordering::Relaxed);
        let handles: Vec<ThreadHandle> = self.core.threads().values().cloned().collect();
        let ends = handles.into_iter().map(|handle| async move {
            handle.send(Command::Drain).await;
            handle.quiet().await;
        });
        let all = async {
            let mut running: tokio::task::JoinSet<()> = ends.collect();
            while running.join_next().await.is_some() {}
            self.core.unanswered.done().await;
        };
        // What is not done by then is interrupted.
        let _ = tokio::time::timeout(grace, all).await;
    }

    /// Tells every client that nothing follows, and waits until they have been told.
    pub async fn close(&self) {
        let peers: Vec<Arc<Peer>> = self.core.peers().values().cloned().collect();
        for peer in &peers {
            peer.outbox.close(CloseReason::Shutdown);
        }
        let all = async {
            for peer in &peers {
                // Who does not read is not told.
                peer.outbox.ended().await;
            }
        };
        let _ = tokio::time::timeout(CLOSE_GRACE, all).await;
    }

    /// Interrupts running turns, kills what runs, stores everything. Idempotent.
    pub async fn shutdown(&self) {
        let handles: Vec<ThreadHandle> =
            self.core.threads().drain().map(|(_, handle)| handle).collect();
        let ends = handles.into_iter().map(|handle| async move {
            handle.send(Command::Shutdown).await;
            handle.ended().await;
        });
        self.core.client_processes.shut_down();
        let all = async {
            let mut running: tokio::task::JoinSet<()> = ends.collect();
            while running.join_next().await.is_some() {}
            self.core.client_processes.done().await;
            self.core.unanswered.done().await;
        };
        // A thread that hangs on a dead file system must not hold the end up for ever.
        let _ = tokio::time::timeout(SHUTDOWN_GRACE, all).await;
        // The store may still be opening, which may be a salvage: wait for it to finish. If it does not,
        // the next server starts it over.
        let end = async {
            if let Ok(store) = self.core.store().await {
                // What could not be written was reported to its callers already.
                let _ = store.close().await;
            }
        };
        let _ = tokio::time::timeout(SHUTDOWN_GRACE, end).await;
    }
}

/// Room on disk for what clients have not read; its errors go into the log.
fn spool(folder: PathBuf) -> Arc<Spool> {
    Spool::new(folder, SPOOL_BYTES, |error| {
        tracing::warn!(
            target: "server::spool",
            "messages for slow clients cannot wait on disk: {error}"
        );
    })
}

impl Core {
    /// Waits until a long answer may be made; `None` for any other.
    pub(crate) async fn turn_for_long_answer(&self, load: Load) -> Option<SemaphorePermit<'_>> {
        if load != Load::LongAnswer {
            return None;
        }
        // It is never closed.
        self.long_answers.acquire().await.ok()
    }

    /// The store, opened on first use. Turns that a dead process left in flight are closed before
    /// anybody can see them.
    pub(crate) async fn store(&self) -> Result<&Store, Error> {
        self.store.get_or_try_init(|| self.open_store()).await.map_err(|error| {
            Error::from(error)
                .with_kind(ErrorKind::Failed)
                .within("the store of threads cannot be used")
        })
    }

    async fn open_store(&self) -> Result<Store, StoreError> {
        // A broken configuration is reported by the request that needs it.
        let dir = match self.config.own(&self.options) {
            Ok(loaded) => loaded.resolved.config.sqlite_home,
            Err(_) => self.options.home.clone(),
        };
        let now = self.options.clock.now_ms();
        let options = OpenOptions {
            salvage: true,
            lost_turn_error: Some(salvaged::lost_record()),
            ..OpenOptions::new(now, self.options.ids.next())
        };
        let opening = tokio::task::spawn_blocking(move || Store::open(&dir, options));
        let store = opening.await.expect("opening a store does not panic")?;
        if let Some(salvage) = store.salvaged() {
            for (thread_id, message) in salvaged::messages(salvage) {
                tracing::warn!(target: "server::store", "{message}");
                let params = WarningNotification { thread_id, message };
                self.tell_everybody::<protocol::Warning>(&params);
            }
        }
        crate::recovery::close_orphans(&store, now).await?;
        Ok(store)
    }

    /// Takes the lease of a stored thread that is not loaded; turns that died with their server are
    /// closed.
    pub(crate) async fn lease(&self, thread: &str) -> Result<(), Error> {
        let store = self.store().await?;
        let orphans = store.lease(thread).await?;
        let now = self.options.clock.now_ms();
        let interrupted = &crate::recovery::Outcome::Interrupted;
        let closed = crate::recovery::close(store, orphans, now, interrupted).await;
        closed.map(drop).map_err(Error::from)
    }

    /// Closes what servers that died left in flight.
    pub(crate) async fn close_orphans(&self) -> Result<(), Error> {
        let now = self.options.clock.now_ms();
        let closed = crate::recovery::close_orphans(self.store().await?, now).await;
        closed.map_err(Error::from)
    }

    /// Ends a loaded thread: its turn is interrupted, its commands are killed. Answers whether it
    /// was loaded. The caller holds `loading`.
    pub(crate) async fn end_thread(&self, id: &str) -> bool {
        let Some(handle) = self.loaded(id) else { return false };
        handle.send(Command::Shutdown).await;
        handle.ended().await;
        self.threads().remove(id);
        true
    }

    /// Tells every client that a thread is not loaded any more, if it was.
    pub(crate) fn tell_unloaded(&self, thread: &str, was_loaded: bool) {
        if was_loaded {
            let status = ThreadStatusChangedNotification {
                thread_id: thread.to_owned(),
                status: ThreadStatus::NotLoaded,
            };
            self.tell_everybody::<ThreadStatusChanged>(&status);
        }
    }

    /// The folder of the server's log.
    fn log_folder(&self) -> PathBuf {
        match self.config.own(&self.options) {
            Ok(loaded) => loaded.resolved.config.log_dir,
            Err(_) => self.options.home.join("log"),
        }
    }

    /// The configuration for a thread in `cwd`.
    ///
    /// # Errors
    /// A configuration that cannot be used, a file system that does not answer.
    pub(crate) async fn configuration(
        self: &Arc<Self>,
        cwd: &Path,
        overrides: Option<&Map<String, Value>>,
    ) -> Result<Loaded, Error> {
        let (core, folder, overrides) = (self.clone(), cwd.to_owned(), overrides.cloned());
        self.on_files(cwd, move || core.read_configuration(&folder, overrides.as_ref())).await?
    }

    /// As [`Core::configuration`], with what is wrong with the command rules that hold there.
    pub(crate) async fn configuration_and_rules(
        self: &Arc<Self>,
        cwd: &Path,
        overrides: Option<&Map<String, Value>>,
    ) -> Result<(Loaded, Vec<String>), Error> {
        let (core, folder, overrides) = (self.clone(), cwd.to_owned(), overrides.cloned());
        let read = self.on_files(cwd, move || {
            let loaded = core.read_configuration(&folder, overrides.as_ref())?;
            let problems = core.rules.problems(&loaded.resolved.config);
            Ok((loaded, problems))
        });
        read.await?
    }

    fn read_configuration(
        &self,
        cwd: &Path,
        overrides: Option<&Map<String, Value>>,
    ) -> Result<Loaded, Error> {
        // A client that overrides keys is at fault itself.
        let kind = match overrides {
            Some(_) => ErrorKind::InvalidParams,
            None => ErrorKind::Failed,
        };
        let loaded = self.config.load(&self.options, cwd, overrides);
        let loaded = loaded.map_err(|error| Error::from(error).with_kind(kind))?;
        let config = &loaded.resolved.config;
        self.models.load(config).map_err(|error| error.with_kind(kind))?;
        if let Some(watching) = self.watching.get() {
            watching.follow(&loaded.files);
        }
        for (key, path) in [
            ("model_instructions_file", &config.model_instructions_file),
            ("experimental_compact_prompt_file", &config.experimental_compact_prompt_file),
        ] {
            if let Some(path) = path {
                files::open(path).map_err(|error| {
                    Error::new(kind, format!("`{key}`: {error}")).with_source(error)
                })?;
            }
        }
        Ok(loaded)
    }

    pub(crate) fn threads(&self) -> MutexGuard<'_, HashMap<String, ThreadHandle>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loaded thread of that id.
    pub(crate) fn loaded(&self, id: &str) -> Option<ThreadHandle> {
        self.threads().get(id).cloned()
    }

    /// Whether nothing new is begun any more.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn next_connection(&self) -> ConnectionId {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// A connection that has begun.
    pub(crate) fn attach(&self, peer: Arc<Peer>) {
        self.peers().insert(peer.id, peer);
    }

    /// Unloads a thread, and tells every client.
    pub(crate) fn forget(&self, thread: &str) {
        self.threads().remove(thread);
        self.tell_unloaded(thread, true);
        let params = ThreadIdNotification { thread_id: thread.to_owned() };
        self.tell_everybody::<ThreadClosed>(&params);
    }

    pub(crate) fn tell_everybody<N: Notification<Params: Serialize>>(&self, params: &N::Params) {
        let Some(info) = protocol::lookup_notification(N::NAME) else { return };
        let Ok(message) = encode_notification(N::NAME, params) else { return };
        for peer in self.peers().values().filter(|peer| peer.wants(info)) {
            peer.send(message.clone());
        }
    }

    /// See [`Core::tell_everybody`], for something about a thread: while it is loaded, that has its
    /// place among the thread's events.
    pub(crate) async fn tell_everybody_of<N: Notification<Params: Serialize>>(
        &self,
        thread: &str,
        params: &N::Params,
    ) {
        let Ok(message) = encode_notification(N::NAME, params) else { return };
        let announce = Command::Announce { method: N::NAME, message };
        let told = match self.loaded(thread) {
            Some(handle) => handle.send(announce).await,
            None => false,
        };
        if !told {
            self.tell_everybody::<N>(params);
        }
    }

    /// Every connection.
    pub(crate) fn everybody(&self) -> Vec<Arc<Peer>> {
        self.peers().values().cloned().collect()
    }

    fn peers(&self) -> MutexGuard<'_, HashMap<ConnectionId, Arc<Peer>>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether that connection is there still.
    pub(crate) fn is_connected(&self, connection: ConnectionId) -> bool {
        self.peers().contains_key(&connection)
    }

    /// Gets ready in the background what the first turn of a process would otherwise wait for.
    pub(crate) fn warm_up(self: &Arc<Self>, provider: Arc<model::Provider>) {
        if self.warmed.swap(true, Ordering::Relaxed) {
            return;
        }
        let core = self.clone();
        tokio::spawn(async move {
            core.sandbox.prepare().await;
            core.model.warm_up(&provider).await;
        });
    }

    /// Forgets a connection that ended.
    pub(crate) async fn detach(&self, connection: ConnectionId) {
        self.peers().remove(&connection);
        self.client_processes.end_all(connection);
        let handles: Vec<ThreadHandle> = self.threads().values().cloned().collect();
        for handle in handles {
            handle.send(Command::Detach { connection }).await;
        }
    }

    /// Tells a new client what is ignored in the configuration.
    pub(crate) async fn tell_warnings(self: &Arc<Self>, peer: &Peer) {
        // From the first client on there is somebody to tell.
        self.watching.get_or_init(|| config_watch::start(self));
        let core = self.clone();
        let looked = self.files.run(&self.options.cwd, move || {
            let loaded = core.config.load(&core.options, &core.options.cwd, None)?;
            let problems = core.rules.problems(&loaded.resolved.config);
            Ok((loaded.resolved.warnings, problems))
        });
        match looked.await {
            Ok(Ok((found, problems))) => {
                warnings::tell(peer, &found);
                problems.into_iter().for_each(|problem| warnings::tell_plain(peer, problem));
            }
            Ok(Err(error)) => warnings::tell_error(peer, &error),
            Err(error) => warnings::tell_plain(peer, error.to_string()),
        }
        for error in self.config.broken() {
            warnings::tell_error(peer, &error);
        }
        if let Some(salvage) = self.store.get().and_then(Store::salvaged) {
            for (thread, message) in salvaged::messages(salvage) {
                match thread {
                    Some(thread) => warnings::tell_about_thread(peer, &thread, message),
                    None => warnings::tell_warning(peer, message),
                }
            }
        }
    }
}

/// Makes the agent's home, private to the user: transcripts and credentials lie in it.
///
/// # Errors
/// Of the system.
pub fn make_home(home: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(home)
}
