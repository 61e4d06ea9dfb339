//! Serving HTTP: connections, where requests go, and what every answer has. What a path does is in
//! `api`, `admin` and `dashboard`.

pub mod answer;
mod authenticate;
mod connections;
pub mod intake;
mod patient;
pub mod route;
mod service;

use std::sync::Arc;

pub use connections::{Ending, serve};

use crate::state::Gateway;
use crate::{admin, dashboard};

/// Pages and the administration API.
fn pages(gateway: &Arc<Gateway>) -> axum::Router {
    admin::router(Arc::new(admin::Context {
        database: Arc::clone(&gateway.database),
        directory: Arc::clone(&gateway.directory),
        settings: Arc::clone(&gateway.settings),
        clock: Arc::clone(&gateway.clock),
        random: Arc::clone(&gateway.random),
    }))
    .merge(dashboard::router(gateway))
}

/// Where a request comes from; pages find it among their request's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer(pub(crate) std::net::IpAddr);
