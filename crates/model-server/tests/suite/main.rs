//! Tests of the model server over its protocols.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod http;
mod offline_and_record;
mod offline_server;
mod websocket;
mod wires;
