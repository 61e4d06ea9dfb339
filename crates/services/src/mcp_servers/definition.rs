//! Turns entries of the configuration into definitions of servers, with the values of variables.

use std::collections::BTreeMap;
use std::time::Duration;

use config::table::McpServer;
use config::{Config, SandboxMode};
use mcp::{Confinement, Definition, HttpServer, Oauth, Program, Transport};

use crate::options::Options;

/// Time limit of a start that the configuration does not limit.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(10);

/// The enabled servers of a configuration. One whose entry cannot be used fails with the reason.
pub(super) fn definitions(config: &Config, options: &Options) -> Vec<Definition> {
    let enabled = config.mcp_servers.iter().filter(|(_, server)| server.enabled);
    enabled.map(|(name, server)| definition(name, server, options)).collect()
}

/// The server of that name, enabled or not.
pub(super) fn of_name(config: &Config, options: &Options, name: &str) -> Option<Definition> {
    config.mcp_servers.get(name).map(|server| definition(name, server, options))
}

fn definition(name: &str, server: &McpServer, options: &Options) -> Definition {
    let transport = transport(name, server, options).unwrap_or_else(Transport::Unusable);
    let startup_timeout = match (server.startup_timeout_ms, server.startup_timeout_sec) {
        (Some(limit), _) => limit.duration(),
        (None, Some(limit)) => limit.duration(),
        (None, None) => STARTUP_TIMEOUT,
    };
    Definition {
        name: name.to_owned(),
        transport,
        enabled_tools: server.enabled_tools.clone(),
        disabled_tools: server.disabled_tools.clone(),
        startup_timeout,
        tool_timeout: server.tool_timeout_sec.duration(),
    }
}

fn confinement(place: &str, server: &McpServer) -> Result<Confinement, String> {
    let sandboxed = |writes| Confinement::Sandboxed { writes, network: server.sandbox_network };
    match server.sandbox {
        SandboxMode::DangerFullAccess if server.sandbox_network => Err(format!(
            "`{place}.sandbox_network` has no effect without `{place}.sandbox`; set that, too"
        )),
        SandboxMode::DangerFullAccess => Ok(Confinement::None),
        // Threads of several folders share the server: none of theirs can be meant.
        SandboxMode::WorkspaceWrite if server.cwd.is_none() => Err(format!(
            "`{place}.sandbox` lets the server write in its `cwd`, which is missing; set `{place}.cwd`"
        )),
        SandboxMode::WorkspaceWrite => Ok(sandboxed(true)),
        SandboxMode::ReadOnly => Ok(sandboxed(false)),
    }
}

fn transport(name: &str, server: &McpServer, options: &Options) -> Result<Transport, String> {
    let place = format!("mcp_servers.{name}");
    match (&server.command, &server.url) {
        (Some(_), Some(_)) => {
            Err(format!("`{place}` has both `command` and `url`; keep the one that reaches it"))
        }
        (None, None) => Err(format!("`{place}` has neither `command` nor `url`; set one")),
        (Some(command), None) => Ok(Transport::Stdio(Program {
            command: command.clone(),
            args: server.args.clone(),
            cwd: server.cwd.clone().unwrap_or_else(|| options.cwd.clone()),
            env: server.env.clone(),
            env_vars: server.env_vars.clone(),
            confinement: confinement(&place, server)?,
        })),
        (None, Some(url)) => {
            let variable = |key: &str, variable: &str| {
                options.variable(variable).filter(|value| !value.is_empty()).ok_or_else(|| {
                    format!(
                        "`{place}.{key}` names the variable {variable}, which is not set; set it"
                    )
                })
            };
            let mut headers: BTreeMap<String, String> = server.http_headers.clone();
            for (header, name) in &server.env_http_headers {
                let value = variable(&format!("env_http_headers.{header}"), name)?;
                headers.insert(header.clone(), value);
            }
            let bearer = server.bearer_token_env_var.as_deref();
            let bearer = bearer.map(|name| variable("bearer_token_env_var", name)).transpose()?;
            let secret = server.oauth.client_secret_env.as_deref();
            let client_secret =
                secret.map(|name| variable("oauth.client_secret_env", name)).transpose()?;
            let oauth = Oauth {
                scopes: server.scopes.clone(),
                resource: server.oauth_resource.clone(),
                client_id: server.oauth.client_id.clone(),
                client_secret,
                client_metadata_url: server.oauth.client_metadata_url.clone().map(|url| url.0),
                ..Oauth::default()
            };
            Ok(Transport::Http(HttpServer { url: url.0.clone(), headers, bearer, oauth }))
        }
    }
}
