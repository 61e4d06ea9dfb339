//! Parameters and results of the methods that change a thread.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Thread, wire};

/// Result of `thread/unsubscribe`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ThreadUnsubscribeResponse {
    pub status: ThreadUnsubscribeStatus,
}

/// State of the connection's subscription before the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ThreadUnsubscribeStatus {
    NotLoaded,
    NotSubscribed,
    Unsubscribed,
}

/// Parameters of `thread/name/set`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadNameSetParams {
    pub thread_id: String,
    pub name: String,
}

/// Parameters of `thread/metadata/update`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadMetadataUpdateParams {
    pub thread_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_info: Option<ThreadMetadataGitInfoUpdate>,
}

/// Changes to `gitInfo`: an absent member is unchanged, a null member is cleared.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadMetadataGitInfoUpdate {
    #[serde(
        default,
        deserialize_with = "wire::double_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub sha: Option<Option<String>>,
    #[serde(
        default,
        deserialize_with = "wire::double_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub branch: Option<Option<String>>,
    #[serde(
        default,
        deserialize_with = "wire::double_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub origin_url: Option<Option<String>>,
}

/// Parameters of `thread/shellCommand`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadShellCommandParams {
    pub thread_id: String,
    pub command: String,
}

/// Parameters of `thread/rollback`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadRollbackParams {
    pub thread_id: String,
    pub num_turns: u32,
    /// Undo what the turns changed in files, too, including changes by sub-agents. Needs
    /// `features.undo` from before the turns on.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    #[schemars(extend("x-experimental" = true))]
    pub restore_files: bool,
    /// With `restoreFiles`: change nothing, and answer with what would be done.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    #[schemars(extend("x-experimental" = true))]
    pub dry_run: bool,
    /// With `restoreFiles`: also restore what something else has changed since.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    #[schemars(extend("x-experimental" = true))]
    pub overwrite_changes: bool,
}

/// Result of `thread/rollback`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ThreadRollbackResponse {
    pub thread: Thread,
    /// The changes of files; present with `restoreFiles`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub files: Option<RestoredFiles>,
}

/// The changes of files that a rollback makes, or would make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoredFiles {
    /// From the files as they were before the call to the restored ones, in git's format.
    pub diff: String,
    /// True if `diff` lacks its end, because it is too long.
    pub diff_truncated: bool,
    /// Absolute paths.
    pub restored: Vec<String>,
    /// Files that something else than the turns has changed, too.
    pub conflicts: Vec<NotedPath>,
    /// Changed files that cannot be restored.
    pub not_restored: Vec<NotedPath>,
}

/// A path with a remark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct NotedPath {
    /// Absolute.
    pub path: String,
    pub reason: String,
}

/// Parameters of `thread/inject_items`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadInjectItemsParams {
    pub thread_id: String,
    /// Message items of the model API, unchanged.
    pub items: Vec<Value>,
}

/// Parameters of `thread/approveGuardianDeniedAction`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadApproveGuardianDeniedActionParams {
    pub thread_id: String,
    /// The review as reported.
    pub event: Value,
}

/// Number of open prompts outside the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ThreadElicitationResponse {
    pub count: u64,
    pub paused: bool,
}

/// Parameters of `thread/memoryMode/set`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadMemoryModeSetParams {
    pub thread_id: String,
    pub mode: ThreadMemoryMode,
}

/// The use of a thread by memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ThreadMemoryMode {
    Enabled,
    Disabled,
}
