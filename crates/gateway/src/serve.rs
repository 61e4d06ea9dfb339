//! Serving HTTP: connections, where requests go, and what every answer has. What a path does is in
//! `api` and in the crate `gateway-admin`.

pub(crate) mod answer;
mod authenticate;
mod connections;
pub(crate) mod intake;
mod patient;
pub(crate) mod route;
mod service;

use std::sync::Arc;

pub use connections::{Ending, serve};

use gateway_admin::{Peer, Services};

use crate::state::Gateway;

/// The dashboard and the administration API.
fn pages(gateway: &Gateway) -> axum::Router {
    gateway_admin::router(Services {
        database: Arc::clone(&gateway.database),
        directory: Arc::clone(&gateway.directory),
        settings: Arc::clone(&gateway.settings),
        limits: Arc::clone(&gateway.limits),
        clock: Arc::clone(&gateway.clock),
        random: Arc::clone(&gateway.random),
        log: gateway.log.clone(),
    })
}
