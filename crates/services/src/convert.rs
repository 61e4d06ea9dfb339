//! Between the wire's types, the session's and the leaves': the one place that knows both sides.

pub mod agent;
pub mod auto_review;
pub mod event;
pub mod files;
pub mod item;
pub mod model;
pub mod permissions;
pub mod policies;
pub mod requirements;
pub mod server_tool;
pub mod settings;
pub mod thread;
