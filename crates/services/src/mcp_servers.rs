//! The MCP servers of the configuration: which a thread holds, and what those that are `required` do to
//! its start. The crate `mcp` runs them; here it gets its processes and the clients of threads.

mod app_list;
mod app_updates;
mod apps;
mod audience;
mod check;
mod definition;
mod keyring;
mod launcher;
mod mentions;
mod resource_content;
mod tools;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use config::Config;
use config::table::CredentialsStore;
use http_client::Network;
use mcp::{Callback, Definition, Held, HttpServer, LoginStore, Pool, Server, Transport};
use protocol::McpServerStartupStatusUpdated;
use session::ServerTool;
use skills::catalog::RemoteSkill;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use crate::command_runner::CommandRunner;
use crate::configurations::{ConfigurationOrigin, Configurations};
use crate::error::Error;
use crate::loaded_threads::LoadedThreads;
use crate::options::Options;
use crate::peer::Peer;
use crate::server_skills::ServerSkills;
use crate::thread_port::Command;
use app_updates::{AppConfiguration, AppUpdates, Change};
use audience::ThreadClients;
pub use audience::startup_state;
pub use check::{McpServerCheck, check_mcp_servers};
use definition::definitions;
use keyring::OsKeyring;
use launcher::SandboxLauncher;
pub use resource_content::ResourceImages;
use tools::Offered;

/// Time that a server keeps running after the last thread that used it was unloaded.
const GRACE: Duration = Duration::from_secs(60);
/// Where the eras of servers are remembered, in the home.
const ERAS_FILE: &str = "mcp-eras.json";
/// Where logins are stored, in the home.
const LOGINS_FOLDER: &str = "mcp-logins";
/// Maximum wait of a reload for the threads.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(2);
/// Logins that wait for the browser at the same time.
const MAX_LOGINS: usize = 8;
/// Time that a login waits for the browser when the client names none, and the maximum.
const LOGIN_TIMEOUTS: (Duration, Duration) = (Duration::from_mins(5), Duration::from_hours(1));

/// The MCP servers of the configuration.
pub struct McpServers {
    pool: Pool,
    /// The programs of servers that have not ended.
    programs: TaskTracker,
    options: Arc<Options>,
    /// Numbers the holders that are no threads.
    guests: AtomicU64,
    logins: Arc<Semaphore>,
    apps: Arc<AppUpdates>,
}

/// An enabled server of a configuration, whether it runs or not.
pub struct ConfiguredServer {
    pub definition: Definition,
    /// `None` when no thread and no request holds it, so that it does not run.
    pub server: Option<Server>,
}

/// The servers of a loaded thread; released when the thread is unloaded.
pub struct ThreadServers {
    held: Held,
    offered: Offered,
    options: Arc<Options>,
    /// `None` for a request.
    apps: Option<Arc<AppUpdates>>,
}

impl McpServers {
    pub fn new(
        options: Arc<Options>,
        runner: CommandRunner,
        network: Network,
        (threads, configurations): (Arc<LoadedThreads>, Arc<Configurations>),
    ) -> Self {
        let change = Change::default();
        let launcher = SandboxLauncher::new(runner, options.clone());
        let programs = launcher.programs();
        let audience = Arc::new(ThreadClients::new(threads.clone(), change.clone()));
        let pool = Pool::new(pool_options(&options, launcher, audience, network));
        let logins = Arc::new(Semaphore::new(MAX_LOGINS));
        let apps = Arc::new(AppUpdates::new(change, threads, configurations));
        Self { pool, programs, options, guests: AtomicU64::new(0), logins, apps }
    }

    /// Lets a thread use the servers of its configuration. Those that do not run are started in the
    /// background.
    pub fn of_thread(
        &self,
        thread: &str,
        cwd: &Path,
        config: &Arc<Config>,
        origin: &ConfigurationOrigin,
    ) -> ThreadServers {
        let held = self.hold(thread, cwd, config);
        self.apps.set(thread, &held, AppConfiguration::new(cwd, config, origin));
        let (offered, options) = (Offered::default(), self.options.clone());
        ThreadServers { held, offered, options, apps: Some(self.apps.clone()) }
    }

    /// As [`McpServers::of_thread`], for a request that belongs to no thread.
    pub fn of_request(&self, cwd: &Path, config: &Config) -> ThreadServers {
        let number = self.guests.fetch_add(1, Ordering::Relaxed);
        // Ids of threads have no blanks.
        let held = self.hold(&format!("request {number}"), cwd, config);
        let (offered, options) = (Offered::default(), self.options.clone());
        ThreadServers { held, offered, options, apps: None }
    }

    fn hold(&self, holder: &str, cwd: &Path, config: &Config) -> Held {
        let definitions = with_login_store(definitions(config, &self.options), config);
        self.pool.hold(holder, cwd, definitions)
    }

    /// Starts the servers that are `required`, and waits for them.
    ///
    /// # Errors
    /// One of them does not start within its time limit.
    pub async fn require(&self, cwd: &Path, config: &Config) -> Result<(), Error> {
        let is_required = |name: &str| {
            config.mcp_servers.get(name).is_some_and(|server| server.enabled && server.required)
        };
        if !config.mcp_servers.keys().any(|name| is_required(name)) {
            return Ok(());
        }
        let held = self.of_request(cwd, config);
        for server in held.servers().iter().filter(|server| is_required(server.name())) {
            server.ready().await.map_err(|error| {
                let name = server.name();
                let place = format!("the required MCP server `{name}` did not start");
                Error::failed(error.to_string())
                    .within(&place)
                    .next_step(format!("mend it, or set `mcp_servers.{name}.required` to false"))
            })?;
        }
        Ok(())
    }

    /// The enabled servers of a configuration. Starts none.
    pub fn configured(&self, config: &Config) -> Vec<ConfiguredServer> {
        let definitions = with_login_store(definitions(config, &self.options), config).into_iter();
        definitions
            .map(|definition| ConfiguredServer { server: self.pool.find(&definition), definition })
            .collect()
    }

    /// The servers of a loaded thread.
    pub fn servers(&self, thread: &str) -> Vec<Server> {
        self.pool.servers(thread)
    }

    /// The skills of a loaded thread's servers.
    pub fn skills(&self, thread: &str) -> ServerSkills {
        ServerSkills::new(self.servers(thread), thread)
    }

    /// Begins a login at a server. Returns the address that the user opens; `done` gets the outcome.
    ///
    /// # Errors
    /// The server needs no login, or none is possible.
    pub async fn log_in(
        &self,
        server: &Server,
        config: &Config,
        scopes: Vec<String>,
        timeout: Option<Duration>,
        done: impl FnOnce(Result<(), mcp::Error>) + Send + 'static,
    ) -> Result<String, Error> {
        let endpoint = endpoint_with_logins(server)?;
        let Ok(permit) = self.logins.clone().try_acquire_owned() else {
            return Err(Error::wrong_state(format!("{MAX_LOGINS} logins wait for the browser"))
                .next_step("finish one of them"));
        };
        let callback = Callback {
            port: config.mcp_oauth_callback_port.map_or(0, |port| *port as u16),
            url: config.mcp_oauth_callback_url.clone().map(|url| url.0),
        };
        // What the server demands is known when it has been reached.
        let _ = server.ready().await;
        let begun = self.pool.log_in(&endpoint, &callback, scopes).await;
        let login = begun.map_err(|error| {
            Error::failed(error.to_string()).within(&format!("MCP server `{}`", server.name()))
        })?;
        let url = login.url.clone();
        let timeout = timeout.unwrap_or(LOGIN_TIMEOUTS.0).min(LOGIN_TIMEOUTS.1);
        let pool = self.pool.clone();
        tokio::spawn(async move {
            let _permit = permit;
            let finished = login.finish(timeout).await;
            if finished.is_ok() {
                pool.reconnect(&endpoint).await;
            }
            done(finished);
        });
        Ok(url)
    }

    /// Returns whether a login at a server is stored.
    pub async fn has_login(&self, server: &Definition) -> Result<bool, mcp::Error> {
        match &server.transport {
            Transport::Http(endpoint) => self.pool.has_login(endpoint).await,
            _ => Ok(false),
        }
    }

    /// Starts failed servers again, after all threads have taken over the servers of the configuration as
    /// it is now. A thread that is late does so when it can.
    pub async fn reload(&self, threads: &LoadedThreads) {
        let reloads = threads.all().into_iter().map(|thread| async move {
            let (done, reloaded) = oneshot::channel();
            // A thread that has ended has no servers.
            if thread.send(Command::ReloadServers { done }).await {
                let _ = reloaded.await;
            }
        });
        let mut reloads: JoinSet<()> = reloads.collect();
        let all = async { while reloads.join_next().await.is_some() {} };
        if tokio::time::timeout(RELOAD_TIMEOUT, all).await.is_err() {
            reloads.detach_all();
        }
        self.pool.retry_failed();
    }

    /// Ends all servers, and waits until their programs have ended: each gets the time to end by itself.
    pub async fn close(&self) {
        self.pool.close().await;
        self.programs.close();
        self.programs.wait().await;
    }
}

/// The parameters of a pool whose files are in the home.
fn pool_options(
    options: &Options,
    launcher: SandboxLauncher,
    audience: Arc<dyn mcp::Audience>,
    network: Network,
) -> mcp::Options {
    mcp::Options {
        launcher: Arc::new(launcher),
        audience,
        network,
        eras_file: options.home.join(ERAS_FILE),
        logins_folder: options.home.join(LOGINS_FOLDER),
        keyring: Arc::new(OsKeyring),
        program: ("agentd".to_owned(), options.version.clone()),
        grace: GRACE,
    }
}

/// Deletes the login at a server of a configuration; returns whether there was one.
///
/// # Errors
/// The server is a program, or the login cannot be deleted.
pub async fn log_out_of_mcp_server(
    options: &Options,
    config: &Config,
    name: &str,
) -> Result<bool, Error> {
    let found = definition::of_name(config, options, name);
    let found = with_login_store(found.into_iter().collect(), config).pop();
    let Some(Transport::Http(endpoint)) = found.map(|found| found.transport) else {
        return Err(Error::failed(format!("the MCP server `{name}` has no usable `url`"))
            .next_step("only servers with `url` have logins"));
    };
    let (folder, keyring) = (options.home.join(LOGINS_FOLDER), Arc::new(OsKeyring));
    let deleted = mcp::log_out(folder, keyring, &endpoint).await;
    deleted.map_err(|error| Error::failed(error.to_string()))
}

/// The definitions with the place of their logins.
fn with_login_store(mut definitions: Vec<Definition>, config: &Config) -> Vec<Definition> {
    let store = match config.mcp_oauth_credentials_store {
        None | Some(CredentialsStore::File) => LoginStore::File,
        Some(CredentialsStore::Keyring) => LoginStore::Keyring,
        Some(CredentialsStore::Auto) => LoginStore::Auto,
    };
    for definition in &mut definitions {
        if let Transport::Http(endpoint) = &mut definition.transport {
            endpoint.oauth.store = store;
        }
    }
    definitions
}

/// The endpoint of a server that logins are possible at.
fn endpoint_with_logins(server: &Server) -> Result<HttpServer, Error> {
    let name = server.name();
    let Transport::Http(endpoint) = &server.definition().transport else {
        return Err(Error::invalid_params(format!("the MCP server `{name}` is a program"))
            .next_step("only servers with `url` have logins"));
    };
    if endpoint.has_credentials() {
        return Err(Error::wrong_state(format!(
            "the configuration has a token for the MCP server `{name}`, so it needs no login"
        )));
    }
    Ok(endpoint.clone())
}

impl From<Server> for ConfiguredServer {
    fn from(server: Server) -> Self {
        Self { definition: server.definition().clone(), server: Some(server) }
    }
}

impl ThreadServers {
    /// Takes over a changed configuration or folder.
    pub fn update(&self, cwd: &Path, config: &Arc<Config>, origin: &ConfigurationOrigin) {
        let definitions = definitions(config, &self.options);
        self.held.update(cwd, with_login_store(definitions, config));
        if let Some(apps) = &self.apps {
            let configuration = AppConfiguration::new(cwd, config, origin);
            apps.set(self.held.holder(), &self.held, configuration);
        }
    }

    pub fn servers(&self) -> Vec<Server> {
        self.held.servers()
    }

    /// The server that calls of the turn reach under this name.
    ///
    /// # Errors
    /// There is none now, or one that is defined otherwise; the text is for the model.
    pub fn of_turn(&self, name: &str) -> Result<Server, String> {
        let held = self.held.servers();
        match held.into_iter().find(|server| server.name() == name) {
            None => Err(format!("the MCP server `{name}` is no longer configured for the thread")),
            Some(server) if self.offered.is_bound_to(&server) => Ok(server),
            Some(_) => Err(format!(
                "the configuration of the MCP server `{name}` has changed since the turn began; the next turn \
                 can call its tools"
            )),
        }
    }

    /// The tools of the servers as they are known now, if they are others than before.
    pub fn refreshed_tools(&mut self, config: &Arc<Config>) -> Option<Arc<[ServerTool]>> {
        self.offered.refreshed(&self.held.servers(), config)
    }

    /// The servers whose tools are missing because they still start; each once.
    pub fn late(&mut self) -> Vec<String> {
        self.offered.late(&self.held.servers())
    }

    /// The skills of the servers whose tools are offered.
    pub fn offered_skills(&self) -> Vec<RemoteSkill> {
        self.offered.skills()
    }

    /// Sends a client the present state of each server.
    pub fn show_states(&self, peer: &Peer) {
        for server in self.servers() {
            let params = audience::status(server.name(), &server.state());
            peer.notify::<McpServerStartupStatusUpdated>(&params);
            audience::send_warnings(peer, &server.state());
        }
        if let Some(apps) = &self.apps {
            apps.look_again();
        }
    }
}

impl Drop for ThreadServers {
    fn drop(&mut self) {
        if let Some(apps) = &self.apps {
            apps.forget(self.held.holder());
        }
    }
}
