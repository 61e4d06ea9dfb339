//! Notifications about items, including their streamed deltas.

use serde::{Deserialize, Serialize};

use crate::item::{FileUpdateChange, ThreadItem};
use crate::table::notifications;

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// Work on an item started.
    ItemStarted = "item/started", ItemStartedNotification, Stable;

    /// An item in its final, authoritative form.
    ItemCompleted = "item/completed", ItemCompletedNotification, Stable;

    /// More text of a message.
    ItemAgentMessageDelta = "item/agentMessage/delta", AgentMessageDeltaNotification, Stable;

    /// More text of a plan.
    ItemPlanDelta = "item/plan/delta", PlanDeltaNotification, Stable;

    /// More text of a reasoning summary.
    ItemReasoningSummaryTextDelta = "item/reasoning/summaryTextDelta", ReasoningSummaryTextDeltaNotification, Stable;

    /// A new summary section starts.
    ItemReasoningSummaryPartAdded = "item/reasoning/summaryPartAdded", ReasoningSummaryPartAddedNotification, Stable;

    /// More raw reasoning.
    ItemReasoningTextDelta = "item/reasoning/textDelta", ReasoningTextDeltaNotification, Stable;

    /// A command that waited for an approval runs now: its item no longer has `awaitsApproval`.
    ItemCommandExecutionRunning = "item/commandExecution/running", CommandExecutionRunningNotification, Experimental;

    /// More output of a command.
    ItemCommandExecutionOutputDelta = "item/commandExecution/outputDelta", CommandExecutionOutputDeltaNotification, Stable;

    /// The agent typed into an interactive session.
    ItemCommandExecutionTerminalInteraction = "item/commandExecution/terminalInteraction", TerminalInteractionNotification, Stable;

    /// Never sent, and deprecated: `fileChange` items and `turn/diff/updated` have what changes.
    ItemFileChangeOutputDelta = "item/fileChange/outputDelta", FileChangeOutputDeltaNotification, Stable;

    /// A patch that the model is writing has grown. Sent while the arguments of the call stream in,
    /// before `item/started` of the item, which has the changes as they are going to be applied.
    ItemFileChangePatchUpdated = "item/fileChange/patchUpdated", FileChangePatchUpdatedNotification, Stable, Newest;

    /// Progress of an MCP tool.
    ItemMcpToolCallProgress = "item/mcpToolCall/progress", McpToolCallProgressNotification, Stable;
}

/// Payload of `item/started`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemStartedNotification {
    pub thread_id: String,
    pub turn_id: String,
    /// Unix time in milliseconds.
    pub started_at_ms: i64,
    pub item: ThreadItem,
}

/// Payload of `item/completed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemCompletedNotification {
    pub thread_id: String,
    pub turn_id: String,
    /// Unix time in milliseconds.
    pub completed_at_ms: i64,
    pub item: ThreadItem,
}

/// Payload of `item/commandExecution/running`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandExecutionRunningNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
}

/// Payload of `item/agentMessage/delta`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentMessageDeltaNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    pub delta: String,
}

/// Payload of `item/plan/delta`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanDeltaNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    pub delta: String,
}

/// Payload of `item/reasoning/summaryTextDelta`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasoningSummaryTextDeltaNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    pub delta: String,
    /// Index of the section, from 0.
    pub summary_index: i64,
}

/// Payload of `item/reasoning/summaryPartAdded`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasoningSummaryPartAddedNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    pub summary_index: i64,
}

/// Payload of `item/reasoning/textDelta`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasoningTextDeltaNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    pub delta: String,
    /// Index of the block, from 0.
    pub content_index: i64,
}

/// Payload of `item/commandExecution/outputDelta`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandExecutionOutputDeltaNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    pub delta: String,
}

/// Payload of `item/commandExecution/terminalInteraction`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TerminalInteractionNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    pub process_id: String,
    pub stdin: String,
}

/// Payload of `item/fileChange/outputDelta`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileChangeOutputDeltaNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    pub delta: String,
}

/// Payload of `item/fileChange/patchUpdated`: all changes that have come so far. The lines of a
/// changed file are those of the patch; the last of these notifications has the changes of the item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileChangePatchUpdatedNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    pub changes: Vec<FileUpdateChange>,
}

/// Payload of `item/mcpToolCall/progress`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpToolCallProgressNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    pub message: String,
}
