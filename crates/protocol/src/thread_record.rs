//! The thread record and its notifications. Methods on threads are in `thread`.

use serde::{Deserialize, Serialize};

use crate::common::AbsolutePath;
use crate::turn::Turn;
use crate::wire;
use crate::worktree::ThreadWorktree;

/// A conversation (specification, "Thread").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Thread {
    pub id: String,
    /// Root of the live session tree; a fork keeps its root's.
    pub session_id: String,
    /// The user's first text.
    pub preview: String,
    pub ephemeral: bool,
    pub model_provider: String,
    /// Unix time in seconds.
    pub created_at: i64,
    /// Unix time in seconds of the last turn's start.
    pub updated_at: i64,
    pub status: ThreadStatus,
    /// Path of the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    pub cwd: AbsolutePath,
    /// Version of the program that started the thread.
    pub cli_version: String,
    pub source: SessionSource,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_source: Option<ThreadSource>,
    /// Nickname of a sub-agent's thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_nickname: Option<String>,
    /// Role of a sub-agent's thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from_id: Option<String>,
    /// Title, if set.
    pub name: Option<String>,
    pub git_info: Option<GitInfo>,
    /// The worktree that `thread/start` made for it, or for the thread that it was forked from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub worktree: Option<ThreadWorktree>,
    /// Filled only by methods documented to return turns.
    #[serde(default)]
    pub turns: Vec<Turn>,
}

/// Runtime status of a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ThreadStatus {
    /// Not in memory.
    NotLoaded,
    /// Loaded, without a turn in progress.
    Idle,
    /// The last turn failed.
    SystemError,
    /// Loaded, with a turn in progress.
    Active { active_flags: Vec<ThreadActiveFlag> },
}

/// The thing that an active thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ThreadActiveFlag {
    WaitingOnApproval,
    WaitingOnUserInput,
}

/// Kind of client that started a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SessionSource {
    Cli,
    Editor,
    Exec,
    AppServer,
    Unknown,
    /// Another product, identified by name.
    Custom(String),
    /// The server itself.
    SubAgent(SubAgentSource),
}

/// Why the server started a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SubAgentSource {
    Review,
    Compact,
    MemoryConsolidation,
    ThreadSpawn(ThreadSpawnSource),
    Other(String),
}

/// The thread that spawned a sub-agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ThreadSpawnSource {
    pub parent_thread_id: String,
    /// Distance from the root thread.
    pub depth: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_nickname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_role: Option<String>,
}

/// State of the repository when the thread was last used.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitInfo {
    pub sha: Option<String>,
    pub branch: Option<String>,
    pub origin_url: Option<String>,
}

/// Payload of `thread/started`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ThreadStartedNotification {
    pub thread: Thread,
}

/// Payload of notifications that name only a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadIdNotification {
    pub thread_id: String,
}

/// Payload of `thread/status/changed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadStatusChangedNotification {
    pub thread_id: String,
    pub status: ThreadStatus,
}

/// Payload of `thread/name/updated`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadNameUpdatedNotification {
    pub thread_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_name: Option<String>,
}

/// Payload of `thread/tokenUsage/updated`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadTokenUsageUpdatedNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub token_usage: ThreadTokenUsage,
}

/// Tokens used by a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadTokenUsage {
    pub total: TokenUsageBreakdown,
    /// Used by the last model request.
    pub last: TokenUsageBreakdown,
    pub model_context_window: Option<i64>,
    /// Tokens that the turn and its agents used together so far. Only of turns that have agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_with_agents: Option<i64>,
    /// The cost of the tokens, for clients with the capability `tokenCost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub cost: Option<TokenCost>,
}

/// The cost of tokens: exact decimal numbers, such as `0.0125`. Null where the price of a part is
/// not known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenCost {
    /// `USD`.
    pub currency: String,
    /// Of the last model request.
    pub last: Option<String>,
    /// Of the turn so far, without its agents.
    pub turn: Option<String>,
    /// Of the turn so far, with its agents.
    pub turn_with_agents: Option<String>,
    /// Of the thread so far, without its agents; a fork begins with that of its parent.
    pub thread: Option<String>,
}

/// Tokens by kind.
#[derive(Debug, Clone, PartialEq, Copy, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsageBreakdown {
    pub total_tokens: i64,
    pub input_tokens: i64,
    /// Part of `inputTokens`.
    pub cached_input_tokens: i64,
    /// Part of `inputTokens`, written to the provider's prompt cache; absent if it is 0.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_default"
    )]
    pub cache_write_input_tokens: i64,
    pub output_tokens: i64,
    /// Part of `outputTokens`.
    pub reasoning_output_tokens: i64,
}

/// Payload of `thread/compacted`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadCompactedNotification {
    pub thread_id: String,
    pub turn_id: String,
}

/// For whom a thread was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThreadSource {
    User,
    Subagent,
    MemoryConsolidation,
    /// A name of the client's own.
    #[serde(untagged)]
    Other(String),
}

impl From<&str> for ThreadSource {
    fn from(name: &str) -> Self {
        match name {
            "user" => Self::User,
            "subagent" => Self::Subagent,
            "memory_consolidation" => Self::MemoryConsolidation,
            other => Self::Other(other.to_owned()),
        }
    }
}
