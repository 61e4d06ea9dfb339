//! Questions to the user: permissions and elicitations.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::tool_call::ToolCall;

/// Parameters of `session/request_permission`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PermissionRequest {
    pub(crate) session_id: String,
    pub(crate) tool_call: ToolCall,
    pub(crate) options: Vec<PermissionOption>,
}

/// An answer to choose.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PermissionOption {
    pub(crate) option_id: String,
    pub(crate) name: String,
    pub(crate) kind: OptionKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OptionKind {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
}

/// Result of `session/request_permission`.
#[derive(Debug, Deserialize)]
pub(crate) struct PermissionResponse {
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum Outcome {
    Cancelled,
    Selected { option_id: String },
}

/// Parameters of `elicitation/create`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ElicitationRequest {
    #[serde(flatten)]
    pub(crate) scope: Scope,
    pub(crate) message: String,
    #[serde(flatten)]
    pub(crate) mode: ElicitationMode,
}

/// The scope of an elicitation.
#[derive(Debug, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub(crate) enum Scope {
    Session {
        session_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<String>,
    },
    /// A request of the client.
    Request { request_id: jsonrpc::RequestId },
}

#[derive(Debug, Serialize)]
#[serde(tag = "mode", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum ElicitationMode {
    Form { requested_schema: Value },
    Url { elicitation_id: String, url: String },
}

/// Result of `elicitation/create`.
#[derive(Debug, Deserialize)]
pub(crate) struct ElicitationResponse {
    pub(crate) action: String,
    #[serde(default)]
    pub(crate) content: Option<Value>,
}
