//! The administrator's requirements on the configuration.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::policy::{ApprovalsReviewer, AskForApproval, SandboxMode};

/// Result of `configRequirements/read`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ConfigRequirementsReadResponse {
    pub requirements: Option<ConfigRequirements>,
}

/// Limits on the configuration; an absent member is unconstrained.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigRequirements {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_approval_policies: Option<Vec<AskForApproval>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub allowed_approvals_reviewers: Option<Vec<ApprovalsReviewer>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_sandbox_modes: Option<Vec<SandboxMode>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_web_search_modes: Option<Vec<WebSearchMode>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enforce_residency: Option<ResidencyRequirement>,
    /// Required state, by feature name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feature_requirements: Option<BTreeMap<String, bool>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub hooks: Option<ManagedHooksRequirements>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkRequirements>,
}

/// Mode of web search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WebSearchMode {
    Disabled,
    Cached,
    Live,
}

/// Where data must remain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ResidencyRequirement {
    Us,
}

/// Restrictions on the network access of commands.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkRequirements {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socks_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_upstream_proxy: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dangerously_allow_non_loopback_proxy: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dangerously_allow_all_unix_sockets: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domains: Option<BTreeMap<String, NetworkDomainPermission>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_allowed_domains_only: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_domains: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denied_domains: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unix_sockets: Option<BTreeMap<String, NetworkUnixSocketPermission>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_unix_sockets: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_local_binding: Option<bool>,
}

/// Access to a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NetworkDomainPermission {
    Allow,
    Deny,
}

/// Access to a Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NetworkUnixSocketPermission {
    Allow,
    None,
}

/// Hooks that the administrator installs, by event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedHooksRequirements {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_dir: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows_managed_dir: Option<String>,
    #[serde(rename = "PreToolUse", default)]
    pub pre_tool_use: Vec<ConfiguredHookMatcherGroup>,
    #[serde(rename = "PermissionRequest", default)]
    pub permission_request: Vec<ConfiguredHookMatcherGroup>,
    #[serde(rename = "PostToolUse", default)]
    pub post_tool_use: Vec<ConfiguredHookMatcherGroup>,
    #[serde(rename = "PreCompact", default)]
    pub pre_compact: Vec<ConfiguredHookMatcherGroup>,
    #[serde(rename = "PostCompact", default)]
    pub post_compact: Vec<ConfiguredHookMatcherGroup>,
    #[serde(rename = "SessionStart", default)]
    pub session_start: Vec<ConfiguredHookMatcherGroup>,
    #[serde(rename = "UserPromptSubmit", default)]
    pub user_prompt_submit: Vec<ConfiguredHookMatcherGroup>,
    #[serde(rename = "Stop", default)]
    pub stop: Vec<ConfiguredHookMatcherGroup>,
}

/// Hooks with the same matcher.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ConfiguredHookMatcherGroup {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matcher: Option<String>,
    pub hooks: Vec<ConfiguredHookHandler>,
}

/// Handler of a hook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ConfiguredHookHandler {
    Command {
        command: String,
        #[serde(rename = "async")]
        is_async: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        status_message: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        timeout_sec: Option<u64>,
    },
    Prompt,
    Agent,
}
