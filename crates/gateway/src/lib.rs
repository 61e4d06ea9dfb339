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
mod alert_sender;
mod answer;
mod api;
mod backends;
mod batch;
mod batch_runner;
mod bearer;
mod bill;
mod calibration;
mod day_use;
mod dispatch;
mod envelope_seal;
mod intake;
mod keeper;
mod later;
mod later_kind;
mod later_poller;
mod metrics;
mod metrics_page;
mod object_owners;
mod open;
mod operator_keys;
mod project_metrics;
mod raised_alert;
mod recovery;
mod router;
mod same_wire;
mod serve;
mod settlement;
mod spend;
mod state;
#[cfg(feature = "test-support")]
mod test_support;
mod throttle;
mod trace_export;
mod traces;
mod translation;
mod upstream;
mod webhook;
mod workers;

pub use open::OpenError;
pub use operator_keys::create_key;
pub use serve::{Ending, serve};
pub use state::Gateway;
pub use workers::Workers;
