//! Settings of other agents as keys of this agent's configuration. Those without a counterpart are named.

use std::path::Path;

use config::{LayerName, Portable};
use serde_json::{Value, json};

use crate::error::Error;
use crate::item::{Change, Item, Roots};

/// Tables of a `config.toml` that are imported in another way, or not at all.
const OTHER_TABLES: [(&str, &str); 4] = [
    // Items of their own.
    ("mcp_servers", ""),
    ("hooks", ""),
    ("projects", "trust is not imported: you are asked in each project"),
    (
        "plugins",
        "an import fetches nothing: use `agentd plugins marketplace add` and `agentd plugins install`",
    ),
];
/// Longest value that is shown, in characters.
const MAX_SHOWN: usize = 200;

/// Adds the settings of a `config.toml` in the format that this agent shares with Codex.
pub(crate) fn add_toml(
    text: &str,
    (file, project): (&Path, Option<&Path>),
    roots: &Roots,
    item: &mut Item,
) -> Result<(), Error> {
    let own = roots.own_folder(project);
    let target = match project {
        Some(_) => LayerName::Project { folder: own },
        None => LayerName::User { file: own.join(config::CONFIG_FILE) },
    };
    let read = Portable::read(text, file, &target);
    let Portable { mut settings, mut left_out } =
        read.map_err(|error| Error::contents(file, error.to_string()))?;
    for (table, why) in OTHER_TABLES {
        let before = settings.len() + left_out.len();
        settings.retain(|setting| setting.key_path.first().is_none_or(|key| key != table));
        left_out.retain(|(key, _)| key.split('.').next() != Some(table));
        if before > settings.len() + left_out.len() && !why.is_empty() {
            left_out.push((table.to_owned(), why.to_owned()));
        }
    }
    // A provider is whole or not there: without a key it would be another one.
    let broken: Vec<String> = left_out.iter().filter_map(|(key, _)| provider_of(key)).collect();
    settings.retain(|setting| match &setting.key_path[..] {
        [table, provider, ..] if table == "model_providers" => !broken.contains(provider),
        _ => true,
    });
    let selected = settings.iter().find(|setting| setting.key_path == ["model_provider"]);
    let selected = selected.and_then(|setting| setting.value.as_str().map(str::to_owned));
    if let Some(provider) = selected.filter(|provider| broken.contains(provider)) {
        for key in ["model_provider", "model"] {
            let before = settings.len();
            settings.retain(|setting| setting.key_path != [key]);
            if settings.len() < before {
                let why = format!("the provider `{}` is left out", visible::exact(&provider));
                left_out.push((key.to_owned(), why));
            }
        }
    }
    for (key, why) in left_out {
        item.leave_out(&key, &visible::exact(&why));
    }
    for setting in settings {
        let note = setting.note.map(|note| format!(" ({})", visible::exact(&note)));
        let summary = shown(&setting.key_path, &setting.value) + &note.unwrap_or_default();
        add(setting.key_path, setting.value, summary, item);
    }
    Ok(())
}

/// The provider that a key of the configuration is about.
fn provider_of(key: &str) -> Option<String> {
    let rest = key.strip_prefix("model_providers.")?;
    Some(rest.split('.').next().unwrap_or(rest).trim_matches('"').to_owned())
}

fn add(key_path: Vec<String>, value: Value, summary: String, item: &mut Item) {
    let name = config::dotted_key(&key_path);
    item.add(&name, summary, Change::Setting { key_path, value });
}

/// The value as the user sees it, without secrets.
fn shown(key_path: &[String], value: &Value) -> String {
    const SECRET: [&str; 7] =
        ["headers", "set", "query_params", "token", "secret", "password", "api_key"];
    // The names of variables are no secrets.
    let names_variable =
        key_path.iter().any(|key| key.contains("env") && !key.contains("environment"));
    let may_be_secret =
        key_path.iter().any(|key| SECRET.iter().any(|secret| key.to_lowercase().ends_with(secret)));
    let text = value.to_string();
    if (may_be_secret && !names_variable && value.is_string()) || redact::redact(&text).removed > 0
    {
        return "a value that is not shown".to_owned();
    }
    let cut: String = text.chars().take(MAX_SHOWN).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("{}{more}", visible::exact(&cut))
}

/// The counterpart of a member of another agent's settings.
enum Counterpart {
    /// A key, and its value.
    Is(&'static [&'static str], fn(&Value) -> Option<Value>),
    /// Part of another item.
    Elsewhere,
    /// There is none: why.
    None(&'static str),
}

/// A table of members, by their dotted names, and their counterparts.
pub(crate) struct Counterparts {
    members: &'static [(&'static str, Counterpart)],
    /// Members that are objects of settings, which are looked up one by one.
    groups: &'static [&'static str],
}

const NO_COUNTERPART: &str = "it has no counterpart here";
const OTHER_MODELS: &str = "it names a model of another provider";

/// The settings of Claude Code, in `settings.json` and `settings.local.json`.
pub(crate) const OF_CLAUDE_CODE: Counterparts = Counterparts {
    members: &[
        ("$schema", Counterpart::Elsewhere),
        ("hooks", Counterpart::Elsewhere),
        ("disableAllHooks", Counterpart::Elsewhere),
        ("enabledPlugins", Counterpart::Elsewhere),
        ("extraKnownMarketplaces", Counterpart::Elsewhere),
        ("disabledMcpjsonServers", Counterpart::Elsewhere),
        ("permissions.allow", Counterpart::Elsewhere),
        ("permissions.ask", Counterpart::Elsewhere),
        ("permissions.deny", Counterpart::Elsewhere),
        (
            "permissions.additionalDirectories",
            Counterpart::Is(&["sandbox_workspace_write", "writable_roots"], texts),
        ),
        (
            "permissions.defaultMode",
            Counterpart::None("choose `sandbox_mode` and `approval_policy`"),
        ),
        ("effortLevel", Counterpart::Is(&["model_reasoning_effort"], effort)),
        ("attribution.commit", Counterpart::Is(&["commit_attribution"], text)),
        ("model", Counterpart::None(OTHER_MODELS)),
        (
            "enabledMcpjsonServers",
            Counterpart::None("servers of a project are imported with `--project`"),
        ),
        (
            "enableAllProjectMcpServers",
            Counterpart::None("servers of a project are imported with `--project`"),
        ),
        ("apiKeyHelper", Counterpart::None("it is for another provider; see `agentd login`")),
    ],
    groups: &["permissions", "attribution"],
};

/// The settings of Gemini CLI, in `settings.json`.
pub(crate) const OF_GEMINI_CLI: Counterparts = Counterparts {
    members: &[
        ("$schema", Counterpart::Elsewhere),
        ("mcpServers", Counterpart::Elsewhere),
        ("mcp", Counterpart::Elsewhere),
        ("allowMCPServers", Counterpart::Elsewhere),
        ("excludeMCPServers", Counterpart::Elsewhere),
        ("context.fileName", Counterpart::Is(&["project_doc_fallback_filenames"], texts)),
        ("contextFileName", Counterpart::Is(&["project_doc_fallback_filenames"], texts)),
        ("privacy.usageStatisticsEnabled", Counterpart::Is(&["analytics", "enabled"], switch)),
        ("usageStatisticsEnabled", Counterpart::Is(&["analytics", "enabled"], switch)),
        ("general.enableAutoUpdate", Counterpart::Is(&["check_for_update_on_startup"], switch)),
        ("general.disableAutoUpdate", Counterpart::Is(&["check_for_update_on_startup"], opposite)),
        ("disableAutoUpdate", Counterpart::Is(&["check_for_update_on_startup"], opposite)),
        ("model", Counterpart::None(OTHER_MODELS)),
        ("security", Counterpart::None("it is for another provider; see `agentd login`")),
        ("selectedAuthType", Counterpart::None("it is for another provider; see `agentd login`")),
    ],
    groups: &["context", "privacy", "general"],
};

/// Keys that concern the user alone, which files of projects cannot set.
const OF_USERS: [&str; 2] = ["analytics", "check_for_update_on_startup"];

/// Variables of the environment that only the other agent reads.
const VARIABLES_OF_OTHERS: [&str; 6] =
    ["ANTHROPIC_", "CLAUDE_", "DISABLE_", "GEMINI_", "BASH_", "MCP_"];

/// Adds the settings of a JSON file. `base` is the folder that its relative paths begin in.
pub(crate) fn add_json(
    settings: &Value,
    (file, base): (&Path, &Path),
    counterparts: &Counterparts,
    item: &mut Item,
) {
    for (name, value) in settings.as_object().into_iter().flatten() {
        if name == "env" {
            add_environment(value, file, item);
        } else if counterparts.groups.contains(&name.as_str()) && value.is_object() {
            for (inner, value) in value.as_object().into_iter().flatten() {
                add_member(&format!("{name}.{inner}"), value, (file, base), counterparts, item);
            }
        } else {
            add_member(name, value, (file, base), counterparts, item);
        }
    }
}

fn add_member(
    name: &str,
    value: &Value,
    (file, base): (&Path, &Path),
    counterparts: &Counterparts,
    item: &mut Item,
) {
    let shown_name = format!("{name} of {}", file.display());
    let found = counterparts.members.iter().find(|(known, _)| *known == name);
    match found.map(|(_, counterpart)| counterpart) {
        _ if value.is_null() => {}
        Some(Counterpart::Elsewhere) => {}
        Some(Counterpart::None(why)) => item.leave_out(&shown_name, why),
        Some(Counterpart::Is(key, convert)) => {
            if item.project.is_some() && key.first().is_some_and(|key| OF_USERS.contains(key)) {
                return item.leave_out(&shown_name, "a project's file cannot set it");
            }
            let Some(mut value) = convert(value) else {
                return item.leave_out(&shown_name, "its value has no counterpart here");
            };
            if *key == ["sandbox_workspace_write", "writable_roots"] {
                make_absolute(&mut value, base);
            }
            let key_path: Vec<String> = key.iter().map(|part| (*part).to_owned()).collect();
            // Of two files, the later one has precedence; lists add up.
            let before = item.parts.iter().position(|part| match &part.change {
                Change::Setting { key_path: known, .. } => *known == key_path,
                _ => false,
            });
            if let Some(before) = before {
                let before = item.parts.remove(before);
                if let (Change::Setting { value: Value::Array(first), .. }, Value::Array(then)) =
                    (before.change, &mut value)
                {
                    let new: Vec<Value> =
                        then.drain(..).filter(|one| !first.contains(one)).collect();
                    then.extend(first);
                    then.extend(new);
                }
            }
            let summary = format!("{} (`{name}`)", shown(&key_path, &value));
            add(key_path, value, summary, item);
        }
        None => item.leave_out(&shown_name, NO_COUNTERPART),
    }
}

/// The variables that the other agent gives to what it runs.
fn add_environment(variables: &Value, file: &Path, item: &mut Item) {
    // A file of one's own for a project: others see what the import writes there.
    let is_private = item.project.is_some() && file.ends_with("settings.local.json");
    let Some(variables) = variables.as_object() else {
        return item.leave_out("env", "it must be an object");
    };
    for (name, value) in variables {
        let key = format!("env.{name}");
        let is_name = |name: &str| {
            let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            !name.is_empty() && name.bytes().all(legal)
        };
        let Some(value) = value.as_str() else {
            item.leave_out(&key, "its value must be a text");
            continue;
        };
        if is_private {
            item.leave_out(&key, "it is yours alone, and would be in a file of the project");
        } else if !is_name(name) {
            item.leave_out(&key, "it is not the name of a variable");
        } else if VARIABLES_OF_OTHERS.iter().any(|start| name.starts_with(start)) {
            item.leave_out(&key, "it is a variable of the other agent");
        } else {
            let path = ["shell_environment_policy", "set", name].map(str::to_owned).to_vec();
            let summary = format!("{} (`{key}`, for commands)", shown(&path, &json!(value)));
            item.parts.retain(|part| part.name != config::dotted_key(&path));
            add(path, json!(value), summary, item);
        }
    }
}

fn make_absolute(value: &mut Value, base: &Path) {
    for path in value.as_array_mut().into_iter().flatten() {
        if let Value::String(text) = path
            && !text.starts_with("~/")
        {
            *text = base.join(&*text).to_string_lossy().into_owned();
        }
    }
}

fn text(value: &Value) -> Option<Value> {
    value.as_str().filter(|text| !text.is_empty()).map(|text| json!(text))
}

/// A list of texts, or one text.
fn texts(value: &Value) -> Option<Value> {
    match value {
        Value::String(_) => text(value).map(|text| json!([text])),
        Value::Array(values) if values.iter().all(Value::is_string) => Some(value.clone()),
        _ => None,
    }
}

fn switch(value: &Value) -> Option<Value> {
    value.as_bool().map(Value::Bool)
}

fn opposite(value: &Value) -> Option<Value> {
    value.as_bool().map(|on| Value::Bool(!on))
}

fn effort(value: &Value) -> Option<Value> {
    let known = ["minimal", "low", "medium", "high", "xhigh"];
    value.as_str().filter(|effort| known.contains(effort)).map(|effort| json!(effort))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Agent;
    use crate::item::Kind;

    fn found(item: &Item) -> Vec<(String, Value)> {
        let parts = item.parts.iter().map(|part| match &part.change {
            Change::Setting { value, .. } => (part.name.clone(), value.clone()),
            other => panic!("{other:?}"),
        });
        parts.collect()
    }

    fn roots() -> Roots {
        Roots {
            user_home: "/home/u".into(),
            agent_home: "/home/u/.agent".into(),
            machine_settings: "/etc".into(),
            project_folder: ".agent",
        }
    }

    #[test]
    fn a_configuration_is_imported_key_by_key() {
        let file = Path::new("/home/u/.codex/config.toml");
        let read = |text: &str| {
            let mut item = Item::new(Kind::Settings, Agent::Codex, None);
            add_toml(text, (file, None), &roots(), &mut item).unwrap();
            (found(&item), item.left_out, item.parts)
        };
        let (settings, left_out, parts) = read(
            "model = 'm'\napproval_policy = 'on-failure'\nnew_key = 1\nmodel_provider = 'p'\n\
             notify = ['say', 'done']\n\
             [mcp_servers.s]\ncommand = 'x'\n\
             [projects.'/p']\ntrust_level = 'trusted'\n\
             [model_providers.p]\nname = 'P'\nbase_url = 'https://h/v1'\nenv_key = 'P_KEY'\n\
             http_headers = { X-Team = 'red' }\n\
             [profiles.fast]\nmodel_reasoning_effort = 'low'\n\
             [shell_environment_policy.set]\nA = 'hidden'\n",
        );
        let expected = [
            ("approval_policy", json!("on-failure")),
            ("model", json!("m")),
            ("model_provider", json!("p")),
            ("model_providers.p.base_url", json!("https://h/v1")),
            ("model_providers.p.env_key", json!("P_KEY")),
            ("model_providers.p.http_headers.X-Team", json!("red")),
            ("model_providers.p.name", json!("P")),
            ("notify", json!(["say", "done"])),
            ("profiles.fast.model_reasoning_effort", json!("low")),
            ("shell_environment_policy.set.A", json!("hidden")),
        ];
        assert_eq!(settings, expected.map(|(key, value)| (key.to_owned(), value)));
        assert_eq!(left_out.len(), 2, "{left_out:?}");
        assert!(left_out[0].starts_with("`new_key`: there is no such key"), "{left_out:?}");
        assert!(left_out[1].starts_with("`projects`: trust is not imported"), "{left_out:?}");
        for (name, shown) in [
            ("notify", r#"["say","done"]"#),
            ("shell_environment_policy.set.A", "a value that is not shown"),
            ("model_providers.p.http_headers.X-Team", "a value that is not shown"),
            ("model_providers.p.env_key", "\"P_KEY\""),
            ("approval_policy", "is deprecated"),
        ] {
            let part = parts.iter().find(|part| part.name == name).unwrap();
            assert!(part.summary.contains(shown), "{name}: {}", part.summary);
        }
    }

    #[test]
    fn a_provider_that_cannot_be_used_is_left_out_with_its_model() {
        let file = Path::new("/home/u/.codex/config.toml");
        let mut item = Item::new(Kind::Settings, Agent::Codex, None);
        let text = "model = 'm'\nmodel_provider = 'p'\nmodel_verbosity = 'low'\n\
                    [model_providers.p]\nbase_url = 'https://h/v1'\nwire_api = 'soap'\n\
                    [model_providers.q]\nbase_url = 'https://q/v1'\n";
        add_toml(text, (file, None), &roots(), &mut item).unwrap();
        let names: Vec<String> = found(&item).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["model_providers.q.base_url", "model_verbosity"]);
        let left_out = item.left_out.join("\n");
        for part in [
            "`model_providers.p.wire_api`",
            "`model_provider`: the provider `p`",
            "`model`: the provider",
        ] {
            assert!(left_out.contains(part), "{left_out}");
        }
        let error = add_toml("a = ", (file, None), &roots(), &mut item).unwrap_err().to_string();
        assert!(error.contains("config.toml"), "{error}");
    }

    #[test]
    fn settings_of_other_formats_have_a_table_of_counterparts() {
        let check = |project: Option<&Path>,
                     table,
                     files: &[Value],
                     expect: &[(&str, Value)],
                     out: &[&str]| {
            let mut item = Item::new(Kind::Settings, Agent::ClaudeCode, project);
            for settings in files {
                add_json(settings, (Path::new("/s.json"), Path::new("/w")), table, &mut item);
            }
            let expect: Vec<_> =
                expect.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
            assert_eq!(found(&item), expect, "{files:?}");
            assert_eq!(item.left_out.len(), out.len(), "{:?}", item.left_out);
            for (left_out, part) in item.left_out.iter().zip(out) {
                assert!(left_out.contains(part), "{left_out}");
            }
        };
        check(
            None,
            &OF_CLAUDE_CODE,
            &[
                json!({"permissions": {"allow": ["Bash(ls)"], "additionalDirectories": ["../x", "~/y"],
                       "defaultMode": "bypassPermissions"}, "env": {"A": "1", "ANTHROPIC_MODEL": "m", "B": 2},
                       "hooks": {}, "model": "opus", "effortLevel": "high", "statusLine": {"type": "command"}}),
                json!({"permissions": {"additionalDirectories": ["/z", "~/y"]}, "env": {"A": "2"},
                       "effortLevel": "max", "attribution": {"commit": "By me", "pr": ""}}),
            ],
            &[
                ("model_reasoning_effort", json!("high")),
                ("sandbox_workspace_write.writable_roots", json!(["/w/../x", "~/y", "/z"])),
                ("shell_environment_policy.set.A", json!("2")),
                ("commit_attribution", json!("By me")),
            ],
            &[
                "`permissions.defaultMode of /s.json`: choose",
                "`env.ANTHROPIC_MODEL`",
                "`env.B`",
                "`model of",
                "`statusLine of /s.json`: it has no counterpart",
                "`effortLevel of",
                "`attribution.pr of",
            ],
        );
        check(
            None,
            &OF_GEMINI_CLI,
            &[
                json!({"context": {"fileName": ["GEMINI.md", "C.md"], "x": 1}, "mcpServers": {}, "ui": {"theme": "x"},
                     "general": {"disableAutoUpdate": true}, "usageStatisticsEnabled": false}),
            ],
            &[
                ("project_doc_fallback_filenames", json!(["GEMINI.md", "C.md"])),
                ("check_for_update_on_startup", json!(false)),
                ("analytics.enabled", json!(false)),
            ],
            &["`context.x of", "`ui of"],
        );
        check(
            Some(Path::new("/w")),
            &OF_GEMINI_CLI,
            &[json!({"contextFileName": "C.md", "usageStatisticsEnabled": false, "model": null})],
            &[("project_doc_fallback_filenames", json!(["C.md"]))],
            &["a project's file cannot set it"],
        );
    }
}
