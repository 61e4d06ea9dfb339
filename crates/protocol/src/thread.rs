//! Threads: their methods and notifications, and what starting, resuming, forking and reading
//! takes. The record itself, the lists and the edits are in the `thread_*` modules beside it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::common::{AbsolutePath, Empty};
use crate::model::{ReasoningEffort};
use crate::permission::{ActivePermissionProfile, PermissionProfile, PermissionProfileSelectionParams};
use crate::policy::{ApprovalsReviewer, AskForApproval, SandboxMode, SandboxPolicy};
use crate::response_item::{ResponseItem};
use crate::thread_edit::{ThreadApproveGuardianDeniedActionParams, ThreadElicitationResponse, ThreadInjectItemsParams, ThreadMemoryModeSetParams, ThreadMetadataUpdateParams, ThreadNameSetParams, ThreadRollbackParams, ThreadShellCommandParams, ThreadUnsubscribeResponse};
use crate::thread_list::{ThreadItemsListParams, ThreadItemsListResponse, ThreadListParams, ThreadListResponse, ThreadLoadedListParams, ThreadLoadedListResponse, ThreadTurnsItemsListParams, ThreadTurnsItemsListResponse, ThreadTurnsListParams, ThreadTurnsListResponse};
use crate::thread_record::{Thread, ThreadCompactedNotification, ThreadIdNotification, ThreadNameUpdatedNotification, ThreadStartedNotification, ThreadStatusChangedNotification, ThreadTokenUsageUpdatedNotification};
use crate::tool::{DynamicToolSpec};
use crate::turn::{TurnEnvironmentParams};
use crate::table::{methods, notifications};
use crate::wire;

methods! {
    Thread, ThreadMethods;

    /// Starts a thread and subscribes the connection to it.
    ThreadStart = "thread/start",
        thread_start(ThreadStartParams) -> ThreadStartResponse,
        Stable, Ordered, [
            "dynamicTools",
            "environments",
            "experimentalRawEvents",
            "mockExperimentalField",
            "permissions",
            "persistExtendedHistory",
        ];

    /// Loads a stored thread and subscribes the connection to it.
    ThreadResume = "thread/resume",
        thread_resume(ThreadResumeParams) -> ThreadStartResponse,
        Stable, Ordered, [
            "eventCursor",
            "excludeTurns",
            "history",
            "path",
            "permissions",
            "persistExtendedHistory",
        ];

    /// Branches a thread into a new one.
    ThreadFork = "thread/fork",
        thread_fork(ThreadForkParams) -> ThreadStartResponse,
        Stable, Ordered, [
            "excludeTurns",
            "lastTurnId",
            "path",
            "permissions",
            "persistExtendedHistory",
        ];

    /// Reads a thread without loading it.
    ThreadRead = "thread/read",
        thread_read(ThreadReadParams) -> ThreadReadResponse,
        Stable, Ordered, [];

    /// Pages through stored threads, newest first.
    ThreadList = "thread/list",
        thread_list(ThreadListParams) -> ThreadListResponse,
        Stable, Ordered, [];

    /// Pages through a thread's turns, newest first.
    ThreadTurnsList = "thread/turns/list",
        thread_turns_list(ThreadTurnsListParams) -> ThreadTurnsListResponse,
        Stable, Ordered, [];

    /// Reserved by the specification: always an unsupported-method error.
    ThreadTurnsItemsList = "thread/turns/items/list",
        thread_turns_items_list(ThreadTurnsItemsListParams) -> ThreadTurnsItemsListResponse,
        Stable, Unimplemented, [];

    /// Pages through a thread's items, across its turns or in one.
    ThreadItemsList = "thread/items/list",
        thread_items_list(ThreadItemsListParams) -> ThreadItemsListResponse,
        Experimental, Ordered, [];

    /// Ids of the threads in memory.
    ThreadLoadedList = "thread/loaded/list",
        thread_loaded_list(ThreadLoadedListParams) -> ThreadLoadedListResponse,
        Stable, Ordered, [];

    /// Ends this connection's subscription.
    ThreadUnsubscribe = "thread/unsubscribe",
        thread_unsubscribe(ThreadIdParams) -> ThreadUnsubscribeResponse,
        Stable, Ordered, [];

    /// Moves a thread's log to the archive.
    ThreadArchive = "thread/archive",
        thread_archive(ThreadIdParams) -> Empty,
        Stable, Ordered, [];

    /// Restores an archived thread.
    ThreadUnarchive = "thread/unarchive",
        thread_unarchive(ThreadIdParams) -> ThreadReadResponse,
        Stable, Ordered, [];

    /// Removes a thread and its log for good.
    ThreadDelete = "thread/delete",
        thread_delete(ThreadIdParams) -> Empty,
        Experimental, Ordered, [];

    /// Gives a thread its title.
    ThreadNameSet = "thread/name/set",
        thread_name_set(ThreadNameSetParams) -> Empty,
        Stable, Ordered, [];

    /// Changes stored facts about a thread.
    ThreadMetadataUpdate = "thread/metadata/update",
        thread_metadata_update(ThreadMetadataUpdateParams) -> ThreadReadResponse,
        Stable, Ordered, [];

    /// Starts compaction; progress arrives as turn and item events.
    ThreadCompactStart = "thread/compact/start",
        thread_compact_start(ThreadIdParams) -> Empty,
        Stable, Ordered, [];

    /// Runs the user's own command, outside the sandbox.
    ThreadShellCommand = "thread/shellCommand",
        thread_shell_command(ThreadShellCommandParams) -> Empty,
        Stable, Ordered, [];

    /// Ends a thread's background terminals.
    ThreadBackgroundTerminalsClean = "thread/backgroundTerminals/clean",
        thread_background_terminals_clean(ThreadIdParams) -> Empty,
        Experimental, Ordered, [];

    /// Drops the last turns from the context.
    ThreadRollback = "thread/rollback",
        thread_rollback(ThreadRollbackParams) -> ThreadReadResponse,
        Stable, Ordered, [];

    /// Adds raw model-API items to the history.
    ThreadInjectItems = "thread/inject_items",
        thread_inject_items(ThreadInjectItemsParams) -> Empty,
        Stable, Ordered, [];

    /// Allows an action that the automatic reviewer denied.
    ThreadApproveGuardianDeniedAction = "thread/approveGuardianDeniedAction",
        thread_approve_guardian_denied_action(ThreadApproveGuardianDeniedActionParams) -> Empty,
        Stable, Unimplemented, [];

    /// Pauses timeouts while a prompt outside the server is open.
    ThreadIncrementElicitation = "thread/increment_elicitation",
        thread_increment_elicitation(ThreadIdParams) -> ThreadElicitationResponse,
        Experimental, Unimplemented, [];

    /// Ends one such pause.
    ThreadDecrementElicitation = "thread/decrement_elicitation",
        thread_decrement_elicitation(ThreadIdParams) -> ThreadElicitationResponse,
        Experimental, Unimplemented, [];

    /// Lets memory be drawn from a thread, or not.
    ThreadMemoryModeSet = "thread/memoryMode/set",
        thread_memory_mode_set(ThreadMemoryModeSetParams) -> Empty,
        Experimental, Unimplemented, [];
}

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// A thread was started, forked or made for a review.
    ThreadStarted = "thread/started", ThreadStartedNotification, Stable;

    /// A thread went to the archive.
    ThreadArchived = "thread/archived", ThreadIdNotification, Stable;

    /// A thread came back from the archive.
    ThreadUnarchived = "thread/unarchived", ThreadIdNotification, Stable;

    /// A thread was removed for good.
    ThreadDeleted = "thread/deleted", ThreadIdNotification, Experimental;

    /// A thread was unloaded.
    ThreadClosed = "thread/closed", ThreadIdNotification, Stable;

    /// A thread's runtime status changed.
    ThreadStatusChanged = "thread/status/changed", ThreadStatusChangedNotification, Stable;

    /// A thread got a title.
    ThreadNameUpdated = "thread/name/updated", ThreadNameUpdatedNotification, Stable;

    /// Token usage of the running turn.
    ThreadTokenUsageUpdated = "thread/tokenUsage/updated", ThreadTokenUsageUpdatedNotification, Stable;

    /// Deprecated: see the `contextCompaction` item.
    ThreadCompacted = "thread/compacted", ThreadCompactedNotification, Stable;
}

/// Parameters of `thread/start`; what is absent comes from the configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadStartParams {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Id of a configured provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// Working directory of the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<AskForApproval>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub permissions: Option<PermissionProfileSelectionParams>,
    /// Configuration overrides, by dotted key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<BTreeMap<String, Value>>,
    /// Replaces the built-in instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_instructions: Option<String>,
    /// Added to the instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub developer_instructions: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub personality: Option<Personality>,
    /// Tags the metrics of the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// Keeps no log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<bool>,
    /// Tools that the client runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub dynamic_tools: Option<Vec<DynamicToolSpec>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub environments: Option<Vec<TurnEnvironmentParams>>,
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "wire::is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub experimental_raw_events: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub mock_experimental_field: Option<String>,
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "wire::is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub persist_extended_history: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_start_source: Option<ThreadStartSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_source: Option<ThreadSource>,
}

/// Why a thread was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ThreadStartSource {
    Startup,
    Clear,
}

/// On whose behalf a thread exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ThreadSource {
    User,
    Subagent,
    MemoryConsolidation,
}

/// Tone of the model's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Personality {
    None,
    Friendly,
    Pragmatic,
}

/// Result of `thread/start`, `thread/resume` and `thread/fork`: the thread and its settings in
/// force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadStartResponse {
    pub thread: Thread,
    pub model: String,
    pub model_provider: String,
    pub service_tier: Option<String>,
    pub cwd: AbsolutePath,
    /// Instruction files that were read.
    #[serde(default, deserialize_with = "wire::or_default")]
    pub instruction_sources: Vec<AbsolutePath>,
    pub approval_policy: AskForApproval,
    pub approvals_reviewer: ApprovalsReviewer,
    pub sandbox: SandboxPolicy,
    pub reasoning_effort: Option<ReasoningEffort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub active_permission_profile: Option<ActivePermissionProfile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub permission_profile: Option<PermissionProfile>,
    /// The place of this response among the thread's events, with `capabilities.eventCursor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub event_cursor: Option<String>,
    /// How this client learns what it missed, with `eventCursor` in the parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub event_replay: Option<EventReplay>,
}

/// How a client that comes back learns what it missed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum EventReplay {
    /// Everything that was missed follows as notifications, the text of a stream in one piece.
    Replayed {
        /// How many notifications, those that the client opted out of included.
        events: u64,
        /// Ids of the server's requests that are shown again after them. Every other one that the
        /// client has open is resolved.
        open_request_ids: Vec<i64>,
    },
    /// What was missed is not there any more as events: `thread.turns` holds how things stand.
    Snapshot {
        /// Why.
        reason: SnapshotReason,
        /// `thread.turns` replaces this turn and all after it; `null`: everything that the client
        /// knows of the thread.
        from_turn_id: Option<String>,
        /// Whether `thread.turns` holds everything from there on. If not, it holds the newest turns,
        /// and the rest is to be read with `thread/turns/list`.
        is_complete: bool,
        /// Ids of the server's requests that are shown again after the response. Every other one
        /// that the client has open is resolved.
        open_request_ids: Vec<i64>,
    },
}

/// Why events cannot be told again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum SnapshotReason {
    /// The thread was unloaded since, or the server started anew.
    Reloaded,
    /// More has happened than the server keeps, or turns were rolled back.
    TooOld,
}

/// Parameters of `thread/resume`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadResumeParams {
    pub thread_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<AskForApproval>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub permissions: Option<PermissionProfileSelectionParams>,
    /// Configuration overrides, by dotted key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<BTreeMap<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_instructions: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub developer_instructions: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub personality: Option<Personality>,
    /// Leaves `thread.turns` empty.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "wire::is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub exclude_turns: bool,
    /// Starts a thread with these items as its history; `threadId` is not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub history: Option<Vec<ResponseItem>>,
    /// An exported file that holds the thread, which is stored now unless it is already;
    /// `threadId` is not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub path: Option<String>,
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "wire::is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub persist_extended_history: bool,
    /// The last `eventCursor` that this client saw of the thread: what it missed since is told
    /// again, after the response. Needs `capabilities.eventCursor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub event_cursor: Option<String>,
}

/// Parameters of `thread/fork`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadForkParams {
    pub thread_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<AskForApproval>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub permissions: Option<PermissionProfileSelectionParams>,
    /// Configuration overrides, by dotted key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<BTreeMap<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_instructions: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub developer_instructions: Option<String>,
    /// Keeps no log.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "wire::is_false")]
    pub ephemeral: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_source: Option<ThreadSource>,
    /// The fork ends with this turn; absent, with the last one that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub last_turn_id: Option<String>,
    /// Leaves `thread.turns` empty.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "wire::is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub exclude_turns: bool,
    /// An exported file that holds the thread to fork; `threadId` is not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub path: Option<String>,
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "wire::is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub persist_extended_history: bool,
}

/// Parameters of the methods that need a thread and nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadIdParams {
    pub thread_id: String,
}

/// Parameters of `thread/read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadReadParams {
    pub thread_id: String,
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "wire::is_false")]
    pub include_turns: bool,
}

/// Result of the methods that answer with a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadReadResponse {
    pub thread: Thread,
}
