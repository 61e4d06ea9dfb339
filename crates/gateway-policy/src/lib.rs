//! What holds for a request to the gateway: the configuration, the organizations and projects, what a
//! request draws on, what a refusal says, which headers an answer has, what is announced (specification:
//! Hosted API). Apart from reading the configuration file these are pure functions; nothing here waits.

pub mod announce;
pub mod dates;
pub mod duration;
pub mod environment;
pub mod error;
pub mod headers;
pub mod plan;
pub mod refusal;
pub mod settings;
pub mod tenants;
