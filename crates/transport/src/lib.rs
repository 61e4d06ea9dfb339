//! Where clients come in: listeners on TCP and Unix sockets, the HTTP upgrade with its checks of
//! origin, host and credentials, and the connections that come of it (specification: Transports,
//! Health probes, Authentication). What is said over a connection is not its business.
//!
//! ```text
//! accept ─▶ peer's user ─▶ HTTP: Origin, Host, path ─▶ credentials ─▶ room ─▶ Connection
//! ```

mod accept;
mod address;
mod auth;
mod client;
mod handshake;
mod newcomers;
mod token;
#[cfg(unix)]
mod unix;

pub use accept::{Bounds, Door, Listener, Serve};
pub use address::{Address, AddressError};
pub use auth::{Auth, AuthError};
pub use client::{ConnectError, connect, upgrade};
pub use handshake::Admission;
pub use newcomers::Newcomer;
pub use token::{Claims, TokenError, verify};
#[cfg(unix)]
pub use unix::{UnixDoor, UnixError};
