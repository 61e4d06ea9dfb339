//! HTTP: connections, routing, and what all responses share. The handlers are in `api` and in the
//! crate `gateway-admin`.

pub(crate) mod answer;
mod authenticate;
mod connections;
mod idle_timeout;
pub(crate) mod intake;
mod pages;
pub(crate) mod router;
mod service;

pub use connections::{Ending, serve};
