//! The application server: handlers for the protocol's methods, one actor a loaded thread, and the
//! adapters from model, sandbox, patches and store to the session's effects.
//!
//! It reads no environment, no command line and no clock by itself: see [`Options`].
//!
//! Every error of the crate is an [`Error`]; its code and data on the wire are chosen in
//! `error.rs`.

mod account_limits;
mod accounts;
mod agents;
mod allowed;
mod bounds;
mod budget;
mod client_processes;
mod client_watches;
mod command_checks;
mod command_environment;
mod command_runner;
mod config_source;
mod config_watch;
mod configurations;
mod connections;
mod convert;
mod direct_requests;
mod egress;
mod error;
mod feedback;
mod file_searches;
mod folders;
mod git;
mod handlers;
mod home;
mod idle_sleep;
mod image_reader;
mod image_url;
mod imported_sessions;
mod imports;
mod in_flight;
mod installed_plugins;
mod loaded_threads;
mod local_models;
mod mcp_servers;
mod memories;
mod metrics_page;
mod models;
mod notify;
mod options;
mod panics;
mod peer;
mod plugins;
mod project_doc;
mod prompt_history;
mod provider;
mod realtime_sessions;
mod recovery;
mod requests;
mod review_change;
mod rules;
mod salvage_report;
mod sandboxed;
mod serve;
mod server;
mod server_skills;
mod skills;
mod snapshots;
mod stored;
mod telemetry;
mod thread;
mod thread_defaults;
mod thread_hooks;
mod thread_loader;
mod thread_locks;
mod thread_order;
mod thread_port;
mod thread_store;
mod undo;
mod updates;
mod warm_up;
mod warnings;

pub use accounts::{account_settings, accounts, uses_environment_key};
pub use bounds::{LINE_BYTES, connection_limits};
pub use config_source::{check_configuration_text, configuration, configuration_here};
pub use error::{ConfigWriteFault, Error, ErrorKind};
pub use handlers::check_review;
pub use home::make_home;
pub use image_reader::check_image;
pub use local_models::local_models;
pub use mcp_servers::log_out_of_mcp_server;
pub use options::{Clock, Ids, Options};
pub use rules::{Explained, explain_command};
pub use sandboxed::{ChosenPolicy, sandboxed};
pub use server::{CLOSE_GRACE, Server};
