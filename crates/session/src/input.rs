//! Everything that can happen to a thread: the closed list of what its driver reports.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Id;
use crate::approvals::Decision;
use crate::goal::GoalChange;
use crate::history::Fragment;
use crate::item::{Action, Change, Phase, SearchAction, ToolAnswer, UserContent};
use crate::machine::Configured;
use crate::network::NetworkTarget;
use crate::settings::Overrides;

/// One thing that happened. `reply` names the caller that waits for an
/// [`Effect::Reply`](crate::Effect::Reply).
#[derive(Clone, Debug)]
pub enum Input {
    /// A client starts a turn.
    Start {
        reply: u64,
        content: Vec<UserContent>,
        overrides: Overrides,
        /// JSON Schema of the final message, this turn only.
        output_schema: Option<Arc<str>>,
    },
    /// A client adds to the running turn.
    Steer { reply: u64, content: Vec<UserContent>, expected_turn: String },
    /// A client stops the running turn; answered when the turn is over.
    Interrupt { reply: u64, turn: String },
    /// A client has the history compacted: a turn of its own.
    Compact { reply: u64 },
    /// A client has something reviewed: a turn of its own. `subject` names it for people, `prompt`
    /// tells the model all; `None`: it comes later, by [`Input::ReviewPrompt`].
    Review { reply: u64, subject: String, prompt: Option<String>, model: Option<String> },
    /// What the model of a review is told. Ignored when that turn is over.
    ReviewPrompt { turn: Id, prompt: String },
    /// The user runs a command, outside of the sandbox.
    Shell { reply: u64, script: String, cwd: PathBuf, actions: Vec<Action> },
    /// A client adds model items to the history.
    Inject { reply: u64, fragments: Vec<Fragment> },
    /// A client ends the commands that run in the background.
    CleanTerminals { reply: u64 },
    /// A client sets or changes the goal.
    SetGoal { reply: u64, change: GoalChange },
    /// A client removes the goal.
    ClearGoal { reply: u64 },
    /// A client changes the settings outside of a turn.
    Override { overrides: Overrides },
    /// The configuration changed. Comes between turns only.
    Configure(Box<Configured>),
    /// The model sent part of its response.
    Model { sample: u64, events: Vec<ModelEvent> },
    /// The wait before a retry is over.
    RetryDue { sample: u64 },
    /// A tool call was looked at.
    Prepared { call: u64, outcome: Prepared },
    /// A patch was applied (`diff`: the aggregated diff of the turn) or was not.
    Applied { call: u64, outcome: Result<String, String> },
    /// An image was read, or was not.
    ImageRead { call: u64, outcome: Result<ImageData, String> },
    /// A command wrote text.
    Output { process: u64, text: String },
    /// A command ended.
    Exited { process: u64, end: ProcessEnd },
    /// The command does not read its input, so that what was typed last was not passed on.
    NotTyped { process: u64 },
    /// The time that a call gives its command to answer is over.
    Elapsed { call: u64 },
    /// A client answered a request.
    Decided { request: u64, decision: Decision },
    /// A running command wants to reach a host that is on no list; `key` names the question.
    NetworkAsk { process: u64, key: u64, target: NetworkTarget },
    /// Nobody waits for the answer to that question any more.
    NetworkWithdrawn { key: u64 },
    /// A client ran its tool, or could not.
    ToolAnswered { request: u64, outcome: Result<ToolAnswer, String> },
    /// A record could not be stored: nothing durable can be promised any more.
    StoreFailed { message: String },
    /// The server is going to end: no turn starts any more, and the running one ends at its next
    /// safe point, where neither a response of the model nor a tool's work is cut short.
    Drain,
    /// The server ends.
    Shutdown,
}

/// What looking at a tool call found.
#[derive(Clone, Debug)]
pub enum Prepared {
    /// It is a command.
    Command(Assessment),
    /// It is a patch, or a command that is one.
    Patch(PatchPlan),
    /// It cannot be done; the message is for the model and the clients.
    Refused { attempted: Attempted, message: String },
}

/// What a call that cannot be done was to do, as far as it could be read.
#[derive(Clone, Debug)]
pub enum Attempted {
    /// Run a command.
    Command {
        /// The command in display form.
        display: String,
        /// Its working folder.
        cwd: PathBuf,
    },
    /// Change files.
    Patch {
        /// The changes that could be read.
        changes: Vec<Change>,
    },
}

/// What the command rules say of a command.
#[derive(Clone, Debug, Default)]
pub struct Assessment {
    /// The command in display form.
    pub display: String,
    /// Its resolved working folder.
    pub cwd: PathBuf,
    /// What it does.
    pub actions: Vec<Action>,
    /// Whether it is known to be harmless.
    pub known_safe: bool,
    /// Whether it is known to destroy.
    pub dangerous: bool,
    /// What a rule says, with its justification.
    pub rule: Option<(RuleDecision, Option<String>)>,
    /// The command prefix to offer for a lasting permission.
    pub amendment: Option<Vec<String>>,
    /// The commands that it consists of, as far as their words are known: the user may allow a
    /// prefix of one of them for good. Opaque here.
    pub amendable: Vec<Vec<String>>,
    /// A script without how it is written: scripts with one form do the same. `None` when that is
    /// not known.
    pub normal_form: Option<Vec<String>>,
}

/// What a command rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleDecision {
    /// Run without asking.
    Allow,
    /// Ask.
    Prompt,
    /// Do not run.
    Forbidden,
}

/// A patch whose hunks were found.
#[derive(Clone, Debug)]
pub struct PatchPlan {
    /// Its files.
    pub changes: Vec<Change>,
    /// Whether the sandbox policy lets all of them be written; else the reason why not.
    pub outside: Option<String>,
}

/// An image for the model.
#[derive(Clone, Debug)]
pub struct ImageData {
    /// Its absolute path.
    pub path: String,
    /// Its contents as a `data:` URL.
    pub data_url: String,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// By itself, or by a signal (128 + n).
    Code(i32),
    /// Killed at its timeout.
    TimedOut,
    /// It could not be started.
    NotStarted(String),
    /// It was not started, because the sandbox policy cannot be enforced on this machine.
    Unconfined(String),
}

/// Tokens of a response, or of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// All input tokens.
    pub input: i64,
    /// Those read from the provider's prompt cache.
    pub cached_input: i64,
    /// All output tokens.
    pub output: i64,
    /// Those spent on reasoning.
    pub reasoning_output: i64,
    /// Input and output.
    pub total: i64,
}

impl Usage {
    /// The numbers are the provider's, so that they may be anything.
    pub(crate) fn add(&mut self, other: Self) {
        let add = |sum: &mut i64, more: i64| *sum = sum.saturating_add(more);
        add(&mut self.input, other.input);
        add(&mut self.cached_input, other.cached_input);
        add(&mut self.output, other.output);
        add(&mut self.reasoning_output, other.reasoning_output);
        add(&mut self.total, other.total);
    }
}

/// What kind of failure a model call had (specification: Errors, `agentErrorInfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The history does not fit.
    ContextWindowExceeded,
    /// The account's quota is used up.
    UsageLimitExceeded,
    /// The provider answered 4xx or 5xx.
    HttpConnectionFailed,
    /// The provider could not be reached.
    ResponseStreamConnectionFailed,
    /// The stream ended early.
    ResponseStreamDisconnected,
    /// The last of many tries failed.
    ResponseTooManyFailedAttempts,
    /// The provider refused the request.
    BadRequest,
    /// No valid credentials.
    Unauthorized,
    /// The sandbox cannot enforce the policy.
    SandboxError,
    /// The provider has too much to do.
    ServerOverloaded,
    /// The provider held the request back for reasons of cyber security.
    CyberPolicy,
    /// A failure of the server.
    InternalServerError,
    /// Anything else.
    Other,
}

/// A failed model call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For a program.
    pub kind: FailureKind,
    /// For a person.
    pub message: String,
    /// What else the provider said, such as its error code and request id.
    pub details: Option<String>,
    /// The provider's HTTP status.
    pub http_status: Option<u16>,
    /// Whether the same request may succeed later.
    pub retry: Retry,
    /// How long the provider asks to wait, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// Tokens that the response cost before it failed.
    pub usage: Option<Usage>,
}

impl Failure {
    /// A failure that no retry helps.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            details: None,
            http_status: None,
            retry: Retry::Never,
            retry_after_ms: None,
            usage: None,
        }
    }
}

/// Whether a failed request is sent again, and by which limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It would fail again.
    Never,
    /// The response did not begin: [`Limits::request_retries`](crate::Limits::request_retries).
    Request,
    /// The response broke off: [`Limits::stream_retries`](crate::Limits::stream_retries).
    Stream,
}

/// What kind of output item the model opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelItemKind {
    /// A message.
    Message { phase: Option<Phase> },
    /// Reasoning.
    Reasoning,
    /// A search by the provider, with its query where that is known already.
    WebSearch { query: String },
    /// A call or something else that is only looked at when it is whole.
    Other,
}

/// A finished output item of the model.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelItem {
    /// A message.
    Message { text: String, phase: Option<Phase> },
    /// Reasoning.
    Reasoning { summary: Vec<String>, content: Vec<String> },
    /// A call of a function tool.
    FunctionCall { call_id: String, name: String, arguments: String },
    /// A call of a custom tool.
    CustomToolCall { call_id: String, name: String, input: String },
    /// A search by the provider.
    WebSearch { query: String, action: Option<SearchAction>, failed: bool },
    /// An item of a type that this version cannot carry out; the model waits for the output of one
    /// with a call id.
    Other { kind: String, call_id: Option<String> },
}

/// One event of a streamed response; `index` is the output item's place in it.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// An output item opened.
    ItemAdded { index: usize, kind: ModelItemKind },
    /// Text of a message.
    TextDelta { index: usize, text: String },
    /// A section of the reasoning summary opened.
    SummaryPartAdded { index: usize, part: usize },
    /// Text of the reasoning summary.
    SummaryDelta { index: usize, part: usize, text: String },
    /// Raw reasoning text.
    ReasoningDelta { index: usize, part: usize, text: String },
    /// An output item is whole; `raw` goes into the history as it is.
    ItemDone { index: usize, raw: Arc<str>, item: ModelItem },
    /// The response is whole.
    Completed { usage: Usage },
    /// The response failed.
    Failed(Failure),
}

/// Ids in inputs are compared as strings.
pub(crate) fn same(id: &Id, text: &str) -> bool {
    **id == *text
}
