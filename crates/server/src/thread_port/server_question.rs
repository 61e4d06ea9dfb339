//! Questions of MCP servers as threads are sent them, and what names an open question.

use std::sync::Arc;

use tokio::sync::oneshot;

/// Identifies an open question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum QuestionKey {
    /// The session's number of a request.
    Session(u64),
    /// The number of an MCP server's question.
    Server(u64),
}

/// A question of an MCP server, as the thread that is asked gets it.
pub(crate) struct ServerQuestion {
    /// Unique in the server.
    pub(crate) number: u64,
    pub(crate) question: Arc<mcp::Elicitation>,
    /// Dropped without an answer when the thread ends.
    pub(crate) answer: oneshot::Sender<mcp::Answer>,
}
