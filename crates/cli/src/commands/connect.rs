//! The way to a server: one that this process starts, or one that runs elsewhere.

use std::path::PathBuf;
use std::time::Duration;

use agentd_embed::{Access, ServerAddress};
use anyhow::Context;
use jsonrpc::Connection;
use logging::LogFile;
use server::{Options as ServerOptions, Server};
use tokio::task::JoinHandle;

use crate::commands::Invalid;
use crate::environment::Environment;
use crate::log;

/// Time limit of a connection.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Which server to use.
#[derive(clap::Args)]
pub(crate) struct ConnectArguments {
    /// Use a running server: `unix://PATH`, `ws://HOST:PORT` or `wss://HOST`
    #[arg(long, value_name = "ADDRESS")]
    connect: Option<String>,
    /// The file with the token of that server
    #[arg(long, value_name = "FILE", requires = "connect")]
    token_file: Option<PathBuf>,
}

impl ConnectArguments {
    /// Returns whether anything was given.
    pub(crate) fn are_given(&self) -> bool {
        self.connect.is_some() || self.token_file.is_some()
    }

    /// The server elsewhere; `None` for one in this process.
    ///
    /// # Errors
    /// The address or the token cannot be used.
    pub(crate) fn remote(&self) -> anyhow::Result<Option<Remote>> {
        let Some(address) = &self.connect else { return Ok(None) };
        Remote::new(address, self.token_file.as_ref()).map(Some)
    }
}

/// A server in this process, and the one connection to it.
pub(crate) struct Serving {
    /// When it is closed, the server ends.
    pub(crate) connection: Connection,
    /// Ends when everything is stored.
    pub(crate) task: JoinHandle<()>,
    /// Where it logs.
    pub(crate) log: LogFile,
}

/// Starts a server in this process. `source` is what its threads are listed as.
pub(crate) fn serve(environment: Environment, source: &str) -> anyhow::Result<Serving> {
    let sandbox = environment.sandbox();
    let log_file = log::to_file(&environment)?;
    let options = ServerOptions { log_file: log_file.clone(), ..environment.options(source) };
    let server = Server::start(options, sandbox)?;
    let (connection, theirs) = Connection::pair(server::connection_limits());
    let task = tokio::spawn(async move { server.serve_only(theirs).await });
    Ok(Serving { connection, task, log: log_file })
}

/// A server that runs elsewhere.
#[derive(Clone)]
pub(crate) struct Remote {
    address: ServerAddress,
    access: Access,
}

impl Remote {
    fn new(address: &str, token_file: Option<&PathBuf>) -> anyhow::Result<Self> {
        let token = token_file.map(|file| {
            // The error names the file.
            let token = files::read_text(file, 64 << 10).context("--token-file")?;
            anyhow::Ok(token.trim().to_owned())
        });
        let token = token.transpose().map_err(Invalid::from)?;
        let address =
            address.parse().map_err(|error| Invalid::new(format!("--connect: {error}")))?;
        // The user names a server, and the file for it.
        let access = Access::default().allow_unencrypted_token(true);
        let access = match token {
            Some(token) => access.token(token),
            None => access,
        };
        Ok(Self { address, access })
    }

    /// Connects once.
    ///
    /// # Errors
    /// There is no server, or none that answers in time.
    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        let connecting = self.address.connect(&self.access, server::connection_limits());
        let connected = tokio::time::timeout(TIMEOUT, connecting).await;
        let late = || format!("no connection within {} seconds", TIMEOUT.as_secs());
        Ok(connected.with_context(late)??)
    }
}
