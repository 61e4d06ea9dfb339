//! Serving HTTP: connections, where requests go, and what every answer has. What a path does is in
//! `api`, `admin` and `dashboard`.

pub mod answer;
mod authenticate;
mod connections;
pub mod intake;
pub mod route;
mod service;

pub use connections::{Ending, serve};
