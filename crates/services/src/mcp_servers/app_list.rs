//! The apps of MCP servers, for clients that list them and inputs that mention them.

use std::collections::BTreeMap;
use std::path::Path;

use config::Config;
use mcp::Server;
use protocol::app::AppInfo;
use tokio::task::JoinSet;

use super::apps::{Apps, KnownTools};
use crate::error::Error;
use crate::mcp_servers::McpServers;

/// Servers by name.
type Servers = BTreeMap<String, KnownTools>;

impl McpServers {
    /// The apps of a loaded thread as its next turn has them, by id, and what is wrong with its servers.
    /// Waits for those that start; `refetch`: their tools are requested again.
    ///
    /// # Errors
    /// A file system that does not answer.
    pub async fn apps_of_thread(
        &self,
        thread: &str,
        refetch: bool,
    ) -> Result<(Vec<AppInfo>, Vec<String>), Error> {
        let Some(config) = self.apps.configuration(thread).await? else {
            return Ok(Default::default());
        };
        let servers = || self.servers(thread);
        Ok(list(&config, servers, refetch).await)
    }

    /// As [`McpServers::apps_of_thread`], of the servers of a configuration.
    pub async fn apps_of_folder(
        &self,
        cwd: &Path,
        config: &Config,
        refetch: bool,
    ) -> (Vec<AppInfo>, Vec<String>) {
        let mut held = None;
        let servers = || held.insert(self.of_request(cwd, config)).servers();
        list(config, servers, refetch).await
    }

    /// Looks up an app that an input to a thread mentions. A server that is slow to start delays only what
    /// no other one has.
    ///
    /// # Errors
    /// No server has it, or it is switched off.
    pub(super) async fn mentioned_app(
        &self,
        thread: &str,
        servers: &[Server],
        id: &str,
    ) -> Result<(), Error> {
        let Some(config) = self.apps.configuration(thread).await? else {
            return Err(unknown(id, &[]));
        };
        if !config.features.apps {
            return Err(Error::wrong_state("apps are switched off")
                .next_step("set `features.apps` to true in the configuration"));
        }
        let apps = Apps::new(&config);
        let known =
            servers.iter().filter_map(|one| Some((one.name().to_owned(), KnownTools::of(one)?)));
        let (mut known, mut problems): (Servers, _) = (known.collect(), Vec::new());
        if apps.check(id, &known).is_none() {
            (known, problems) = list_tools(servers.to_vec(), false).await;
        }
        apps.check(id, &known).unwrap_or_else(|| Err(unknown(id, &problems)))
    }
}

fn unknown(id: &str, problems: &[String]) -> Error {
    let problems: String = problems.iter().map(|problem| format!("; {problem}")).collect();
    let message = format!("no MCP server of the thread has the app `{id}`{problems}");
    Error::not_found(message).next_step("choose one that `app/list` names")
}

async fn list(
    config: &Config,
    servers: impl FnOnce() -> Vec<Server>,
    refetch: bool,
) -> (Vec<AppInfo>, Vec<String>) {
    if !config.features.apps {
        return Default::default();
    }
    let (known, problems) = list_tools(servers(), refetch).await;
    (Apps::new(config).list(known.values()), problems)
}

/// Waits for the servers. Returns their tools, and what is wrong with those that are not ready.
async fn list_tools(servers: Vec<Server>, refetch: bool) -> (Servers, Vec<String>) {
    let mut listed = JoinSet::new();
    for server in servers {
        listed.spawn(async move {
            let ready = if refetch { server.refetch().await } else { server.ready().await };
            (server, ready)
        });
    }
    let (mut known, mut problems) = (Servers::new(), Vec::new());
    for (server, ready) in listed.join_all().await {
        let name = server.name().to_owned();
        if let Err(error) = ready {
            problems.push(format!("the MCP server `{name}`: {error}"));
        }
        if let Some(tools) = KnownTools::of(&server) {
            known.insert(name, tools);
        }
    }
    problems.sort();
    (known, problems)
}

impl Apps<'_> {
    /// Checks that the model can be offered an app; `None` when these servers do not have it.
    fn check(&self, id: &str, servers: &Servers) -> Option<Result<(), Error>> {
        let tools = servers.values().flat_map(|server| &server.catalog.tools);
        let of_app = tools.filter_map(|tool| {
            let connector = self.connector(tool).filter(|connector| connector.id == id)?;
            Some(self.offers(&connector, tool))
        });
        let offered = of_app.reduce(|one, other| one || other)?;
        Some(match (self.is_enabled(id), offered) {
            (true, true) => Ok(()),
            (false, _) => Err(Error::wrong_state(format!("the app `{id}` is switched off"))
                .next_step(format!("set `apps.{id}.enabled` to true in the configuration"))),
            (true, false) => {
                let message =
                    format!("the configuration switches off every tool of the app `{id}`");
                Err(Error::wrong_state(message)
                    .next_step(format!("see `apps.{id}` and `apps._default`")))
            }
        })
    }
}
