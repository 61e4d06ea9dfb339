//! Where Codex keeps its configuration.

use std::path::Path;

use crate::agent::Agent;
use crate::bounds::SETTINGS_BYTES;
use crate::error::Error;
use crate::item::{Detected, Item, Kind, Roots};
use crate::{hook_groups, instructions, markdown, mcp, skill_folders, source};

const AGENT: Agent = Agent::Codex;

/// Keys of a server that mean the same here.
const SERVER_KEYS: [&str; 16] = [
    "command",
    "args",
    "cwd",
    "env",
    "env_vars",
    "url",
    "bearer_token_env_var",
    "http_headers",
    "env_http_headers",
    "enabled",
    "required",
    "enabled_tools",
    "disabled_tools",
    "default_tools_approval_mode",
    "startup_timeout_sec",
    "tool_timeout_sec",
];

/// See [`crate::detect`].
pub(crate) fn detect(roots: &Roots, project: Option<&Path>, detected: &mut Detected) {
    let base = project.unwrap_or(&roots.user_home);
    let folder = base.join(".codex");
    let own = roots.own_folder(project);
    if project.is_none() {
        // A project's `AGENTS.md` is read where it is.
        let file = folder.join("AGENTS.md");
        instructions::detect((base, &file), None, AGENT, project, detected);
    }
    let mut add = |kind, read: &dyn Fn(&mut Item) -> Result<(), Error>| {
        let mut item = Item::new(kind, AGENT, project);
        if let Err(error) = read(&mut item) {
            detected.problems.push(error);
        }
        detected.items.push(item);
    };
    let skills = own.join("skills");
    add(Kind::McpServers, &|item| servers(base, &folder.join("config.toml"), item));
    add(Kind::Skills, &|item| skill_folders::add(base, &folder.join("skills"), &skills, item));
    add(Kind::Commands, &|item| markdown::commands((base, &folder.join("prompts")), &skills, item));
    add(Kind::Hooks, &|item| {
        let file = folder.join("hooks.json");
        if let Some(read) = source::json(base, &file)? {
            hook_groups::add(&read["hooks"], &file, &own.join("hooks.json"), item);
        }
        Ok(())
    });
}

fn servers(root: &Path, file: &Path, item: &mut Item) -> Result<(), Error> {
    let Some(bytes) = source::bytes(root, file, SETTINGS_BYTES)? else { return Ok(()) };
    let text =
        String::from_utf8(bytes).map_err(|_| Error::contents(file, "it is not UTF-8 text"))?;
    let read: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| Error::contents(file, error.message().to_owned()))?;
    let servers = match read.get("mcp_servers") {
        None => return Ok(()),
        Some(toml::Value::Table(servers)) => servers,
        Some(_) => return Err(Error::contents(file, "`mcp_servers` must be a table")),
    };
    for (name, server) in servers {
        let Some(table) = server.as_table() else {
            item.leave_out(name, "it must be a table");
            continue;
        };
        if let Some(key) = table.keys().find(|key| !SERVER_KEYS.contains(&key.as_str())) {
            let why = format!("`{}` has no counterpart here", visible::exact(key));
            item.leave_out(name, &why);
            continue;
        }
        match serde_json::to_value(table) {
            Ok(value) => mcp::add(name, value, item),
            Err(error) => item.leave_out(name, &error.to_string()),
        }
    }
    Ok(())
}
