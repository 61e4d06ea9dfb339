//! MCP servers: only their configuration so far.

use protocol::{Empty, McpMethods};

use crate::connection::Cx;
use crate::error::Error;
use crate::server::Server;

impl McpMethods<Cx> for Server {
    /// Reads the configuration of MCP servers again; threads take it over with their next turn.
    async fn config_mcp_server_reload(&self, cx: Cx, _: Empty) -> Result<Empty, Error> {
        self.reload_configuration(&cx)?;
        Ok(Empty {})
    }
}
