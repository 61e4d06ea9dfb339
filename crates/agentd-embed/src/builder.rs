//! The settings of an agent.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jsonrpc::Connection;
use protocol::{
    ClientInfo, InitializeCapabilities, InitializeParams, McpServerElicitationRequestParams,
    McpServerElicitationRequestResponse, ThreadStartParams, ToolRequestUserInputParams,
};
use serde_json::Value;
use tokio::time::timeout;

use crate::answers::{Answers, Texts};
use crate::process::{Process, Program};
use crate::setting::setting;
use crate::shared::Shared;
use crate::{Agent, Approval, Decision, Error, ServerAddress, Tool, connection_limits};

/// See [`Agent::builder`].
#[must_use]
pub struct AgentBuilder {
    address: Option<String>,
    token: Option<String>,
    program: Program,
    /// The first of the configuration that is invalid.
    invalid: Option<Error>,
    defaults: ThreadStartParams,
    answers: Answers,
    client_name: String,
    start_timeout: Duration,
}

impl Default for AgentBuilder {
    fn default() -> Self {
        Self {
            address: None,
            token: None,
            program: Program::default(),
            invalid: None,
            defaults: ThreadStartParams::default(),
            answers: Answers::default(),
            client_name: "agentd-embed-rust".to_owned(),
            start_timeout: Duration::from_secs(60),
        }
    }
}

impl AgentBuilder {
    /// Connects to a server that runs, at `unix://PATH` or `ws://HOST:PORT`, instead of starting one.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// The token for that server.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// The program to start, in place of the one that `AGENTD_PATH` names, or `agentd` in `PATH`.
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program.path = Some(path.into());
        self
    }

    /// Sets a variable in the environment of the server that is started.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.program.variables.push((name.into(), value.into()));
        self
    }

    /// Sets a key of the configuration of the server that is started, by its dotted name. A value that TOML
    /// does not have, such as null, is an error of [`AgentBuilder::start`].
    pub fn config(mut self, key: &str, value: impl Into<Value>) -> Self {
        match setting(key, &value.into()) {
            Ok(setting) => self.program.arguments.extend(["-c".into(), setting.into()]),
            Err(error) => self.invalid = self.invalid.or(Some(error)),
        }
        self
    }

    /// The working folder of new threads, and of the server that is started.
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        self.defaults.cwd = Some(folder.to_string_lossy().into_owned());
        self.program.cwd = Some(folder);
        self
    }

    /// The model of new threads.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.defaults.model = Some(model.into());
        self
    }

    /// Uses the model that needs no key and no network, for tests: `demo` if [`AgentBuilder::model`] names
    /// no other.
    pub fn offline(mut self) -> Self {
        self.defaults.model_provider = Some("offline".to_owned());
        self.defaults.model.get_or_insert_with(|| "demo".to_owned());
        self
    }

    /// Decides about what the agent asks to be allowed. Without it everything is declined.
    pub fn approve<F, W, D>(mut self, decide: F) -> Self
    where
        F: Fn(Approval) -> W + Send + Sync + 'static,
        W: Future<Output = D> + Send + 'static,
        D: Into<Decision>,
    {
        self.answers.approve = Some(Box::new(move |approval| {
            let deciding = decide(approval);
            Box::pin(async move { deciding.await.into() })
        }));
        self
    }

    /// Answers questions of the agent: texts by the id of the question. Without it every question is skipped.
    pub fn ask<F, W>(mut self, answer: F) -> Self
    where
        F: Fn(ToolRequestUserInputParams) -> W + Send + Sync + 'static,
        W: Future<Output = Texts> + Send + 'static,
    {
        self.answers.ask = Some(Box::new(move |questions| Box::pin(answer(questions))));
        self
    }

    /// Answers MCP servers. Without it everything is declined.
    pub fn elicit<F, W>(mut self, answer: F) -> Self
    where
        F: Fn(McpServerElicitationRequestParams) -> W + Send + Sync + 'static,
        W: Future<Output = McpServerElicitationRequestResponse> + Send + 'static,
    {
        self.answers.elicit = Some(Box::new(move |request| Box::pin(answer(request))));
        self
    }

    /// Adds a function that the model of new threads can call.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.answers.tools.push(tool);
        self
    }

    /// Sets the name by which the server knows this program; it must be valid in an HTTP header.
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.client_name = name.into();
        self
    }

    /// Time for a server to complete the handshake; a minute by default.
    pub fn start_timeout(mut self, limit: Duration) -> Self {
        self.start_timeout = limit;
        self
    }

    /// Starts the server or connects to it, and completes the handshake. Must be called within a tokio
    /// runtime with time and I/O. When the future is dropped, or the time is over, a server that was started
    /// is killed.
    ///
    /// # Errors
    /// [`Error::ProgramNotFound`], [`Error::FolderNotFound`], [`Error::InvalidConfig`],
    /// [`Error::InvalidAddress`], [`Error::InvalidToken`], [`Error::ConnectionLost`] and
    /// [`Error::VersionMismatch`].
    pub async fn start(mut self) -> Result<Agent, Error> {
        let began = Instant::now();
        if let Some(invalid) = self.invalid.take() {
            return Err(invalid);
        }
        let limits = connection_limits();
        if let Some(address) = self.address.take() {
            let address: ServerAddress = address.parse()?;
            let connecting = address.connect(self.token.as_deref(), limits);
            let limit = self.start_timeout;
            let late =
                |_| Error::ConnectionLost(format!("there was no connection within {limit:?}"));
            let connected = timeout(limit, connecting).await.map_err(late)??;
            return self.open(connected, None, began).await;
        }
        let (process, connection) = std::mem::take(&mut self.program).start(limits)?;
        self.open(connection, Some(process), began).await
    }

    /// As [`AgentBuilder::start`], over a connection that is there: to a server in this process, say.
    ///
    /// # Errors
    /// [`Error::ConnectionLost`] and [`Error::VersionMismatch`].
    pub async fn over(self, connection: Connection) -> Result<Agent, Error> {
        self.open(connection, None, Instant::now()).await
    }

    async fn open(
        mut self,
        connection: Connection,
        process: Option<Process>,
        began: Instant,
    ) -> Result<Agent, Error> {
        if !self.answers.tools.is_empty() {
            let specs = self.answers.tools.iter().map(|tool| tool.spec.clone());
            self.defaults.dynamic_tools = Some(specs.collect());
        }
        let shared = Shared::new(connection, &connection_limits(), self.answers, process);
        let opening = Opening(Some(shared.clone()));
        let left = || self.start_timeout.saturating_sub(began.elapsed());
        let hello = InitializeParams {
            client_info: ClientInfo {
                name: self.client_name,
                title: None,
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            capabilities: Some(InitializeCapabilities {
                // Tools of the client and questions of the agent.
                experimental_api: true,
                ..InitializeCapabilities::default()
            }),
        };
        match timeout(left(), shared.shake_hands(&hello)).await {
            Ok(Ok(server)) => {
                opening.done();
                Ok(Agent::new(shared, server, self.defaults))
            }
            Ok(Err(error)) => {
                shared.close();
                // A server that does not end in time is killed with `opening`.
                let _ = timeout(left(), shared.ended()).await;
                Err(error)
            }
            Err(_) => {
                let message = format!("the handshake took longer than {:?}", self.start_timeout);
                Err(shared.give_up(Error::ConnectionLost(message)))
            }
        }
    }
}

/// A connection that no agent has yet. Dropping it ends the connection and a server that was started: the
/// task that reads would keep both.
struct Opening(Option<Arc<Shared>>);

impl Opening {
    fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.abandon();
        }
    }
}
