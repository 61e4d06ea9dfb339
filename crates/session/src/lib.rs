//! What a thread *does*: the turn loop, its context, tool calls and approvals, as a state machine.
//!
//! [`Machine::step`] takes one [`Input`] and the time, and answers with the [`Effect`]s that its
//! driver must carry out. Nothing here performs I/O, reads a clock or draws a random number, so
//! any run can be replayed from its inputs, failures included. The types here are not wire types.

mod approvals;
mod arguments;
mod asking;
mod calls;
mod client_tools;
mod compaction;
mod context;
mod effect;
mod ending;
mod event;
mod failed_calls;
mod goal;
mod history;
mod input;
mod item;
mod live;
mod machine;
mod network;
mod output;
mod patches;
mod plan_tags;
mod planning;
mod processes;
mod reasoning;
mod retry;
mod review;
mod review_findings;
mod sampling;
mod settings;
mod tool_calls;
mod tools;
mod turn;
mod user_shell;

pub use approvals::{Ask, Decision};
pub use client_tools::{BUILT_IN_TOOLS, DynamicTool};
pub use context::{Context, instructions};
pub use effect::{
    Answer, Effect, ExecSpec, NotSteerable, Prompt, Record, Refusal, RefusalCause, ToolRequest,
};
pub use event::{Event, PlanStep, PlanStepStatus, Status, TurnError, TurnStatus, TurnView};
pub use goal::{Goal, GoalChange, GoalStatus};
pub use history::{Fragment, Mark};
pub use input::{
    Assessment, Attempted, Failure, FailureKind, ImageData, Input, ModelEvent, ModelItem,
    ModelItemKind, PatchPlan, Prepared, ProcessEnd, Retry, RuleDecision, Usage,
};
pub use item::{
    Action, Change, ChangeKind, CommandItem, CommandSource, DynamicCall, Item, ItemStatus, Phase,
    SearchAction, TextElement, ToolAnswer, ToolContent, UserContent,
};
pub use live::Live;
pub use machine::{Configured, Ids, Limits, Machine, Restored};
pub use network::{NetworkProtocol, NetworkTarget};
pub use settings::{
    Access, ApprovalPolicy, Granular, Mode, Overrides, ReadAccess, SandboxPolicy, Settings,
};
pub use tools::{CommandTool, PatchTool, ToolSet};

/// A thread, turn or item id. Shared, because every event about it carries it.
pub type Id = std::sync::Arc<str>;

/// Milliseconds since the Unix epoch.
pub type Millis = i64;
