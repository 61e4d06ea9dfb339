//! Serving HTTP: connections, where requests go, and what every answer has. What a path does is in
//! `api`, `admin` and `dashboard`.

pub mod answer;
mod authenticate;
mod connections;
pub mod intake;
pub mod route;
mod service;

use std::sync::Arc;

pub use connections::{Ending, serve};

use crate::admin;
use crate::state::Gateway;

/// Pages and the administration API.
fn pages(gateway: &Arc<Gateway>) -> axum::Router {
    admin::router(Arc::new(admin::Context {
        database: Arc::clone(&gateway.database),
        directory: Arc::clone(&gateway.directory),
        settings: Arc::clone(&gateway.settings),
        clock: Arc::clone(&gateway.clock),
        random: Arc::clone(&gateway.random),
    }))
}
