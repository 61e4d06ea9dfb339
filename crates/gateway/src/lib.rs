//! The hosted API gateway: keys, limits, spend and the change policy in front of model servers.

pub mod body;
