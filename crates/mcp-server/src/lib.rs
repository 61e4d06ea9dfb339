//! The agent as an MCP server: the tools `agent` and `agent-reply`, over standard input and output or
//! streamable HTTP, in the revisions of the protocol with and without a handshake. It drives the
//! application server over its public protocol, one connection in memory for each call.
//!
//! ```text
//! client ──tools/call──▶ handler ──Task──▶ Agent::begin ──▶ turn (a task) ──▶ server::Server
//!    ▲                      │ ◀── progress, questions, the end ──┘
//!    └─ elicitation, or input_required (suspended) ◀──┘
//! ```
//!
//! Each tool call has a connection of its own, so a slow MCP client delays no other. The turn runs
//! in a task (`turn.rs`); dropping the call's side of it interrupts the turn, so every way in
//! which a call can end (cancellation, a closed request, a lost session) is a drop. `question.rs`
//! makes forms of the server's requests; anything but explicit consent declines. Without a
//! handshake, a call that waits for input is kept in `suspended.rs` under a random number that is
//! valid once. `rmcp` speaks the protocol; the transport over standard input and output
//! (`stdio.rs`) and what stands before HTTP (`http.rs`: admission, bounds, lives of sessions) are
//! ours.

mod agent;
mod arguments;
mod handler;
mod http;
mod ids;
mod outcome;
mod progress;
mod question;
mod stdio;
mod tools;
mod turn;

pub use agent::{Agent, Random};
pub use http::serve_http;
pub use stdio::serve_stdio;
