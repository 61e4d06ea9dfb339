//! Questions of MCP servers as threads are sent them, and what names an open question.

use std::sync::Arc;

use tokio::sync::oneshot;

/// Identifies an open question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuestionKey {
    /// The session's number of a request.
    Session(u64),
    /// The number of an MCP server's question.
    Server(u64),
}

/// A question of an MCP server, as the thread that is asked gets it.
pub struct ServerQuestion {
    /// Unique in the server.
    pub number: u64,
    pub question: Arc<mcp::Elicitation>,
    /// Dropped without an answer when the thread ends.
    pub answer: oneshot::Sender<mcp::Answer>,
}
