//! Turns: one input of the user and the work that follows it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::collaboration::CollaborationMode;
use crate::common::{AbsolutePath, Empty};
use crate::error::TurnError;
use crate::input::UserInput;
use crate::item::ThreadItem;
use crate::json_text::JsonText;
use crate::model::{Personality, ReasoningEffort, ReasoningSummary};
use crate::permission::{self, PermissionProfileSelectionParams};
use crate::policy::{ApprovalsReviewer, AskForApproval, SandboxPolicy};
use crate::table::{methods, notifications};
use crate::wire;

methods! {
    Turn, TurnMethods;

    /// Starts a turn. While another turn of the thread runs, the input joins that one: the model sees it with its
    /// next request, and both turns end together, each with its own `turn/completed`. During a review or a
    /// compaction the request is refused.
    TurnStart = "turn/start",
        turn_start(TurnStartParams) -> TurnStartResponse,
        Stable, InThread, [
            "environments",
            "maxTotalTokens",
            "permissions",
            "responsesapiClientMetadata",
        ], StartsWork;

    /// Adds input to the turn in progress, without a turn of its own.
    TurnSteer = "turn/steer",
        turn_steer(TurnSteerParams) -> TurnSteerResponse,
        Stable, InThread, ["responsesapiClientMetadata"];

    /// Interrupts the turn in progress.
    TurnInterrupt = "turn/interrupt",
        turn_interrupt(TurnInterruptParams) -> Empty,
        Stable, Independent, [];
}

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// A turn started.
    TurnStarted = "turn/started", TurnStartedNotification, Stable;

    /// A turn ended; sent exactly once for each turn.
    TurnCompleted = "turn/completed", TurnCompletedNotification, Stable;

    /// Unified diff of all file changes so far.
    TurnDiffUpdated = "turn/diff/updated", TurnDiffUpdatedNotification, Stable, Newest;

    /// The agent changed its plan.
    TurnPlanUpdated = "turn/plan/updated", TurnPlanUpdatedNotification, Stable, Newest;

    /// A turn had an error; the turn's end follows unless the request is retried.
    TurnErrorEvent = "error", ErrorNotification, Stable;
}

/// One input of the user and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    pub id: String,
    pub status: TurnStatus,
    /// Empty in the response of `turn/start` and in notifications.
    #[serde(default, deserialize_with = "wire::or_default")]
    pub items: Vec<ThreadItem>,
    /// The included part of the items.
    #[serde(default, deserialize_with = "wire::or_default")]
    pub items_view: TurnItemsView,
    pub error: Option<TurnError>,
    /// Unix time in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<i64>,
    /// Unix time in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
}

/// State of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TurnStatus {
    InProgress,
    Completed,
    Interrupted,
    Failed,
}

/// The part of a turn's items to include.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum TurnItemsView {
    /// No items.
    NotLoaded,
    /// The first message of the user and the last of the agent.
    Summary,
    /// All items.
    #[default]
    Full,
}

/// Parameters of `turn/start`. Overrides also apply to later turns, except `outputSchema`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TurnStartParams {
    pub thread_id: String,
    pub input: Vec<UserInput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<AskForApproval>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox_policy: Option<SandboxPolicy>,
    #[serde(
        default,
        deserialize_with = "permission::selection",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("x-experimental" = true))]
    pub permissions: Option<PermissionProfileSelectionParams>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Null selects the default tier.
    #[serde(
        default,
        deserialize_with = "wire::double_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub service_tier: Option<Option<String>>,
    /// Service tier of this turn only; `default` for the provider's default. A turn that joins a running
    /// one has the tier of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier_for_turn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<ReasoningEffort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<ReasoningSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub personality: Option<Personality>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collaboration_mode: Option<CollaborationMode>,
    /// JSON Schema of the final answer, for this turn only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<JsonText>,
    /// The trigger of the turn, in the client's words: a note for the server's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_trigger: Option<String>,
    /// Most tokens, input and output, that this turn, its agents and the turns that continue its goal
    /// may use together. With a turn in progress, its limit becomes the lower of the two; that of an
    /// agent's turn counts from then on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub max_total_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub environments: Option<Vec<TurnEnvironmentParams>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub responsesapi_client_metadata: Option<BTreeMap<String, String>>,
}

/// An execution environment and the folder to work in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TurnEnvironmentParams {
    pub environment_id: String,
    pub cwd: AbsolutePath,
}

/// Result of `turn/start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TurnStartResponse {
    pub turn: Turn,
}

/// Parameters of `turn/steer`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TurnSteerParams {
    pub thread_id: String,
    pub input: Vec<UserInput>,
    /// Must be the turn in progress.
    pub expected_turn_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub responsesapi_client_metadata: Option<BTreeMap<String, String>>,
}

/// Result of `turn/steer`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnSteerResponse {
    pub turn_id: String,
}

/// Parameters of `turn/interrupt`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnInterruptParams {
    pub thread_id: String,
    pub turn_id: String,
}

/// Payload of `turn/started`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnStartedNotification {
    pub thread_id: String,
    pub turn: Turn,
}

/// Payload of `turn/completed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnCompletedNotification {
    pub thread_id: String,
    pub turn: Turn,
}

/// Payload of `turn/diff/updated`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnDiffUpdatedNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub diff: String,
}

/// Payload of `turn/plan/updated`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnPlanUpdatedNotification {
    pub thread_id: String,
    pub turn_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
    pub plan: Vec<TurnPlanStep>,
}

/// A step of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TurnPlanStep {
    pub step: String,
    pub status: TurnPlanStepStatus,
}

/// State of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TurnPlanStepStatus {
    Pending,
    InProgress,
    Completed,
}

/// Payload of `error`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorNotification {
    pub error: TurnError,
    pub will_retry: bool,
    /// The attempt that follows, with `willRetry`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<ErrorRetry>,
    pub thread_id: String,
    pub turn_id: String,
}

/// The attempt that follows a failed request to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorRetry {
    /// Number of the attempt, from 1.
    pub attempt: u32,
    pub max_attempts: u32,
    /// Milliseconds until it begins, at most.
    pub wait_ms: u64,
}
