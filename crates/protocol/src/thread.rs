//! Threads: their methods and notifications, and reading a thread. The record itself and the
//! parameters of starting, listing and editing are in the `thread_*` modules.

use serde::{Deserialize, Serialize};

use crate::common::Empty;
use crate::table::{methods, notifications};
use crate::thread_change::{
    ThreadMetadataUpdatedNotification, ThreadRolledBackNotification,
    ThreadSettingsUpdatedNotification,
};
use crate::thread_edit::{
    ThreadApproveGuardianDeniedActionParams, ThreadElicitationResponse, ThreadInjectItemsParams,
    ThreadMemoryModeSetParams, ThreadMetadataUpdateParams, ThreadNameSetParams,
    ThreadRollbackParams, ThreadRollbackResponse, ThreadShellCommandParams,
    ThreadUnsubscribeResponse,
};
use crate::thread_list::{
    ThreadItemsListParams, ThreadItemsListResponse, ThreadListParams, ThreadListResponse,
    ThreadLoadedListParams, ThreadLoadedListResponse, ThreadTurnsItemsListParams,
    ThreadTurnsItemsListResponse, ThreadTurnsListParams, ThreadTurnsListResponse,
};
use crate::thread_record::{
    Thread, ThreadCompactedNotification, ThreadIdNotification, ThreadNameUpdatedNotification,
    ThreadStartedNotification, ThreadStatusChangedNotification,
    ThreadTokenUsageUpdatedNotification,
};
use crate::thread_start::{
    ThreadForkParams, ThreadResumeParams, ThreadStartParams, ThreadStartResponse,
};
use crate::wire;

methods! {
    Thread, ThreadMethods;

    /// Starts a thread and subscribes the connection to it.
    ThreadStart = "thread/start",
        thread_start(ThreadStartParams) -> ThreadStartResponse,
        Stable, Independent, [
            "dynamicTools",
            "environments",
            "experimentalRawEvents",
            "mockExperimentalField",
            "permissions",
            "persistExtendedHistory",
            "worktree",
        ], StartsWork;

    /// Loads a stored thread and subscribes the connection to it.
    ThreadResume = "thread/resume",
        thread_resume(ThreadResumeParams) -> ThreadStartResponse,
        Stable, InThread, [
            "dynamicTools",
            "eventCursor",
            "excludeTurns",
            "history",
            "path",
            "permissions",
            "persistExtendedHistory",
        ], StartsWork;

    /// Creates a new thread from an existing one.
    ThreadFork = "thread/fork",
        thread_fork(ThreadForkParams) -> ThreadStartResponse,
        Stable, InThread, [
            "excludeTurns",
            "lastTurnId",
            "path",
            "permissions",
            "persistExtendedHistory",
        ], StartsWork;

    /// Reads a thread without loading it.
    ThreadRead = "thread/read",
        thread_read(ThreadReadParams) -> ThreadReadResponse,
        Stable, Ordered, [], LongAnswer;

    /// Lists stored threads, newest first.
    ThreadList = "thread/list",
        thread_list(ThreadListParams) -> ThreadListResponse,
        Stable, Independent, [];

    /// Lists a thread's turns, newest first.
    ThreadTurnsList = "thread/turns/list",
        thread_turns_list(ThreadTurnsListParams) -> ThreadTurnsListResponse,
        Stable, Ordered, [], LongAnswer;

    /// Reserved by the specification, and always refused as unsupported: `thread/turns/list` returns the items.
    ThreadTurnsItemsList = "thread/turns/items/list",
        thread_turns_items_list(ThreadTurnsItemsListParams) -> ThreadTurnsItemsListResponse,
        Stable, Unimplemented, [];

    /// Lists the items of a thread, or of one of its turns.
    ThreadItemsList = "thread/items/list",
        thread_items_list(ThreadItemsListParams) -> ThreadItemsListResponse,
        Experimental, Ordered, [], LongAnswer;

    /// Lists the ids of loaded threads.
    ThreadLoadedList = "thread/loaded/list",
        thread_loaded_list(ThreadLoadedListParams) -> ThreadLoadedListResponse,
        Stable, Ordered, [];

    /// Ends this connection's subscription.
    ThreadUnsubscribe = "thread/unsubscribe",
        thread_unsubscribe(ThreadIdParams) -> ThreadUnsubscribeResponse,
        Stable, InThread, [];

    /// Moves a thread's log to the archive.
    ThreadArchive = "thread/archive",
        thread_archive(ThreadIdParams) -> Empty,
        Stable, InThread, [];

    /// Restores an archived thread.
    ThreadUnarchive = "thread/unarchive",
        thread_unarchive(ThreadIdParams) -> ThreadReadResponse,
        Stable, InThread, [];

    /// Deletes a thread and its log permanently.
    ThreadDelete = "thread/delete",
        thread_delete(ThreadIdParams) -> Empty,
        Experimental, InThread, [];

    /// Sets a thread's title.
    ThreadNameSet = "thread/name/set",
        thread_name_set(ThreadNameSetParams) -> Empty,
        Stable, InThread, [];

    /// Changes the metadata of a stored thread.
    ThreadMetadataUpdate = "thread/metadata/update",
        thread_metadata_update(ThreadMetadataUpdateParams) -> ThreadReadResponse,
        Stable, InThread, [];

    /// Starts compaction; progress is reported in turn and item notifications.
    ThreadCompactStart = "thread/compact/start",
        thread_compact_start(ThreadIdParams) -> Empty,
        Stable, InThread, [], StartsWork;

    /// Runs a command of the user, outside the sandbox.
    ThreadShellCommand = "thread/shellCommand",
        thread_shell_command(ThreadShellCommandParams) -> Empty,
        Stable, InThread, [], StartsWork;

    /// Ends a thread's background terminals.
    ThreadBackgroundTerminalsClean = "thread/backgroundTerminals/clean",
        thread_background_terminals_clean(ThreadIdParams) -> Empty,
        Experimental, InThread, [];

    /// Removes the last turns from the context.
    ThreadRollback = "thread/rollback",
        thread_rollback(ThreadRollbackParams) -> ThreadRollbackResponse,
        Stable, InThread, ["restoreFiles", "dryRun", "overwriteChanges"];

    /// Adds raw model-API items to the history.
    ThreadInjectItems = "thread/inject_items",
        thread_inject_items(ThreadInjectItemsParams) -> Empty,
        Stable, InThread, [];

    /// Allows an action that the automatic reviewer denied.
    ThreadApproveGuardianDeniedAction = "thread/approveGuardianDeniedAction",
        thread_approve_guardian_denied_action(ThreadApproveGuardianDeniedActionParams) -> Empty,
        Stable, InThread, [];

    /// Pauses timeouts while a prompt outside the server is open.
    ThreadIncrementElicitation = "thread/increment_elicitation",
        thread_increment_elicitation(ThreadIdParams) -> ThreadElicitationResponse,
        Experimental, InThread, [];

    /// Ends one such pause.
    ThreadDecrementElicitation = "thread/decrement_elicitation",
        thread_decrement_elicitation(ThreadIdParams) -> ThreadElicitationResponse,
        Experimental, InThread, [];

    /// Allows or forbids memory to use a thread.
    ThreadMemoryModeSet = "thread/memoryMode/set",
        thread_memory_mode_set(ThreadMemoryModeSetParams) -> Empty,
        Experimental, InThread, [];
}

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// A thread was started, forked or created for a review.
    ThreadStarted = "thread/started", ThreadStartedNotification, Stable;

    /// A thread was archived.
    ThreadArchived = "thread/archived", ThreadIdNotification, Stable;

    /// A thread was restored from the archive.
    ThreadUnarchived = "thread/unarchived", ThreadIdNotification, Stable;

    /// A thread was deleted permanently.
    ThreadDeleted = "thread/deleted", ThreadIdNotification, Experimental;

    /// A thread was unloaded.
    ThreadClosed = "thread/closed", ThreadIdNotification, Stable;

    /// A thread's runtime status changed.
    ThreadStatusChanged = "thread/status/changed", ThreadStatusChangedNotification, Stable, Newest;

    /// A thread's title changed.
    ThreadNameUpdated = "thread/name/updated", ThreadNameUpdatedNotification, Stable, Newest;

    /// The settings of a thread's later turns changed.
    ThreadSettingsUpdated = "thread/settings/updated", ThreadSettingsUpdatedNotification, Experimental, Newest;

    /// A thread's metadata changed.
    ThreadMetadataUpdated = "thread/metadata/updated", ThreadMetadataUpdatedNotification, Experimental, Newest;

    /// Turns at the end of a thread were dropped.
    ThreadRolledBack = "thread/rolledBack", ThreadRolledBackNotification, Experimental;

    /// Token usage of the turn in progress.
    ThreadTokenUsageUpdated = "thread/tokenUsage/updated", ThreadTokenUsageUpdatedNotification, Stable, Newest;

    /// Deprecated: see the `contextCompaction` item.
    ThreadCompacted = "thread/compacted", ThreadCompactedNotification, Stable;
}

/// Parameters of methods that take only a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadIdParams {
    pub thread_id: String,
}

/// Parameters of `thread/read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadReadParams {
    pub thread_id: String,
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub include_turns: bool,
}

/// Result of methods that return a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ThreadReadResponse {
    pub thread: Thread,
}
