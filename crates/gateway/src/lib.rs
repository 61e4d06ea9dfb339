//! The hosted API gateway: keys, limits, spend and the change policy in front of upstreams
//! (specification: Hosted API). This crate is the path of a request; bodies, policy, the store and
//! the administration are crates of their own.
//!
//! `gateway_policy::settings` is one immutable value for each loaded file; a request keeps the one
//! that it began with. `gateway_store::records` holds typed statements over
//! `gateway_store::database`, which runs the same SQL on SQLite and PostgreSQL. The **ledger**
//! writes rows in groups; month sums are written in the same transaction and initialize the spend
//! meters.

mod account;
mod answer;
mod api;
mod batch;
mod batch_runner;
mod bill;
mod calibration;
mod day_use;
mod intake;
mod later;
mod later_kind;
mod later_poller;
mod metrics;
mod object_owners;
mod open;
mod recovery;
mod router;
mod serve;
mod settlement;
mod spend;
mod state;
#[cfg(feature = "test-support")]
mod test_support;
mod trace_export;
mod traces;
mod upstream;

pub use open::OpenError;
pub use serve::{Ending, serve};
pub use state::Gateway;
