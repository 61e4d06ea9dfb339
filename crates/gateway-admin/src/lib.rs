//! The administration of a gateway: its HTTP API and its dashboard. It writes records and reads the
//! ledger; clients' API requests do not pass through it.

mod admin;
mod dashboard;
mod routes;
mod services;
mod sign_ins;

use std::sync::Arc;

pub use admin::authority::is_secret;
use axum::Router;
use hyper::Method;
pub use services::{OverHttps, Peer, Services};
pub use sign_ins::{SignIns, Surface};

/// The administration API and the dashboard. This router receives all requests for
/// `/v1/organization…` and `/dashboard…`, and also answers those for unknown paths.
pub fn router(services: Services) -> Router {
    let services = Arc::new(services);
    let api = admin::router(Arc::clone(&services));
    api.clone().merge(dashboard::router(services, api))
}

/// The methods and paths of the administration API; `{…}` is a segment that a client fills.
#[must_use]
pub fn routes() -> Vec<(Method, String)> {
    admin::routes()
}

/// The methods and paths of the dashboard, in the same form.
#[must_use]
pub fn dashboard_routes() -> Vec<(Method, String)> {
    dashboard::routes()
}
