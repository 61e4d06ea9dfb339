//! Payloads of the notifications that a thread's settings, metadata or turns were changed.

use serde::{Deserialize, Serialize};

use crate::collaboration::CollaborationMode;
use crate::common::AbsolutePath;
use crate::model::{Personality, ReasoningEffort, ReasoningSummary};
use crate::policy::{ApprovalsReviewer, AskForApproval, SandboxPolicy};
use crate::thread_record::GitInfo;

/// Payload of `thread/settings/updated`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSettingsUpdatedNotification {
    pub thread_id: String,
    pub thread_settings: ThreadSettings,
}

/// The settings of a thread's later turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSettings {
    pub cwd: AbsolutePath,
    pub model: String,
    pub model_provider: String,
    pub approval_policy: AskForApproval,
    pub approvals_reviewer: ApprovalsReviewer,
    pub sandbox_policy: SandboxPolicy,
    pub collaboration_mode: CollaborationMode,
    pub effort: Option<ReasoningEffort>,
    pub summary: Option<ReasoningSummary>,
    pub service_tier: Option<String>,
    pub personality: Option<Personality>,
}

/// Payload of `thread/metadata/updated`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadMetadataUpdatedNotification {
    pub thread_id: String,
    /// All of it, as it is now; null when nothing is left.
    pub git_info: Option<GitInfo>,
}

/// Payload of `thread/rolledBack`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRolledBackNotification {
    pub thread_id: String,
    /// Number of turns at the end of the thread that were dropped.
    pub num_turns: u32,
}
