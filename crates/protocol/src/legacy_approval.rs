//! Approval requests in the older form. This server sends none; the types are for programs that read the messages
//! of servers that do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::approval::NetworkPolicyAmendment;
use crate::table::server_requests;

server_requests! {
    /// Never sent: this server requests approval of a patch with `item/fileChange/requestApproval`.
    ApplyPatchApproval = "applyPatchApproval",
        ApplyPatchApprovalParams => LegacyApprovalResponse, Stable;

    /// Never sent: this server requests approval of a command with `item/commandExecution/requestApproval`.
    ExecCommandApproval = "execCommandApproval",
        ExecCommandApprovalParams => LegacyApprovalResponse, Stable;
}

/// Parameters of `applyPatchApproval`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplyPatchApprovalParams {
    pub conversation_id: String,
    pub call_id: String,
    /// Changes by path.
    pub file_changes: BTreeMap<String, LegacyFileChange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant_root: Option<String>,
}

/// The change to one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum LegacyFileChange {
    Add {
        content: String,
    },
    Delete {
        content: String,
    },
    Update {
        unified_diff: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        move_path: Option<String>,
    },
}

/// Parameters of `execCommandApproval`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecCommandApprovalParams {
    pub conversation_id: String,
    pub call_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
    pub command: Vec<String>,
    pub cwd: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub parsed_cmd: Vec<ParsedCommand>,
}

/// An apparent action of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ParsedCommand {
    Read {
        cmd: String,
        name: String,
        path: String,
    },
    ListFiles {
        cmd: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    Search {
        cmd: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        query: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    Unknown {
        cmd: String,
    },
}

/// The client's response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LegacyApprovalResponse {
    pub decision: ReviewDecision,
}

/// Decision in the older form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReviewDecision {
    Approved,
    ApprovedExecpolicyAmendment { proposed_execpolicy_amendment: Vec<String> },
    ApprovedForSession,
    NetworkPolicyAmendment { network_policy_amendment: NetworkPolicyAmendment },
    Denied,
    TimedOut,
    Abort,
}
