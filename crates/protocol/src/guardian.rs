//! Automatic review of approval requests.

use serde::{Deserialize, Serialize};

use crate::approval::NetworkApprovalProtocol;
use crate::common::AbsolutePath;
use crate::permission::AdditionalPermissionProfile;
use crate::table::notifications;

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// An automatic review started.
    ItemAutoApprovalReviewStarted = "item/autoApprovalReview/started", ItemAutoApprovalReviewStartedNotification, Stable;

    /// An automatic review ended.
    ItemAutoApprovalReviewCompleted = "item/autoApprovalReview/completed", ItemAutoApprovalReviewCompletedNotification, Stable;

    /// A warning of the automatic reviewer.
    GuardianWarning = "guardianWarning", GuardianWarningNotification, Stable;
}

/// Payload of `item/autoApprovalReview/started`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemAutoApprovalReviewStartedNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub review_id: String,
    pub target_item_id: Option<String>,
    /// Unix time in milliseconds.
    pub started_at_ms: i64,
    pub review: GuardianApprovalReview,
    pub action: GuardianApprovalReviewAction,
}

/// Payload of `item/autoApprovalReview/completed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemAutoApprovalReviewCompletedNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub review_id: String,
    pub target_item_id: Option<String>,
    /// Unix time in milliseconds.
    pub started_at_ms: i64,
    /// Unix time in milliseconds.
    pub completed_at_ms: i64,
    pub decision_source: AutoReviewDecisionSource,
    pub review: GuardianApprovalReview,
    pub action: GuardianApprovalReviewAction,
}

/// Source of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AutoReviewDecisionSource {
    Agent,
}

/// The reviewer's findings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuardianApprovalReview {
    pub status: GuardianApprovalReviewStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<GuardianRiskLevel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_authorization: Option<GuardianUserAuthorization>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
}

/// State of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum GuardianApprovalReviewStatus {
    InProgress,
    Approved,
    Denied,
    TimedOut,
    Aborted,
}

/// The risk of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum GuardianRiskLevel {
    Low,
    Medium,
    High,
    Critical,
}

/// The clarity of the user's authorization of the action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum GuardianUserAuthorization {
    Unknown,
    Low,
    Medium,
    High,
}

/// The action under review.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum GuardianApprovalReviewAction {
    Command {
        source: GuardianCommandSource,
        command: String,
        cwd: AbsolutePath,
    },
    Execve {
        source: GuardianCommandSource,
        program: String,
        argv: Vec<String>,
        cwd: AbsolutePath,
    },
    ApplyPatch {
        cwd: AbsolutePath,
        files: Vec<AbsolutePath>,
    },
    NetworkAccess {
        target: String,
        host: String,
        protocol: NetworkApprovalProtocol,
        port: u16,
    },
    McpToolCall {
        server: String,
        tool_name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        connector_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        connector_name: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_title: Option<String>,
    },
    RequestPermissions {
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        permissions: AdditionalPermissionProfile,
    },
}

/// The way in which a command was to be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum GuardianCommandSource {
    Shell,
    UnifiedExec,
}

/// Payload of `guardianWarning`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuardianWarningNotification {
    pub thread_id: String,
    pub message: String,
}
