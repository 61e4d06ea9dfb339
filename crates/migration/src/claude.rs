//! Where Claude Code keeps its configuration.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::agent::Agent;
use crate::error::Error;
use crate::item::{Detected, Item, Kind, Roots};
use crate::permissions::Permissions;
use crate::refusals::Refusals;
use crate::{
    hook_groups, instructions, markdown, mcp, permissions, plugins, settings, skill_folders, source,
};

const AGENT: Agent = Agent::ClaudeCode;

/// See [`crate::detect`].
pub(crate) fn detect(roots: &Roots, project: Option<&Path>, detected: &mut Detected) {
    let base = project.unwrap_or(&roots.user_home);
    let folder = base.join(".claude");
    let own = roots.own_folder(project);
    let memory = match project {
        Some(root) => root.join("CLAUDE.md"),
        None => folder.join("CLAUDE.md"),
    };
    let target = project.map(|root| root.join("AGENTS.md"));
    instructions::detect((base, &memory), target.as_deref(), AGENT, project, detected);
    settings(roots, project, detected);
    let mut add = |kind, read: &dyn Fn(&mut Item) -> Result<(), Error>| {
        let mut item = Item::new(kind, AGENT, project);
        if let Err(error) = read(&mut item) {
            detected.problems.push(error);
        }
        detected.items.push(item);
    };
    let skills = own.join("skills");
    add(Kind::McpServers, &|item| servers(roots, project, item));
    add(Kind::Skills, &|item| skill_folders::add(base, &folder.join("skills"), &skills, item));
    add(Kind::Subagents, &|item| {
        markdown::subagents((base, &folder.join("agents")), (roots, project), item)
    });
    add(Kind::Commands, &|item| {
        markdown::commands((base, &folder.join("commands")), &skills, item)
    });
}

/// Settings, hooks and permissions.
fn settings(roots: &Roots, project: Option<&Path>, detected: &mut Detected) {
    let mut keys = Item::new(Kind::Settings, AGENT, project);
    let base = project.unwrap_or(&roots.user_home);
    let own = roots.own_folder(project);
    let mut hooks = Item::new(Kind::Hooks, AGENT, project);
    let mut rules = Item::new(Kind::Permissions, AGENT, project);
    let mut permissions = Permissions::default();
    let mut are_hooks_off = false;
    for path in settings_files(base) {
        match source::json(base, &path) {
            Ok(Some(read)) => {
                plugins::report(&read, &path, roots, detected);
                are_hooks_off |= read["disableAllHooks"] == true;
                if !read["hooks"].is_null() {
                    hook_groups::add(&read["hooks"], &path, &own.join("hooks.json"), &mut hooks);
                }
                permissions.read(&read, &path);
                settings::add_json(&read, (&path, base), &settings::OF_CLAUDE_CODE, &mut keys);
            }
            Ok(None) => {}
            Err(error) => {
                permissions.does_not_know(visible::exact(&error.to_string()));
                detected.problems.push(error);
            }
        }
    }
    // Hooks that the user switched off must not run here.
    if are_hooks_off && !hooks.parts.is_empty() {
        hooks.parts.clear();
        hooks.leave_out("hooks", "`disableAllHooks` is set; remove it to import them");
    }
    let file = own.join("rules").join(format!("{}.rules", AGENT.id()));
    permissions::add(&permissions, &permissions_above(roots, project), &file, &mut rules);
    detected.items.extend([keys, hooks, rules]);
}

fn settings_files(base: &Path) -> [PathBuf; 2] {
    ["settings.json", "settings.local.json"].map(|name| base.join(".claude").join(name))
}

/// The permissions that hold there as well: those of an administrator and, for a project, of the user.
fn permissions_above(roots: &Roots, project: Option<&Path>) -> Permissions {
    let machine = roots.machine_settings.join("claude-code");
    let mut above = Permissions::default();
    let mut files = vec![(&roots.machine_settings, machine.join("managed-settings.json"))];
    match source::entries(&roots.machine_settings, &machine.join("managed-settings.d")) {
        Ok(more) => files.extend(more.into_iter().map(|path| (&roots.machine_settings, path))),
        Err(error) => above.does_not_know(visible::exact(&error.to_string())),
    }
    if project.is_some() {
        files.extend(settings_files(&roots.user_home).map(|path| (&roots.user_home, path)));
    }
    for (root, path) in files {
        match source::json(root, &path) {
            Ok(Some(read)) => above.read(&read, &path),
            Ok(None) => {}
            Err(error) => above.does_not_know(visible::exact(&error.to_string())),
        }
    }
    above
}

fn servers(roots: &Roots, project: Option<&Path>, item: &mut Item) -> Result<(), Error> {
    let own = roots.user_home.join(".claude.json");
    let read = source::json(&roots.user_home, &own);
    let Some(root) = project else { return servers_of_user(&own, read?, item) };
    let (of_any, of_shared) = refusals(roots, root, (&own, &read));
    // Of two servers with one name, Claude Code uses that of its own file.
    let of_user = read.and_then(|read| servers_of_project(&own, read, root, &of_any, item));
    let file = root.join(".mcp.json");
    if let Some(read) = source::json(root, &file)? {
        match &read["mcpServers"] {
            Value::Object(servers) => {
                let servers = of_shared.without(&of_any.without(servers, item), item);
                mcp::add_json(&servers, item);
            }
            other => add_servers(&file, other, item)?,
        }
    }
    of_user
}

/// The servers that the user refused in a project: any, and those of its `.mcp.json`. `own` is Claude Code's
/// own file, as it was read.
fn refusals(
    roots: &Roots,
    project: &Path,
    (own, read): (&Path, &Result<Option<Value>, Error>),
) -> (Refusals, Refusals) {
    const SHARED: &str = "disabledMcpjsonServers";
    const ANY: &str = "disabledMcpServers";
    let (mut of_any, mut of_shared) = (Refusals::default(), Refusals::default());
    let place = |member: &str, path: &Path| format!("`{member}` of {}", visible::path(path));
    for base in [&roots.user_home, project] {
        for path in settings_files(base) {
            match source::json(base, &path) {
                Ok(Some(read)) => of_shared.read_refused(&read[SHARED], &place(SHARED, &path)),
                Ok(None) => {}
                Err(error) => of_shared.does_not_know(&path, &error),
            }
        }
    }
    match read {
        Ok(Some(read)) => {
            let entry = project.to_str().map_or(&Value::Null, |name| &read["projects"][name]);
            of_any.read_refused(&entry[ANY], &place(ANY, own));
            of_shared.read_refused(&entry[SHARED], &place(SHARED, own));
        }
        Ok(None) => {}
        Err(error) => of_shared.does_not_know(own, error),
    }
    (of_any, of_shared)
}

fn servers_of_user(file: &Path, read: Option<Value>, item: &mut Item) -> Result<(), Error> {
    let Some(read) = read else { return Ok(()) };
    for (folder, entry) in read["projects"].as_object().into_iter().flatten() {
        for name in entry["mcpServers"].as_object().into_iter().flat_map(|servers| servers.keys()) {
            let folder = visible::exact(folder);
            let why =
                format!("it is for the project {folder} only, and is imported with that project");
            item.leave_out(name, &why);
        }
    }
    add_servers(file, &read["mcpServers"], item)
}

/// The servers that the user has for a project, without sharing them with it.
fn servers_of_project(
    file: &Path,
    read: Option<Value>,
    root: &Path,
    refusals: &Refusals,
    item: &mut Item,
) -> Result<(), Error> {
    let entry = read.as_ref().and_then(|read| read["projects"].get(root.to_str()?));
    let Some(entry) = entry else { return Ok(()) };
    match &entry["mcpServers"] {
        Value::Null => Ok(()),
        Value::Object(servers) => {
            mcp::add_private(&refusals.without(servers, item), item);
            Ok(())
        }
        _ => Err(Error::contents(file, "`mcpServers` of a project must be an object")),
    }
}

fn add_servers(file: &Path, servers: &Value, item: &mut Item) -> Result<(), Error> {
    match servers {
        Value::Null => Ok(()),
        Value::Object(servers) => {
            mcp::add_json(servers, item);
            Ok(())
        }
        _ => Err(Error::contents(file, "its member `mcpServers` must be an object")),
    }
}
