//! The handlers of the protocol's methods: one file a resource, one function a method.

mod account;
mod app;
mod collaboration;
mod command;
mod config;
mod connection;
mod external_agent;
mod features;
mod feedback;
mod fs;
mod fuzzy_file_search;
mod goal;
mod hooks;
mod marketplace;
mod mcp;
mod memory;
mod model;
mod page;
mod plugin;
mod plugin_share;
mod process;
mod queue;
mod realtime;
mod review;
mod search;
mod skills;
mod thread;
mod turn;
mod windows;
mod worktree;

pub use review::check_review;

use crate::server::Server;
use services::error::Error;

impl protocol::Handlers for Server {
    type Error = Error;
}

/// Refuses parameters that this version does not implement: `given` pairs each name with whether
/// the client set it.
pub(crate) fn refuse_missing(method: &str, given: &[(&str, bool)]) -> Result<(), Error> {
    match given.iter().find(|(_, is_set)| *is_set) {
        Some((name, _)) => Err(Error::not_implemented(&format!("{method}.{name}"))),
        None => Ok(()),
    }
}
