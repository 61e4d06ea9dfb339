//! Requests for the client's approval of a command, a file change or additional permissions.

use serde::{Deserialize, Serialize};

use crate::common::AbsolutePath;
use crate::item::CommandAction;
use crate::permission::AdditionalPermissionProfile;
use crate::table::server_requests;
use crate::wire;

server_requests! {
    /// Requests approval of a command.
    ItemCommandExecutionRequestApproval = "item/commandExecution/requestApproval",
        CommandExecutionRequestApprovalParams => CommandExecutionRequestApprovalResponse, Stable;

    /// Requests approval of a patch.
    ItemFileChangeRequestApproval = "item/fileChange/requestApproval",
        FileChangeRequestApprovalParams => FileChangeRequestApprovalResponse, Stable;

    /// Requests permissions beyond the sandbox policy.
    ItemPermissionsRequestApproval = "item/permissions/requestApproval",
        PermissionsRequestApprovalParams => PermissionsRequestApprovalResponse, Stable;
}

/// Parameters of `item/commandExecution/requestApproval`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandExecutionRequestApprovalParams {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    /// Unix time in milliseconds.
    pub started_at_ms: i64,
    /// Distinguishes several requests for one item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Present when the request concerns the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_approval_context: Option<NetworkApprovalContext>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<AbsolutePath>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_actions: Option<Vec<CommandAction>>,
    /// Permissions that the command requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub additional_permissions: Option<AdditionalPermissionProfile>,
    /// Command prefix that the client can allow from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposed_execpolicy_amendment: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposed_network_policy_amendments: Option<Vec<NetworkPolicyAmendment>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_decisions: Option<Vec<CommandExecutionApprovalDecision>>,
}

/// The host that a command connects to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct NetworkApprovalContext {
    pub host: String,
    pub protocol: NetworkApprovalProtocol,
}

/// Protocol of a managed connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NetworkApprovalProtocol {
    Http,
    Https,
    Socks5Tcp,
    Socks5Udp,
}

/// A proposed host rule for later connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkPolicyAmendment {
    pub host: String,
    pub action: NetworkPolicyRuleAction,
}

/// Effect of a host rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NetworkPolicyRuleAction {
    Allow,
    Deny,
}

/// The client's response to `item/commandExecution/requestApproval`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CommandExecutionRequestApprovalResponse {
    pub decision: CommandExecutionApprovalDecision,
}

/// Decision on a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum CommandExecutionApprovalDecision {
    Accept,
    /// Accepts this command, and the same command later in the session.
    AcceptForSession,
    /// Accepts, and allows the command prefix from now on.
    AcceptWithExecpolicyAmendment {
        execpolicy_amendment: Vec<String>,
    },
    /// Applies and stores the host rule.
    ApplyNetworkPolicyAmendment {
        network_policy_amendment: NetworkPolicyAmendment,
    },
    /// Declines; the turn continues.
    Decline,
    /// Declines; the turn ends.
    Cancel,
}

/// Parameters of `item/fileChange/requestApproval`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileChangeRequestApprovalParams {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    /// Unix time in milliseconds.
    pub started_at_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Folder that would become writable for the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant_root: Option<String>,
}

/// The client's response to `item/fileChange/requestApproval`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FileChangeRequestApprovalResponse {
    pub decision: FileChangeApprovalDecision,
}

/// Decision on a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FileChangeApprovalDecision {
    Accept,
    /// Accepts this change, and changes of the same files later in the session.
    AcceptForSession,
    /// Declines; the turn continues.
    Decline,
    /// Declines; the turn ends.
    Cancel,
}

/// Parameters of `item/permissions/requestApproval`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionsRequestApprovalParams {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    /// Unix time in milliseconds.
    pub started_at_ms: i64,
    pub cwd: AbsolutePath,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub permissions: AdditionalPermissionProfile,
}

/// The client's response to `item/permissions/requestApproval`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionsRequestApprovalResponse {
    /// The permissions granted; empty grants nothing.
    pub permissions: AdditionalPermissionProfile,
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_default"
    )]
    pub scope: PermissionGrantScope,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_auto_review: Option<bool>,
}

/// The lifetime of a grant.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum PermissionGrantScope {
    #[default]
    Turn,
    Session,
}
