//! Everything that can happen to a thread: the closed list of what its driver reports.

use std::path::PathBuf;
use std::sync::Arc;

use super::agents::AgentOutcome;
use super::approval::{Decision, NetworkTarget};
use super::auto_review::{ReviewResponse, ReviewedAction};
use super::bound::PolicyBound;
use super::fragment::Fragment;
use super::goal::GoalChange;
use super::hook::HookEvents;
use super::item::{Action, ToolAnswer, UserContent};
use super::model::{Failure, ModelEvent, ResponseUsage};
use super::permission::Grant;
use super::question::{UserAnswers, UserQuestion};
use super::server_tool::ServerAnswer;
use super::settings::Overrides;
use super::skill::UsedSkill;
use super::thread::{Configured, ProjectDocument};
use super::tool::{Prepared, ProcessEnd};
use crate::Id;
use crate::port::tool_error::ToolError;

/// The outcome of a call of a server's tool. The error is for the model and for clients.
pub type ServerOutcome = Result<ServerAnswer, ToolError>;

/// Who wrote the input of a turn. Only the user's words authorize anything before a reviewer of
/// approvals, and only they make the answer of an open review void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// A client sent it.
    User,
    /// Another agent called a tool with it.
    Agent,
}

/// One thing that happened. `reply` names the caller that waits for an
/// [`Effect::Reply`](crate::Effect::Reply).
#[derive(Clone, Debug)]
pub enum Input {
    /// A client or another agent starts a turn.
    Start {
        reply: u64,
        author: Author,
        content: Vec<UserContent>,
        overrides: Overrides,
        /// JSON Schema of the final message, this turn only.
        output_schema: Option<Arc<str>>,
    },
    /// A queued message of the user starts a turn; refused while one runs.
    StartQueued { reply: u64, content: Vec<UserContent>, client_id: Arc<str> },
    /// With `any`, messages of the user wait for the end of the turn: a goal does not go on before them.
    MessagesWait { any: bool },
    /// The catalog of skills that the model may use by itself has changed.
    Skills { catalog: Option<Arc<str>> },
    /// Sentences for the model's introduction: the parts of the sandbox that do not work on this machine.
    SandboxLimits { limits: Option<Arc<str>> },
    /// A call works in folders that have these project documents, outermost first.
    ProjectDocuments { documents: Vec<ProjectDocument> },
    /// A call of the model opens these skills, which may need something.
    SkillsOpened { skills: Vec<UsedSkill> },
    /// A client adds to the running turn.
    Steer { reply: u64, content: Vec<UserContent>, expected_turn: String },
    /// A client stops the running turn; answered when the turn is over.
    Interrupt { reply: u64, turn: String },
    /// A client has the history compacted: a turn of its own.
    Compact { reply: u64 },
    /// A client has something reviewed: a turn of its own. `subject` names it for people, `prompt`
    /// is for the model; `None`: it comes later, as [`Input::ReviewPrompt`].
    Review { reply: u64, subject: String, prompt: Option<String>, model: Option<String> },
    /// The prompt of a review. Ignored when that turn is over.
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
    /// The present limits that the threads above an agent set for it. The settings stay as they
    /// were chosen, and hold within the bound.
    Bound(Box<PolicyBound>),
    /// The user's messages so far in the thread at the root of an agent's tree: JSON, from
    /// [`Machine::user_words`](crate::Machine::user_words) of that thread.
    RootWords { words: Arc<str> },
    /// The configuration changed. Comes between turns only.
    Configure(Box<Configured>),
    /// The model sent part of its response.
    Model { sample: u64, events: Vec<ModelEvent> },
    /// The wait before a retry is over.
    RetryDue { sample: u64 },
    /// The driver has prepared a tool call.
    Prepared { call: u64, outcome: Prepared },
    /// A patch was applied (`diff`: the aggregated diff of the turn) or was not.
    Applied { call: u64, outcome: Result<String, ToolError> },
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
    /// A reviewer's model answered, or did not.
    Reviewed { review: u64, outcome: Result<ReviewResponse, Failure> },
    /// The wait before the request of a review is sent again is over.
    ReviewRetryDue { review: u64 },
    /// The time of a review is over.
    ReviewOverdue { review: u64 },
    /// A second has passed with text of running items that is not stored.
    StoreTexts,
    /// A client approves the action that the review with this id refused.
    ApproveDenied { reply: u64, review: String, action: ReviewedAction },
    /// A running command wants to reach a host that is on no list; `key` names the question.
    NetworkAsk { process: u64, key: u64, target: NetworkTarget },
    /// No connection waits for the answer to that question.
    NetworkWithdrawn { key: u64 },
    /// A client ran its tool, or could not.
    ToolAnswered { request: u64, outcome: Result<ToolAnswer, ToolError> },
    /// A grant was checked; or why it is not possible.
    Granted { call: u64, outcome: Result<Grant, ToolError> },
    /// The grants exceed requirements that changed since: they no longer hold.
    DropGrants,
    /// The user answered, or no client could, with the reason.
    UserAnswered { request: u64, outcome: Result<UserAnswers, ToolError> },
    /// The driver has looked for what skills need: the questions that the user would have to answer.
    SkillNeedsFound { request: u64, questions: Vec<UserQuestion> },
    /// The driver has made use of the answers; the notes are for the model.
    SkillNeedsMet { request: u64, notes: Vec<String> },
    /// The progress of a call that concerns other agents.
    AgentsProgressed { request: u64, message: String },
    /// The result of a call that concerns other agents.
    AgentsAnswered { request: u64, outcome: Box<AgentOutcome> },
    /// The progress of a call of a server's tool.
    ServerProgressed { request: u64, message: String },
    /// An MCP server answered a call, or could not.
    ServerAnswered { request: u64, outcome: Box<ServerOutcome> },
    /// The events that have hooks, before a turn starts.
    Hooks { events: HookEvents },
    /// The hooks of an event have run.
    HooksAnswered {
        /// The number of `Effect::RunHooks`.
        run: u64,
        /// Their combined answer.
        outcome: Box<hooks::Outcome>,
        /// The usage of the models that were asked.
        usage: Vec<ResponseUsage>,
    },
    /// A request to a model after a turn, on behalf of the thread, cost this.
    Spent {
        /// The turn.
        turn: Id,
        /// Its usage.
        usage: ResponseUsage,
    },
    /// A record could not be stored: the turn fails, because nothing durable can be promised.
    StoreFailed { message: String },
    /// This turn cannot go on, if it still runs.
    FailTurn { turn: Id, failure: Failure },
    /// The server will end soon: no turn starts, and the running one ends at its next safe point,
    /// where neither a response of the model nor a tool's work is cut short.
    Drain,
    /// The server ends.
    Shutdown,
}
