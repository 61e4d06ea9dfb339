//! The MCP servers of the configuration: which a thread holds, and what those that are `required` do to
//! its start. The crate `mcp` runs them; here it gets its processes and the clients of threads.

mod audience;
mod definition;
mod launcher;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use config::Config;
use http_client::Network;
use mcp::{Held, Pool, Server};
use protocol::McpServerStartupStatusUpdated;

use crate::command_runner::CommandRunner;
use crate::connection::Peer;
use crate::direct_requests::DirectRequests;
use crate::error::Error;
use crate::loaded_threads::LoadedThreads;
use crate::options::Options;
use audience::ThreadClients;
use definition::definitions;
use launcher::SandboxLauncher;

/// How long a server runs on after the last thread that used it was unloaded.
const GRACE: Duration = Duration::from_secs(60);
/// Where the eras of servers are remembered, in the home.
const ERAS_FILE: &str = "mcp-eras.json";

/// See the module.
pub(crate) struct McpServers {
    pool: Pool,
    options: Arc<Options>,
    /// Numbers the holders that are no threads.
    guests: AtomicU64,
}

/// The servers of a loaded thread; released when the thread is unloaded.
pub(crate) struct ThreadServers {
    held: Held,
    options: Arc<Options>,
}

impl McpServers {
    pub(crate) fn new(
        options: Arc<Options>,
        runner: CommandRunner,
        network: Network,
        threads: Arc<LoadedThreads>,
        requests: Arc<DirectRequests>,
    ) -> Self {
        let pool = Pool::new(mcp::Options {
            launcher: Arc::new(SandboxLauncher::new(runner, options.clone())),
            audience: Arc::new(ThreadClients::new(threads, requests)),
            network,
            eras_file: options.home.join(ERAS_FILE),
            program: ("agentd".to_owned(), options.version.clone()),
            grace: GRACE,
        });
        Self { pool, options, guests: AtomicU64::new(0) }
    }

    /// Lets a thread use the servers of its configuration. Those that do not run are started in the
    /// background.
    pub(crate) fn of_thread(&self, thread: &str, cwd: &Path, config: &Config) -> ThreadServers {
        let definitions = definitions(config, &self.options);
        let held = self.pool.hold(thread, cwd, definitions);
        ThreadServers { held, options: self.options.clone() }
    }

    /// As [`McpServers::of_thread`], for a request that belongs to no thread.
    pub(crate) fn of_request(&self, cwd: &Path, config: &Config) -> ThreadServers {
        let number = self.guests.fetch_add(1, Ordering::Relaxed);
        // Ids of threads have no blanks.
        self.of_thread(&format!("request {number}"), cwd, config)
    }

    /// Starts the servers that are `required`, and waits for them.
    ///
    /// # Errors
    /// One of them does not start within its time limit.
    pub(crate) async fn require(&self, cwd: &Path, config: &Config) -> Result<(), Error> {
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

    /// The servers of a loaded thread.
    pub(crate) fn servers(&self, thread: &str) -> Vec<Server> {
        self.pool.servers(thread)
    }

    /// Starts failed servers again.
    pub(crate) fn retry_failed(&self) {
        self.pool.retry_failed();
    }

    /// Ends all servers.
    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }
}

impl ThreadServers {
    /// Takes over a changed configuration or folder.
    pub(crate) fn update(&self, cwd: &Path, config: &Config) {
        self.held.update(cwd, definitions(config, &self.options));
    }

    pub(crate) fn servers(&self) -> Vec<Server> {
        self.held.servers()
    }

    /// Sends a client the present state of each server.
    pub(crate) fn show_states(&self, peer: &Peer) {
        for server in self.servers() {
            let params = audience::status(server.name(), &server.state());
            peer.notify::<McpServerStartupStatusUpdated>(&params);
        }
    }
}
