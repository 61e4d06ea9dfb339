//! Connections of clients: listeners on TCP and Unix sockets, and the HTTP upgrade with its checks
//! of origin, host and credentials (specification: Transports, Health probes, Authentication). It
//! yields connections and knows nothing about the messages on them. A page of metrics that the
//! caller makes is served next to the health probes, and so is a site of fixed files.
//!
//! ```text
//! accept ─▶ peer's user ─▶ HTTP: Origin, Host, path ─▶ credentials ─▶ number of connections ─▶ Connection
//! ```
//!
//! `accept.rs` accepts connections and `handshake.rs` checks the request's head (`Origin`, `Host`,
//! path, credentials: `auth.rs`, `token.rs`). The rest is a stream for the WebSocket of `jsonrpc`,
//! whose reader holds no buffer between messages and whose writer frames the outbox's messages.
//! The server gets a `Connection` and does not know its transport. `pending.rs` holds pending
//! connections: their number is bounded, and at the bound the oldest is closed.
//!
//! `client.rs` is the other side, for this program's own clients: an address as users write it (`client/url.rs`), TLS
//! (`client/tls.rs`), the handshake, and what a server says that refuses it (`client/refusal.rs`).

mod accept;
mod address;
mod auth;
mod client;
mod error;
mod handshake;
mod pending;
mod site;
mod token;
#[cfg(unix)]
mod unix;

pub use accept::{Acceptor, Bounds, Listener, Load, MetricsPage, Serve};
pub use address::Address;
pub use auth::Auth;
#[cfg(unix)]
pub use client::connect;
pub use client::{Access, ClientTls, WebSocketUrl, dial};
pub use error::{Error, ErrorKind, TokenFault};
pub use handshake::Admission;
pub use pending::PendingConnection;
pub use site::{Site, SiteFile};
pub use token::{Claims, verify};
#[cfg(unix)]
pub use unix::UnixSocket;
