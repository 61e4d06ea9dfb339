//! Hooks of other agents, whose files have the same form: groups of handlers for each event.

use std::path::Path;

use hooks::{EventName, Origin};
use serde_json::{Map, Value, json};

use crate::item::{Change, Item};

/// Adds the groups of a member `hooks`, as far as this agent reads them.
pub(crate) fn add(groups: &Value, source: &Path, target: &Path, item: &mut Item) {
    let Some(events) = groups.as_object() else {
        return item.leave_out("hooks", "it must be an object of events");
    };
    for (event, groups) in events {
        if event.parse::<EventName>().is_err() {
            item.leave_out(event, "there is no event of this name here");
            continue;
        }
        let Some(groups) = groups.as_array() else {
            item.leave_out(event, "it must be a list of groups");
            continue;
        };
        for (place, group) in groups.iter().enumerate() {
            let name = format!("{event}[{place}] of {}", source.display());
            match checked(event, group, source) {
                Ok((group, summary)) => {
                    let (path, event) = (target.to_owned(), event.clone());
                    item.add(&name, summary, Change::Hook { path, event, group });
                }
                Err(why) => item.leave_out(&name, &why),
            }
        }
    }
}

/// The group when every handler in it is understood completely, with what it does.
fn checked(
    event: &str,
    group: &Value,
    path: &Path,
) -> Result<(Map<String, Value>, String), String> {
    let Some(object) = group.as_object() else { return Err("it must be an object".into()) };
    let text = json!({ "hooks": { event: [group] } }).to_string();
    let origin = Origin { source: hooks::Source::User, path: path.to_owned(), plugin: None };
    let read = hooks::read_file(text.as_bytes(), &origin).map_err(|error| error.to_string())?;
    if let Some(warning) = read.warnings.first() {
        return Err(warning.to_string());
    }
    let mut shown = Vec::new();
    for hook in &read.hooks {
        match &hook.handler {
            hooks::Handler::Command(command) if command.contains("CLAUDE_") => {
                return Err(
                    "its command uses a variable of Claude Code that is not set here".into()
                );
            }
            hooks::Handler::Command(command) => {
                shown.push(format!("runs {}", visible::exact(command)));
            }
            hooks::Handler::Prompt { .. } | hooks::Handler::Agent { .. } => {
                shown.push("asks a model".to_owned());
            }
            hooks::Handler::McpTool { server, tool, .. } => {
                let (server, tool) = (visible::exact(server), visible::exact(tool));
                shown.push(format!("calls {tool} of the MCP server {server}"));
            }
        }
    }
    match shown.is_empty() {
        true => Err("it has no handlers".into()),
        false => Ok((object.clone(), shown.join("; "))),
    }
}

/// The file with the group; `None` when it has it already.
pub(crate) fn with_group(
    old: &str,
    event: &str,
    group: &Map<String, Value>,
) -> Result<Option<String>, String> {
    let mut file: Value = match old.trim() {
        "" => json!({}),
        text => {
            serde_json::from_str(text).map_err(|error| format!("it is not valid JSON: {error}"))?
        }
    };
    let object = file.as_object_mut().ok_or("it must be a JSON object")?;
    let hooks = object.entry("hooks").or_insert_with(|| json!({}));
    let hooks = hooks.as_object_mut().ok_or("its member `hooks` must be an object")?;
    let groups = hooks.entry(event).or_insert_with(|| json!([]));
    let groups = groups.as_array_mut().ok_or_else(|| format!("its `{event}` must be a list"))?;
    let group = Value::Object(group.clone());
    if groups.contains(&group) {
        return Ok(None);
    }
    groups.push(group);
    Ok(Some(format!("{file:#}\n")))
}
