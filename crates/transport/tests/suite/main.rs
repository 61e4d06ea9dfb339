//! Tests of listening, of handshakes and of their bounds, on real sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod client;
mod common;
#[cfg(unix)]
mod handshake;
mod live;
mod token;
#[cfg(unix)]
mod unix;
