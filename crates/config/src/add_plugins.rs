//! Adds installed plugins to a configuration. The caller finds and reads plugins; their MCP servers become
//! entries here, below those of the files and within the requirements.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value as Json;

use crate::error::{Error, Warning, WarningKind};
use crate::key_path::join;
use crate::kind::{ReadContext, Setting};
use crate::origin::Origin;
use crate::plugin::PluginParts;
use crate::resolve::Resolved;
use crate::table::McpServer;
use crate::value::{Node, Table, Value};

impl Resolved {
    /// Adds what plugins bring. An MCP server whose name an entry of the configuration has is left out, as
    /// is, with a warning, one whose name another plugin took or whose entry cannot be used.
    ///
    /// What such a server says of its tools is not believed: none of them runs unasked because of it.
    pub fn add_plugins(&mut self, plugins: Vec<PluginParts>) {
        let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
        let written: BTreeSet<String> = self.config.keys.mcp_servers.keys().cloned().collect();
        for plugin in &plugins {
            for (name, entry) in plugin.servers.iter().filter(|(name, _)| !written.contains(*name))
            {
                let origin = Origin::Folder(plugin.root.clone());
                let added = match taken.get(name.as_str()) {
                    Some(other) => Err(format!("the plugin `{other}` has one of the same name")),
                    None => {
                        self.add_server(name, entry, &origin).map_err(|error| error.to_string())
                    }
                };
                match added {
                    Ok(()) => drop(taken.insert(name, &plugin.id)),
                    Err(why) => self.warnings.push(Warning {
                        origin,
                        key: join(&["mcp_servers", name]),
                        message: format!(
                            "the MCP server of the plugin `{}` is left out: {why}",
                            plugin.id
                        ),
                        kind: WarningKind::Ignored,
                    }),
                }
            }
        }
        self.config.plugin_parts = plugins.into();
    }

    /// Adds a warning about the plugin in a folder.
    pub fn warn_of_plugin(&mut self, folder: &Path, id: &str, message: String) {
        self.warnings.push(Warning {
            origin: Origin::Folder(folder.to_owned()),
            key: join(&["plugins", id]),
            message,
            kind: WarningKind::Ignored,
        });
    }

    fn add_server(&mut self, name: &str, entry: &Json, origin: &Origin) -> Result<(), Error> {
        let named = |entry: &Json| match entry {
            Json::String(text) => vec![text.clone()],
            Json::Array(all) => all.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
            Json::Object(all) => all.values().filter_map(Json::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let keys = ["env_vars", "env_http_headers", "bearer_token_env_var"];
        let mut variables = keys.iter().filter_map(|key| entry.get(*key)).flat_map(named);
        if let Some(secret) = variables.find(|name| self.config.secret_variables.contains(name)) {
            let message = format!("it asks for {secret}, a credential of a model provider");
            return Err(Error::refused(origin, join(&["mcp_servers", name]), message));
        }
        let server = Table::from([(name.to_owned(), Node::from_json(entry, origin))]);
        let servers = Node { value: Value::Table(server), origin: origin.clone() };
        let mut root = Table::from([("mcp_servers".to_owned(), servers)]);
        let requirements = self.config.requirements.clone();
        requirements.constrain_servers(&mut root, &mut self.warnings)?;
        let cx = ReadContext { cwd: Path::new("/"), user_home: None };
        let Some(node) = root.get("mcp_servers") else { return Ok(()) };
        let read = BTreeMap::<String, McpServer>::read(node, &cx)?;
        self.config.untrusted_servers.extend(read.keys().cloned());
        self.config.keys.mcp_servers.extend(read);
        Ok(())
    }
}
