//! One turn, in a task of its own: it opens a connection to the server, starts or resumes the thread,
//! passes on what happens, and interrupts the turn when its call is dropped.

use std::collections::HashMap;
use std::time::Duration;

use jsonrpc::{CallError, Client, Connection, Event, Events, Method, Notification, RequestId};
use protocol::{
    ClientInfo, ConfigWarningNotification, Empty, FileUpdateChange, InitializeCapabilities,
    InitializeParams, ItemCompletedNotification, ItemStartedNotification,
    ServerRequestResolvedNotification, ThreadItem, ThreadResumeParams, ThreadStartParams, Turn,
    TurnCompletedNotification, TurnInterruptParams, UserInput,
};
use rmcp::model::ElicitRequestParams;
use serde::de::DeserializeOwned;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::agent::{Agent, Claim};
use crate::outcome::{Outcome, Status};
use crate::progress;
use crate::question::{self, Question, Reply, Unanswerable};

/// Steps that wait to be reported; further ones are not reported.
const MAX_PROGRESS: usize = 64;
/// Questions that wait to be asked; a further one is declined.
const MAX_EVENTS: usize = 64;
/// Warnings that a result lists.
const MAX_WARNINGS: usize = 20;
/// Time for an interrupted turn to end.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Notifications that nothing here reads.
const UNREAD: [&str; 6] = [
    protocol::ItemAgentMessageDelta::NAME,
    protocol::ItemPlanDelta::NAME,
    protocol::ItemReasoningSummaryTextDelta::NAME,
    protocol::ItemReasoningTextDelta::NAME,
    protocol::ItemCommandExecutionOutputDelta::NAME,
    protocol::TurnDiffUpdated::NAME,
];

/// The task of a call.
#[derive(Debug)]
pub(crate) enum Task {
    Start { params: Box<ThreadStartParams>, prompt: String },
    Continue { thread_id: String, prompt: String },
}

/// A question for the client's user.
pub(crate) struct Ask {
    pub(crate) id: u64,
    pub(crate) form: ElicitRequestParams,
}

/// An event that the call must react to.
pub(crate) enum TurnEvent {
    Ask(Box<Ask>),
    /// The question no longer needs an answer.
    Resolved(u64),
    Ended(Box<Outcome>),
}

/// The call's side. Dropping it interrupts the turn.
pub(crate) struct RunningTurn {
    pub(crate) progress: mpsc::Receiver<String>,
    pub(crate) events: mpsc::Receiver<TurnEvent>,
    replies: mpsc::UnboundedSender<(u64, Reply)>,
    cancel: CancellationToken,
    _cancel_on_drop: DropGuard,
}

impl RunningTurn {
    /// Answers a question.
    pub(crate) fn reply(&self, id: u64, reply: Reply) {
        // Fails when the turn has ended, which its last event says.
        let _ = self.replies.send((id, reply));
    }

    /// Interrupts the turn; its end follows.
    pub(crate) fn interrupt(&self) {
        self.cancel.cancel();
    }
}

/// The turn's side.
pub(crate) struct Links {
    progress: mpsc::Sender<String>,
    events: mpsc::Sender<TurnEvent>,
    /// One entry for each question at most: bounded by the questions.
    replies: mpsc::UnboundedReceiver<(u64, Reply)>,
    cancelled: CancellationToken,
}

/// Makes both sides. Cancelling `cancel` interrupts the turn.
pub(crate) fn link(cancel: CancellationToken) -> (Links, RunningTurn) {
    let (progress, progress_receiver) = mpsc::channel(MAX_PROGRESS);
    let (events, event_receiver) = mpsc::channel(MAX_EVENTS);
    let (reply_sender, replies) = mpsc::unbounded_channel();
    let links = Links { progress, events, replies, cancelled: cancel.clone() };
    let turn = RunningTurn {
        progress: progress_receiver,
        events: event_receiver,
        replies: reply_sender,
        cancel: cancel.clone(),
        _cancel_on_drop: cancel.drop_guard(),
    };
    (links, turn)
}

/// Runs the turn to its end, and reports it.
pub(crate) async fn run(agent: Agent, task: Task, mut claim: Claim, links: Links) {
    let ended = links.events.clone();
    let mut running = Running {
        links,
        thread_id: String::new(),
        completed: None,
        outcome: Outcome::default(),
        questions: HashMap::new(),
        next_question: 0,
        changes: HashMap::new(),
    };
    if let Err(error) = running.drive(&agent, task, &mut claim).await {
        running.outcome.status = Status::Failed;
        running.outcome.error = Some(error);
    }
    // The thread is free before its caller hears of the end and continues it.
    drop(claim);
    // Fails when the call was cancelled: its result is not read.
    let _ = ended.send(TurnEvent::Ended(Box::new(running.outcome))).await;
}

struct Running {
    links: Links,
    thread_id: String,
    completed: Option<Turn>,
    outcome: Outcome,
    questions: HashMap<u64, (RequestId, Question)>,
    next_question: u64,
    /// The changes of items in progress, for the requests that ask for their approval.
    changes: HashMap<String, Vec<FileUpdateChange>>,
}

/// A connection to the server in this process.
struct Link {
    client: Client,
    events: Events,
}

impl Running {
    /// # Errors
    /// Why there was no turn, or why its end is unknown.
    async fn drive(&mut self, agent: &Agent, task: Task, claim: &mut Claim) -> Result<(), String> {
        let cancelled = self.links.cancelled.clone();
        let mut link = Link::open(agent).await?;
        let prompt = tokio::select! {
            opened = self.open(&mut link, task, claim) => opened?,
            () = cancelled.cancelled() => return Ok(()),
        };
        let input = UserInput::Text { text: prompt, text_elements: Vec::new() };
        let params =
            serde_json::from_value(json!({ "threadId": self.thread_id, "input": [input] }))
                .map_err(|error| format!("turn/start: {error}"))?;
        let turn = self.call::<protocol::TurnStart>(&mut link, &params).await?.turn;
        self.wait(&mut link, turn).await
    }

    /// Starts or resumes the thread; returns the prompt.
    async fn open(
        &mut self,
        link: &mut Link,
        task: Task,
        claim: &mut Claim,
    ) -> Result<String, String> {
        let (thread_id, prompt) = match task {
            Task::Start { params, prompt } => {
                let started = self.call::<protocol::ThreadStart>(link, &params).await?;
                claim.take(&started.thread.id)?;
                (started.thread.id, prompt)
            }
            Task::Continue { thread_id, prompt } => {
                let params = ThreadResumeParams {
                    thread_id: thread_id.clone(),
                    ..ThreadResumeParams::default()
                };
                self.call::<protocol::ThreadResume>(link, &params).await?;
                (thread_id, prompt)
            }
        };
        self.outcome.thread_id = Some(thread_id.clone());
        self.thread_id = thread_id;
        Ok(prompt)
    }

    /// Waits for the end of the turn. When the call is cancelled, the turn is interrupted.
    async fn wait(&mut self, link: &mut Link, turn: Turn) -> Result<(), String> {
        let cancelled = self.links.cancelled.clone();
        let interrupt =
            TurnInterruptParams { thread_id: self.thread_id.clone(), turn_id: turn.id.clone() };
        let mut deadline = None;
        loop {
            if let Some(completed) = self.completed.take_if(|completed| completed.id == turn.id) {
                self.outcome.end(completed);
                return Ok(());
            }
            let late = async move {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = link.events.next() => match event {
                    Some(event) => self.take(link, event)?,
                    None => return Err("the server stopped before the end of the turn".to_owned()),
                },
                Some((id, reply)) = self.links.replies.recv() => self.answer(link, id, reply)?,
                () = cancelled.cancelled(), if deadline.is_none() => {
                    deadline = Some(tokio::time::Instant::now() + INTERRUPT_TIMEOUT);
                    let (client, params) = (link.client.clone(), interrupt.clone());
                    tokio::spawn(async move {
                        // An error means that the turn has just ended.
                        let _ = client.request::<protocol::TurnInterrupt>(&params).await;
                    });
                }
                () = late => return Ok(()),
            }
        }
    }

    /// Calls a method; what the server sends before its response is taken first.
    async fn call<M: Method>(
        &mut self,
        link: &mut Link,
        params: &M::Params,
    ) -> Result<M::Result, String> {
        let client = link.client.clone();
        let mut call = std::pin::pin!(client.request_with_position::<M>(params));
        let (result, position) = loop {
            tokio::select! {
                biased;
                response = &mut call => break response,
                Some(event) = link.events.next() => self.take(link, event)?,
            }
        };
        while let Some(event) = link.events.try_next_before(position) {
            self.take(link, event)?;
        }
        result.map_err(|error| match error {
            // The server's message is written for people; the method gives the place.
            CallError::Rpc(error) => format!("{} ({})", error.message, M::NAME),
            other => format!("{}: {other}", M::NAME),
        })
    }

    fn take(&mut self, link: &Link, event: Event) -> Result<(), String> {
        match event {
            Event::Notification { method, params, .. } => self.notified(&method, &params),
            Event::Request { id, method, params } => self.asked(link, id, &method, &params),
            Event::Fault(fault) => Err(format!("the server sent an invalid message: {fault}")),
        }
    }

    fn notified(&mut self, method: &str, params: &RawValue) -> Result<(), String> {
        match method {
            protocol::TurnCompleted::NAME => {
                let received: TurnCompletedNotification = read(method, params)?;
                self.completed = Some(received.turn);
            }
            protocol::ItemStarted::NAME => {
                let received: ItemStartedNotification = read(method, params)?;
                if received.thread_id == self.thread_id {
                    self.report(progress::started(&received.item));
                    if let ThreadItem::FileChange(change) = received.item {
                        self.changes.insert(change.id, change.changes);
                    }
                }
            }
            protocol::ItemCompleted::NAME => {
                let received: ItemCompletedNotification = read(method, params)?;
                if received.thread_id == self.thread_id {
                    self.report(progress::completed(&received.item));
                    match received.item {
                        ThreadItem::AgentMessage(message) => self.outcome.message.note(message),
                        ThreadItem::FileChange(change) => {
                            self.changes.remove(&change.id);
                        }
                        _ => {}
                    }
                }
            }
            protocol::ConfigWarning::NAME => {
                let warning: ConfigWarningNotification = read(method, params)?;
                let warnings = &mut self.outcome.warnings;
                // Those about files concern the whole server, and its log has them.
                if warning.path.is_none() && warnings.len() < MAX_WARNINGS {
                    warnings.push(match warning.details {
                        Some(details) => format!("{} ({details})", warning.summary),
                        None => warning.summary,
                    });
                }
            }
            protocol::ServerRequestResolved::NAME => {
                let received: ServerRequestResolvedNotification = read(method, params)?;
                let open = self.questions.iter().find(|(_, (id, _))| *id == received.request_id);
                if let Some(id) = open.map(|(id, _)| *id) {
                    self.questions.remove(&id);
                    // A call that misses it gets an answer that is no longer used.
                    let _ = self.links.events.try_send(TurnEvent::Resolved(id));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn report(&self, text: Option<String>) {
        if let Some(text) = text {
            // Progress is informative: a client that does not read misses some of it.
            let _ = self.links.progress.try_send(text);
        }
    }

    fn asked(
        &mut self,
        link: &Link,
        request: RequestId,
        method: &str,
        params: &RawValue,
    ) -> Result<(), String> {
        let changes = |item: &str| self.changes.get(item).cloned();
        let (question, form) = match question::read(method, params.get(), changes) {
            Ok(asked) => asked,
            Err(Unanswerable { answer, note }) => {
                self.outcome.declined.push(note);
                return respond(link, &request, &answer);
            }
        };
        let id = self.next_question;
        self.next_question += 1;
        self.questions.insert(id, (request, question));
        match self.links.events.try_send(TurnEvent::Ask(Box::new(Ask { id, form }))) {
            Ok(()) => Ok(()),
            Err(_) => {
                let why = "too many questions wait for an answer";
                self.answer(link, id, Reply::Unavailable(why.to_owned()))
            }
        }
    }

    fn answer(&mut self, link: &Link, id: u64, reply: Reply) -> Result<(), String> {
        // The question may have been resolved meanwhile.
        let Some((request, question)) = self.questions.remove(&id) else { return Ok(()) };
        let (answer, note) = question.answer(reply);
        self.outcome.declined.extend(note);
        respond(link, &request, &answer)
    }
}

impl Link {
    /// Connects to the server and completes the handshake.
    async fn open(agent: &Agent) -> Result<Self, String> {
        let limits = server::connection_limits();
        let (ours, theirs) = Connection::pair(limits);
        let server = agent.server().clone();
        tokio::spawn(async move { server.serve(theirs, ()).await });
        let (client, events) = Client::new(ours, &limits);
        let hello = InitializeParams {
            client_info: ClientInfo {
                name: "agentd_mcpServer".to_owned(),
                title: None,
                version: agent.version().to_owned(),
            },
            capabilities: Some(InitializeCapabilities {
                // Questions of the agent are experimental.
                experimental_api: true,
                opt_out_notification_methods: Some(UNREAD.map(str::to_owned).into()),
                ..InitializeCapabilities::default()
            }),
        };
        client
            .request::<protocol::Initialize>(&hello)
            .await
            .map_err(|error| format!("the connection to the server: {error}"))?;
        client.notify::<protocol::Initialized>(&Empty {}).map_err(|error| error.to_string())?;
        Ok(Self { client, events })
    }
}

fn respond(link: &Link, id: &RequestId, answer: &question::Answer) -> Result<(), String> {
    link.client.respond(id, answer).map_err(|error| error.to_string())
}

fn read<T: DeserializeOwned>(method: &str, params: &RawValue) -> Result<T, String> {
    serde_json::from_str(params.get()).map_err(|error| format!("{method}: {error}"))
}
