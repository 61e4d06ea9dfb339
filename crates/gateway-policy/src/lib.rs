//! The rules for a request to the gateway: the configuration, organizations and projects, draws,
//! refusals, response headers and announcements (specification: Hosted API). Apart from reading the
//! configuration file these are pure functions that never wait.

pub mod announce;
pub mod backends;
pub mod dates;
pub mod duration;
pub mod environment;
pub mod error;
pub mod headers;
pub mod model_access;
pub mod plan;
pub mod price;
pub mod refusal;
pub mod settings;
pub mod tenants;

pub use settings::{Error, ErrorKind};
