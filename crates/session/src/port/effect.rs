//! The requests of a thread to its driver: the ports of the session, as data.
//!
//! The driver carries effects out in order, with one freedom and one duty: all [`Record`]s of a
//! batch may be stored in one transaction, and they must be stored before any [`Event`] or
//! [`Effect::Reply`] of the batch is sent.

use std::path::PathBuf;
use std::sync::Arc;

use http_client::retry::Wait;

use super::approval::Ask;
use super::auto_review::ApprovedAction;
use super::concession::Conceded;
use super::event::{Event, TurnStatus, TurnView};
use super::fragment::Fragment;
use super::goal::Goal;
use super::item::{DynamicCall, Item};
use super::model::{Cost, ResponseUsage, Usage};
use super::permission::Grant;
use super::prompt::Prompt;
use super::question::{UserAnswers, UserQuestion};
use super::server_tool::ServerCall;
use super::settings::Settings;
use super::skill::UsedSkill;
use super::tool::{ExecSpec, ToolRequest};
use crate::port::agent_request::{AgentJob, AgentRequest};
use crate::{Id, Millis};

/// One thing to do.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Answer the caller.
    Reply { reply: u64, result: Result<Answer, Refusal> },
    /// Store; see the module's duty.
    Persist(Record),
    /// Send an event to the subscribers.
    Emit(Event),
    /// Ask the model; its answer comes as `Input::Model` with the same number.
    Sample { sample: u64, prompt: Prompt },
    /// Stop asking.
    CancelSample { sample: u64 },
    /// Wait, then report `Input::RetryDue`. The driver draws the random part of the wait.
    RetryAfter { sample: u64, wait: Wait },
    /// Look at what a tool call is about; report `Input::Prepared`.
    Prepare { call: u64, turn: Id, request: ToolRequest },
    /// Look at where a job would write its results; report `Input::Prepared`.
    PlanJob { call: u64, turn: Id, job: Box<AgentJob> },
    /// Start a command; report `Input::Output` and exactly one `Input::Exited`.
    Run { process: u64, spec: ExecSpec },
    /// Type into a running command.
    Write { process: u64, text: String },
    /// Report `Input::Elapsed` after so many milliseconds.
    Wait { call: u64, ms: u64 },
    /// End a command and all that it started, now.
    Kill { process: u64 },
    /// Apply the patch that `Prepare` planned; report `Input::Applied`.
    Apply { call: u64, turn: Id },
    /// Forget what `Prepare` planned for this call, if anything; it may be prepared again later.
    Discard { call: u64 },
    /// Ask the clients; an answer comes as `Input::Decided`.
    Ask { request: u64, turn: Id, item: Id, ask: Ask, at: Millis },
    /// Ask the model of a reviewer, in parallel with other requests; report `Input::Reviewed` unless the review
    /// is cancelled.
    Review { review: u64, prompt: Prompt },
    /// Wait, then report `Input::ReviewRetryDue`; see [`Self::RetryAfter`].
    RetryReviewAfter { review: u64, wait: Wait },
    /// Stop asking the reviewer.
    CancelReview { review: u64 },
    /// Report `Input::ReviewOverdue` after so many milliseconds.
    ReviewTimeout { review: u64, ms: u64 },
    /// The answer to `Input::NetworkAsk`: the host may be reached or not.
    NetworkAnswer { key: u64, allowed: bool },
    /// Ask the user; an answer comes as `Input::UserAnswered`, at once when no client can give one.
    AskUser { request: u64, turn: Id, item: Id, questions: Arc<[UserQuestion]> },
    /// Check a grant against the files and the requirements; report `Input::Granted`.
    CheckGrant { call: u64, grant: Grant },
    /// Look for what the skills of a message need and do not have; report `Input::SkillNeedsFound`.
    FindSkillNeeds { request: u64, turn: Id, skills: Vec<UsedSkill> },
    /// Make use of the user's answers, as far as there are any; `unanswered` is the reason for missing
    /// ones. Report `Input::SkillNeedsMet`.
    MeetSkillNeeds { request: u64, answers: UserAnswers, unanswered: Option<String> },
    /// The needs of that request no longer matter.
    ForgetSkillNeeds { request: u64 },
    /// Have a client run its tool; an answer comes as `Input::ToolAnswered`.
    CallTool { request: u64, turn: Id, call: DynamicCall },
    /// Carry out a call that concerns other agents; report `Input::AgentsAnswered`.
    CallAgents { request: u64, turn: Id, item: Id, call: Box<AgentRequest> },
    /// The answer to that call is no longer wanted: stop, with what it waits for.
    CancelAgents { request: u64 },
    /// Call the tool of an MCP server; report `Input::ServerAnswered`.
    CallServer { request: u64, turn: Id, call: Box<ServerCall> },
    /// The answer to that call is no longer wanted.
    CancelServerCall { request: u64 },
    /// Run the hooks of an event; report `Input::HooksAnswered`.
    RunHooks { run: u64, turn: Id, event: Box<hooks::Event> },
    /// The answer of these hooks is no longer wanted: end them.
    CancelHooks { run: u64 },
    /// Let this command prefix run without asking from now on.
    Allow { cwd: PathBuf, prefix: Vec<String> },
    /// The turn, which has begun by itself, goes on with the work of the one that ended before it.
    TurnContinues { turn: Id },
    /// The turn is over: what the driver keeps for it can go.
    TurnEnded { turn: Id },
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To `Input::Start` and what else starts a turn.
    Started(TurnView),
    /// To `Input::Steer`.
    Steered { turn: Id },
    /// To `Input::Interrupt`.
    Interrupted,
    /// To requests without a result.
    Done,
    /// To `Input::SetGoal`.
    Goal(Box<Goal>),
    /// To `Input::ClearGoal`: whether there was one.
    Cleared(bool),
}

/// Why a request is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For a person.
    pub message: String,
    /// For a program.
    pub cause: RefusalCause,
}

/// The reason for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// It does not fit the state.
    State,
    /// The running turn takes no input because of what it is.
    NotSteerable(NotSteerable),
    /// The intended change cannot be stored.
    Store,
}

/// Kinds of turns that take no input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSteerable {
    /// A change is reviewed.
    Review,
    /// The history is compacted on demand.
    Compaction,
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self { message, cause: RefusalCause::State }
    }
}

impl From<&str> for Refusal {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

/// Something to store.
#[derive(Clone, Debug)]
pub enum Record {
    /// A turn began.
    TurnStarted { turn: Id, at: Millis },
    /// An item began or became final: the later one replaces the earlier.
    Item { turn: Id, item: Item },
    /// Model items in the order in which the model receives them, but for those that wait; `None`:
    /// outside of any turn.
    History { turn: Option<Id>, fragments: Vec<Fragment> },
    /// The model's history from now on: it contains a summary of what came before.
    HistoryReplaced { turn: Id, fragments: Vec<Fragment> },
    /// The goal and its account.
    Goal(Option<Box<Goal>>),
    /// A turn ended.
    TurnFinished { view: TurnView, status: TurnStatus },
    /// The settings changed.
    Settings(Box<Settings>),
    /// The settings as the model knows them now; comes back as `Restored::introduced`.
    Introduced(Box<Settings>),
    /// The first user text, which names the thread in lists.
    Preview(String),
    /// All actions that the user approved after a review refused them, and that have not run; comes
    /// back as `Restored::approved_actions`.
    ApprovedActions(Vec<ApprovedAction>),
    /// All concessions to the thread's providers; comes back as `Restored::concessions`.
    Concessions(Vec<Conceded>),
    /// The paths of all project documents of folders below the working folder that the model has;
    /// comes back as `Restored::documents`.
    ProjectDocuments(Vec<String>),
    /// A response of a turn was counted: with what the thread has used and spent so far.
    TokenUsage { turn: Id, at: Millis, total: Usage, cost: Cost, last: Box<ResponseUsage> },
}
