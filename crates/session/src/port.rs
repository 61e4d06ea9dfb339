//! The data that crosses the border of the session: inputs, effects, events, items and settings.
//! Imports nothing else of this crate.

pub(crate) mod agent_request;
pub(crate) mod agents;
pub(crate) mod approval;
pub(crate) mod auto_review;
pub(crate) mod bound;
pub(crate) mod concession;
pub(crate) mod effect;
pub(crate) mod event;
pub(crate) mod fragment;
pub(crate) mod goal;
pub(crate) mod hook;
pub(crate) mod input;
pub(crate) mod item;
pub(crate) mod memory;
pub(crate) mod model;
pub(crate) mod permission;
pub(crate) mod prompt;
pub(crate) mod question;
pub(crate) mod review;
pub(crate) mod server_tool;
pub(crate) mod settings;
pub(crate) mod skill;
pub(crate) mod thread;
pub(crate) mod tool;
pub(crate) mod tool_content;
pub(crate) mod tool_error;
pub(crate) mod tool_index;
pub(crate) mod tool_set;
