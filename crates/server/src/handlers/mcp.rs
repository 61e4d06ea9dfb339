//! MCP servers. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{
    Empty, McpMethods, McpServerOauthLoginParams, McpServerOauthLoginResponse,
    McpServerResourceReadParams, McpServerResourceReadResponse, McpServerStatusListParams,
    McpServerStatusListResponse, McpServerToolCallParams, McpServerToolCallResponse,
};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl McpMethods<Cx> for Server {
    not_implemented! {
        mcp_server_status_list(McpServerStatusListParams) -> McpServerStatusListResponse = "mcpServerStatus/list";
        mcp_server_oauth_login(McpServerOauthLoginParams) -> McpServerOauthLoginResponse = "mcpServer/oauth/login";
        mcp_server_resource_read(McpServerResourceReadParams) -> McpServerResourceReadResponse = "mcpServer/resource/read";
        mcp_server_tool_call(McpServerToolCallParams) -> McpServerToolCallResponse = "mcpServer/tool/call";
    }

    /// Reads the configuration of MCP servers again; threads take it over with their next turn.
    async fn config_mcp_server_reload(&self, cx: Cx, _: Empty) -> Result<Empty, ErrorObject> {
        self.reload_configuration(&cx)?;
        Ok(Empty {})
    }
}
