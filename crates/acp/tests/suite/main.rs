//! The adapter between a scripted editor and a real server with a scripted model. Every message between
//! editor and adapter is checked against the protocol's published schema.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod cancel;
mod harness;
mod history;
mod joining;
mod login;
#[path = "../../../account/tests/suite/login_service.rs"]
mod login_service;
mod mcp;
mod questions;
mod registry;
mod schema;
mod second;
mod sessions;
mod turns;
