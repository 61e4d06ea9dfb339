//! The translation between the two protocols: pure functions over their messages.

pub(crate) mod commands;
pub(crate) mod diff;
pub(crate) mod elicitation;
pub(crate) mod item;
pub(crate) mod mcp;
pub(crate) mod permission;
pub(crate) mod prompt;
pub(crate) mod settings;
pub(crate) mod usage;
