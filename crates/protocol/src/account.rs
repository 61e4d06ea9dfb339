//! The account at the hosted service: login, logout, plan and limits.

use serde::{Deserialize, Serialize};

use crate::common::Empty;
use crate::table::{methods, notifications, server_requests};
use crate::wire;

methods! {
    Account, AccountMethods;

    /// Returns the account that is logged in.
    AccountRead = "account/read",
        account_read(AccountReadParams) -> AccountReadResponse,
        Stable, Concurrent, [];

    /// Starts a login.
    AccountLoginStart = "account/login/start",
        account_login_start(AccountLoginStartParams) -> AccountLoginStartResponse,
        Stable, Concurrent, [];

    /// Cancels a login in progress.
    AccountLoginCancel = "account/login/cancel",
        account_login_cancel(AccountLoginCancelParams) -> AccountLoginCancelResponse,
        Stable, Ordered, [];

    /// Logs out and deletes the credentials.
    AccountLogout = "account/logout",
        account_logout(Empty) -> Empty,
        Stable, Concurrent, [];

    /// Returns rate limits and their usage.
    AccountRateLimitsRead = "account/rateLimits/read",
        account_rate_limits_read(Empty) -> AccountRateLimitsReadResponse,
        Stable, Concurrent, [];

    /// Asks the workspace's owner for credits.
    AccountSendAddCreditsNudgeEmail = "account/sendAddCreditsNudgeEmail",
        account_send_add_credits_nudge_email(AccountSendAddCreditsNudgeEmailParams) -> AccountSendAddCreditsNudgeEmailResponse,
        Stable, Concurrent, [];
}

server_requests! {
    /// Requests fresh tokens from the client.
    AccountHostedAuthTokensRefresh = "account/hostedAuthTokens/refresh",
        HostedAuthTokensRefreshParams => HostedAuthTokensRefreshResponse, Stable;
}

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// A user logged in or out.
    AccountUpdated = "account/updated", AccountUpdatedNotification, Stable;

    /// A login succeeded or failed.
    AccountLoginCompleted = "account/login/completed", AccountLoginCompletedNotification, Stable;

    /// Rate limits changed.
    AccountRateLimitsUpdated = "account/rateLimits/updated", AccountRateLimitsUpdatedNotification, Stable;
}

/// Parameters of `account/read`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountReadParams {
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub refresh_token: bool,
}

/// Result of `account/read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountReadResponse {
    pub account: Option<Account>,
    /// The provider needs a login.
    pub requires_default_auth: bool,
}

/// The account that is logged in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Account {
    ApiKey,
    Hosted { email: String, plan_type: PlanType },
    AmazonBedrock,
}

/// Plan of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanType {
    Free,
    Go,
    Plus,
    Pro,
    Prolite,
    Team,
    SelfServeBusinessUsageBased,
    Business,
    EnterpriseCbpUsageBased,
    Enterprise,
    Edu,
    Unknown,
}

/// Parameters of `account/login/start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AccountLoginStartParams {
    ApiKey {
        api_key: String,
    },
    /// Login in a browser.
    Hosted {
        #[serde(
            default,
            deserialize_with = "wire::or_default",
            skip_serializing_if = "wire::is_false"
        )]
        agent_streamlined_login: bool,
    },
    /// Login with a code entered on another device.
    HostedDeviceCode,
    /// Login with tokens that the client provides.
    HostedAuthTokens {
        access_token: String,
        hosted_account_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        hosted_plan_type: Option<String>,
    },
}

/// Result of `account/login/start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AccountLoginStartResponse {
    ApiKey,
    Hosted { login_id: String, auth_url: String },
    HostedDeviceCode { login_id: String, verification_url: String, user_code: String },
    HostedAuthTokens,
}

/// Parameters of `account/login/cancel`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountLoginCancelParams {
    pub login_id: String,
}

/// Result of `account/login/cancel`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AccountLoginCancelResponse {
    pub status: AccountLoginCancelStatus,
}

/// The outcome of canceling a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AccountLoginCancelStatus {
    Canceled,
    NotFound,
}

/// Result of `account/rateLimits/read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountRateLimitsReadResponse {
    pub rate_limits: RateLimitSnapshot,
}

/// Limits of an account.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitSnapshot {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_type: Option<PlanType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<RateLimitWindow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secondary: Option<RateLimitWindow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credits: Option<CreditsSnapshot>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit_reached_type: Option<RateLimitReachedType>,
}

/// A limit over a period of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitWindow {
    pub used_percent: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_duration_mins: Option<i64>,
    /// Unix time in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<i64>,
}

/// Credits of an account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreditsSnapshot {
    pub has_credits: bool,
    pub unlimited: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub balance: Option<String>,
}

/// Which limit blocks the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateLimitReachedType {
    RateLimitReached,
    WorkspaceOwnerCreditsDepleted,
    WorkspaceMemberCreditsDepleted,
    WorkspaceOwnerUsageLimitReached,
    WorkspaceMemberUsageLimitReached,
}

/// Parameters of `account/sendAddCreditsNudgeEmail`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountSendAddCreditsNudgeEmailParams {
    pub credit_type: AddCreditsNudgeCreditType,
}

/// The resource that is exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AddCreditsNudgeCreditType {
    Credits,
    UsageLimit,
}

/// Result of `account/sendAddCreditsNudgeEmail`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AccountSendAddCreditsNudgeEmailResponse {
    pub status: AddCreditsNudgeEmailStatus,
}

/// The outcome of requesting an email.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AddCreditsNudgeEmailStatus {
    Sent,
    CooldownActive,
}

/// Parameters of `account/hostedAuthTokens/refresh`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostedAuthTokensRefreshParams {
    pub reason: HostedAuthTokensRefreshReason,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_account_id: Option<String>,
}

/// Why fresh tokens are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum HostedAuthTokensRefreshReason {
    Unauthorized,
}

/// The client's response to `account/hostedAuthTokens/refresh`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostedAuthTokensRefreshResponse {
    pub access_token: String,
    pub hosted_account_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosted_plan_type: Option<String>,
}

/// Payload of `account/updated`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountUpdatedNotification {
    pub auth_mode: Option<AuthMode>,
    pub plan_type: Option<PlanType>,
}

/// The server's way to authenticate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AuthMode {
    Apikey,
    Hosted,
    HostedAuthTokens,
    AgentIdentity,
}

/// Payload of `account/login/completed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountLoginCompletedNotification {
    pub login_id: Option<String>,
    pub success: bool,
    pub error: Option<String>,
}

/// Payload of `account/rateLimits/updated`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountRateLimitsUpdatedNotification {
    pub rate_limits: RateLimitSnapshot,
}
