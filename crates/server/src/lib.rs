//! The application server: handlers for the protocol's methods, one actor a loaded thread, and the
//! adapters from model, sandbox, patches and store to the session's effects.
//!
//! It reads no environment, no command line and no clock by itself: see [`Options`].

mod bounds;
mod change;
mod client_processes;
mod config_source;
mod config_watch;
mod connection;
mod convert;
mod egress;
mod error;
mod files;
mod git;
mod handlers;
mod image_url;
mod images;
mod in_flight;
mod loading;
mod notify;
mod options;
mod permitted;
mod project_doc;
mod prompt_history;
mod provider;
mod recovery;
mod requests;
mod required;
mod rules;
mod salvaged;
mod sandboxed;
mod server;
mod snapshots;
mod thread;
mod warnings;

pub use bounds::{LINE_BYTES, connection_limits};
pub use config_source::{check_configuration_text, configuration, configuration_here};
pub use error::{ConfigWriteFault, Error, ErrorKind};
pub use options::{Clock, Ids, Options};
pub use rules::{Explained, explain_command};
pub use sandboxed::{Wanted, sandboxed};
pub use server::{CLOSE_GRACE, Server, StartError, make_home};
