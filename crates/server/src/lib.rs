//! The application server: the handlers of the protocol's methods, the connections that it serves, and its
//! start and end. What it serves is below: loaded threads in `threads`, everything else in `services`.
//!
//! It reads no environment, no command line and no clock by itself: see [`Options`].

mod client_processes;
mod client_watches;
mod elsewhere;
mod feedback;
mod file_searches;
mod git_command;
mod handlers;
mod imported_sessions;
mod imports;
mod in_flight;
mod input_reader;
mod metrics_page;
mod plugins;
mod realtime_sessions;
mod review_change;
mod sandboxed;
mod serve;
mod server;
mod text_searches;
mod worktrees;

pub use handlers::check_review;
pub use sandboxed::{ChosenPolicy, sandboxed};
pub use server::{CLOSE_GRACE, Server};
pub use services::accounts::{account_settings, accounts, uses_environment_key};
pub use services::bounds::{LINE_BYTES, connection_limits};
pub use services::command_limits::reason as limit_reason;
pub use services::config_check::{ClientChecks, Finding, check_configuration};
pub use services::config_source::{check_configuration_text, configuration, configuration_here};
pub use services::error::{ConfigWriteFault, Error, ErrorKind};
pub use services::first_turn::{FirstTurn, ProviderCheck, check_provider, first_turn};
pub use services::git::info as git_info;
pub use services::home::make_home;
pub use services::image_reader::check_image;
pub use services::local_models::local_models;
pub use services::mcp_servers::{McpServerCheck, check_mcp_servers, log_out_of_mcp_server};
pub use services::options::{Clock, Ids, Options};
pub use services::provider_list::{AvailableProvider, available as available_providers};
pub use services::recovery::close_orphans;
pub use services::rules::{Explained, explain_command};
pub use services::server_models::{AddressFault, ListedModels, ServerModels, models_at};
pub use services::thread_database::{open_store, postgres_config};
