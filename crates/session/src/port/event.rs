//! Notifications about a thread for its subscribers (specification: Events).

use super::auto_review::ApprovalReview;
use super::goal::Goal;
use super::item::{Change, Item};
use super::model::{Cost, Failure, FailureKind, ModelNotice, Retrying, Usage};
use crate::{Id, Millis};

/// Runtime status of a loaded thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// No turn runs.
    Idle,
    /// The last turn failed.
    SystemError,
    /// A turn runs.
    Active {
        /// An approval is pending.
        waiting_on_approval: bool,
        /// The user is asked a question.
        waiting_on_user_input: bool,
    },
}

/// Status of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnStatus {
    /// It runs.
    InProgress,
    /// The model finished.
    Completed,
    /// The user, or the end of the server, stopped it.
    Interrupted,
    /// An error stopped it.
    Failed,
}

/// Why a turn failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnError {
    /// For a person.
    pub message: String,
    /// For a program.
    pub kind: FailureKind,
    /// The provider's HTTP status, where there was one.
    pub http_status: Option<u16>,
    /// More about the cause, such as the provider's error code and request id.
    pub details: Option<String>,
}

impl From<Failure> for TurnError {
    fn from(failure: Failure) -> Self {
        let Failure { kind, message, details, http_status, .. } = failure;
        Self { message, kind, http_status, details: details.map(Into::into) }
    }
}

/// A turn as clients see it.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnView {
    /// Turn id.
    pub id: Id,
    /// Its status.
    pub status: TurnStatus,
    /// Why it failed.
    pub error: Option<TurnError>,
    /// When it began.
    pub started_at: Millis,
    /// When it ended.
    pub completed_at: Option<Millis>,
}

/// Status of a step of the agent's plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanStepStatus {
    /// Not begun.
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Completed,
}

/// One step of the agent's plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStep {
    /// The text of the step.
    pub step: String,
    /// Its status.
    pub status: PlanStepStatus,
}

/// One notification about a thread. `turn` and `item` are ids.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The runtime status changed.
    StatusChanged(Status),
    /// A turn began.
    TurnStarted(TurnView),
    /// A turn ended: exactly one a turn.
    TurnCompleted(TurnView),
    /// Work on an item began.
    ItemStarted { turn: Id, item: Item, at: Millis },
    /// An item is final.
    ItemCompleted { turn: Id, item: Item, at: Millis },
    /// Text of a message.
    MessageDelta { turn: Id, item: Id, text: String },
    /// Text of a proposed plan.
    PlanDelta { turn: Id, item: Id, text: String },
    /// A section of a reasoning summary opened, the first one included.
    SummaryPartAdded { turn: Id, item: Id, index: usize },
    /// Text of a reasoning summary.
    SummaryDelta { turn: Id, item: Id, index: usize, text: String },
    /// Raw reasoning text.
    ReasoningDelta { turn: Id, item: Id, index: usize, text: String },
    /// A command that waited for an approval runs.
    CommandRuns { turn: Id, item: Id },
    /// Output of a command.
    CommandOutput { turn: Id, item: Id, text: String },
    /// The changes of a patch that the model is writing grew. The item begins when the patch is whole.
    PatchUpdated { turn: Id, item: Id, changes: Vec<Change> },
    /// The agent typed into a running command.
    TerminalInteraction { turn: Id, item: Id, process: String, stdin: String },
    /// The agent's plan changed.
    PlanUpdated { turn: Id, explanation: Option<String>, plan: Vec<PlanStep> },
    /// The progress of a call.
    CallProgress { turn: Id, item: Id, message: String },
    /// The aggregated diff of the turn changed.
    DiffUpdated { turn: Id, diff: String },
    /// Token usage after a response of the model.
    TokenUsage { turn: Id, total: Usage, last: Usage, cost: Cost },
    /// The provider said something about the model of a turn; each once a turn.
    ModelNotice { turn: Id, notice: ModelNotice },
    /// An error; the turn continues if another attempt follows.
    Error { turn: Id, error: TurnError, retry: Option<Retrying> },
    /// The goal changed, or its account grew; with the turn that did it.
    GoalUpdated { turn: Option<Id>, goal: Box<Goal> },
    /// The goal was removed.
    GoalCleared,
    /// The review of an approval began, or ended.
    ApprovalReview(Box<ApprovalReview>),
    /// The reviewer of approvals could not be used, so that an action is refused.
    ReviewerWarning { message: String },
    /// Something that the user should know; the turn goes on.
    Warning { message: String },
    /// A request to the clients was answered or withdrawn.
    RequestResolved { request: u64 },
}
