//! The administration of a gateway: its HTTP API and its dashboard. It writes records and reads the
//! ledger; clients' API requests do not pass through it.

mod admin;
mod dashboard;
mod services;

use std::sync::Arc;

use axum::Router;
pub use services::{Peer, Services};

/// The administration API and the dashboard. This router receives all requests for
/// `/v1/organization…` and `/dashboard…`, and also answers those for unknown paths.
pub fn router(services: Services) -> Router {
    let services = Arc::new(services);
    admin::router(Arc::clone(&services)).merge(dashboard::router(services))
}
