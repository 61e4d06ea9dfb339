//! The services of the application server below its threads: configuration, models, accounts, plugins,
//! skills, memories, MCP servers, command rules, telemetry, and the conversion between the wire and the
//! session. It holds the port of loaded threads (`thread_port`), and knows neither the actor that serves it
//! nor the handlers of the protocol.
//!
//! It reads no environment, no command line and no clock by itself: see [`options::Options`].
//!
//! Every error of the server is an [`error::Error`]; its code and data on the wire are chosen there.

pub mod account_limits;
pub mod accounts;
pub mod allowed;
pub mod bounds;
pub mod budget;
pub mod command_checks;
pub mod command_environment;
pub mod command_limits;
pub mod command_runner;
pub mod config_check;
pub mod config_source;
mod config_watch;
pub mod configurations;
pub mod connections;
pub mod convert;
pub mod direct_requests;
pub mod door;
pub mod egress_policy;
pub mod error;
pub mod first_turn;
pub mod folders;
pub mod git;
pub mod home;
pub mod idle_sleep;
pub mod image_reader;
pub mod image_url;
pub mod installed_plugins;
pub mod loaded_threads;
pub mod local_models;
pub mod mcp_servers;
pub mod memories;
pub mod models;
pub mod notify;
pub mod options;
pub mod panics;
pub mod peer;
pub mod project_doc;
pub mod prompt_history;
pub mod provider;
pub mod provider_list;
pub mod recovery;
pub mod rules;
pub mod salvage_report;
pub mod search_index;
pub mod searched_text;
pub mod seen_warnings;
pub mod server_models;
pub mod server_skills;
pub mod skills;
pub mod snapshots;
pub mod stored;
pub mod telemetry;
pub mod thread_database;
pub mod thread_defaults;
pub mod thread_hooks;
pub mod thread_locks;
pub mod thread_order;
pub mod thread_port;
pub mod thread_store;
pub mod undo;
pub mod updates;
pub mod warnings;
