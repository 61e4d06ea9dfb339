//! Tests of the gateway over HTTP, with upstreams and stores that the tests control.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)]

mod admin;
mod audit;
mod bad_input;
mod batch_models;
mod batches;
mod common;
mod contract;
#[cfg(unix)]
mod dashboard;
#[cfg(unix)]
mod dashboard_browser;
mod dashboard_forms;
mod failover;
mod figures;
mod files;
mod histories;
mod isolation;
mod kept_responses;
mod limits;
mod limits_lost;
mod records;
mod redis_restarts;
mod servers;
mod spend_routes;
mod usage;
mod wires;
