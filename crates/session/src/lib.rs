//! The behaviour of a thread: the turn loop, its context, tool calls and approvals, as a state
//! machine.
//!
//! [`Machine::step`] takes one [`Input`] and the time, and returns the [`Effect`]s that its driver
//! must carry out. Nothing here performs I/O, reads a clock or draws a random number, so any run
//! can be replayed from its inputs, failures included. The types here are not wire types.
//!
//! `port` holds the data that crosses the border. Each part owns its state: `turn` (with `sample`
//! and `calls`), `approvals`, `processes`, `conversation`, `goal`, `configuration`. The tools of
//! the model are one file each in `tools`.
//!
//! # How the parts relate
//!
//! Imports run one way: `machine` → `turn` → `sample`, `calls`, `tools`, `approvals`, `processes`,
//! `conversation`, `goal`, `configuration` → `port`.
//!
//! - `port/` holds the data that enters and leaves the crate; it imports no other module of it.
//! - [`Machine`] holds the running turn, if any, and the `Thread`: the parts that outlive a turn.
//!   It routes each input to the part concerned. Only `Turn` emits the end of a turn.
//! - A part owns its state. Its arguments are a `Cx` (time, ids, numbers, bounds, the list of
//!   effects) and the values that it needs from other parts. It returns what other parts must do:
//!   an `Exit` of a command, a `Step` of a call. No part has access to the machine.
//! - A tool of the model is one file in `tools/` and one line in its list. It defines the tool,
//!   parses its calls, and returns `Step`s, which `turn/steps.rs` carries out without knowledge of
//!   the tool. The tools of clients implement the same trait, with data in place of code.

mod approvals;
mod cache_life;
mod calls;
mod concessions;
mod configuration;
mod context;
mod conversation;
mod cx;
mod documents;
mod goal;
mod history;
mod hook_runs;
mod instructions;
mod machine;
mod omitted;
mod outputs;
mod plan_mode;
mod port;
mod processes;
mod sample;
mod skill_needs;
mod skill_variables;
mod spending;
mod terms;
mod thread;
mod tools;
mod turn;
mod unstored_text;

pub use approvals::user_words;
pub use machine::{Live, Machine};
pub use port::agent_request::{AgentJob, AgentRequest, JobReport, SpawnAgent};
pub use port::agents::{AgentCall, AgentOutcome, AgentState, AgentTool};
pub use port::approval::{Ask, Decision, NetworkProtocol, NetworkTarget};
pub use port::auto_review::{
    ApprovalReview, ApprovedAction, ReviewResponse, ReviewStatus, ReviewedAction, RiskLevel,
    ShownPermissions, UserAuthorization,
};
pub use port::bound::{BoundedSetting, Planning, PolicyBound};
pub use port::concession::{Conceded, Concession};
pub use port::effect::{Answer, Effect, NotSteerable, Record, Refusal, RefusalCause};
pub use port::event::{Event, PlanStep, PlanStepStatus, Status, TurnError, TurnStatus, TurnView};
pub use port::fragment::{Fragment, Mark};
pub use port::goal::{Goal, GoalChange, GoalStatus};
pub use port::hook::{HookEvents, ThreadStart};
pub use port::input::{Author, Input, ServerOutcome};
pub use port::item::{
    Action, Change, ChangeKind, CommandItem, CommandSource, DynamicCall, ImageGeneration, Item,
    ItemCall, ItemStatus, Phase, SearchAction, TextElement, ToolAnswer, ToolContent, UserContent,
};
pub use port::memory::{MemoryCitation, MemoryFile, MemoryLine, MemoryNotes, MemoryPassage};
pub use port::model::{
    Cost, Failure, FailureKind, GeneratedImage, ModelEvent, ModelItem, ModelItemKind, ModelNotice,
    ResponseSource, ResponseUsage, Retry, Retrying, Usage, Verification,
};
pub use port::permission::{Grant, GrantScope, Permissions};
pub use port::prompt::{CacheHints, Prompt, PromptInput};
pub use port::question::{QuestionOption, UserAnswers, UserQuestion, not_answered};
pub use port::review::{ReviewFinding, ReviewFindings, ReviewLocation};
pub use port::server_tool::{
    Connector, ServerAnswer, ServerCall, ServerResult, ServerTool, ToolApproval, ToolEffect,
    ToolTarget,
};
pub use port::settings::{
    Access, ApprovalPolicy, ApprovalsReviewer, Granular, Mode, Overrides, ReadAccess,
    SandboxPolicy, Settings,
};
pub use port::skill::UsedSkill;
pub use port::thread::{Configured, Context, Ids, Limits, ProjectDocument, Restored};
pub use port::tool::{
    Assessment, Attempted, ExecSpec, ImageData, JobOutput, PatchPlan, PatchTarget, Prepared,
    ProcessEnd, RuleDecision, ToolRequest,
};
pub use port::tool_error::ToolError;
pub use port::tool_set::{
    AgentRole, AgentTools, CommandTool, DynamicTool, Offer, PatchTool, SearchTool, ToolSet,
};
pub use skill_variables::skill_variable_is_set;
pub use tools::{OfferCache, why_reserved};

/// A thread, turn or item id. Shared, because every event about it carries it.
pub type Id = std::sync::Arc<str>;

/// Milliseconds since the Unix epoch.
pub type Millis = i64;
