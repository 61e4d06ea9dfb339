//! The apps of MCP servers, for clients that list them and inputs that mention them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use config::Config;
use mcp::{Catalog, Server, State};
use protocol::app::AppInfo;
use tokio::task::JoinSet;

use super::apps::Apps;
use crate::error::Error;
use crate::mcp_servers::McpServers;

/// The tools of servers by name, and what is wrong with the servers that have none.
type Catalogs = (BTreeMap<String, Arc<Catalog>>, Vec<String>);

impl McpServers {
    /// The apps of a loaded thread as its next turn has them, by id, and what is wrong with its servers.
    /// Waits for those that start; `refetch`: their tools are requested again.
    ///
    /// # Errors
    /// The thread was unloaded; a file system that does not answer.
    pub(crate) async fn apps_of_thread(
        &self,
        thread: &str,
        refetch: bool,
    ) -> Result<(Vec<AppInfo>, Vec<String>), Error> {
        let config = self.thread_configuration(thread).await?;
        let servers = || self.servers(thread);
        Ok(list(&config, servers, refetch).await)
    }

    /// As [`McpServers::apps_of_thread`], of the servers of a configuration.
    pub(crate) async fn apps_of_folder(
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
        let config = self.thread_configuration(thread).await?;
        if !config.features.apps {
            return Err(Error::wrong_state("apps are switched off")
                .next_step("set `features.apps` to true in the configuration"));
        }
        let apps = Apps::new(&config);
        let is_ready = |server: &Server| matches!(server.state(), State::Ready(_));
        let (ready, others): (Vec<Server>, Vec<Server>) =
            servers.iter().cloned().partition(is_ready);
        let (mut known, _) = catalogs(ready, false).await;
        let mut problems = Vec::new();
        if apps.check(id, &known).is_none() && !others.is_empty() {
            let (further, failed) = catalogs(others, false).await;
            known.extend(further);
            problems = failed;
        }
        apps.check(id, &known).unwrap_or_else(|| {
            let problems: String = problems.iter().map(|problem| format!("; {problem}")).collect();
            let message = format!("no MCP server of the thread has the app `{id}`{problems}");
            Err(Error::not_found(message).next_step("choose one that `app/list` names"))
        })
    }

    /// The configuration that the next turn of a thread has.
    ///
    /// # Errors
    /// The thread was unloaded; a file system that does not answer.
    pub(super) async fn thread_configuration(&self, thread: &str) -> Result<Arc<Config>, Error> {
        self.apps.configuration(thread).await?.ok_or_else(Error::unloaded)
    }
}

async fn list(
    config: &Config,
    servers: impl FnOnce() -> Vec<Server>,
    refetch: bool,
) -> (Vec<AppInfo>, Vec<String>) {
    if !config.features.apps {
        return Default::default();
    }
    let (catalogs, problems) = catalogs(servers(), refetch).await;
    (Apps::new(config).list(catalogs.values().map(|catalog| &**catalog)), problems)
}

async fn catalogs(servers: Vec<Server>, refetch: bool) -> Catalogs {
    let mut listed = JoinSet::new();
    for server in servers {
        listed.spawn(async move {
            let catalog = if refetch { server.refetch().await } else { server.ready().await };
            (server.name().to_owned(), catalog)
        });
    }
    let mut catalogs = BTreeMap::new();
    let mut problems = Vec::new();
    for (name, catalog) in listed.join_all().await {
        match catalog {
            Ok(catalog) => {
                catalogs.insert(name, catalog);
            }
            Err(error) => problems.push(format!("the MCP server `{name}`: {error}")),
        }
    }
    problems.sort();
    (catalogs, problems)
}

impl Apps<'_> {
    /// Whether the model can be offered an app; `None` when these servers do not have it.
    fn check(
        &self,
        id: &str,
        catalogs: &BTreeMap<String, Arc<Catalog>>,
    ) -> Option<Result<(), Error>> {
        let tools = catalogs.values().flat_map(|catalog| &catalog.tools);
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
