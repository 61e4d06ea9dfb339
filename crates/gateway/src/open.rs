//! Opens a gateway: opens the parts that its configuration names, in order, and closes them without
//! loss.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use ratelimit::{ErrorKind, Limits, Memory, Redis, RedisOptions};

use crate::batch;
use crate::batch_runner::Runner;
use crate::later;
use crate::later_poller::Poller;
use crate::metrics::Metrics;
use crate::object_owners::ObjectOwners;
use crate::recovery;
use crate::spend::Spend;
use crate::state::{Gateway, Ids};
use crate::trace_export;
use crate::upstream::{self, SecretMask};
use gateway_policy::dates::seconds;
use gateway_policy::environment::{Clock, Environment};
use gateway_policy::settings::{LimitsUrl, Settings, StoreUrl};
use gateway_store::database::Database;
use gateway_store::directory::{self, Directory};
use gateway_store::journal::Journal;
use gateway_store::ledger::Ledger;
use gateway_store::records::{DEFAULT_ORGANIZATION, Page, facts, keys, organizations, projects};

/// Interval of flushing the limits' state to the disk.
const SYNC: Duration = Duration::from_secs(1);
/// Time limit for writing the ledger at shutdown.
const FLUSH: Duration = Duration::from_secs(10);

/// Why a gateway cannot be opened. The message contains the cause, so there is no source.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store.
    #[error("store: {0}")]
    Store(gateway_store::Error),
    /// A missing folder that cannot be created.
    #[error("the folder {} cannot be created: {error}; create it, or change its permissions", path.display())]
    Folder {
        /// Its path.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// The limits: their state file, or their shared store.
    #[error("limits: {0}")]
    Limits(ratelimit::Error),
    /// TLS to upstreams.
    #[error("TLS cannot be set up: {0}")]
    Tls(http_client::TlsError),
}

impl OpenError {
    /// Returns whether the configuration, or that of a server that it names, must be changed first.
    #[must_use]
    pub fn is_configuration(&self) -> bool {
        matches!(self, Self::Limits(error) if error.kind() == ErrorKind::Misconfigured)
    }
}

impl From<gateway_store::Error> for OpenError {
    fn from(error: gateway_store::Error) -> Self {
        Self::Store(error)
    }
}

impl From<ratelimit::Error> for OpenError {
    fn from(error: ratelimit::Error) -> Self {
        Self::Limits(error)
    }
}

impl From<http_client::TlsError> for OpenError {
    fn from(error: http_client::TlsError) -> Self {
        Self::Tls(error)
    }
}

impl Gateway {
    /// Opens the parts that `settings` names. `folder` holds the state of the limits and the journal of open
    /// requests if the store is not a file.
    ///
    /// # Errors
    /// One line that names what cannot be opened.
    pub async fn open(
        settings: Settings,
        folder: &Path,
        environment: Environment,
    ) -> Result<Arc<Self>, OpenError> {
        let Environment { clock, random } = environment;
        if let StoreUrl::Sqlite(path) = &settings.store
            && let Some(folder) = path.parent()
        {
            make_private(folder)?;
        }
        let database = Arc::new(Database::open(&settings.store).await?);
        organizations::ensure_default(&database, clock.now()).await?;
        let ids = Ids::new(&*random);
        let limits = Arc::new(open_limits(&settings, folder, &*clock, &database, &ids).await?);
        let writer = format!("{:016x}", ids.process());
        let journals = Journal::open(&place_of(&settings, folder))?;
        let journal = journals.0.clone();
        recovery::recover((&database, &limits), journals, ids.process(), &*clock).await?;
        let capacity = directory::CAPACITY;
        let directory =
            Directory::open(Arc::clone(&database), Arc::clone(&clock), capacity).await?;
        let lines = settings.batches.lines_per_node;
        let metrics = Metrics::default();
        let ledger = Ledger::with_journal(Arc::clone(&database), writer.clone().into(), journal);
        let spend = Spend::new(&database, &limits, &ledger, &clock, metrics.spend_alerts.clone());
        let gateway = Arc::new(Self {
            batches: Runner::new(&writer, lines),
            poller: Poller::default(),
            settings: Arc::new(ArcSwap::from_pointee(settings)),
            directory,
            ledger,
            object_owners: ObjectOwners::start(Arc::clone(&database)),
            database,
            limits,
            spend,
            body_memory: Default::default(),
            upstreams: upstream::Client::new()?,
            traces: Default::default(),
            metrics,
            clock,
            random,
            ids,
            calibration: Default::default(),
            is_cutting: Default::default(),
        });
        batch::start(&gateway);
        later::start(&gateway);
        tokio::spawn(sync(Arc::downgrade(&gateway)));
        tokio::spawn(report_problems(Arc::downgrade(&gateway)));
        tokio::spawn(trace_export::send(Arc::downgrade(&gateway)));
        Ok(gateway)
    }

    /// The active configuration.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Activates another configuration for new requests. Usage is kept. The listening address and
    /// the locations of data cannot change while the gateway runs.
    pub fn reload(&self, settings: Settings) {
        let old = self.settings.load();
        let fixed = [
            ("listen", old.listen != settings.listen),
            ("store.url", old.store != settings.store),
            ("limits", old.limits != settings.limits),
        ];
        for (key, _) in fixed.into_iter().filter(|(_, changed)| *changed) {
            tracing::warn!("{key} has changed; restart the gateway for it to take effect");
        }
        self.settings.store(Arc::new(settings));
        tracing::info!("the configuration was reloaded");
    }

    /// A log line with `***` in place of upstreams' keys. Every line passes through it, because
    /// libraries may also log what they send.
    #[must_use]
    pub fn redact(&self, line: &[u8]) -> Vec<u8> {
        SecretMask::keys(&self.settings.load()).replace(line)
    }

    /// Writes everything that is still in memory. Call it when no request is open.
    pub async fn close(&self) {
        // Has no effect if serving has drained it already.
        self.batches.drain(Duration::ZERO).await;
        self.poller.stop().await;
        if let Err(left) = self.ledger.flush(FLUSH).await {
            tracing::error!("the end of the ledger was not written: {left:?}");
        }
        if let Err(error) = self.directory.write_last_used().await {
            tracing::warn!("the last use of keys was not written: {error}");
        }
        trace_export::send_waiting(self, &mut false).await;
        if let Err(error) = self.limits.close().await {
            tracing::error!("the state of the limits was not written: {error}");
        }
    }

    /// Creates a project and a key for the default organization if it has no project yet. Returns
    /// the key, to be shown once.
    ///
    /// # Errors
    /// The store's.
    pub async fn first_key(&self) -> Result<Option<String>, gateway_store::Error> {
        let (database, random) = (&self.database, &*self.random);
        let now = self.clock.now();
        let organization = DEFAULT_ORGANIZATION;
        let known = projects::list(database, organization, true, &Page::first(1)).await?;
        if !known.items.is_empty() {
            return Ok(None);
        }
        let made = projects::create(database, organization, "Default project", None, now, random);
        let Some(project) = made.await? else { return Ok(None) };
        let (project, name) = (&*project.project.id, "First key");
        let new =
            keys::NewKey { project, service_account: None, name, expires_at: None, models: None };
        let made = keys::create(database, new, now, random).await?;
        Ok(made.map(|(_, text)| text.reveal().to_owned()))
    }
}

/// Flushes the limits' state and the journal to the disk once a second, while the gateway exists.
async fn sync(gateway: std::sync::Weak<Gateway>) {
    let mut failed = false;
    loop {
        tokio::time::sleep(SYNC).await;
        let Some(gateway) = gateway.upgrade() else { return };
        let (limits, journal) = (Arc::clone(&gateway.limits), gateway.ledger.journal().cloned());
        drop(gateway);
        let written = tokio::task::spawn_blocking(move || {
            journal.map_or(Ok(()), |journal| journal.sync())?;
            match &*limits {
                Limits::Memory(memory) => memory.sync(),
                _ => Ok(()),
            }
        });
        match written.await {
            Ok(Err(error)) if !failed => {
                failed = true;
                tracing::warn!(
                    "the state of the limits or the journal of open requests is not written: {error}"
                );
            }
            Ok(Ok(())) => failed = false,
            _ => {}
        }
    }
}

/// Logs what is wrong with the store of the limits, once until that changes. Attempts to connect fail in different
/// words, and count as the same.
async fn report_problems(gateway: std::sync::Weak<Gateway>) {
    let mut reported = None;
    loop {
        let Some(gateway) = gateway.upgrade() else { return };
        if !matches!(&*gateway.limits, Limits::Redis(_)) {
            return;
        }
        let problem = gateway.limits.problem();
        let is_away = !gateway.limits.is_available();
        drop(gateway);
        let known = problem.as_ref().map(|problem| match problem.kind() {
            ErrorKind::Unreachable if is_away => String::new(),
            _ => problem.to_string(),
        });
        if known != reported {
            match &problem {
                Some(problem) => tracing::warn!("limits: {problem}"),
                None => tracing::info!("limits: the store of the limits is well again"),
            }
            reported = known;
        }
        tokio::time::sleep(SYNC).await;
    }
}

async fn open_limits(
    settings: &Settings,
    folder: &Path,
    clock: &dyn Clock,
    database: &Database,
    ids: &Ids,
) -> Result<Limits, OpenError> {
    match &settings.limits {
        LimitsUrl::Off => Ok(Limits::Off),
        LimitsUrl::Memory => {
            let path = place_of(settings, folder).with_extension("limits");
            let memory = Memory::open(&path, clock.now());
            Ok(Limits::Memory(memory?))
        }
        LimitsUrl::Redis { url, lease, durable } => {
            let first_start = facts::note(database, IN_USE, url, seconds(clock.now())).await?;
            let options = RedisOptions {
                url: url.clone(),
                lease: *lease,
                node: ids.process(),
                first_start,
                durable: *durable,
            };
            match Redis::connect(options).await {
                Ok(redis) => Ok(Limits::Redis(redis)),
                Err(error) => {
                    // Else the next start would take an empty store for one that has lost its data.
                    if first_start {
                        facts::forget(database, IN_USE, url).await?;
                    }
                    Err(error.into())
                }
            }
        }
    }
}

/// The path of this node's own files, up to their extension.
fn place_of(settings: &Settings, folder: &Path) -> PathBuf {
    match &settings.store {
        StoreUrl::Sqlite(path) => path.clone(),
        StoreUrl::Postgres(_) => folder.join("gateway.db"),
    }
}

/// The fact that limits are kept at an address.
const IN_USE: &str = "limits-in-use";

/// Creates a folder that only its owner can access.
fn make_private(folder: &Path) -> Result<(), OpenError> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| OpenError::Folder { path: folder.to_owned(), error })
}
