//! The stored shape of what a thread has beyond its settings.

use protocol::{ThreadQueuePause, ThreadQueuePauseReason, ThreadSource, ThreadWorktree};
use serde::{Deserialize, Serialize};
use session::{ApprovedAction, Conceded, Concession, DynamicTool, Goal, GoalStatus};

use super::{Listed, StoredAgent, StoredSettings};

/// Facts about a thread in their stored shape.
#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct StoredExtra {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_instructions: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub developer_instructions: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_source: Option<StoredSource>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_memories: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub introduced: Option<StoredSettings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<StoredGoal>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approved_actions: Vec<StoredApproval>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub concessions: Vec<StoredConcession>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dynamic_tools: Vec<StoredTool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<StoredAgent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_pause: Option<StoredPause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<StoredWorktree>,
}

/// The part of it that lists show.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedShape {
    thread_source: Option<StoredSource>,
    worktree: Option<StoredWorktree>,
}

impl From<ListedShape> for Listed {
    fn from(shape: ListedShape) -> Self {
        Self {
            thread_source: shape.thread_source.map(|StoredSource(source)| source),
            worktree: shape.worktree.map(|StoredWorktree(worktree)| worktree),
        }
    }
}

/// For whom a thread was started, in its stored shape.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredSource(#[serde(with = "SourceShape")] pub(crate) ThreadSource);

#[derive(Serialize, Deserialize)]
#[serde(remote = "ThreadSource", rename_all = "snake_case")]
enum SourceShape {
    User,
    Subagent,
    MemoryConsolidation,
    #[serde(untagged)]
    Other(String),
}

/// A goal in its stored shape.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredGoal(#[serde(with = "GoalShape")] pub(crate) Goal);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Goal", rename_all = "camelCase")]
struct GoalShape {
    objective: String,
    #[serde(with = "GoalStatusShape")]
    status: GoalStatus,
    token_budget: Option<i64>,
    tokens_used: i64,
    time_used_ms: i64,
    created_at: i64,
    updated_at: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "GoalStatus", rename_all = "camelCase")]
enum GoalStatusShape {
    Active,
    Paused,
    BudgetLimited,
    Complete,
}

/// An approved action in its stored shape.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredApproval(#[serde(with = "ApprovedShape")] pub(crate) ApprovedAction);

#[derive(Serialize, Deserialize)]
#[serde(remote = "ApprovedAction", rename_all = "camelCase")]
struct ApprovedShape {
    review: String,
    digest: String,
    leaves_sandbox: bool,
    until: i64,
}

/// A concession to a provider in its stored shape.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredConcession(#[serde(with = "ConcededShape")] pub(crate) Conceded);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Conceded", rename_all = "camelCase")]
struct ConcededShape {
    provider: String,
    #[serde(with = "ConcessionShape")]
    concession: Concession,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Concession", rename_all = "camelCase")]
enum ConcessionShape {
    EarlierReasoning(usize),
    Reasoning,
    Images,
    ToolTypes,
    SystemMessages,
    Ids,
    CallIds,
    Member(String),
    Parameter(String),
    ItemType(String),
    CallsOf(String),
    ToolMember(String),
    PlainTexts,
    AllMembers,
    NoEmptyTexts,
    AnswersAsQuotes,
    MergedMessages,
    AlternatingRoles,
    UserAtEnd,
    ReasoningMember,
}

/// Why a queue waits, in its stored shape.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredPause(#[serde(with = "PauseShape")] pub(crate) ThreadQueuePause);

#[derive(Serialize, Deserialize)]
#[serde(remote = "ThreadQueuePause", rename_all = "camelCase")]
struct PauseShape {
    #[serde(with = "PauseReasonShape")]
    reason: ThreadQueuePauseReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ThreadQueuePauseReason", rename_all = "camelCase")]
enum PauseReasonShape {
    Interrupted,
    Failed,
    NotStarted,
    Archived,
}

/// A thread's worktree in its stored shape.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredWorktree(#[serde(with = "WorktreeShape")] pub(crate) ThreadWorktree);

#[derive(Serialize, Deserialize)]
#[serde(remote = "ThreadWorktree", rename_all = "camelCase")]
struct WorktreeShape {
    path: String,
    branch: String,
    repository: String,
    base: String,
}

/// A tool of a client in its stored shape.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredTool(#[serde(with = "ToolShape")] pub(crate) DynamicTool);

#[derive(Serialize, Deserialize)]
#[serde(remote = "DynamicTool", rename_all = "camelCase")]
struct ToolShape {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
    description: String,
    schema: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    defer_loading: bool,
}
