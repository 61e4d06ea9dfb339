//! The hosted API gateway: keys, limits, spend and the change policy in front of model servers
//! (specification: Hosted API).

mod account;
pub mod admin;
pub mod api;
pub mod body;
mod dashboard;
pub mod database;
pub mod directory;
pub mod error;
pub mod ledger;
pub mod metrics;
mod open;
pub mod policy;
pub mod records;
pub mod serve;
pub mod settings;
pub mod spend;
mod state;
pub mod tenants;
pub mod traces;
pub mod upstream;
pub mod world;

pub use open::{OpenError, World};
pub use state::{Gateway, Ids, Log};
