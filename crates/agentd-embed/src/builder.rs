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

use crate::address::Route;
use crate::answers::{Answers, Texts};
use crate::link::{Connector, Way};
use crate::process::{Process, Program};
use crate::recording::{Recorder, Redactor};
use crate::replay::Replay;
use crate::setting::setting;
use crate::shared::{Settings, Shared};
use crate::{
    Access, Agent, Approval, CallContext, CallbackError, Decision, Error, Tool, blocking,
    connection_limits,
};

/// See [`Agent::builder`].
#[must_use]
pub struct AgentBuilder {
    address: Option<String>,
    access: Access,
    program: Program,
    /// The first of the configuration that is invalid.
    invalid: Option<Error>,
    defaults: ThreadStartParams,
    answers: Answers,
    client_name: String,
    capabilities: InitializeCapabilities,
    connector: Option<Connector>,
    start_timeout: Duration,
    reconnect_timeout: Duration,
    overload_retries: u32,
    record: Option<PathBuf>,
    replay: Option<PathBuf>,
    recorder: Option<Arc<Recorder>>,
}

impl Default for AgentBuilder {
    fn default() -> Self {
        Self {
            address: None,
            access: Access::default(),
            program: Program::default(),
            invalid: None,
            defaults: ThreadStartParams::default(),
            answers: Answers::default(),
            client_name: "agentd-embed-rust".to_owned(),
            capabilities: InitializeCapabilities::default(),
            connector: None,
            start_timeout: Duration::from_secs(60),
            reconnect_timeout: Duration::from_secs(60),
            overload_retries: 5,
            record: None,
            replay: None,
            recorder: None,
        }
    }
}

impl AgentBuilder {
    /// Connects to a server that runs, at `unix:///PATH`, `ws://HOST:PORT` or `wss://HOST/PATH`, instead of starting
    /// one. A lost connection is made again, and turns go on with nothing lost or doubled.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// The token for that server. It is not sent to another machine without TLS
    /// ([`AgentBuilder::allow_unencrypted_token`]).
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.access = self.access.token(token);
        self
    }

    /// A PEM file with certificates of authorities that are trusted besides those of the operating system, for
    /// `wss://`. It is read at the start.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.access = self.access.ca_file(path);
        self
    }

    /// Sends the token to another machine without TLS, too: for networks that no stranger can read.
    pub fn allow_unencrypted_token(mut self, is_allowed: bool) -> Self {
        self.access = self.access.allow_unencrypted_token(is_allowed);
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

    /// Decides about what the agent asks to be allowed. Without it everything is declined. The future is dropped when
    /// the answer is no longer wanted.
    pub fn approve<F, W, D>(self, decide: F) -> Self
    where
        F: Fn(Approval) -> W + Send + Sync + 'static,
        W: Future<Output = D> + Send + 'static,
        D: Into<Decision>,
    {
        self.approve_in(move |approval, _| decide(approval))
    }

    /// As [`AgentBuilder::approve`], for a function that learns whom it decides for.
    pub fn approve_in<F, W, D>(mut self, decide: F) -> Self
    where
        F: Fn(Approval, CallContext) -> W + Send + Sync + 'static,
        W: Future<Output = D> + Send + 'static,
        D: Into<Decision>,
    {
        self.answers.approve = Some(Box::new(move |approval, context| {
            let deciding = decide(approval, context);
            Box::pin(async move { Ok(deciding.await.into()) })
        }));
        self
    }

    /// As [`AgentBuilder::approve_in`], for a function that blocks: each call has a thread of its own, up to 512 at
    /// once.
    pub fn approve_blocking<F, D>(mut self, decide: F) -> Self
    where
        F: Fn(Approval, CallContext) -> D + Send + Sync + 'static,
        D: Into<Decision>,
    {
        let decide = Arc::new(decide);
        self.answers.approve = Some(Box::new(move |approval, context| {
            let decide = decide.clone();
            Box::pin(blocking::run(context, move |context| decide(approval, context).into()))
        }));
        self
    }

    /// Answers questions of the agent: texts by the id of the question. Without it every question is skipped.
    pub fn ask<F, W>(self, answer: F) -> Self
    where
        F: Fn(ToolRequestUserInputParams) -> W + Send + Sync + 'static,
        W: Future<Output = Texts> + Send + 'static,
    {
        self.ask_in(move |questions, _| answer(questions))
    }

    /// As [`AgentBuilder::ask`], for a function that learns whom it answers for.
    pub fn ask_in<F, W>(mut self, answer: F) -> Self
    where
        F: Fn(ToolRequestUserInputParams, CallContext) -> W + Send + Sync + 'static,
        W: Future<Output = Texts> + Send + 'static,
    {
        self.answers.ask = Some(Box::new(move |questions, context| {
            let answering = answer(questions, context);
            Box::pin(async move { Ok(answering.await) })
        }));
        self
    }

    /// Answers MCP servers. Without it everything is declined.
    pub fn elicit<F, W>(self, answer: F) -> Self
    where
        F: Fn(McpServerElicitationRequestParams) -> W + Send + Sync + 'static,
        W: Future<Output = McpServerElicitationRequestResponse> + Send + 'static,
    {
        self.elicit_in(move |request, _| answer(request))
    }

    /// As [`AgentBuilder::elicit`], for a function that learns whom it answers for.
    pub fn elicit_in<F, W>(mut self, answer: F) -> Self
    where
        F: Fn(McpServerElicitationRequestParams, CallContext) -> W + Send + Sync + 'static,
        W: Future<Output = McpServerElicitationRequestResponse> + Send + 'static,
    {
        self.answers.elicit = Some(Box::new(move |request, context| {
            let answering = answer(request, context);
            Box::pin(async move { Ok(answering.await) })
        }));
        self
    }

    /// Learns of every failure of a callback or a tool, after it was logged (by `tracing`). It is called in the task of
    /// the callback, and must return soon.
    pub fn on_error<F>(mut self, learn: F) -> Self
    where
        F: Fn(&CallbackError, &CallContext) + Send + Sync + 'static,
    {
        self.answers.on_error = Some(Box::new(learn));
        self
    }

    /// Sends the model every error of a tool, not only a [`crate::ToolError`]. It may hold secrets.
    pub fn send_tool_errors(mut self, sends: bool) -> Self {
        self.answers.sends_tool_errors = sends;
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

    /// Connects in the program's own way, each time again: through a tunnel, say. A lost connection is made again.
    pub fn connector<F, W>(mut self, connect: F) -> Self
    where
        F: Fn() -> W + Send + Sync + 'static,
        W: Future<Output = Result<Connection, Error>> + Send + 'static,
    {
        self.connector = Some(Box::new(move || Box::pin(connect())));
        self
    }

    /// Time in which a lost connection is made again to a server that outlives it; a minute by default. With zero it
    /// is not.
    pub fn reconnect_timeout(mut self, limit: Duration) -> Self {
        self.reconnect_timeout = limit;
        self
    }

    /// Sets the number of times that a request is sent again that the server refused because it has too much to do; 5 by
    /// default. The
    /// delay between two attempts grows.
    pub fn overload_retries(mut self, times: u32) -> Self {
        self.overload_retries = times;
        self
    }

    /// Capabilities besides those that the SDK asks for itself, such as notifications to leave out.
    pub fn capabilities(mut self, capabilities: InitializeCapabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Writes all messages of the session to a file, with losses of its connection, to play it again without a server:
    /// [`AgentBuilder::replay`]. The token, values of members such as `env` and `apiKey`, and values of variables of
    /// [`AgentBuilder::env`] whose names say that they are secrets are not in it. Whatever else the session holds is.
    /// The file is that of the other SDKs, too.
    ///
    /// Each message is written before it goes on, by the task that sends or reads it: this is for tests.
    pub fn record(mut self, path: impl Into<PathBuf>) -> Self {
        self.record = Some(path.into());
        self
    }

    /// Plays a recorded session, without a server: what else says which server to use has no effect. The program has to
    /// send the same messages again; the first one that differs ends the agent with [`Error::ReplayMismatch`].
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), agentd_embed::Error> {
    /// use agentd_embed::Agent;
    ///
    /// let agent = Agent::builder().replay("tests/session.jsonl").start().await?;
    /// assert_eq!(agent.run("What does this project do?").await?.text, "It embeds an agent.");
    /// # Ok(())
    /// # }
    /// ```
    pub fn replay(mut self, path: impl Into<PathBuf>) -> Self {
        self.replay = Some(path.into());
        self
    }

    /// Starts the server or connects to it, and completes the handshake. Must be called within a tokio
    /// runtime with time and I/O. When the future is dropped, or the time is over, a server that was started
    /// is killed.
    ///
    /// # Errors
    /// [`Error::ProgramNotFound`], [`Error::FolderNotFound`], [`Error::InvalidConfig`],
    /// [`Error::InvalidAddress`], [`Error::InvalidToken`], [`Error::InvalidArgument`], [`Error::ConnectionLost`],
    /// [`Error::VersionMismatch`] and [`Error::ReplayMismatch`].
    pub async fn start(mut self) -> Result<Agent, Error> {
        let began = Instant::now();
        if let Some(invalid) = self.invalid.take() {
            return Err(invalid);
        }
        let limits = connection_limits();
        let redactor = self.redactor();
        if let Some(path) = self.replay.take() {
            if self.record.is_some() {
                let why =
                    "a session is either recorded or replayed: leave `record` or `replay` out";
                return Err(Error::InvalidArgument(why.to_owned()));
            }
            let replay = Replay::read(path, redactor).await?;
            let connection = replay.open()?;
            return self.open(Way::Replay(replay), connection, None, began).await;
        }
        let is_lasting = self.address.is_some() || self.connector.is_some();
        self.begin_recording(redactor, is_lasting).await?;
        let way = match (self.address.take(), self.connector.take()) {
            (None, None) => {
                let (process, connection) = std::mem::take(&mut self.program).start(limits)?;
                return self.open(Way::Once, connection, Some(process), began).await;
            }
            (_, Some(connector)) => Way::Connector(connector),
            (Some(address), None) => {
                let access = std::mem::take(&mut self.access);
                Way::Address(Route::new(address.parse()?, access).await?)
            }
        };
        let limit = self.start_timeout;
        let late = |_| Error::lost(format!("there was no connection within {limit:?}"));
        let connection = timeout(limit, way.open()).await.map_err(late)??;
        self.open(way, connection, None, began).await
    }

    /// As [`AgentBuilder::start`], over a connection that is there: to a server in this process, say. It is not made
    /// again when it is lost.
    ///
    /// # Errors
    /// [`Error::ConnectionLost`], [`Error::VersionMismatch`] and [`Error::InvalidArgument`].
    pub async fn over(mut self, connection: Connection) -> Result<Agent, Error> {
        if self.replay.is_some() {
            let why = "`replay` has a connection of its own: use `start`";
            return Err(Error::InvalidArgument(why.to_owned()));
        }
        let redactor = self.redactor();
        self.begin_recording(redactor, false).await?;
        self.open(Way::Once, connection, None, Instant::now()).await
    }

    /// Takes the secrets of these settings out of messages.
    fn redactor(&self) -> Redactor {
        Redactor::new(self.access.secret(), &self.program.variables)
    }

    async fn begin_recording(&mut self, redactor: Redactor, is_lasting: bool) -> Result<(), Error> {
        if let Some(path) = self.record.take() {
            self.recorder = Some(Recorder::create(path, redactor, is_lasting).await?);
        }
        Ok(())
    }

    async fn open(
        mut self,
        way: Way,
        connection: Connection,
        process: Option<Process>,
        began: Instant,
    ) -> Result<Agent, Error> {
        let capabilities = capabilities(self.capabilities)?;
        if !self.answers.tools.is_empty() {
            let specs = self.answers.tools.iter().map(|tool| tool.spec.clone());
            self.defaults.dynamic_tools = Some(specs.collect());
        }
        let hello = InitializeParams {
            client_info: ClientInfo {
                name: self.client_name,
                title: None,
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            capabilities: Some(capabilities),
        };
        let settings = Settings {
            start_timeout: self.start_timeout,
            reconnect_timeout: self.reconnect_timeout,
            overload_retries: self.overload_retries,
        };
        let shared = Shared::new((way, self.recorder), hello, settings, self.answers);
        let opening = Opening(Some(shared.clone()));
        let link = shared.attach(connection, process);
        let left = || self.start_timeout.saturating_sub(began.elapsed());
        match timeout(left(), link.shake_hands(&shared.hello)).await {
            Ok(Ok(server)) => {
                opening.done();
                shared.opened(&link);
                Ok(Agent::new(shared, server, self.defaults))
            }
            Ok(Err(error)) => {
                shared.close();
                // A server that does not end in time is killed with `opening`.
                let _ = timeout(left(), shared.ended()).await;
                Err(error)
            }
            Err(_) => {
                let why = format!("the handshake took longer than {:?}", self.start_timeout);
                Err(shared.finish(Error::lost(why)))
            }
        }
    }
}

/// Notifications without which a turn has no events or no end.
const NEEDED: [&str; 8] = [
    "turn/started",
    "turn/completed",
    "item/started",
    "item/completed",
    "item/agentMessage/delta",
    "serverRequest/resolved",
    "thread/tokenUsage/updated",
    "error",
];

/// The application's capabilities with those of the SDK.
fn capabilities(asked: InitializeCapabilities) -> Result<InitializeCapabilities, Error> {
    let opted_out = asked.opt_out_notification_methods.iter().flatten();
    if let Some(needed) = opted_out.into_iter().find(|method| NEEDED.contains(&method.as_str())) {
        return Err(Error::InvalidArgument(format!(
            "`capabilities` opts out of `{needed}`, without which turns cannot be followed"
        )));
    }
    // Tools of the client, questions of the agent, positions of events, and costs.
    Ok(InitializeCapabilities {
        experimental_api: true,
        event_cursor: true,
        token_cost: true,
        ..asked
    })
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
