//! The client of MCP servers: starts each server once for all threads that may share it, in both eras of
//! the protocol (2025-11-25 with its handshake, 2026-07-28 without), and calls its tools within bounds.
//! It knows neither threads nor the application server's protocol, and starts no process itself: a
//! [`Launcher`] does. Everything that a server sends is data, and is bounded before it is parsed.
//!
//! # How a server runs
//!
//! [`Pool`] holds each server once for all *holders* (threads, and requests that belong to none)
//! whose [`Definition`] of it is the same: transport, values of variables, filters, time limits. A
//! server's task (`run.rs`) starts it in the background, lists its tools, starts it again with
//! growing pauses, and ends it a minute after its last holder has left, or at once when its
//! configuration changed. `services/src/mcp_servers.rs` makes definitions from the configuration (after
//! trust and requirements), starts programs through `sandbox`, under full access and with
//! an environment that consists of a few variables and those that the entry names, and passes
//! questions and states to the clients of the holders. Nothing waits for a server but requests for
//! it, and the start of a thread for those that are `required`.
//!
//! - **Eras.** A server is asked with `server/discover` (2026-07-28) once. `probe.rs` bounds the
//!   wait for a server that does not know the method: after 3 s the handshake of 2025-11-25
//!   follows. The era is remembered in `mcp-eras.json`, so an old server costs no probe at its
//!   next start.
//! - **Transports.** `stdio.rs` splits lines within a bound; an answer that is too long fails the
//!   request whose id it contains. `http.rs` implements `rmcp`'s client trait over `http-client`;
//!   it follows redirects within the origin only.
//! - **Calls.** A call names the digest of the tool that was offered, so a changed list can never
//!   redirect it. Dropping a call cancels it at the server. The time that a user needs for an
//!   answer does not count.
//! - **Tools in a turn.** Before a turn, `services/src/mcp_servers/tools.rs` makes a table of the
//!   tools of the servers that are ready: the model's name of each, its target (server, tool,
//!   digest), what a call does as far as the server is believed, and when the user is asked. The
//!   table is part of the thread's `ToolSet` for the turn. In the session, a call is decided about
//!   (`approvals/policy.rs`), asked about (`turn/server_tools.rs`) and becomes
//!   `Effect::CallServer`; `threads/src/thread/server_calls.rs` carries it out and reads the
//!   result. `session/src/outputs.rs` keeps long results for `read_tool_output`.
//! - **Questions** of a server go to the clients of the thread whose call is running, and to no
//!   other; without a call, to the first holder that has clients. `elicitation.rs` adds the form's
//!   defaults and checks the values. Sampling is refused; roots are the folders of all holders.
//! - **Logins** (`auth/`): `rmcp` finds the authorization server and checks issuers; the requests
//!   are ours, the tokens are in private files of the home, and a refresh holds a lock between
//!   processes.

#![expect(deprecated, reason = "roots are part of revision 2025-11-25, which servers speak")]

mod auth;
mod calls;
mod catalog;
mod connect;
mod definition;
mod depth;
mod digest;
pub mod elicitation;
mod encode;
mod end_reason;
mod eras;
mod error;
mod handler;
mod http;
mod inbound;
mod intake;
mod pool;
mod port;
mod probe;
mod reports;
mod results;
mod run;
pub mod schema;
mod server;
mod skills;
mod stdio;

pub use auth::{Callback, Login, log_out};
pub use calls::Progress;
pub use catalog::{Catalog, Hints, Tool};
pub use definition::{Confinement, Definition, HttpServer, LoginStore, Oauth, Program, Transport};
pub use digest::Digest;
pub use error::{Error, ErrorKind};
pub use pool::{Held, HeldServers, Options, Pool};
pub use port::{
    Action, Answer, Audience, BoxFuture, Child, ChildControl, Elicitation, ElicitationMode,
    Keyring, Launcher, Output,
};
pub use reports::{ReportSender, Reports, reports};
pub use server::{Call, InUse, Server, State};
pub use skills::Skill;
