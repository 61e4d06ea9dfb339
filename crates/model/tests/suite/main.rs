//! Tests of the client of model providers, over real connections.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod bad_provider;
#[cfg(all(feature = "bedrock", feature = "vertex"))]
mod cloud;
mod compression;
mod limits;
mod streams;
mod websocket_limits;
mod wires;
