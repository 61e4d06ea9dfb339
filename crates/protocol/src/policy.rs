//! Approval policy, sandbox mode and sandbox policy. Both spellings are read, the specification's
//! is written.

use serde::{Deserialize, Serialize};

use crate::common::AbsolutePath;
use crate::wire;

/// When the agent pauses to ask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", schemars(extend("x-aliases" = ["untrusted", "unless-trusted", "on-failure", "on-request"])))]
pub enum AskForApproval {
    /// Ask for everything but commands known to be harmless.
    #[serde(alias = "untrusted", alias = "unless-trusted")]
    UnlessTrusted,
    /// Deprecated: ask only after a sandboxed command failed.
    #[serde(alias = "on-failure")]
    OnFailure,
    /// The model decides when to ask.
    #[serde(alias = "on-request")]
    OnRequest,
    /// Never ask.
    Never,
    /// Each kind of prompt on its own.
    Granular(GranularApproval),
}

/// Which kinds of prompt may surface; those switched off are refused without asking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ApprovalsReviewer {
    User,
    AutoReview,
    GuardianSubagent,
}

/// Sandbox of a thread, in short form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", schemars(extend("x-aliases" = ["read-only", "workspace-write", "danger-full-access"])))]
pub enum SandboxMode {
    #[serde(alias = "read-only")]
    ReadOnly,
    #[serde(alias = "workspace-write")]
    WorkspaceWrite,
    #[serde(alias = "danger-full-access")]
    DangerFullAccess,
}

/// What commands may touch (specification, "Sandbox policy"). Like every type that decides what may
/// be done, it refuses members that it does not know: to pass one over could allow more than the
/// client meant. A variant without members is written `{}`, as serde checks no others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Read files, write none.
    #[serde(alias = "read-only")]
    ReadOnly {
        #[serde(skip_serializing_if = "Option::is_none")]
        access: Option<ReadAccess>,
        #[serde(default, deserialize_with = "wire::or_default")]
        network_access: bool,
    },
    /// Write in the working directory, the roots given and the temporary folders not excluded.
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
    /// The caller has confined the server already.
    #[serde(alias = "external-sandbox")]
    ExternalSandbox {
        #[serde(default, deserialize_with = "wire::or_default")]
        network_access: NetworkAccess,
    },
}

/// What may be read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum ReadAccess {
    /// Every file.
    FullAccess {},
    /// Only the roots given.
    Restricted {
        #[serde(default, deserialize_with = "wire::or_default")]
        include_platform_defaults: bool,
        #[serde(default, deserialize_with = "wire::or_default")]
        readable_roots: Vec<AbsolutePath>,
    },
}

/// Network of an external sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum NetworkAccess {
    /// No outbound network; the default.
    #[default]
    Restricted,
    Enabled,
}
