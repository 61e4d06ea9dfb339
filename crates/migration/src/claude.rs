//! Where Claude Code keeps its configuration.

use std::path::Path;

use serde_json::Value;

use crate::agent::Agent;
use crate::error::Error;
use crate::item::{Detected, Item, Kind, Roots};
use crate::{hook_groups, instructions, markdown, mcp, permissions, skill_folders, source};

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

/// Hooks and permissions.
fn settings(roots: &Roots, project: Option<&Path>, detected: &mut Detected) {
    let base = project.unwrap_or(&roots.user_home);
    let own = roots.own_folder(project);
    let mut hooks = Item::new(Kind::Hooks, AGENT, project);
    let mut rules = Item::new(Kind::Permissions, AGENT, project);
    let mut are_hooks_off = false;
    for name in ["settings.json", "settings.local.json"] {
        let path = base.join(".claude").join(name);
        match source::json(base, &path) {
            Ok(Some(read)) => {
                are_hooks_off |= read["disableAllHooks"] == true;
                if !read["hooks"].is_null() {
                    hook_groups::add(&read["hooks"], &path, &own.join("hooks.json"), &mut hooks);
                }
                if !read["permissions"].is_null() {
                    let file = own.join("rules").join(format!("{}.rules", AGENT.id()));
                    permissions::add(&read["permissions"], &file, &mut rules);
                }
            }
            Ok(None) => {}
            Err(error) => detected.problems.push(error),
        }
    }
    // Hooks that the user switched off must not run here.
    if are_hooks_off && !hooks.parts.is_empty() {
        hooks.parts.clear();
        hooks.leave_out("hooks", "`disableAllHooks` is set; remove it to import them");
    }
    detected.items.extend([hooks, rules]);
}

fn servers(roots: &Roots, project: Option<&Path>, item: &mut Item) -> Result<(), Error> {
    let base = project.unwrap_or(&roots.user_home);
    let file = base.join(if project.is_some() { ".mcp.json" } else { ".claude.json" });
    let Some(read) = source::json(base, &file)? else { return Ok(()) };
    match &read["mcpServers"] {
        Value::Null => {}
        Value::Object(servers) => mcp::add_json(servers, item),
        _ => return Err(Error::contents(&file, "its member `mcpServers` must be an object")),
    }
    for (folder, entry) in read["projects"].as_object().into_iter().flatten() {
        for name in entry["mcpServers"].as_object().into_iter().flat_map(|servers| servers.keys()) {
            let why = format!("it is for the project {} only", visible::exact(folder));
            item.leave_out(name, &why);
        }
    }
    Ok(())
}
