//! The administration of a gateway: its HTTP API and its dashboard. It writes records and reads the
//! ledger; no request of a client of the hosted API passes through it.

mod admin;
mod dashboard;
mod services;

use std::sync::Arc;

use axum::Router;
pub use services::{Peer, Services};

/// The administration API and the dashboard. Requests for `/v1/organization…` and `/dashboard…` go to
/// this router as a whole: it also answers for paths below them that it does not have.
pub fn router(services: Services) -> Router {
    let services = Arc::new(services);
    admin::router(Arc::clone(&services)).merge(dashboard::router(services))
}
