//! The hosted API gateway: keys, limits, spend and the change policy in front of model servers
//! (specification: Hosted API).

pub mod admin;
pub mod body;
pub mod database;
pub mod directory;
pub mod error;
pub mod ledger;
pub mod policy;
pub mod records;
pub mod settings;
pub mod tenants;
pub mod world;
