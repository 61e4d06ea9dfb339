//! The client of MCP servers: starts each server once for all threads that may share it, in both eras of
//! the protocol (2025-11-25 with its handshake, 2026-07-28 without), and calls its tools within bounds.
//! It knows neither threads nor the application server's protocol, and starts no process itself: a
//! [`Launcher`] does. Everything that a server sends is data, and is bounded before it is parsed.

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
pub use definition::{Definition, HttpServer, LoginStore, Oauth, Program, Transport};
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
