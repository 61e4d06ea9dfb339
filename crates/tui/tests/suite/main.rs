//! The whole state machine on an emulated terminal, with a server that the test plays.
#![allow(clippy::unwrap_used)]

mod app;
mod commands;
mod harness;
mod notices;
mod start;
