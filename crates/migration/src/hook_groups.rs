//! Hooks of other agents, whose files have the same form: groups of handlers for each event.

use std::path::Path;

use hooks::{EventName, Matcher, Origin};
use serde_json::{Map, Value, json};

use crate::item::{Change, Item};

/// Tools of the other agents that have no counterpart here.
const FOREIGN_TOOLS: [&str; 18] = [
    "Agent",
    "AskUserQuestion",
    "BashOutput",
    "ExitPlanMode",
    "Glob",
    "Grep",
    "KillShell",
    "LS",
    "MultiEdit",
    "NotebookEdit",
    "NotebookRead",
    "Read",
    "Skill",
    "SlashCommand",
    "Task",
    "TodoWrite",
    "WebFetch",
    "WebSearch",
];
/// Names of tools that hooks know here, and one of an MCP server.
const TOOLS: [&str; 5] = ["Bash", "Edit", "Write", "apply_patch", "mcp__server__tool"];

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
            match for_this_system(group).and_then(|(group, note)| {
                let (group, summary) = checked(event, &group, source)?;
                Ok((group, summary + note))
            }) {
                Ok((group, summary)) => {
                    let (path, event) = (target.to_owned(), event.clone());
                    item.add(&name, summary, Change::Hook { path, event, group });
                }
                Err(why) => item.leave_out(&name, &why),
            }
        }
    }
}

/// Members of a handler that hold its command for one system; the first ones are of this system.
const OWN_VARIANTS: [&str; 4] = match cfg!(target_os = "macos") {
    true => ["osx", "macos", "darwin", "bash"],
    false => ["linux", "linux", "unix", "bash"],
};
const VARIANTS: [&str; 14] = [
    "bash",
    "commandLinux",
    "commandMacos",
    "commandWindows",
    "command_linux",
    "command_macos",
    "command_windows",
    "darwin",
    "linux",
    "macos",
    "osx",
    "powershell",
    "unix",
    "windows",
];

/// The group with the commands for this system alone, and a note for the user.
///
/// # Errors
/// A handler has commands for other systems only.
fn for_this_system(group: &Value) -> Result<(Value, &'static str), String> {
    let mut group = group.clone();
    let mut note = "";
    for handler in group.get_mut("hooks").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(handler) = handler.as_object_mut() else { continue };
        // As TOML has them.
        for (old, new) in [("status_message", "statusMessage"), ("timeout_sec", "timeoutSec")] {
            if let Some(value) = handler.shift_remove(old) {
                handler.entry(new).or_insert(value);
            }
        }
        if handler.get("shell").is_some_and(|shell| shell == "bash" || shell == "sh") {
            handler.shift_remove("shell");
        }
        let of_system = if cfg!(target_os = "macos") { "Macos" } else { "Linux" };
        let own = [format!("command{of_system}"), format!("command_{}", of_system.to_lowercase())];
        let own = own.iter().map(String::as_str).chain(OWN_VARIANTS);
        let variants: Vec<Value> =
            own.filter_map(|name| handler.get(name).cloned()).filter(|it| !it.is_null()).collect();
        let before = handler.len();
        handler.retain(|name, _| !VARIANTS.contains(&name.as_str()));
        if handler.len() == before {
            continue;
        }
        match variants.into_iter().next() {
            Some(command) => drop(handler.insert("command".to_owned(), command)),
            None if handler.contains_key("command") => {}
            None => return Err("its command is for other systems only".into()),
        }
        note = " (its commands for other systems are left out)";
    }
    Ok((group, note))
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
                let secret = match redact::redact(command).removed {
                    0 => "",
                    _ => ", which looks as if it had a secret: the imported hook has it too",
                };
                shown.push(format!("runs {}{secret}", visible::exact(command)));
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
        false => {
            let first = read.hooks.first();
            let note = first.map_or(Ok(None), |hook| unmatched(hook.event, &hook.matcher))?;
            let note = note.map(|note| format!(" ({note})")).unwrap_or_default();
            Ok((object.clone(), shown.join("; ") + &note))
        }
    }
}

/// Returns the names in a matcher that never occur here, if there are any.
///
/// # Errors
/// It is for nothing that is there.
fn unmatched(event: EventName, matcher: &Matcher) -> Result<Option<String>, String> {
    let (known, foreign): (&[&str], &[&str]) = match event {
        EventName::PreToolUse | EventName::PermissionRequest | EventName::PostToolUse => {
            (&TOOLS, &FOREIGN_TOOLS)
        }
        EventName::SessionStart => (&["startup", "resume", "fork", "compact"], &["clear"]),
        EventName::SessionEnd => (
            &["closed", "archived", "deleted", "shutdown"],
            &["clear", "logout", "prompt_input_exit", "bypass_permissions_disabled", "other"],
        ),
        _ => return Ok(None),
    };
    let missing: Vec<&str> = foreign.iter().copied().filter(|name| matcher.is_for(name)).collect();
    let is_for_known = known.iter().any(|name| matcher.is_for(name));
    // One for everything is for all that is there.
    let is_for_all = matches!(matcher, Matcher::Any) || matcher.is_for("anything");
    if missing.is_empty() || is_for_all {
        return Ok(None);
    }
    // A name that is in neither list may be a tool of an MCP server.
    let is_for_others = match matcher {
        Matcher::Names(names) => names.len() > missing.len(),
        Matcher::Any | Matcher::Pattern(_) => false,
    };
    let missing = missing.join(", ");
    match is_for_known || is_for_others {
        true => Ok(Some(format!("never for {missing}: these do not exist here"))),
        false => Err(format!("its matcher is for {missing} only, and these do not exist here")),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_a_command_is_named_before_it_is_written() {
        for (command, has_secret) in [
            ("notify --done", false),
            ("curl -H 'Authorization: Bearer abcDEF12' https://h", true),
            ("GITHUB_TOKEN=ghp_0123456789abcdefghijABCD check", true),
        ] {
            let group = json!({ "hooks": [{ "type": "command", "command": command }] });
            let (_, summary) = checked("Stop", &group, Path::new("/p/settings.json")).unwrap();
            assert_eq!(summary.contains("looks as if it had a secret"), has_secret, "{summary}");
        }
    }

    #[test]
    fn commands_for_this_system_are_taken() {
        let own = if cfg!(target_os = "macos") { "osx" } else { "linux" };
        let other = if cfg!(target_os = "macos") { "linux" } else { "osx" };
        for (handler, expect) in [
            (json!({"command": "a"}), Ok("a")),
            (json!({"command": "a", "commandWindows": "b"}), Ok("a")),
            (json!({"command": "a", "command_windows": "b", "timeout_sec": 3}), Ok("a")),
            (json!({"command": "a", "windows": "b", own: "c"}), Ok("c")),
            (json!({"command": "a", other: "b"}), Ok("a")),
            (json!({"bash": "a", "powershell": "b"}), Ok("a")),
            (json!({"command": "a", "linux": "c", "osx": "c", "bash": "d"}), Ok("c")),
            (json!({"command": "a", "shell": "bash", "status_message": "s"}), Ok("a")),
            (json!({"command": "a", own: null, "windows": "b"}), Ok("a")),
            (json!({"powershell": "b"}), Err("for other systems only")),
            (json!({"windows": "b", other: "c"}), Err("for other systems only")),
            (json!({"command": "a", "shell": "powershell"}), Err("`shell` is not known")),
            (json!({"command": "a", own: 3}), Err("must be a string")),
        ] {
            let mut handler = handler;
            handler["type"] = json!("command");
            let mut item = Item::new(crate::item::Kind::Hooks, crate::agent::Agent::Codex, None);
            let groups = json!({ "Stop": [{ "hooks": [handler] }] });
            add(&groups, Path::new("/h.json"), Path::new("/t.json"), &mut item);
            match expect {
                Ok(command) => {
                    let [part] = &item.parts[..] else { panic!("{groups}: {:?}", item.left_out) };
                    let Change::Hook { group, .. } = &part.change else { panic!("{groups}") };
                    assert_eq!(group["hooks"][0]["command"], command, "{groups}");
                    let has_variants = group["hooks"][0].as_object().unwrap().keys();
                    let known = ["type", "command", "timeoutSec", "statusMessage"];
                    assert!(has_variants.clone().all(|key| known.contains(&&**key)), "{group:?}");
                }
                Err(why) => assert!(item.left_out[0].contains(why), "{:?}", item.left_out),
            }
        }
    }

    #[test]
    fn matchers_for_what_does_not_exist_are_left_out_or_named() {
        let check = |event, matcher, expected: Result<Option<&str>, &str>| {
            let read = unmatched(event, &Matcher::parse(Some(matcher)).unwrap());
            match (&read, expected) {
                (Ok(None), Ok(None)) => {}
                (Ok(Some(text)), Ok(Some(part))) | (Err(text), Err(part))
                    if text.contains(part) => {}
                _ => panic!("{matcher}: {read:?}, not {expected:?}"),
            }
        };
        use EventName::{PreToolUse, SessionEnd, SessionStart, Stop};
        check(PreToolUse, "Bash", Ok(None));
        check(PreToolUse, "*", Ok(None));
        check(PreToolUse, ".*", Ok(None));
        check(PreToolUse, "mcp__a__b", Ok(None));
        check(PreToolUse, "Edit|MultiEdit|Write", Ok(Some("never for MultiEdit:")));
        check(PreToolUse, "Read|mcp__a__b", Ok(Some("never for Read:")));
        check(PreToolUse, "Read|WebFetch", Err("for Read, WebFetch only"));
        check(PreToolUse, "Web.*", Err("for WebFetch, WebSearch only"));
        check(SessionStart, "*", Ok(None));
        check(SessionStart, "clear", Err("for clear only"));
        check(SessionStart, "startup|clear", Ok(Some("never for clear:")));
        check(SessionEnd, "logout", Err("for logout only"));
        check(Stop, "Read", Ok(None));
    }
}
