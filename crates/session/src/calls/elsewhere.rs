//! Calls that somebody else carries out: the user, other agents, MCP servers.

use std::sync::Arc;

use super::FileChange;
use crate::Millis;
use crate::port::item::{DynamicCall, Item};
use crate::port::question::UserQuestion;
use crate::port::server_tool::ServerCall;

/// A call whose questions the user was asked.
pub(crate) struct AskedUser {
    /// The call.
    pub(crate) number: u64,
    /// The request to the clients.
    pub(crate) request: u64,
    /// When it was sent.
    pub(crate) since: Millis,
    /// The item that shows it.
    pub(crate) item: DynamicCall,
    pub(crate) questions: Arc<[UserQuestion]>,
}

/// A call that the driver carries out.
pub(crate) struct AgentsCall {
    /// The request to the driver.
    pub(crate) request: u64,
    /// The item that shows it.
    pub(crate) item: Item,
    /// The change that shows the file that a job writes when it ends, if there was a question about
    /// it.
    pub(crate) change: Option<FileChange>,
    /// True if the turn ends with it, when it succeeds.
    pub(crate) ends_turn: bool,
}

/// A call of the tool of an MCP server.
pub(crate) struct AtServer {
    /// The request to the driver.
    pub(crate) request: u64,
    /// When it was sent.
    pub(crate) since: Millis,
    /// The item that shows it.
    pub(crate) call: ServerCall,
}
