//! Tests of messages, connections and their bounds.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod client;
mod connection;
mod lines;
mod messages;
mod outbox;
mod overload;
mod spooling;
mod websocket;
