//! Serving HTTP: connections, where requests go, and what every answer has. What a path does is in
//! `api`, `admin` and `dashboard`.

pub mod answer;
mod authenticate;
mod connections;
pub mod intake;
pub mod route;
mod service;

pub use connections::{Ending, serve};

/// Pages and the administration API.
fn pages(_gateway: &std::sync::Arc<crate::state::Gateway>) -> axum::Router {
    axum::Router::new()
}
