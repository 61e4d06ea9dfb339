//! MCP servers: only their configuration so far.

use protocol::{Empty, McpMethods};

use crate::connection::Caller;
use crate::error::Error;
use crate::server::Server;

impl McpMethods<Caller> for Server {
    /// Reads the configuration of MCP servers again; threads take it over with their next turn.
    async fn config_mcp_server_reload(&self, caller: Caller, _: Empty) -> Result<Empty, Error> {
        self.reload_configuration(&caller)?;
        Ok(Empty {})
    }
}
