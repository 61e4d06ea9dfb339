//! The hosted API gateway: keys, limits, spend and the change policy in front of upstreams
//! (specification: Hosted API). This crate is the path of a request; bodies, policy, the store and
//! the administration are crates of their own.

mod account;
mod api;
mod batch;
mod metrics;
mod object_owners;
mod open;
mod serve;
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
