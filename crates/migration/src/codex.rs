//! Where Codex keeps its configuration.

use std::path::Path;

use crate::agent::Agent;
use crate::bounds::SETTINGS_BYTES;
use crate::error::Error;
use crate::item::{Detected, Item, Kind, Roots};
use crate::{
    hook_groups, instructions, markdown, mcp, rule_files, settings, skill_folders, source,
};

const AGENT: Agent = Agent::Codex;

/// Keys of a server that mean the same here.
const SERVER_KEYS: [&str; 21] = [
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
    "startup_timeout_ms",
    "scopes",
    "oauth",
    "oauth_resource",
    "tools",
];
/// Keys of a server without which it does the same.
const HARMLESS_SERVER_KEYS: [&str; 3] = ["description", "name", "supports_parallel_tool_calls"];

/// See [`crate::detect`].
pub(crate) fn detect(roots: &Roots, project: Option<&Path>, detected: &mut Detected) {
    let base = project.unwrap_or(&roots.user_home);
    let folder = base.join(".codex");
    let own = roots.own_folder(project);
    if project.is_none() {
        // Those of a project are read where they are.
        let [overriding, usual] = ["AGENTS.override.md", "AGENTS.md"].map(|name| folder.join(name));
        let overrides = match source::text(base, &overriding) {
            Ok(text) => text.is_some_and(|text| !text.trim().is_empty()),
            // It would be read there, so the other file is not what the user wants; the error is reported.
            Err(_) => true,
        };
        let file = if overrides { overriding } else { usual };
        instructions::detect((base, &file), None, AGENT, project, detected);
    }
    let config = folder.join("config.toml");
    let read = configuration(base, &config);
    let configuration = read.unwrap_or_else(|error| {
        detected.problems.push(error);
        None
    });
    let mut add = |kind, read: &dyn Fn(&mut Item) -> Result<(), Error>| {
        let mut item = Item::new(kind, AGENT, project);
        if let Err(error) = read(&mut item) {
            detected.problems.push(error);
        }
        detected.items.push(item);
    };
    let skills = own.join("skills");
    add(Kind::Settings, &|item| match &configuration {
        Some((text, _)) => settings::add_toml(text, (&config, project), roots, item),
        None => Ok(()),
    });
    add(Kind::McpServers, &|item| match &configuration {
        Some((_, read)) => servers(read, &config, item),
        None => Ok(()),
    });
    let rules = own.join("rules").join(format!("{}.rules", AGENT.id()));
    add(Kind::Permissions, &|item| rule_files::add(base, &folder.join("rules"), &rules, item));
    add(Kind::Skills, &|item| skill_folders::add(base, &folder.join("skills"), &skills, item));
    add(Kind::Commands, &|item| markdown::commands((base, &folder.join("prompts")), &skills, item));
    add(Kind::Hooks, &|item| {
        let file = folder.join("hooks.json");
        if let Some(read) = source::json(base, &file)? {
            hook_groups::add(&read["hooks"], &file, &own.join("hooks.json"), item);
        }
        let Some((_, read)) = &configuration else { return Ok(()) };
        if let Some(toml::Value::Table(hooks)) = read.get("hooks") {
            let events = hooks.iter().filter(|(name, _)| *name != "state");
            let events: toml::Table =
                events.map(|(name, groups)| (name.clone(), groups.clone())).collect();
            let groups = serde_json::to_value(events)
                .map_err(|error| Error::contents(&config, error.to_string()))?;
            hook_groups::add(&groups, &config, &own.join("hooks.json"), item);
        }
        Ok(())
    });
}

/// The text of the configuration, and its values.
fn configuration(root: &Path, file: &Path) -> Result<Option<(String, toml::Table)>, Error> {
    let Some(bytes) = source::bytes(root, file, SETTINGS_BYTES)? else { return Ok(None) };
    let text = source::decoded(file, bytes)?;
    let read = text
        .parse()
        .map_err(|error: toml::de::Error| Error::contents(file, error.message().to_owned()))?;
    Ok(Some((text, read)))
}

fn servers(read: &toml::Table, file: &Path, item: &mut Item) -> Result<(), Error> {
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
        let is_harmless = |key: &str| HARMLESS_SERVER_KEYS.contains(&key);
        let is_known = |key: &str| SERVER_KEYS.contains(&key) || is_harmless(key);
        if let Some(key) = table.keys().find(|key| !is_known(key)) {
            let why = format!("`{}` has no counterpart here", visible::exact(key));
            item.leave_out(name, &why);
            continue;
        }
        for key in table.keys().filter(|key| is_harmless(key)) {
            let why = "it has no counterpart here; the server is imported without it";
            item.leave_out(&format!("{name}.{key}"), why);
        }
        let kept: toml::Table = table
            .iter()
            .filter(|(key, _)| !is_harmless(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        match serde_json::to_value(kept) {
            Ok(value) => mcp::add(name, value, item),
            Err(error) => item.leave_out(name, &error.to_string()),
        }
    }
    Ok(())
}
