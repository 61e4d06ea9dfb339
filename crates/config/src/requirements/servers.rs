//! Requirements on MCP servers: which may be used, and who may start their programs.

use std::collections::BTreeMap;

use super::Requirements;
use super::replacing::described;
use crate::error::{Error, Warning, WarningKind};
use crate::key_path::join;
use crate::origin::Origin;
use crate::table::{Identity, SandboxMode};
use crate::value::{Node, Table, Value};

/// The MCP servers that one file allows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AllowedServers {
    pub(super) by_id: BTreeMap<String, Identity>,
    pub(super) origin: Origin,
}

impl Requirements {
    /// The program of an MCP server runs outside of the sandbox: where full access is not allowed, a
    /// client cannot start one.
    pub(super) fn refuse_programs_of_clients(&self, root: &Table) -> Result<(), Error> {
        let Some(requirement) = self.sandbox(SandboxMode::DangerFullAccess) else { return Ok(()) };
        let Some(Node { value: Value::Table(servers), .. }) = root.get("mcp_servers") else {
            return Ok(());
        };
        for (id, node) in servers {
            let Value::Table(server) = &node.value else { continue };
            let decisive = ["command", "args", "cwd", "env", "env_vars"];
            let starts = server.get("command").is_some_and(|node| node.value != Value::Unset);
            let by_client = decisive.iter().any(|key| server.get(*key).is_some_and(is_of_client));
            let is_off =
                server.get("enabled").is_some_and(|node| node.value == Value::Boolean(false));
            if starts && by_client && !is_off {
                let key = join(&["mcp_servers", id]);
                let requirement = requirement.requirement;
                let message = format!(
                    "`{key}`: {requirement} does not allow full access, and the program of an MCP \
                     server runs with it, so that a client cannot start one; define the server in \
                     `config.toml`"
                );
                return Err(Error::Requirements { origin: Origin::Thread, message });
            }
        }
        Ok(())
    }

    /// Why an MCP server with this name and identity may not be used, if so.
    pub fn refusal_of_server(
        &self,
        id: &str,
        command: Option<&str>,
        url: Option<&str>,
    ) -> Option<String> {
        let forbidding = self.forbidding(id, command, url)?;
        let requirement = described("mcp_servers", &forbidding.origin);
        Some(format!("{requirement} does not list this name and identity"))
    }

    fn forbidding(
        &self,
        id: &str,
        command: Option<&str>,
        url: Option<&str>,
    ) -> Option<&AllowedServers> {
        let is_allowed_by = |allowed: &&AllowedServers| {
            allowed.by_id.get(id).is_some_and(|identity| match (&identity.command, &identity.url) {
                (Some(_), _) => identity.command.as_deref() == command && url.is_none(),
                (None, Some(_)) => identity.url.as_deref() == url && command.is_none(),
                (None, None) => false,
            })
        };
        self.servers.iter().find(|allowed| !is_allowed_by(allowed))
    }

    pub(crate) fn constrain_servers(
        &self,
        root: &mut Table,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), Error> {
        if self.servers.is_empty() {
            return Ok(());
        }
        let Some(Node { value: Value::Table(servers), .. }) = root.get_mut("mcp_servers") else {
            return Ok(());
        };
        for (id, node) in servers {
            let Value::Table(server) = &mut node.value else { continue };
            let text = |key: &str| match server.get(key).map(|node| &node.value) {
                Some(Value::Text(text)) => Some(text.clone()),
                _ => None,
            };
            let (command, url) = (text("command"), text("url"));
            let Some(forbidding) = self.forbidding(id, command.as_deref(), url.as_deref()) else {
                continue;
            };
            let on = |key: &str, default: bool| match server.get(key).map(|node| &node.value) {
                Some(Value::Boolean(on)) => *on,
                _ => default,
            };
            if !on("enabled", true) {
                continue;
            }
            let key = join(&["mcp_servers", id]);
            let requirement = described("mcp_servers", &forbidding.origin);
            if on("required", false) {
                let message = format!(
                    "`{key}` is `required`, and {requirement} does not allow it; remove the server, \
                     or ask your administrator to list its name and identity"
                );
                return Err(Error::Requirements { origin: node.origin.clone(), message });
            }
            warnings.push(Warning {
                origin: node.origin.clone(),
                key,
                message: format!(
                    "switched off, because {requirement} does not list this name and identity"
                ),
                kind: WarningKind::Replaced,
            });
            let off = Node { value: Value::Boolean(false), origin: forbidding.origin.clone() };
            server.insert("enabled".to_owned(), off);
        }
        Ok(())
    }
}

/// Returns whether a value, or a part of it, comes with a thread's request.
fn is_of_client(node: &Node) -> bool {
    match &node.value {
        Value::Table(members) => members.values().any(is_of_client),
        _ => node.origin == Origin::Thread,
    }
}
