//! Opening, listing and changing sessions, and prompts.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::content::ContentBlock;
use super::or_default;

/// Where a session works, and with which MCP servers: the parameters of `session/new`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Place {
    pub(crate) cwd: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) additional_directories: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) mcp_servers: Vec<McpServer>,
}

/// Parameters of `session/load` and `session/resume`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenSessionRequest {
    pub(crate) session_id: String,
    #[serde(flatten)]
    pub(crate) place: Place,
}

/// An MCP server: over standard input and output unless `type` names another transport.
#[derive(Debug, Deserialize)]
pub(crate) struct McpServer {
    #[serde(rename = "type", default)]
    pub(crate) kind: Option<String>,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) command: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) args: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) env: Vec<NamedValue>,
    #[serde(default)]
    pub(crate) url: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) headers: Vec<NamedValue>,
}

/// An environment variable or a header.
#[derive(Debug, Deserialize)]
pub(crate) struct NamedValue {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// Parameters of methods that name only a session.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionIdRequest {
    pub(crate) session_id: String,
}

/// Result of `session/new`, and without the id of `session/load` and `session/resume`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenSessionResponse {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session_id: Option<String>,
    pub(crate) modes: SessionModeState,
    pub(crate) config_options: Vec<ConfigOption>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionModeState {
    pub(crate) current_mode_id: &'static str,
    pub(crate) available_modes: Vec<SessionMode>,
}

#[derive(Debug, Serialize)]
pub(crate) struct SessionMode {
    pub(crate) id: &'static str,
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
}

/// A list of values to choose from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigOption {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) id: &'static str,
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) category: &'static str,
    pub(crate) current_value: String,
    pub(crate) options: Vec<ConfigValue>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ConfigValue {
    pub(crate) value: String,
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
}

/// Parameters of `session/list`.
#[derive(Debug, Deserialize)]
pub(crate) struct ListSessionsRequest {
    #[serde(default)]
    pub(crate) cwd: Option<String>,
    #[serde(default)]
    pub(crate) cursor: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListSessionsResponse {
    pub(crate) sessions: Vec<SessionInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionInfo {
    pub(crate) session_id: String,
    pub(crate) cwd: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) updated_at: Option<String>,
}

/// Parameters of `session/set_mode`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SetModeRequest {
    pub(crate) session_id: String,
    pub(crate) mode_id: String,
}

/// Parameters of `session/set_config_option`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SetConfigOptionRequest {
    pub(crate) session_id: String,
    pub(crate) config_id: String,
    pub(crate) value: Value,
}

/// Result of `session/set_config_option`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SetConfigOptionResponse {
    pub(crate) config_options: Vec<ConfigOption>,
}

/// Parameters of `session/prompt`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PromptRequest {
    pub(crate) session_id: String,
    pub(crate) prompt: Vec<ContentBlock>,
}

/// Result of `session/prompt`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PromptResponse {
    pub(crate) stop_reason: StopReason,
}

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StopReason {
    EndTurn,
    MaxTokens,
    Refusal,
    Cancelled,
}

/// Parameters of `$/cancel_request`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CancelRequest {
    pub(crate) request_id: jsonrpc::RequestId,
}

/// Result of `fs/read_text_file`.
#[derive(Debug, Deserialize)]
pub(crate) struct ReadTextFileResponse {
    pub(crate) content: String,
}
