//! The port of loaded threads: a handle that takes commands, the commands, and the values in them. It
//! knows nothing of the actor that carries them out.

mod agent_identity;
mod event_position;
mod extra;
mod queue;
mod server_question;
mod tree_limits;
pub mod wire;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use config::Config;
use hooks::EndReason;
use model::catalog::ModelInfo;
use protocol::ThreadMemoryMode;
use protocol::permission::PermissionProfileSelectionParams;
use serde_json::{Map, Value};
use session::{
    Answer, Author, Goal, Grant, Live, Overrides, PatchPlan, Permissions, Settings, Status,
    ToolAnswer, UserContent,
};
use store::{ThreadChanges, ThreadRecord};
use telemetry::TraceContext;
use tokio::sync::{mpsc, oneshot, watch};

use crate::allowed::MachineInput;
use crate::budget::TurnBudget;
use crate::error::Error;
use crate::peer::{ConnectionId, Gate, Peer};
use crate::project_doc::nested::NestedDocs;
use crate::skills::Needs;
use crate::thread_hooks::HookReport;
use crate::undo::{FileRollback, RestoredFiles};

pub use agent_identity::AgentIdentity;
pub use event_position::{EventPosition, ReplayGap};
pub use extra::Extra;
pub use queue::{
    MAX_QUEUED, MAX_QUEUED_BYTES, QueueAnswer, QueueRequest, QueueView, QueuedStart,
    stored_message, stored_queue,
};
pub use server_question::{QuestionKey, ServerQuestion};
pub use tree_limits::TreeLimits;

/// Where the answer to a command goes.
pub type AnswerSender = oneshot::Sender<Result<Answer, Error>>;

/// The target that the input of a client is prepared for.
pub struct InputTarget {
    pub model: ModelInfo,
    /// Folder of relative paths.
    pub cwd: PathBuf,
    /// The `config` of the client that started the thread.
    pub overrides: Option<Map<String, Value>>,
}

/// The settings of a request to the thread's provider.
pub struct ProviderAccess {
    pub config: Arc<Config>,
    /// Name of the provider in the configuration.
    pub provider: String,
}

/// A command to a thread.
pub enum Command {
    /// Something happened: a tool call, a command or a client made progress.
    Input(MachineInput),
    /// `turn/start`.
    StartTurn(TurnStart),
    /// A request that the session answers; the input is made with the number of its reply.
    Ask {
        input: Box<dyn FnOnce(u64) -> MachineInput + Send>,
        /// See [`Command::is_withdrawn`].
        is_withdrawable: bool,
        answer: AnswerSender,
        gate: Gate,
    },
    /// `turn/interrupt`. Unlike other requests it begins no turn, so it needs neither hooks nor history
    /// and waits for nothing.
    Interrupt { turn: String, answer: AnswerSender, gate: Gate },
    /// A request about the queue; with the response after which clients are notified of a change.
    Queue { request: QueueRequest, gate: Gate },
    /// A message of the queue is prepared.
    StartQueued(Box<QueuedStart>),
    /// `thread/shellCommand`.
    Shell { script: String, answer: AnswerSender, gate: Gate },
    /// A call works in folders below the working folder, which have these documents.
    ProjectDocuments { found: NestedDocs },
    /// A call opens these definition files of skills.
    SkillsOpened { files: Vec<PathBuf> },
    /// Progress of the search for the needs of skills, or of their use.
    SkillNeeds(SkillReport),
    /// A patch applies to the files as they are.
    Planned { call: u64, plan: PatchPlan, patch: PlannedPatch },
    /// A patch was written, or could not be.
    Applied { call: u64, turn: session::Id, patch: PlannedPatch, outcome: Result<(), Error> },
    /// The folders of a grant were looked at again.
    GrantChecked { call: u64, outcome: Result<Grant, Error> },
    /// A command of the thread wants to reach a host; `answer` gets the answer to the question `key`.
    Reach { key: u64, input: MachineInput, answer: oneshot::Sender<bool> },
    /// `thread/rollback`, with the files where they are asked for.
    RollBack {
        turns: u32,
        files: Option<FileRollback>,
        answer: oneshot::Sender<Result<Option<RestoredFiles>, Error>>,
    },
    /// The clients are sent a warning.
    Warn { message: String },
    /// Facts about the thread change; answered when they are stored.
    Change { changes: Box<ThreadChanges>, answer: oneshot::Sender<Result<(), Error>> },
    /// `thread/memoryMode/set`; answered when it is stored.
    SetMemoryMode { mode: ThreadMemoryMode, answer: oneshot::Sender<Result<(), Error>> },
    /// A connection subscribes. With `announce` it is sent `thread/started` too, with a position the
    /// events since.
    Attach {
        peer: Arc<Peer>,
        since: Option<EventPosition>,
        overrides: Overrides,
        announce: bool,
        snapshot: oneshot::Sender<Snapshot>,
        gate: Gate,
    },
    /// A client is sent the requests that have no answer yet, unless it subscribes.
    ShowQuestions { peer: Arc<Peer> },
    /// Every client is sent a notification, in the order of the thread's events.
    Announce { method: &'static str, message: Bytes },
    /// Returns the current state of the thread.
    Look { snapshot: oneshot::Sender<Snapshot> },
    /// Returns what is known of a model of the thread's provider, by default of the thread's model, and
    /// the thread's folder.
    DescribeInput { model: Option<String>, target: oneshot::Sender<InputTarget> },
    /// Returns the thread's provider.
    DescribeProvider { target: oneshot::Sender<ProviderAccess> },
    /// A client's tool has answered; its images are not prepared for the model yet.
    ToolAnswered { request: u64, answer: ToolAnswer },
    /// A connection ends its subscription; returns whether it had one.
    Unsubscribe { connection: ConnectionId, was_subscribed: oneshot::Sender<bool> },
    /// A client counts a prompt outside the server, or counts it no longer; returns the count.
    Elicitation {
        connection: ConnectionId,
        change: ElicitationChange,
        answer: oneshot::Sender<Result<u64, Error>>,
    },
    /// A connection has ended.
    Detach { connection: ConnectionId },
    /// A hook began or ended.
    HookReported(Box<HookReport>),
    /// An MCP server asks the user.
    Elicit(ServerQuestion),
    /// An MCP server no longer waits for the answer to its question.
    WithdrawElicitation { number: u64 },
    /// A client has answered the question of an MCP server.
    ElicitationAnswered { number: u64, answer: mcp::Answer },
    /// A question to the user is answered as unanswered when still no client can answer it.
    /// `wait` is the number of that wait.
    GiveUp { question: QuestionKey, wait: u64 },
    /// A client of the thread at the root of the tree has left it.
    RootClientLeft { connection: ConnectionId },
    /// The MCP servers of the configuration as it is now are taken over; `done` is answered then.
    ReloadServers { done: oneshot::Sender<()> },
    /// The server is about to end; see [`session::Input::Drain`].
    Drain,
    /// The actor ends: why.
    End(EndReason),
}

/// A turn that is requested.
pub struct TurnStart {
    pub author: Author,
    pub content: Vec<UserContent>,
    pub overrides: Box<Overrides>,
    /// The permission profile that the client selects.
    pub permissions: Option<PermissionProfileSelectionParams>,
    pub output_schema: Option<Arc<str>>,
    pub budget: TurnBudget,
    /// The position of the request in a trace.
    pub trace: Option<TraceContext>,
    /// See [`Command::is_withdrawn`].
    pub is_withdrawable: bool,
    pub answer: AnswerSender,
    pub gate: Gate,
}

/// A patch that applies to the files as they are.
#[derive(Debug)]
pub struct PlannedPatch {
    pub changes: Vec<patch::Change>,
    /// Where its file operations lead, in their order: the paths that were shown for approval.
    pub destinations: Vec<PathBuf>,
    /// True if the policy does not let it be written, so that it was approved.
    pub is_outside: bool,
}

/// The progress of a message's needs.
pub enum SkillReport {
    /// They were looked for.
    Found { request: u64, needs: Needs },
    /// Servers were added to the configuration; `notes` are for the model.
    ServersAdded { request: u64, notes: Vec<String>, added: Vec<String> },
    /// They are met, as far as possible.
    Met { request: u64, notes: Vec<String> },
}

/// A change of the number of prompts that are open outside the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElicitationChange {
    Increment,
    Decrement,
}

impl Command {
    /// Returns whether its caller has stopped waiting, and got an error: then it must have no
    /// effect. What a client requests takes effect even when the client has left.
    pub fn is_withdrawn(&self) -> bool {
        match self {
            Self::StartTurn(TurnStart { is_withdrawable, answer, .. })
            | Self::Ask { is_withdrawable, answer, .. } => *is_withdrawable && answer.is_closed(),
            _ => false,
        }
    }

    /// Returns `true` for activity of the thread, which postpones its unloading. Reads of the thread, and
    /// the coming and going of other clients, are none.
    pub fn is_activity(&self) -> bool {
        match self {
            // The thread's own reminder.
            Self::Input(MachineInput::StoreTexts {}) => false,
            Self::Input(_)
            | Self::StartTurn(_)
            | Self::Ask { .. }
            | Self::Interrupt { .. }
            | Self::StartQueued(_)
            | Self::Shell { .. }
            | Self::ProjectDocuments { .. }
            | Self::SkillsOpened { .. }
            | Self::SkillNeeds(_)
            | Self::Planned { .. }
            | Self::Applied { .. }
            | Self::GrantChecked { .. }
            | Self::Reach { .. }
            | Self::RollBack { .. }
            | Self::Change { .. }
            | Self::SetMemoryMode { .. }
            | Self::Attach { .. }
            | Self::ToolAnswered { .. }
            | Self::Elicitation { .. } => true,
            Self::Queue { request, .. } => !matches!(request, QueueRequest::List { .. }),
            Self::Warn { .. }
            | Self::ShowQuestions { .. }
            | Self::Announce { .. }
            | Self::Look { .. }
            | Self::DescribeInput { .. }
            | Self::DescribeProvider { .. }
            | Self::Unsubscribe { .. }
            | Self::Detach { .. }
            | Self::HookReported(_)
            | Self::Elicit(_)
            | Self::WithdrawElicitation { .. }
            | Self::ElicitationAnswered { .. }
            | Self::GiveUp { .. }
            | Self::RootClientLeft { .. }
            | Self::ReloadServers { .. }
            | Self::Drain
            | Self::End(_) => false,
        }
    }

    /// Bytes of command output in it.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Input(MachineInput::Output { text, .. }) => text.len(),
            _ => 0,
        }
    }
}

/// A loaded thread at one moment.
#[derive(Clone)]
pub struct Snapshot {
    pub record: ThreadRecord,
    pub ephemeral: bool,
    /// With what the user granted.
    pub settings: Settings,
    /// The user's grants beyond the chosen sandbox policy.
    pub granted: Permissions,
    pub status: Status,
    pub instruction_sources: Vec<PathBuf>,
    /// The parts of running turns that are not final.
    pub live: Live,
    /// The thread's goal.
    pub goal: Option<Goal>,
    /// Cursor after the newest event, when the thread has an event log.
    pub cursor: Option<String>,
    /// Number of events that a reconnecting client is sent, or the reason why it is not sent them.
    pub replay: Option<Result<usize, ReplayGap>>,
    /// Wire ids of the requests to clients that have no answer yet.
    pub open_requests: Vec<i64>,
}

/// A loaded thread.
#[derive(Clone)]
pub struct ThreadHandle {
    sender: mpsc::Sender<Command>,
    /// `None` once the actor has ended.
    status: watch::Receiver<Option<Status>>,
    /// Why it was asked to end.
    end: Arc<OnceLock<EndReason>>,
    /// Its subscribers.
    clients: watch::Receiver<Vec<Arc<Peer>>>,
    /// True while a prompt of it is open outside the server.
    paused: watch::Receiver<bool>,
}

impl ThreadHandle {
    pub fn new(
        sender: mpsc::Sender<Command>,
        status: watch::Receiver<Option<Status>>,
        clients: watch::Receiver<Vec<Arc<Peer>>>,
        paused: watch::Receiver<bool>,
    ) -> Self {
        Self { sender, status, end: Arc::default(), clients, paused }
    }

    /// Returns whether the actor has not ended.
    pub fn is_alive(&self) -> bool {
        self.status().is_some() && !self.sender.is_closed()
    }

    /// Sends a command; returns `false` when the thread has ended.
    pub async fn send(&self, command: Command) -> bool {
        self.sender.send(command).await.is_ok()
    }

    /// Asks the thread to end: its turn is interrupted, its commands are killed.
    pub async fn end(&self, reason: EndReason) {
        self.end.get_or_init(|| reason);
        self.send(Command::End(reason)).await;
    }

    /// As [`Self::end`], as the first command of the thread.
    pub(crate) fn end_first(&self, reason: EndReason) {
        self.end.get_or_init(|| reason);
        self.send_first(Command::End(reason));
    }

    /// The error of a request that the thread did not answer because it has ended.
    pub fn unloaded(&self) -> Error {
        Error::thread_ends(self.end.get().copied().unwrap_or(EndReason::Closed))
    }

    /// Commands that wait for the thread.
    pub fn queued_commands(&self) -> usize {
        self.sender.max_capacity() - self.sender.capacity()
    }

    /// Sends the first command of a thread, for which there is room.
    pub(crate) fn send_first(&self, command: Command) {
        // A thread that has ended needs no command.
        let _ = self.sender.try_send(command);
    }

    /// Sends the session an input and waits for its answer.
    pub async fn ask(
        &self,
        gate: Gate,
        input: impl FnOnce(u64) -> MachineInput + Send + 'static,
    ) -> Result<Answer, Error> {
        let (answer, answered) = oneshot::channel();
        let input = Box::new(input);
        self.send(Command::Ask { input, is_withdrawable: false, answer, gate }).await;
        answered.await.map_err(|_| self.unloaded())?
    }

    /// The clients that subscribe to the thread.
    pub fn clients(&self) -> Vec<Arc<Peer>> {
        self.clients.borrow().clone()
    }

    /// Returns a receiver of whether a prompt of the thread is open outside the server: its clock
    /// stands still.
    pub fn paused(&self) -> watch::Receiver<bool> {
        self.paused.clone()
    }

    /// The runtime status; `None` when the thread has ended.
    pub fn status(&self) -> Option<Status> {
        *self.status.borrow()
    }

    /// The state of the thread; `None` when it has ended.
    pub async fn snapshot(&self) -> Option<Snapshot> {
        let (snapshot, answer) = oneshot::channel();
        self.send(Command::Look { snapshot }).await;
        answer.await.ok()
    }

    /// Returns the known facts about a model of the thread's provider, by default of the thread's
    /// model.
    ///
    /// # Errors
    /// The thread has ended.
    pub async fn model_info(&self, model: Option<&str>) -> Result<ModelInfo, Error> {
        Ok(self.input_target(model).await?.model)
    }

    /// Returns the target that an input is prepared for; `model` as for [`Self::model_info`].
    ///
    /// # Errors
    /// The thread was unloaded.
    pub async fn input_target(&self, model: Option<&str>) -> Result<InputTarget, Error> {
        let (target, answer) = oneshot::channel();
        self.send(Command::DescribeInput { model: model.map(str::to_owned), target }).await;
        answer.await.map_err(|_| self.unloaded())
    }

    /// The thread's provider, and the configuration that describes it.
    ///
    /// # Errors
    /// The thread was unloaded.
    pub async fn provider_access(&self) -> Result<ProviderAccess, Error> {
        let (target, answer) = oneshot::channel();
        self.send(Command::DescribeProvider { target }).await;
        answer.await.map_err(|_| self.unloaded())
    }

    /// Waits until no turn runs.
    pub async fn idle(mut self) {
        let is_idle = |status: &Option<Status>| !matches!(status, Some(Status::Active { .. }));
        // An actor that has ended runs no turn.
        let _ = self.status.wait_for(is_idle).await;
    }

    /// Waits for the end of a turn that runs or is about to run.
    pub async fn after_turn(mut self) {
        let runs =
            |status: &Option<Status>| !matches!(status, Some(Status::Idle | Status::SystemError));
        let _ = self.status.wait_for(runs).await;
        self.idle().await;
    }

    /// Waits for the end of the actor.
    pub async fn ended(mut self) {
        let _ = self.status.wait_for(Option::is_none).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interrupt(is_withdrawable: bool, answer: AnswerSender) -> Command {
        let input = |reply| MachineInput::Interrupt { reply, turn: "t".to_owned() };
        Command::Ask { input: Box::new(input), is_withdrawable, answer, gate: Gate::open() }
    }

    #[test]
    fn a_command_is_withdrawn_when_a_caller_that_may_give_up_has_done_so() {
        for (is_withdrawable, waits, expected) in
            [(true, true, false), (true, false, true), (false, false, false)]
        {
            let (answer, answered) = oneshot::channel();
            let _answered = waits.then_some(answered);
            assert_eq!(interrupt(is_withdrawable, answer).is_withdrawn(), expected);
        }
    }
}
