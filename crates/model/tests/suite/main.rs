//! Tests of the client of model providers, over real connections.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod bad_provider;
mod compression;
mod limits;
mod streams;
mod websocket_limits;
mod wires;
