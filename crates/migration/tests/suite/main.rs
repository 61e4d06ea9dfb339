//! Tests of what is imported from the files of other programs.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod codex;
mod permissions;
mod properties;
mod refused_servers;
