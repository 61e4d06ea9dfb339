//! Approval policy, sandbox mode and sandbox policy. Both spellings are accepted; the
//! specification's is written.

use serde::{Deserialize, Serialize};

use crate::common::AbsolutePath;
use crate::wire;

/// When the agent asks for approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-aliases" = ["untrusted", "unless-trusted", "on-failure", "on-request"]))]
pub enum AskForApproval {
    /// Asks for everything but commands known to be harmless.
    #[serde(alias = "untrusted", alias = "unless-trusted")]
    UnlessTrusted,
    /// Deprecated: asks only after a sandboxed command failed.
    #[serde(alias = "on-failure")]
    OnFailure,
    /// The model decides when to ask.
    #[serde(alias = "on-request")]
    OnRequest,
    /// Never asks.
    Never,
    /// Controls each kind of prompt separately.
    Granular(GranularApproval),
}

/// Which kinds of prompt are shown; the others are refused without asking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GranularApproval {
    /// Escalations out of the sandbox.
    pub sandbox_approval: bool,
    /// Prompts raised by command rules.
    pub rules: bool,
    /// Elicitations of MCP servers.
    pub mcp_elicitations: bool,
    /// Prompts of the `request_permissions` tool.
    #[serde(default, deserialize_with = "wire::or_default")]
    pub request_permissions: bool,
    /// Prompts of skill scripts.
    #[serde(default, deserialize_with = "wire::or_default")]
    pub skill_approval: bool,
}

/// Who decides on approval requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalsReviewer {
    User,
    AutoReview,
    GuardianSubagent,
}

/// Sandbox of a thread, in short form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-aliases" = ["read-only", "workspace-write", "danger-full-access"]))]
pub enum SandboxMode {
    #[serde(alias = "read-only")]
    ReadOnly,
    #[serde(alias = "workspace-write")]
    WorkspaceWrite,
    #[serde(alias = "danger-full-access")]
    DangerFullAccess,
}

/// The access of commands to files and the network (specification, "Sandbox policy"). Like every
/// type that grants permissions, it refuses unknown members: ignoring one could allow more than the
/// client meant. Variants without members are written `{}`, because serde checks for unknown
/// members only there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum SandboxPolicy {
    /// No sandbox.
    #[serde(alias = "danger-full-access")]
    DangerFullAccess {},
    /// Reads files and writes none.
    #[serde(alias = "read-only")]
    ReadOnly {
        #[serde(skip_serializing_if = "Option::is_none")]
        access: Option<ReadAccess>,
        #[serde(default, deserialize_with = "wire::or_default")]
        network_access: bool,
    },
    /// Writes in the working directory, the given roots and the temporary folders not excluded.
    #[serde(alias = "workspace-write")]
    WorkspaceWrite {
        #[serde(default, deserialize_with = "wire::or_default")]
        writable_roots: Vec<AbsolutePath>,
        #[serde(skip_serializing_if = "Option::is_none")]
        read_only_access: Option<ReadAccess>,
        #[serde(default, deserialize_with = "wire::or_default")]
        network_access: bool,
        #[serde(default, deserialize_with = "wire::or_default")]
        exclude_tmpdir_env_var: bool,
        #[serde(default, deserialize_with = "wire::or_default")]
        exclude_slash_tmp: bool,
    },
    /// The caller has already sandboxed the server.
    #[serde(alias = "external-sandbox")]
    ExternalSandbox {
        #[serde(default, deserialize_with = "wire::or_default")]
        network_access: NetworkAccess,
    },
}

/// Which files may be read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum ReadAccess {
    /// All files.
    FullAccess {},
    /// Only files in the given roots.
    Restricted {
        #[serde(default, deserialize_with = "wire::or_default")]
        include_platform_defaults: bool,
        #[serde(default, deserialize_with = "wire::or_default")]
        readable_roots: Vec<AbsolutePath>,
    },
}

/// Network of an external sandbox.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum NetworkAccess {
    /// No outbound network; the default.
    #[default]
    Restricted,
    Enabled,
}
