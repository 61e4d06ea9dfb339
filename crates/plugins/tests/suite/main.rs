//! Tests of marketplaces and plugins, with real git.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;
mod fetch;
mod hostile;
mod interrupted;
mod layouts;
mod records;
