//! Opens a gateway: opens the parts that its configuration names, in order, and closes them without
//! loss.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use ratelimit::{ErrorKind, Limits, Memory, Redis, RedisOptions};
use tokio::net::TcpListener;

use crate::alert_sender;
use crate::backends::{self, Backends};
use crate::batch;
use crate::batch_runner::Runner;
use crate::envelope_seal::EnvelopeKey;
use crate::later;
use crate::later_poller::Poller;
use crate::metrics::Metrics;
use crate::metrics_page;
use crate::object_owners::ObjectOwners;
use crate::recovery;
use crate::spend::{Spend, SpendServices};
use crate::state::{Gateway, Ids};
use crate::trace_export;
use crate::upstream::{self, SecretMask};
use gateway_policy::dates::seconds;
use gateway_policy::environment::{Clock, Environment, ExpiryClock, Step};
use gateway_policy::settings::{LimitsUrl, Settings, StoreUrl};
use gateway_store::database::Database;
use gateway_store::directory::{self, Directory};
use gateway_store::journal::Journal;
use gateway_store::ledger::{self, Ledger};
use gateway_store::records::audit::Act;
use gateway_store::records::{facts, organizations, spend};

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
    /// The port of the metrics.
    #[error("cannot listen on {address}: {error}; set `listen` in [metrics] to another address")]
    Metrics {
        /// The configured address.
        address: SocketAddr,
        /// The cause.
        error: std::io::Error,
    },
    /// The limits: their state file, or their shared store.
    #[error("limits: {0}")]
    Limits(ratelimit::Error),
    /// A model that a hard spend limit cannot hold for.
    #[error(
        "models.{model}: has no price, though {scope} has a hard spend limit; add `price`, or \
         `free = true` if it costs nothing"
    )]
    PriceMissing {
        /// The model.
        model: Box<str>,
        /// An organization or a project.
        scope: Box<str>,
    },
    /// TLS to the collector of traces, and to the webhook.
    #[error("TLS cannot be set up: {0}")]
    Tls(http_client::TlsError),
    /// The network to upstreams.
    #[error("the network to model servers cannot be set up: {0}")]
    Network(http_client::NetworkError),
}

impl OpenError {
    /// Returns whether the configuration, or that of a server that it names, must be changed first.
    #[must_use]
    pub fn is_configuration(&self) -> bool {
        match self {
            Self::Limits(error) => error.kind() == ErrorKind::Misconfigured,
            Self::PriceMissing { .. } | Self::Network(_) => true,
            Self::Store(_) | Self::Folder { .. } | Self::Metrics { .. } | Self::Tls(_) => false,
        }
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

impl From<http_client::NetworkError> for OpenError {
    fn from(error: http_client::NetworkError) -> Self {
        Self::Network(error)
    }
}

impl Gateway {
    /// Opens the parts that `settings` names. `folder` holds the state of the limits and the journal of open
    /// requests if the store is not a file, and the settings name no folder for them.
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
        if let Some(folder) = &settings.state_folder {
            make_private(folder)?;
        }
        let database = Arc::new(Database::open(&settings.store).await?);
        organizations::ensure_default(&database, Act::of_gateway(clock.now(), &*random)).await?;
        check_prices(&settings, &database).await?;
        let envelope_key = EnvelopeKey::open(&database, &*random).await?;
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
        let backends = Backends::open(&settings, &clock, &random)?;
        let metrics = Metrics::new(settings.metrics.top_projects);
        if let Err(error) = metrics.projects.place_busiest(&database, clock.now()).await {
            tracing::warn!("projects get series of metrics as they come: {error}");
        }
        let metrics_listener = listen_for_metrics(&settings).await?;
        let metrics_address =
            metrics_listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let ledger = Ledger::with_journal(Arc::clone(&database), writer.clone().into(), journal);
        let settings = Arc::new(ArcSwap::from_pointee(settings));
        let services = SpendServices {
            database: Arc::clone(&database),
            limits: Arc::clone(&limits),
            ledger: ledger.clone(),
            settings: Arc::clone(&settings),
            clock: Arc::clone(&clock),
            random: Arc::clone(&random),
        };
        let spend = Spend::new(services, metrics.spend_alerts.clone());
        let gateway = Arc::new(Self {
            batches: Runner::new(&writer, lines),
            poller: Poller::default(),
            settings,
            directory,
            ledger,
            object_owners: ObjectOwners::start(Arc::clone(&database)),
            database,
            limits,
            spend,
            body_memory: Default::default(),
            envelope_key,
            backends: Arc::new(backends),
            other_servers: upstream::Client::new()?,
            traces: Default::default(),
            sign_ins: metrics.sign_ins(),
            metrics,
            metrics_address,
            expiry: ExpiryClock::new(Arc::clone(&clock)),
            clock,
            random,
            ids,
            alert_sender: OnceLock::new(),
            calibration: Default::default(),
            is_draining: Default::default(),
            is_cutting: Default::default(),
        });
        batch::start(&gateway);
        later::start(&gateway);
        let changed = gateway.backends.changed();
        tokio::spawn(backends::watch(Arc::downgrade(&gateway.backends), changed));
        if let Some(listener) = metrics_listener {
            tokio::spawn(metrics_page::serve(listener, Arc::downgrade(&gateway)));
        }
        let raised = gateway.spend.raised();
        let sending = tokio::spawn(alert_sender::send(Arc::downgrade(&gateway), raised));
        // It is set once.
        let _ = gateway.alert_sender.set(sending.abort_handle());
        tokio::spawn(sync(Arc::downgrade(&gateway)));
        tokio::spawn(report_problems(Arc::downgrade(&gateway)));
        tokio::spawn(trace_export::send(Arc::downgrade(&gateway)));
        Ok(gateway)
    }

    /// The active configuration.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Checks another configuration against the store: the hard spend limits there must hold for every model.
    ///
    /// # Errors
    /// A model has no price, or the store cannot be read.
    pub async fn check(&self, settings: &Settings) -> Result<(), OpenError> {
        check_prices(settings, &self.database).await
    }

    /// Activates another configuration for new requests. Usage is kept. The listening address and
    /// the locations of data cannot change while the gateway runs.
    pub fn reload(&self, settings: Settings) {
        let old = self.settings.load();
        let fixed = [
            ("listen", old.listen != settings.listen),
            ("store.url", old.store != settings.store),
            ("limits", old.limits != settings.limits),
            ("metrics.listen", old.metrics.listen != settings.metrics.listen),
            ("metrics.top_projects", old.metrics.top_projects != settings.metrics.top_projects),
        ];
        for (key, _) in fixed.into_iter().filter(|(_, changed)| *changed) {
            tracing::warn!("{key} has changed; restart the gateway for it to take effect");
        }
        if let Err(error) = self.backends.reload(&settings) {
            tracing::error!("{error}; the previous configuration stays in force");
            return;
        }
        self.settings.store(Arc::new(settings));
        self.spend.raised().notify_one();
        tracing::info!("the configuration was reloaded");
    }

    /// A log line with `***` in place of upstreams' keys. Every line passes through it, because
    /// libraries may also log what they send.
    #[must_use]
    pub fn redact(&self, line: &[u8]) -> Vec<u8> {
        SecretMask::keys(self.backends.secrets()).replace(line)
    }

    /// Writes everything that is still in memory. Call it when no request is open.
    pub async fn close(&self) {
        // Has no effect if serving has drained it already.
        self.batches.drain(Duration::ZERO).await;
        self.poller.stop().await;
        // A message that is being sent stays in the store, and is sent again once its claim has lapsed.
        if let Some(sending) = self.alert_sender.get() {
            sending.abort();
        }
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
}

/// Checks that the hard spend limits in the store hold for every model.
async fn check_prices(settings: &Settings, database: &Database) -> Result<(), OpenError> {
    let Some(model) = settings.catalog.unpriced() else { return Ok(()) };
    match spend::any_hard(database).await? {
        Some(scope) => Err(OpenError::PriceMissing { model: model.name.clone(), scope }),
        None => Ok(()),
    }
}

/// Flushes the limits' state and the journal to the disk once a second, while the gateway exists.
async fn sync(gateway: std::sync::Weak<Gateway>) {
    let mut failed = false;
    loop {
        tokio::time::sleep(SYNC).await;
        let Some(gateway) = gateway.upgrade() else { return };
        report_step(&gateway);
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

/// Logs a step of the system's clock.
fn report_step(gateway: &Gateway) {
    gateway.expiry.now();
    let Some(Step { by, is_doubted }) = gateway.expiry.take_step() else { return };
    let seconds = by.unsigned_abs() / 1_000_000;
    let direction = if by < 0 { "back" } else { "forward" };
    match is_doubted {
        true => tracing::warn!(
            "the system's clock was set {direction} by {seconds} s: dates follow it, but for a day nothing is deleted \
             or given up because of it; set it right if it is wrong"
        ),
        false => {
            tracing::warn!(
                "the system's clock was set {direction} by {seconds} s: dates follow it"
            );
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
                None => tracing::info!("limits: Redis is reachable again"),
            }
            reported = known;
        }
        tokio::time::sleep(SYNC).await;
    }
}

async fn listen_for_metrics(settings: &Settings) -> Result<Option<TcpListener>, OpenError> {
    let Some(address) = settings.metrics.listen else { return Ok(None) };
    let bound = metrics_page::bind(address).await;
    bound.map(Some).map_err(|error| OpenError::Metrics { address, error })
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
            let memory = Memory::open(&path, clock.steady());
            Ok(Limits::Memory(memory?))
        }
        LimitsUrl::Redis { url, lease, durable } => {
            let is_noted = facts::note(database, IN_USE, url, seconds(clock.now())).await?;
            // A new store of the limits for usage that exists, as after a backup was restored, has lost what it counted.
            let first_start = is_noted && ledger::is_empty(database).await?;
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
                    if is_noted {
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
    match (&settings.state_folder, &settings.store) {
        (Some(folder), _) => folder.join("gateway.db"),
        (None, StoreUrl::Sqlite(path)) => path.clone(),
        (None, StoreUrl::Postgres(_)) => folder.join("gateway.db"),
    }
}

/// The fact that limits are kept at an address.
const IN_USE: &str = "limits-in-use";

/// Creates a folder that only its owner can access.
pub(crate) fn make_private(folder: &Path) -> Result<(), OpenError> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| OpenError::Folder { path: folder.to_owned(), error })
}
