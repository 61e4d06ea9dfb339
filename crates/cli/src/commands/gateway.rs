//! `agentd gateway`: the hosted API in front of model servers.

mod create_key;
mod init;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock, Weak};

use anyhow::Context;
use gateway::Gateway;
use gateway_policy::environment as gateway_environment;
use gateway_policy::settings::{LoadContext, Settings};
use rand::TryRngCore;
use tokio::net::TcpListener;

use crate::commands::listen::{self, InheritedSockets};
use crate::commands::{asked_to_end, eprint, print};
use crate::environment::Environment;
use crate::log;

/// The folder in the home that holds the store of a gateway without a configuration file.
const FOLDER: &str = "gateway";

/// In place of an address: the socket that a service manager passed.
const SYSTEMD: &str = "systemd://";

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    // The id is that of the option which all other subcommands have under this name: it takes the
    // place of that one.
    /// The configuration file; without one, the offline model responds and a key is created and shown
    #[arg(id = "overrides", long = "config", value_name = "FILE")]
    config: Option<String>,
    /// Check the configuration and exit
    #[arg(long, requires = "overrides")]
    check: bool,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Write a configuration and an administrator's token to a folder
    Init(init::Arguments),
    /// Create a key for a project, in the store of a configuration; the gateway may be running
    CreateKey(create_key::Arguments),
}

/// The runtime of all that belongs to no connection: one thread. Connections have theirs: [`workers`].
pub(crate) fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// A thread for each processor that this process may use; with a single one there is nothing to share, and connections
/// are served where all else runs.
fn workers() -> anyhow::Result<gateway::Workers> {
    match std::thread::available_parallelism().map_or(1, usize::from) {
        1 => Ok(gateway::Workers::none()),
        processors => gateway::Workers::start(processors)
            .context("the threads that serve connections cannot be started"),
    }
}

/// Runs the subcommand until a signal. Prints the address in one line.
pub(crate) async fn run(
    arguments: Arguments,
    environment: impl FnOnce() -> anyhow::Result<Environment>,
    given: InheritedSockets,
) -> anyhow::Result<ExitCode> {
    let environment = environment()?;
    let offline = Offline::start()?;
    let source = |environment, config: Option<String>| Source {
        environment,
        config: config.map(PathBuf::from),
        offline: offline.base_url.clone(),
    };
    match arguments.action {
        None => {}
        Some(Action::Init(arguments)) => return init::run(&arguments, &environment),
        Some(Action::CreateKey(arguments)) => {
            let source = source(environment, arguments.config.clone());
            return create_key::run(&arguments, &source).await;
        }
    }
    let source = source(environment, arguments.config);
    let settings = match source.read() {
        Ok(settings) => settings,
        Err(error) => {
            eprint(format_args!("agentd: {error}"));
            return Ok(ExitCode::from(2));
        }
    };
    warn(&settings);
    if arguments.check {
        print(format_args!("the configuration is valid"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let listener = listen(&settings.listen, given).await?;
    let address = listener.local_addr()?;
    let machine = machine();
    let opened = Arc::new(OnceLock::<Weak<Gateway>>::new());
    let redacting = Arc::clone(&opened);
    log::to_stderr(&source.environment, move |line| {
        let gateway = redacting.get().and_then(Weak::upgrade);
        gateway.map_or_else(|| line.to_vec(), |gateway| gateway.redact(line))
    })?;
    let gateway = match Gateway::open(settings, &source.folder(), machine).await {
        Err(error) if error.is_configuration() => {
            eprint(format_args!("agentd: {error}"));
            return Ok(ExitCode::from(2));
        }
        opened => opened?,
    };
    // It is set once.
    let _ = opened.set(Arc::downgrade(&gateway));
    offline.serve_when_needed(&gateway);
    if source.config.is_none()
        && let Some(key) = gateway.first_key().await?
    {
        print(format_args!("API key of the default project, shown only once: {key}"))?;
    }
    print(format_args!("listening on http://{address}"))?;
    let reloading = tokio::spawn(reload(Arc::clone(&gateway), source));
    let stop = async {
        // Without signal handling the program ends when it is killed.
        if asked_to_end().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let workers = Arc::new(workers()?);
    let ending = gateway::serve(Arc::clone(&gateway), listener, Arc::clone(&workers), stop).await?;
    reloading.abort();
    gateway.close().await;
    // Only now: connections to the store may belong to them.
    drop(workers);
    if ending == gateway::Ending::Cut {
        eprint(format_args!("agentd: some requests were cut off by the shutdown"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Listens on an address, or on the socket that the service manager passed: that one stays open while the gateway
/// is restarted, so that no connection is refused.
async fn listen(at: &str, given: InheritedSockets) -> anyhow::Result<TcpListener> {
    if at == SYSTEMD {
        return listen::inherited_tcp(given).with_context(|| format!("`listen = \"{SYSTEMD}\"`"));
    }
    let bound = TcpListener::bind(at).await;
    bound.with_context(|| format!("cannot listen on {at}; set `listen` to another address"))
}

fn warn(settings: &Settings) {
    for warning in &settings.warnings {
        eprint(format_args!("agentd: WARNING: {warning}"));
    }
}

fn machine() -> gateway_environment::Environment {
    gateway_environment::Environment {
        clock: Arc::new(SystemClock::start()),
        random: Arc::new(SystemRandom),
    }
}

/// Where the configuration comes from.
struct Source {
    environment: Environment,
    config: Option<PathBuf>,
    offline: String,
}

impl Source {
    fn read(&self) -> Result<Settings, gateway_policy::Error> {
        let environment = |name: &str| self.environment.variable(name);
        let folder = self.folder();
        let around =
            LoadContext { environment: &environment, folder: &folder, offline: &self.offline };
        match &self.config {
            Some(path) => Settings::load(&self.environment.cwd.join(path), around),
            None => Settings::read("", Path::new("(no configuration)"), around),
        }
    }

    /// Where relative paths of the configuration begin.
    fn folder(&self) -> PathBuf {
        let parent = self.config.as_ref().map(|path| self.environment.cwd.join(path));
        let parent = parent.as_deref().and_then(Path::parent);
        parent.map_or_else(|| self.environment.home.join(FOLDER), Path::to_owned)
    }
}

/// Reloads the configuration on SIGHUP. An invalid one is refused, and the previous one stays.
async fn reload(gateway: Arc<Gateway>, source: Source) {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut hang_up) = signal(SignalKind::hangup()) else {
            eprint(format_args!(
                "agentd: cannot receive SIGHUP, so the configuration will not be reloaded"
            ));
            return;
        };
        while hang_up.recv().await.is_some() {
            let refused = match source.read() {
                Ok(settings) => match gateway.check(&settings).await {
                    Ok(()) => {
                        warn(&settings);
                        gateway.reload(settings);
                        continue;
                    }
                    Err(error) => error.to_string(),
                },
                Err(error) => error.to_string(),
            };
            eprint(format_args!("agentd: {refused}; the previous configuration stays in force"));
        }
    }
    #[cfg(not(unix))]
    drop((gateway, source));
}

/// The offline model: it listens on a port of its own, which only this machine can reach.
struct Offline {
    listener: std::net::TcpListener,
    base_url: String,
}

impl Offline {
    fn start() -> anyhow::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")
            .context("the offline model cannot listen on 127.0.0.1")?;
        listener.set_nonblocking(true)?;
        let base_url = format!("http://{}/v1", listener.local_addr()?);
        Ok(Self { listener, base_url })
    }

    /// Serves the offline model if the configuration uses it.
    fn serve_when_needed(self, gateway: &Gateway) {
        let settings = gateway.settings();
        let is_ours = |upstream: &Arc<gateway_policy::settings::Upstream>| {
            let mut authorities =
                upstream.backends.iter().filter_map(|backend| backend.base.origin.authority());
            authorities.any(|authority| self.base_url.contains(authority.as_str()))
        };
        if !settings.upstreams.iter().any(is_ours) {
            return;
        }
        tokio::spawn(async move {
            let served = async {
                let listener = TcpListener::from_std(self.listener)?;
                // A new seed per process, so that ids of objects do not repeat.
                let seed = rand::rngs::OsRng.try_next_u64()?;
                let clock = Arc::new(|| wall_clock() / 1_000_000);
                let model = model_server::OfflineModel { seed, clock };
                let never = std::future::pending();
                anyhow::Ok(model_server::serve_offline(listener, model, None, never).await?)
            };
            if let Err(error) = served.await {
                eprint(format_args!("agentd: the offline model stopped: {error:#}"));
            }
        });
    }
}

/// The system's clocks. The monotonic one begins at the wall clock's time, as the state of limits outlives the process.
struct SystemClock {
    began: u64,
    since: std::time::Instant,
}

impl SystemClock {
    fn start() -> Self {
        Self { began: wall_clock(), since: std::time::Instant::now() }
    }
}

impl gateway_environment::Clock for SystemClock {
    fn now(&self) -> u64 {
        wall_clock()
    }

    fn steady(&self) -> gateway_environment::SteadyTime {
        let passed = u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        gateway_environment::SteadyTime::from_micros(self.began.saturating_add(passed))
    }
}

/// Microseconds since 1970; a clock that is set to an earlier date counts as 1970.
fn wall_clock() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or(0)
}

struct SystemRandom;

impl gateway_environment::Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) {
        // Without randomness, keys could be guessed: better to stop.
        rand::rngs::OsRng.try_fill_bytes(bytes).expect("the system provides random bytes");
    }
}
