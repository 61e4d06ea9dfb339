//! A client of a server in this process, over the public protocol: the handshake, typed calls, and one
//! turn at a time. It displays nothing: its caller observes.

use std::io;
use std::path::PathBuf;

use agentd_embed::decline;
use anyhow::{Context, anyhow, bail};
use jsonrpc::{
    CallError, Client, Connection, ErrorObject, Event, Events, Method, Notification, code,
};
use protocol::{
    ClientInfo, Empty, InitializeCapabilities, InitializeParams, InitializeResponse,
    ThreadResumeParams, Turn, TurnCompletedNotification, TurnInterruptParams, TurnStartParams,
    UserInput,
};
use serde_json::Value;
use serde_json::value::RawValue;
use server::{Options, Server};
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
#[cfg(not(unix))]
use tokio::signal::windows::{CtrlBreak as Signal, CtrlC, ctrl_break, ctrl_c};
use tokio::task::JoinHandle;

use crate::commands::Invalid;
use crate::environment::Environment;
use crate::log;

/// A server and the one connection to it.
pub(crate) struct LocalServer {
    /// The response to `initialize`.
    pub(crate) opened: InitializeResponse,
    /// The working folder.
    pub(crate) cwd: PathBuf,
    client: Client,
    events: Events,
    serving: JoinHandle<()>,
    completed: Option<Turn>,
}

/// The answer to a request of the server's.
pub(crate) type Answer = Result<Value, ErrorObject>;

/// Receives the messages of the server during a call or a turn. An error of either function ends
/// the call or the turn.
pub(crate) trait Observer {
    /// Handles a notification.
    fn notified(&mut self, method: &str, params: &RawValue) -> io::Result<()>;

    /// Answers a request of the server.
    async fn asked(&mut self, method: &str, params: &RawValue) -> io::Result<Answer>;
}

/// Ignores notifications, and declines what it is asked.
pub(crate) struct Quiet;

impl Observer for Quiet {
    fn notified(&mut self, _: &str, _: &RawValue) -> io::Result<()> {
        Ok(())
    }

    async fn asked(&mut self, method: &str, _: &RawValue) -> io::Result<Answer> {
        Ok(decline(method))
    }
}

/// The end of a turn.
pub(crate) enum TurnEnd {
    /// By itself.
    Turn(Turn),
    /// After a signal, with its exit code.
    Interrupted(u8),
    /// By a second signal, without waiting. The next start closes the turn.
    AtOnce(u8),
}

impl LocalServer {
    /// Starts a server, connects to it and completes the handshake. `source` is what threads are
    /// listed as (specification: `sourceKinds`).
    ///
    /// # Errors
    /// When the agent's home cannot be used.
    pub(crate) async fn start(environment: Environment, source: &str) -> anyhow::Result<Self> {
        Self::start_with(environment, source, None).await
    }

    /// As [`LocalServer::start`], with the experimental part of the protocol.
    ///
    /// # Errors
    /// As for [`LocalServer::start`].
    pub(crate) async fn start_experimental(
        environment: Environment,
        source: &str,
    ) -> anyhow::Result<Self> {
        let experimental =
            InitializeCapabilities { experimental_api: true, ..InitializeCapabilities::default() };
        Self::start_with(environment, source, Some(experimental)).await
    }

    async fn start_with(
        environment: Environment,
        source: &str,
        capabilities: Option<InitializeCapabilities>,
    ) -> anyhow::Result<Self> {
        let sandbox = environment.sandbox();
        let log_file = log::to_file(&environment)?;
        let cwd = environment.cwd.clone();
        let options = Options { log_file, ..environment.options(source) };
        let server = Server::start(options, sandbox)?;
        let limits = server::connection_limits();
        let (ours, theirs) = Connection::pair(limits);
        let serving = tokio::spawn(async move { server.serve_only(theirs).await });
        let (client, events) = Client::new(ours, &limits);
        let hello = InitializeParams {
            client_info: ClientInfo {
                name: format!("agentd_{source}"),
                title: None,
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            capabilities,
        };
        let opened = client.request::<protocol::Initialize>(&hello).await?;
        client.notify::<protocol::Initialized>(&Empty {})?;
        Ok(Self { opened, cwd, client, events, serving, completed: None })
    }

    /// Calls a method; what the server sends before its response goes to the observer.
    ///
    /// # Errors
    /// The server's refusal, which is [`Invalid`] for bad parameters, or the observer's.
    pub(crate) async fn call<M: Method>(
        &mut self,
        params: &M::Params,
        observer: &mut impl Observer,
    ) -> anyhow::Result<M::Result> {
        let client = self.client.clone();
        let mut call = std::pin::pin!(client.request_with_position::<M>(params));
        let (result, position) = loop {
            // The response first: later notifications are for the next call.
            tokio::select! {
                biased;
                response = &mut call => break response,
                Some(event) = self.events.next() => self.take(event, observer).await?,
            }
        };
        while let Some(event) = self.events.try_next_before(position) {
            self.take(event, observer).await?;
        }
        result.map_err(|error| refused(M::NAME, error))
    }

    /// Runs a turn to its end. The first signal interrupts it.
    ///
    /// # Errors
    /// The server's refusal, or the observer's.
    pub(crate) async fn turn(
        &mut self,
        params: &TurnStartParams,
        observer: &mut impl Observer,
        signals: &mut Signals,
    ) -> anyhow::Result<TurnEnd> {
        let turn = self.call::<protocol::TurnStart>(params, observer).await?.turn;
        self.turn_end(params.thread_id.clone(), turn, observer, signals).await
    }

    /// Waits for the end of a turn that was started. The first signal interrupts it.
    ///
    /// # Errors
    /// Those of the observer.
    pub(crate) async fn turn_end(
        &mut self,
        thread_id: String,
        turn: Turn,
        observer: &mut impl Observer,
        signals: &mut Signals,
    ) -> anyhow::Result<TurnEnd> {
        let interrupt = TurnInterruptParams { thread_id, turn_id: turn.id.clone() };
        let client = self.client.clone();
        let stop = || {
            let (client, interrupt) = (client.clone(), interrupt.clone());
            // An error means that the turn has just ended.
            tokio::spawn(
                async move { client.request::<protocol::TurnInterrupt>(&interrupt).await },
            );
        };
        let mut asked = None;
        loop {
            if let Some(turn) = self.completed.take_if(|completed| completed.id == turn.id) {
                return Ok(asked.map_or(TurnEnd::Turn(turn), TurnEnd::Interrupted));
            }
            let code = tokio::select! {
                biased;
                code = signals.next() => code,
                received = self.step(observer) => { received?; continue }
            };
            if asked.replace(code).is_some() {
                return Ok(TurnEnd::AtOnce(code));
            }
            stop();
        }
    }

    /// Takes what the server sends until the observer has what it waits for.
    ///
    /// # Errors
    /// Those of the observer, or the server has ended.
    pub(crate) async fn until<O: Observer>(
        &mut self,
        observer: &mut O,
        has_it: impl Fn(&O) -> bool,
    ) -> anyhow::Result<()> {
        while !has_it(observer) {
            self.step(observer).await?;
        }
        Ok(())
    }

    /// Ends the server: a running turn is interrupted and everything stored.
    pub(crate) async fn close(self) {
        let Self { client, events, serving, .. } = self;
        drop((client, events));
        // The panic hook has reported a panic of the task.
        let _ = serving.await;
    }

    /// Handles the next event. When cancelled, an open request stays unanswered; the end of the turn
    /// clears it.
    async fn step(&mut self, observer: &mut impl Observer) -> anyhow::Result<()> {
        match self.events.next().await {
            Some(event) => self.take(event, observer).await,
            None => bail!("the server stopped before the end"),
        }
    }

    async fn take(&mut self, event: Event, observer: &mut impl Observer) -> anyhow::Result<()> {
        match event {
            Event::Notification { method, params, .. } => {
                if method == protocol::TurnCompleted::NAME {
                    let received: TurnCompletedNotification = serde_json::from_str(params.get())?;
                    self.completed = Some(received.turn);
                }
                observer.notified(&method, &params)?;
            }
            Event::Request { id, method, params } => {
                let answer = observer.asked(&method, &params).await?;
                self.client.respond(&id, &answer)?;
            }
            Event::Fault(fault) => bail!("the server sent an invalid message: {fault}"),
        }
        Ok(())
    }
}

/// Parameters that start a turn and change no setting.
pub(crate) fn turn_start(thread_id: &str, input: Vec<UserInput>) -> TurnStartParams {
    TurnStartParams { thread_id: thread_id.to_owned(), input, ..TurnStartParams::default() }
}

/// Parameters that resume a thread and change no setting.
pub(crate) fn thread_resume(thread_id: &str) -> ThreadResumeParams {
    ThreadResumeParams { thread_id: thread_id.to_owned(), ..ThreadResumeParams::default() }
}

/// Catches interrupts and terminations, which then no longer end the process.
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: Signal,
    #[cfg(not(unix))]
    interrupt: CtrlC,
    terminate: Signal,
}

impl Signals {
    /// Starts to catch them.
    ///
    /// # Errors
    /// Of the operating system.
    pub(crate) fn catch() -> anyhow::Result<Self> {
        const FAILED: &str = "cannot install signal handlers";
        #[cfg(unix)]
        let (interrupt, terminate) =
            (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
        #[cfg(not(unix))]
        let (interrupt, terminate) = (ctrl_c(), ctrl_break());
        Ok(Self { interrupt: interrupt.context(FAILED)?, terminate: terminate.context(FAILED)? })
    }

    /// Waits for the next one and gives the exit code that stands for it.
    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
        }
    }
}

fn refused(method: &str, error: CallError) -> anyhow::Error {
    match error {
        // The parameters are made of the arguments and the configuration.
        CallError::Rpc(error) if error.code == code::INVALID_PARAMS => {
            Invalid::new(format!("{} ({method})", error.message)).into()
        }
        // The server's message is written for people; the method gives the place.
        CallError::Rpc(error) => anyhow!("{} ({method})", error.message),
        other => anyhow::Error::new(other).context(method.to_owned()),
    }
}
