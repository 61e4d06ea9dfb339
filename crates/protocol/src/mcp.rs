//! MCP servers: their status, login, resources and tools.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::common::Empty;
use crate::table::{methods, notifications};

methods! {
    Mcp, McpMethods;

    /// Lists the configured servers, each with its state, tools and resources. Starts none and waits for none.
    McpServerStatusList = "mcpServerStatus/list",
        mcp_server_status_list(McpServerStatusListParams) -> McpServerStatusListResponse,
        Stable, Concurrent, ["threadId"];

    /// Starts a login at a server.
    McpServerOauthLogin = "mcpServer/oauth/login",
        mcp_server_oauth_login(McpServerOauthLoginParams) -> McpServerOauthLoginResponse,
        Stable, Concurrent, ["threadId"];

    /// Reads a resource.
    McpServerResourceRead = "mcpServer/resource/read",
        mcp_server_resource_read(McpServerResourceReadParams) -> McpServerResourceReadResponse,
        Stable, Concurrent, [];

    /// Calls a tool.
    McpServerToolCall = "mcpServer/tool/call",
        mcp_server_tool_call(McpServerToolCallParams) -> McpServerToolCallResponse,
        Stable, Concurrent, [];

    /// Lists the prompts of a server.
    McpServerPromptList = "mcpServer/prompt/list",
        mcp_server_prompt_list(McpServerPromptListParams) -> McpServerPromptListResponse,
        Experimental, Concurrent, [];

    /// Expands a prompt of a server.
    McpServerPromptGet = "mcpServer/prompt/get",
        mcp_server_prompt_get(McpServerPromptGetParams) -> McpServerPromptGetResponse,
        Experimental, Concurrent, [];

    /// Reloads the servers' configuration.
    ConfigMcpServerReload = "config/mcpServer/reload",
        config_mcp_server_reload(Empty) -> Empty,
        Stable, Concurrent, [];
}

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// A server's startup status changed.
    McpServerStartupStatusUpdated = "mcpServer/startupStatus/updated", McpServerStartupStatusUpdatedNotification, Stable;

    /// A login at a server ended.
    McpServerOauthLoginCompleted = "mcpServer/oauthLogin/completed", McpServerOauthLoginCompletedNotification, Stable;
}

/// Parameters of `mcpServerStatus/list`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerStatusListParams {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// `full` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<McpServerStatusDetail>,
    /// Lists the servers of this loaded thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub thread_id: Option<String>,
    /// Starts the servers of the page that do not run, and waits until each is ready or has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<bool>,
}

/// The amount of detail to request from the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum McpServerStatusDetail {
    Full,
    ToolsAndAuthOnly,
}

/// A page of servers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerStatusListResponse {
    pub data: Vec<McpServerStatus>,
    pub next_cursor: Option<String>,
}

/// A server with its state, tools and resources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerStatus {
    pub name: String,
    pub status: McpServerState,
    /// Why the server has failed, or what of it cannot be listed.
    pub error: Option<String>,
    /// Tools by name. Those of a server that is started again, or has failed, are those that it last had.
    pub tools: BTreeMap<String, McpTool>,
    pub resources: Vec<McpResource>,
    pub resource_templates: Vec<McpResourceTemplate>,
    pub auth_status: McpAuthStatus,
}

/// Where a server is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum McpServerState {
    /// No loaded thread uses it. It starts with the first one that does, or when one of its tools is called.
    NotStarted,
    Starting,
    Ready,
    Failed,
    /// It ends, because its configuration changed.
    Cancelled,
}

/// The authentication of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum McpAuthStatus {
    Unsupported,
    NotLoggedIn,
    BearerToken,
    OAuth,
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpTool {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub input_schema: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Value>>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// A resource of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpResource {
    pub name: String,
    pub uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Value>>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// A template of resource URIs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpResourceTemplate {
    pub name: String,
    pub uri_template: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
}

/// Parameters of `mcpServer/oauth/login`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerOauthLoginParams {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_secs: Option<i64>,
    /// Logs in at a server of this loaded thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub thread_id: Option<String>,
}

/// Result of `mcpServer/oauth/login`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerOauthLoginResponse {
    pub authorization_url: String,
}

/// Parameters of `mcpServer/resource/read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerResourceReadParams {
    pub server: String,
    pub uri: String,
    /// Uses this thread's connection to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
}

/// Result of `mcpServer/resource/read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct McpServerResourceReadResponse {
    pub contents: Vec<McpResourceContent>,
}

/// Content of a resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum McpResourceContent {
    Text(McpTextResourceContent),
    Blob(McpBlobResourceContent),
}

/// Content as text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpTextResourceContent {
    pub uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    pub text: String,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// Content as base64.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpBlobResourceContent {
    pub uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    pub blob: String,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// Parameters of `mcpServer/prompt/list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerPromptListParams {
    pub server: String,
    /// Uses this thread's connection to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
}

/// Result of `mcpServer/prompt/list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct McpServerPromptListResponse {
    pub data: Vec<McpPrompt>,
}

/// A prompt of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct McpPrompt {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default)]
    pub arguments: Vec<McpPromptArgument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Value>>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct McpPromptArgument {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default)]
    pub required: bool,
}

/// Parameters of `mcpServer/prompt/get`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerPromptGetParams {
    pub server: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<BTreeMap<String, String>>,
    /// Uses this thread's connection to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
}

/// Result of `mcpServer/prompt/get`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct McpServerPromptGetResponse {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub messages: Vec<McpPromptMessage>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// A message of an expanded prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct McpPromptMessage {
    /// `user` or `assistant`.
    pub role: String,
    /// A content block, as in the results of tools.
    pub content: Value,
}

/// Parameters of `mcpServer/tool/call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerToolCallParams {
    pub thread_id: String,
    pub server: String,
    pub tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// Result of `mcpServer/tool/call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerToolCallResponse {
    pub content: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// Payload of `mcpServer/startupStatus/updated`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct McpServerStartupStatusUpdatedNotification {
    pub name: String,
    pub status: McpServerStartupState,
    pub error: Option<String>,
}

/// Progress of a server's startup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum McpServerStartupState {
    Starting,
    Ready,
    Failed,
    Cancelled,
}

impl From<McpServerStartupState> for McpServerState {
    fn from(state: McpServerStartupState) -> Self {
        match state {
            McpServerStartupState::Starting => Self::Starting,
            McpServerStartupState::Ready => Self::Ready,
            McpServerStartupState::Failed => Self::Failed,
            McpServerStartupState::Cancelled => Self::Cancelled,
        }
    }
}

/// Payload of `mcpServer/oauthLogin/completed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct McpServerOauthLoginCompletedNotification {
    pub name: String,
    pub success: bool,
    pub error: Option<String>,
}
