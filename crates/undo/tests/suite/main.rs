//! Tests of snapshots and restorations, with real files and processes.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod commands;
mod common;
mod crashes;
mod undo;
