//! MCP servers: their status, resources and tools, for clients.

use std::sync::Arc;
use std::time::Duration;

use mcp::{Call, ErrorKind as McpErrorKind, Server as McpServer, State, Transport};
use protocol::mcp::*;
use protocol::{Empty, McpMethods, McpServerOauthLoginCompleted};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::handlers::page::PAGE;
use crate::server::Server;
use services::error::Error;
use services::mcp_servers::{ConfiguredServer, McpServers, ThreadServers, startup_state};
use services::peer::{Caller, Peer};
use services::warnings;

/// Time that a server has to list its resources for a row.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

impl McpMethods<Caller> for Server {
    /// The enabled servers of a thread, or of the working folder's configuration, by name, as they are now.
    async fn mcp_server_status_list(
        &self,
        caller: Caller,
        params: McpServerStatusListParams,
    ) -> Result<McpServerStatusListResponse, Error> {
        let starts = params.start == Some(true);
        let thread = params.thread_id.as_deref();
        let (_held, mut servers) = self.listed_servers(thread, starts).await?;
        servers.sort_by(|one, other| one.definition.name.cmp(&other.definition.name));
        if let Some(cursor) = &params.cursor {
            let at = servers.iter().position(|server| server.definition.name == *cursor);
            let last = at.ok_or_else(|| {
                Error::invalid_params("`cursor` is not a cursor of this list")
                    .next_step("begin the list without a cursor")
            })?;
            servers.drain(..=last);
        }
        let rows = PAGE.rows(params.limit) as usize;
        let has_more = servers.len() > rows;
        servers.truncate(rows);
        let last = servers.last().filter(|_| has_more);
        let next_cursor = last.map(|server| server.definition.name.clone());
        let is_full = params.detail != Some(McpServerStatusDetail::ToolsAndAuthOnly);
        let mut rows = tokio::task::JoinSet::new();
        for server in servers {
            let peer = caller.peer.clone();
            let mcp = self.services.mcp.clone();
            rows.spawn(async move {
                if let (true, Some(server)) = (starts, &server.server) {
                    // The row has the reason of a failure.
                    let _ = server.ready().await;
                }
                status(&mcp, &server, is_full, &peer).await
            });
        }
        let mut data = rows.join_all().await;
        data.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(McpServerStatusListResponse { data, next_cursor })
    }

    async fn mcp_server_resource_read(
        &self,
        _caller: Caller,
        params: McpServerResourceReadParams,
    ) -> Result<McpServerResourceReadResponse, Error> {
        let McpServerResourceReadParams { server, uri, thread_id } = params;
        let (_held, found) = self.ready_server(thread_id.as_deref(), &server).await?;
        let read = found.read_resource(thread_id, &uri).await;
        answer(&server, read.map_err(|error| failed(&server, &error))?)
    }

    async fn mcp_server_tool_call(
        &self,
        _caller: Caller,
        params: McpServerToolCallParams,
    ) -> Result<McpServerToolCallResponse, Error> {
        let McpServerToolCallParams { thread_id, server, tool, arguments, meta } = params;
        let arguments = object("arguments", arguments)?;
        let meta = object("_meta", meta)?;
        let (_held, found) = self.ready_server(Some(&thread_id), &server).await?;
        let holder = Some(thread_id);
        let call = Call { holder, tool, arguments, meta, ..Call::default() };
        answer(&server, found.call(call).await.map_err(|error| failed(&server, &error))?)
    }

    async fn mcp_server_oauth_login(
        &self,
        caller: Caller,
        params: McpServerOauthLoginParams,
    ) -> Result<McpServerOauthLoginResponse, Error> {
        let McpServerOauthLoginParams { name, scopes, timeout_secs, thread_id } = params;
        let timeout = timeout_secs.map(|seconds| match u64::try_from(seconds) {
            Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
            _ => Err(Error::invalid_params("`timeoutSecs` must be positive")),
        });
        let cwd = &self.services.options.cwd;
        let loaded = self.services.configurations.in_folder(cwd, None).await?;
        let config = &loaded.resolved.config;
        let (held, servers) = self.servers(thread_id.as_deref()).await?;
        let server = named(servers, &name)?;
        let (peer, gate) = (caller.peer.clone(), caller.gate());
        let done = move |outcome: Result<(), mcp::Error>| {
            // The server is held until then.
            drop(held);
            let error = outcome.err().map(|error| error.to_string());
            let params =
                McpServerOauthLoginCompletedNotification { name, success: error.is_none(), error };
            tokio::spawn(async move {
                gate.opened().await;
                peer.notify::<McpServerOauthLoginCompleted>(&params);
            });
        };
        let scopes = scopes.unwrap_or_default();
        let begun = self.services.mcp.log_in(&server, config, scopes, timeout.transpose()?, done);
        Ok(McpServerOauthLoginResponse { authorization_url: begun.await? })
    }

    async fn mcp_server_prompt_list(
        &self,
        caller: Caller,
        params: McpServerPromptListParams,
    ) -> Result<McpServerPromptListResponse, Error> {
        let McpServerPromptListParams { server, thread_id } = params;
        let (_held, found) = self.ready_server(thread_id.as_deref(), &server).await?;
        let listed = found.prompts().await.map_err(|error| failed(&server, &error))?;
        let mut problems = Vec::new();
        let data = entries(listed, &mut problems);
        warn(&caller.peer, &server, problems);
        Ok(McpServerPromptListResponse { data })
    }

    async fn mcp_server_prompt_get(
        &self,
        _caller: Caller,
        params: McpServerPromptGetParams,
    ) -> Result<McpServerPromptGetResponse, Error> {
        let McpServerPromptGetParams { server, name, arguments, thread_id } = params;
        let (_held, found) = self.ready_server(thread_id.as_deref(), &server).await?;
        let arguments = arguments.map(|given| {
            given.into_iter().map(|(name, value)| (name, Value::String(value))).collect()
        });
        let expanded = found.prompt(thread_id, &name, arguments).await;
        answer(&server, expanded.map_err(|error| failed(&server, &error))?)
    }

    /// Reads the configuration of MCP servers again. Threads start added and changed servers at once, and
    /// removed ones end; tools change with a thread's next turn. Servers that have failed are started again.
    async fn config_mcp_server_reload(&self, caller: Caller, _: Empty) -> Result<Empty, Error> {
        self.reload_configuration(&caller)?;
        self.services.mcp.reload(&self.services.threads).await;
        Ok(Empty {})
    }
}

impl Server {
    /// The servers of the configuration where the server works.
    async fn configured_servers(&self) -> Result<ThreadServers, Error> {
        let cwd = &self.services.options.cwd;
        let loaded = self.services.configurations.in_folder(cwd, None).await?;
        Ok(self.services.mcp.of_request(cwd, &loaded.resolved.config))
    }

    /// The servers of a thread, or those where the server works, which run while they are held.
    async fn servers(
        &self,
        thread: Option<&str>,
    ) -> Result<(Option<ThreadServers>, Vec<McpServer>), Error> {
        match thread {
            Some(thread) => {
                self.loaded_thread(thread).await?;
                Ok((None, self.services.mcp.servers(thread)))
            }
            None => {
                let held = self.configured_servers().await?;
                let servers = held.servers();
                Ok((Some(held), servers))
            }
        }
    }

    /// The servers of a list: those of a thread, or those of the configuration where the server works, of
    /// which only `starts` has more run than do already.
    async fn listed_servers(
        &self,
        thread: Option<&str>,
        starts: bool,
    ) -> Result<(Option<ThreadServers>, Vec<ConfiguredServer>), Error> {
        if thread.is_some() || starts {
            let (held, servers) = self.servers(thread).await?;
            return Ok((held, servers.into_iter().map(ConfiguredServer::from).collect()));
        }
        let cwd = &self.services.options.cwd;
        let loaded = self.services.configurations.in_folder(cwd, None).await?;
        Ok((None, self.services.mcp.configured(&loaded.resolved.config)))
    }

    /// As [`Server::servers`], the one of that name, when it is ready.
    async fn ready_server(
        &self,
        thread: Option<&str>,
        name: &str,
    ) -> Result<(Option<ThreadServers>, McpServer), Error> {
        let (held, servers) = self.servers(thread).await?;
        let found = named(servers, name)?;
        found.ready().await.map_err(|error| failed(name, &error))?;
        Ok((held, found))
    }
}

fn named(servers: Vec<McpServer>, name: &str) -> Result<McpServer, Error> {
    let known: Vec<String> = servers.iter().map(|server| format!("`{}`", server.name())).collect();
    servers.into_iter().find(|server| server.name() == name).ok_or_else(|| {
        let known = match known.is_empty() {
            true => "the configuration has none".to_owned(),
            false => format!("the configuration has {}", known.join(", ")),
        };
        Error::not_found(format!("no MCP server `{name}` is enabled; {known}"))
    })
}

/// The row of a server as it is now. Entries that have no valid form are left out, with a warning.
async fn status(
    servers: &Arc<McpServers>,
    listed: &ConfiguredServer,
    is_full: bool,
    peer: &Peer,
) -> McpServerStatus {
    let definition = &listed.definition;
    let state = listed.server.as_ref().map(McpServer::state);
    let (status, error) = match state.as_ref().map(startup_state) {
        None => (McpServerState::NotStarted, None),
        Some((state, error)) => (McpServerState::from(state), error),
    };
    let mut errors: Vec<String> = error.into_iter().collect();
    let has_login = servers.has_login(definition).await.unwrap_or_else(|error| {
        errors.push(error.to_string());
        false
    });
    let mut problems = Vec::new();
    let (mut resources, mut resource_templates) = (Vec::new(), Vec::new());
    if let (true, Some(State::Ready(_)), Some(server)) = (is_full, &state, &listed.server) {
        let lists = async { tokio::join!(server.resources(), server.resource_templates()) };
        match tokio::time::timeout(LIST_TIMEOUT, lists).await {
            Ok((listed, templates)) => {
                errors.extend(listed.as_ref().err().map(ToString::to_string));
                errors.extend(templates.as_ref().err().map(ToString::to_string));
                resources = entries(listed.unwrap_or_default(), &mut problems);
                resource_templates = entries(templates.unwrap_or_default(), &mut problems);
            }
            Err(_) => errors.push(format!(
                "it did not list its resources within {} seconds",
                LIST_TIMEOUT.as_secs()
            )),
        }
    }
    let catalog = listed.server.as_ref().and_then(McpServer::catalog);
    let tools = catalog.iter().flat_map(|catalog| &catalog.tools);
    let tools = entries(tools.map(|tool| tool.json.clone()), &mut problems).into_iter();
    let tools = tools.map(|tool: McpTool| (tool.name.clone(), tool)).collect();
    for warning in catalog.iter().flat_map(|catalog| &catalog.warnings) {
        warnings::send_warning(peer, warning.clone());
    }
    warn(peer, &definition.name, problems);
    errors.dedup();
    McpServerStatus {
        name: definition.name.clone(),
        status,
        error: (!errors.is_empty()).then(|| errors.join("; ")),
        tools,
        resources,
        resource_templates,
        auth_status: auth_status(definition, state.as_ref(), has_login),
    }
}

fn warn(peer: &Peer, server: &str, problems: Vec<String>) {
    for problem in problems {
        warnings::send_warning(peer, format!("the MCP server `{server}`: {problem}"));
    }
}

fn entries<T: DeserializeOwned>(
    listed: impl IntoIterator<Item = Value>,
    problems: &mut Vec<String>,
) -> Vec<T> {
    let parsed = listed.into_iter().filter_map(|entry| match serde_json::from_value(entry) {
        Ok(entry) => Some(entry),
        Err(error) => {
            problems.push(format!("it lists an invalid entry: {error}"));
            None
        }
    });
    parsed.collect()
}

fn auth_status(
    definition: &mcp::Definition,
    state: Option<&State>,
    has_login: bool,
) -> McpAuthStatus {
    let Transport::Http(endpoint) = &definition.transport else {
        return McpAuthStatus::Unsupported;
    };
    match state {
        _ if endpoint.has_credentials() => McpAuthStatus::BearerToken,
        Some(State::Failed(error)) if error.kind == McpErrorKind::Unauthorized => {
            McpAuthStatus::NotLoggedIn
        }
        _ if has_login => McpAuthStatus::OAuth,
        _ => McpAuthStatus::Unsupported,
    }
}

/// A member that is an object, or absent.
fn object(name: &str, value: Option<Value>) -> Result<Option<Map<String, Value>>, Error> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(members)) => Ok(Some(members)),
        Some(_) => Err(Error::invalid_params(format!("`{name}` must be an object"))),
    }
}

fn failed(server: &str, error: &mcp::Error) -> Error {
    let place = format!("MCP server `{server}`");
    match error.kind {
        McpErrorKind::Unknown => Error::not_found(error.to_string()),
        _ => Error::failed(error.to_string()).within(&place),
    }
}

/// An answer of a server as the protocol has it.
fn answer<T: DeserializeOwned>(server: &str, value: Value) -> Result<T, Error> {
    serde_json::from_value(value).map_err(|error| {
        Error::failed(format!("MCP server `{server}`: its answer is invalid: {error}"))
    })
}
