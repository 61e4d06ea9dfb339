//! All servers of a process: each runs once for all holders that want it, and ends a while after the
//! last one has left. Without servers in the configuration, nothing runs here.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http_client::Network;
use rmcp::model::Implementation;
use tokio::time::sleep;

use crate::auth::{self, Callback, Login, Store};
use crate::connect::Connector;
use crate::definition::{Definition, HttpServer, Transport};
use crate::eras::Eras;
use crate::error::Error;
use crate::http::Http;
use crate::port::{Audience, Keyring, Launcher};
use crate::run::run;
use crate::server::{Server, State};

/// Time for a server to begin a new connection.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The services and settings of a pool.
pub struct Options {
    pub launcher: Arc<dyn Launcher>,
    pub audience: Arc<dyn Audience>,
    pub network: Network,
    /// Where the eras of servers are remembered.
    pub eras_file: PathBuf,
    /// Where logins in files are stored.
    pub logins_folder: PathBuf,
    pub keyring: Arc<dyn Keyring>,
    /// The program's name and version, for servers.
    pub program: (String, String),
    /// Time that a server keeps running without holders.
    pub grace: Duration,
}

/// The running servers of a process. Cheap to clone. Servers end with the last clone.
#[derive(Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

struct Inner {
    connector: Arc<Connector>,
    audience: Arc<dyn Audience>,
    identity: Implementation,
    grace: Duration,
    servers: Mutex<Servers>,
}

#[derive(Default)]
struct Servers {
    by_definition: HashMap<Arc<Definition>, Server>,
    by_holder: HashMap<String, Vec<Server>>,
    /// Servers that no holder wants, while they are in use. Each use is a request with a time limit.
    retired: Vec<Server>,
    /// The server ends: nothing is started.
    is_closed: bool,
}

/// The servers of a holder. Dropped, it releases them.
pub struct Held {
    pool: Weak<Inner>,
    holder: String,
}

/// A view of the servers of a holder. Holds none.
#[derive(Clone)]
pub struct HeldServers {
    pool: Weak<Inner>,
    holder: String,
}

impl Pool {
    pub fn new(options: Options) -> Self {
        let (name, version) = options.program;
        let connector = Connector {
            launcher: options.launcher,
            http: Http::new(options.network),
            eras: Arc::new(Eras::new(options.eras_file)),
            logins: Store::new(options.logins_folder, options.keyring),
        };
        let inner = Inner {
            connector: Arc::new(connector),
            audience: options.audience,
            identity: Implementation::new(name, version),
            grace: options.grace,
            servers: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Lets `holder`, who works in `folder`, use these servers. Those that do not run are started in the
    /// background.
    pub fn hold(&self, holder: &str, folder: &Path, definitions: Vec<Definition>) -> Held {
        let held = Held { pool: Arc::downgrade(&self.inner), holder: holder.to_owned() };
        held.update(folder, definitions);
        held
    }

    /// The servers of a holder, in the order of their definitions.
    pub fn servers(&self, holder: &str) -> Vec<Server> {
        self.inner.lock().by_holder.get(holder).cloned().unwrap_or_default()
    }

    /// The server of this definition, when a holder has it. Starts none.
    pub fn find(&self, definition: &Definition) -> Option<Server> {
        self.inner.lock().by_definition.get(definition).cloned()
    }

    /// The servers that run.
    pub fn all(&self) -> Vec<Server> {
        self.inner.lock().by_definition.values().cloned().collect()
    }

    /// Tries failed servers again.
    pub fn retry_failed(&self) {
        self.all().iter().for_each(Server::retry);
    }

    /// Begins a login at an endpoint.
    ///
    /// # Errors
    /// No login is possible there.
    pub async fn log_in(
        &self,
        endpoint: &HttpServer,
        callback: &Callback,
        scopes: Vec<String>,
    ) -> Result<Login, Error> {
        let connector = &self.inner.connector;
        connector.http.prepare().await;
        let challenge = self.at(endpoint).iter().find_map(|server| server.shared.challenge());
        let (http, logins) = (&connector.http, &connector.logins);
        auth::begin(http, endpoint, logins, callback, scopes, challenge).await
    }

    /// Returns whether there is a login at an endpoint.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn has_login(&self, endpoint: &HttpServer) -> Result<bool, Error> {
        self.inner.connector.logins.has_login(endpoint).await
    }

    /// Reconnects to an endpoint whose login has changed. Returns when requests use the new
    /// connection.
    pub async fn reconnect(&self, endpoint: &HttpServer) {
        for server in self.at(endpoint) {
            let mut state = server.shared.state.subscribe();
            server.reconnect();
            // One that is about to start does so with the new login.
            let _ = tokio::time::timeout(RECONNECT_TIMEOUT, state.changed()).await;
        }
    }

    /// The servers at an endpoint.
    fn at(&self, endpoint: &HttpServer) -> Vec<Server> {
        let mut servers = self.all();
        servers.retain(|server| match &server.definition().transport {
            Transport::Http(other) => other.url == endpoint.url,
            _ => false,
        });
        servers
    }

    /// Ends all servers. Later ones are not started.
    pub async fn close(&self) {
        let servers: Vec<Server> = {
            let mut servers = self.inner.lock();
            servers.is_closed = true;
            servers.by_holder.clear();
            let retired = std::mem::take(&mut servers.retired);
            servers.by_definition.drain().map(|(_, server)| server).chain(retired).collect()
        };
        for server in &servers {
            server.stop();
        }
        for server in &servers {
            let mut state = server.shared.state.subscribe();
            let _ = state.wait_for(|state| *state == State::Cancelled).await;
        }
    }
}

impl Held {
    /// Replaces the servers of the holder. One without a holder ends, because its configuration changed:
    /// at once, or with the last request to it.
    pub fn update(&self, folder: &Path, definitions: Vec<Definition>) {
        let Some(pool) = self.pool.upgrade() else { return };
        let mut started = Vec::new();
        let mut unwanted = Vec::new();
        {
            let mut servers = pool.lock();
            if servers.is_closed {
                return;
            }
            let mut wanted = Vec::with_capacity(definitions.len());
            for definition in definitions {
                let server = match servers.by_definition.get(&definition) {
                    Some(server) => server.clone(),
                    None => {
                        let definition = Arc::new(definition);
                        let (identity, audience) = (pool.identity.clone(), pool.audience.clone());
                        let server = Server::new(definition.clone(), identity, audience);
                        servers.by_definition.insert(definition, server.clone());
                        started.push(server.clone());
                        server
                    }
                };
                server.shared.hold(&self.holder, folder);
                wanted.push(server);
            }
            let before = match wanted.is_empty() {
                true => servers.by_holder.remove(&self.holder),
                false => servers.by_holder.insert(self.holder.clone(), wanted.clone()),
            };
            for server in before.unwrap_or_default() {
                let is_kept = wanted.iter().any(|kept| kept.is(&server));
                if !is_kept && server.shared.release(&self.holder) {
                    servers.by_definition.remove(server.definition());
                    servers.retire(&server);
                    unwanted.push(server);
                }
            }
            // One that another of its name has replaced is not reported.
            unwanted.retain(|server| wanted.iter().all(|other| other.name() != server.name()));
        }
        for server in started {
            tokio::spawn(run(server.shared.clone(), pool.connector.clone()));
        }
        for server in unwanted {
            let holders = std::slice::from_ref(&self.holder);
            pool.audience.state_changed(holders, server.name(), &State::Cancelled);
        }
    }

    /// The servers of the holder.
    pub fn servers(&self) -> Vec<Server> {
        self.view().servers()
    }

    /// The name of the holder.
    pub fn holder(&self) -> &str {
        &self.holder
    }

    /// Returns a view of the holder's servers.
    pub fn view(&self) -> HeldServers {
        HeldServers { pool: self.pool.clone(), holder: self.holder.clone() }
    }
}

impl HeldServers {
    /// The servers of the holder, while it has any.
    pub fn servers(&self) -> Vec<Server> {
        let Some(pool) = self.pool.upgrade() else { return Vec::new() };
        pool.lock().by_holder.get(&self.holder).cloned().unwrap_or_default()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(pool) = self.pool.upgrade() else { return };
        let held = pool.lock().by_holder.remove(&self.holder).unwrap_or_default();
        let idle: Vec<Server> =
            held.into_iter().filter(|server| server.shared.release(&self.holder)).collect();
        if idle.is_empty() {
            return;
        }
        let (grace, pool) = (pool.grace, self.pool.clone());
        tokio::spawn(async move {
            sleep(grace).await;
            if let Some(pool) = pool.upgrade() {
                pool.reap(idle);
            }
        });
    }
}

impl Inner {
    /// Ends those of these servers that have no holder.
    fn reap(&self, idle: Vec<Server>) {
        let mut servers = self.lock();
        for server in idle {
            let is_idle = server.shared.holders().is_empty();
            let is_listed =
                servers.by_definition.get(server.definition()).is_some_and(|one| one.is(&server));
            if is_idle && is_listed {
                servers.by_definition.remove(server.definition());
                servers.retire(&server);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Servers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let servers = self.lock();
        servers.by_definition.values().chain(&servers.retired).for_each(Server::stop);
    }
}

impl Servers {
    /// Ends a server when it is no longer in use.
    fn retire(&mut self, server: &Server) {
        server.shared.retire();
        self.retired.retain(|server| *server.shared.state.borrow() != State::Cancelled);
        self.retired.push(server.clone());
    }
}

impl Server {
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    fn stop(&self) {
        self.shared.stop();
    }
}
