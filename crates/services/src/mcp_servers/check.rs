//! A trial start of the MCP servers of a configuration, for `agentd doctor`: each is started, asked for its
//! tools, and ended again.

use std::sync::Arc;
use std::time::Duration;

use config::Config;
use http_client::Network;
use mcp::{Action, Answer, Audience, BoxFuture, Elicitation, Pool, Server, State};
use sandbox::Sandbox;
use tokio::task::JoinSet;

use super::definition::definitions;
use super::{SandboxLauncher, pool_options, with_login_store};
use crate::command_runner::CommandRunner;
use crate::options::Options;

/// Longest wait for a server, whatever its `startup_timeout_sec`.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest wait for the end of all.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// An MCP server that was tried.
#[derive(Debug)]
pub struct McpServerCheck {
    pub name: String,
    /// True if no thread starts without it.
    pub is_required: bool,
    /// The number of its tools, or why it did not start.
    pub tools: Result<usize, String>,
}

/// Starts the enabled servers of a configuration, counts their tools, and ends them. By name.
pub async fn check_mcp_servers(
    options: &Arc<Options>,
    sandbox: Sandbox,
    config: &Config,
) -> Vec<McpServerCheck> {
    let definitions = with_login_store(definitions(config, options), config);
    if definitions.is_empty() {
        return Vec::new();
    }
    let network = Network::from_variables(|name| options.variable(name));
    let runner = CommandRunner::new(Arc::new(sandbox));
    let launcher = SandboxLauncher::new(runner, options.clone());
    let programs = launcher.programs();
    let pool = Pool::new(pool_options(options, launcher, Arc::new(NoClients), network));
    let held = pool.hold("doctor", &options.cwd, definitions);
    let mut checks: JoinSet<McpServerCheck> =
        held.servers().into_iter().map(|server| check(server, config)).collect();
    let mut found = Vec::new();
    while let Some(checked) = checks.join_next().await {
        // A check does not panic.
        found.extend(checked);
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    drop(held);
    let end = async {
        pool.close().await;
        programs.close();
        programs.wait().await;
    };
    // A program that does not end by then is killed with this process.
    let _ = tokio::time::timeout(END_TIMEOUT, end).await;
    found
}

fn check(server: Server, config: &Config) -> impl Future<Output = McpServerCheck> + Send + use<> {
    let name = server.name().to_owned();
    let is_required = config.mcp_servers.get(&name).is_some_and(|server| server.required);
    async move {
        let tools = match tokio::time::timeout(PATIENCE, server.ready()).await {
            Ok(Ok(catalog)) => Ok(catalog.tools.len()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("it did not start within {} s", PATIENCE.as_secs())),
        };
        McpServerCheck { name, is_required, tools }
    }
}

/// Clients that there are none of: questions are declined.
struct NoClients;

impl Audience for NoClients {
    fn state_changed(&self, _: &[String], _: &str, _: &State) {}

    fn tools_changed(&self, _: &[String], _: &str, _: &State) {}

    fn elicit(&self, _: Elicitation) -> BoxFuture<'_, Answer> {
        Box::pin(async { Answer::without_content(Action::Decline) })
    }
}
