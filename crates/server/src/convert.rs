//! Between the wire's types, the session's and the leaves': the one place that knows both sides.

pub(crate) mod agent;
pub(crate) mod auto_review;
pub(crate) mod event;
pub(crate) mod files;
pub(crate) mod item;
pub(crate) mod model;
pub(crate) mod permissions;
pub(crate) mod policies;
pub(crate) mod requirements;
pub(crate) mod server_tool;
pub(crate) mod settings;
pub(crate) mod thread;
