//! `agentd mcp-server`: the agent as an MCP server, over standard input and output or HTTP.

use std::process::ExitCode;
use std::sync::Arc;

use mcp_server::Agent;
use rand::Rng;
use server::{Options, Server};

use crate::commands::local::Signals;
use crate::commands::{checked, eprint, watchdog};
use crate::environment::Environment;
use crate::log;

/// What threads are listed as that this server starts.
const SOURCE: &str = "mcpServer";

#[derive(clap::Args)]
pub(crate) struct Arguments {}

/// Runs the subcommand.
pub(crate) async fn run(_: Arguments, environment: Environment) -> anyhow::Result<ExitCode> {
    checked(&environment, false)?;
    let mut signals = Signals::catch()?;
    watchdog::start(std::time::Duration::ZERO)?;
    let log_file = log::to_file(&environment)?;
    let options = Options { log_file, ..environment.clone().options(SOURCE) };
    let server = Server::start(options, environment.sandbox())?;
    let random = Arc::new(|bytes: &mut [u8]| rand::rng().fill(bytes));
    let agent = Agent::new(server, env!("CARGO_PKG_VERSION"), random);
    let stop = async {
        signals.next().await;
    };
    let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
    if let Err(error) = mcp_server::serve_stdio(agent, input, output, stop).await {
        eprint(format_args!("agentd: {error}"));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
