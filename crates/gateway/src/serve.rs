//! HTTP: connections, routing, and what all responses share. The handlers are in `api` and in the
//! crate `gateway-admin`.

mod authenticate;
mod connections;
mod idle_timeout;
mod pages;
mod service;
mod slots;

pub use connections::{Ending, serve};
