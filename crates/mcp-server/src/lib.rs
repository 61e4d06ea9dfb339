//! The agent as an MCP server: the tools `agent` and `agent-reply`, over standard input and output or
//! streamable HTTP, in the revisions of the protocol with and without a handshake. It drives the
//! application server over its public protocol, one connection in memory for each call.
//!
//! ```text
//! client ──tools/call──▶ handler ──Task──▶ Agent::begin ──▶ turn (a task) ──▶ server::Server
//!    ▲                      │ ◀── progress, questions, the end ──┘
//!    └─ elicitation, or input_required (suspended) ◀──┘
//! ```

mod agent;
mod arguments;
mod handler;
mod http;
mod ids;
mod outcome;
mod progress;
mod question;
mod stdio;
mod suspended;
mod tools;
mod turn;

pub use agent::{Agent, Random};
pub use http::serve_http;
pub use stdio::serve_stdio;
