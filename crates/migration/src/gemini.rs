//! Where Gemini CLI keeps its configuration.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::agent::Agent;
use crate::error::Error;
use crate::item::{Detected, Item, Kind, Roots};
use crate::markdown::{self, Command};
use crate::refusals::Refusals;
use crate::{instructions, mcp, settings, source};

const AGENT: Agent = Agent::GeminiCli;

/// See [`crate::detect`].
pub(crate) fn detect(roots: &Roots, project: Option<&Path>, detected: &mut Detected) {
    let base = project.unwrap_or(&roots.user_home);
    let folder = base.join(".gemini");
    let memory = match project {
        Some(root) => root.join("GEMINI.md"),
        None => folder.join("GEMINI.md"),
    };
    let target = project.map(|root| root.join("AGENTS.md"));
    instructions::detect((base, &memory), target.as_deref(), AGENT, project, detected);
    let mut item = Item::new(Kind::McpServers, AGENT, project);
    if let Err(error) = servers(roots, base, &mut item) {
        detected.problems.push(error);
    }
    detected.items.push(item);
    let mut item = Item::new(Kind::Settings, AGENT, project);
    let file = settings_file(base);
    // One that cannot be read is reported with the servers.
    if let Ok(Some(read)) = source::json(base, &file) {
        settings::add_json(&read, (&file, base), &settings::OF_GEMINI_CLI, &mut item);
    }
    detected.items.push(item);
    let mut item = Item::new(Kind::Commands, AGENT, project);
    let skills = roots.own_folder(project).join("skills");
    if let Err(error) = commands(base, &folder.join("commands"), &skills, &mut item) {
        detected.problems.push(error);
    }
    detected.items.push(item);
}

/// Commands are TOML files with a `prompt`.
fn commands(root: &Path, folder: &Path, target: &Path, item: &mut Item) -> Result<(), Error> {
    for (name, path) in markdown::documents(root, folder, ".toml")? {
        match source::text(root, &path) {
            Ok(Some(text)) => match command(&text) {
                Ok((description, prompt)) => {
                    let description = description.as_deref();
                    let command =
                        Command { name: &name, description, arguments: ARGUMENTS, text: &prompt };
                    markdown::add_command(&command, target, item);
                }
                Err(why) => item.leave_out(&name, &why),
            },
            Ok(None) => {}
            Err(error) => item.leave_out(&name, &visible::exact(&error.to_string())),
        }
    }
    Ok(())
}

/// The note for the model: in Gemini CLI, arguments without a place of their own follow the text.
const ARGUMENTS: &str = "\nHere `{{args}}` stands for what the user wrote after the skill's name; without it, \
     that follows these instructions.\n";

/// The description and the prompt of a command.
///
/// # Errors
/// Why it has no counterpart.
fn command(text: &str) -> Result<(Option<String>, String), String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        format!("it is not valid TOML: {}", visible::exact(error.message()))
    })?;
    let text = |key: &str| match table.get(key) {
        None => Ok(None),
        Some(toml::Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{key}` must be a text")),
    };
    let prompt = text("prompt")?.filter(|prompt| !prompt.trim().is_empty());
    let prompt = prompt.ok_or("`prompt` is missing or empty")?;
    if prompt.contains("!{") {
        return Err("it runs commands when it is used (`!{…}`), which skills never do".into());
    }
    if prompt.contains("@{") {
        return Err("it inserts files when it is used (`@{…}`), which skills never do".into());
    }
    Ok((text("description")?, prompt))
}

/// The servers of the settings in `base`: the user's home, or a project, in which the user's settings say
/// which servers are refused, too.
fn servers(roots: &Roots, base: &Path, item: &mut Item) -> Result<(), Error> {
    let file = settings_file(base);
    let Some(read) = source::json(base, &file)? else { return Ok(()) };
    let mut refusals = Refusals::default();
    read_refusals(&read, &file, &mut refusals);
    if base != roots.user_home {
        let of_user = settings_file(&roots.user_home);
        match source::json(&roots.user_home, &of_user) {
            Ok(Some(read)) => read_refusals(&read, &of_user, &mut refusals),
            Ok(None) => {}
            Err(error) => refusals.does_not_know(&of_user, &error),
        }
    }
    match &read["mcpServers"] {
        Value::Null => Ok(()),
        Value::Object(servers) => {
            mcp::add_adapted(&refusals.without(servers, item), adapted, item);
            Ok(())
        }
        _ => Err(Error::contents(&file, "its member `mcpServers` must be an object")),
    }
}

fn settings_file(base: &Path) -> PathBuf {
    base.join(".gemini/settings.json")
}

/// The lists of refused and of allowed servers, under their present and their former names.
fn read_refusals(settings: &Value, file: &Path, refusals: &mut Refusals) {
    let place = |member: &str| format!("`{member}` of {}", visible::path(file));
    refusals.read_refused(&settings["mcp"]["excluded"], &place("mcp.excluded"));
    refusals.read_refused(&settings["excludeMCPServers"], &place("excludeMCPServers"));
    refusals.read_allowed(&settings["mcp"]["allowed"], &place("mcp.allowed"));
    refusals.read_allowed(&settings["allowMCPServers"], &place("allowMCPServers"));
}

/// The server with the members that `.mcp.json` would have.
///
/// # Errors
/// Why there is no such server.
fn adapted(server: &Value) -> Result<Value, String> {
    let Value::Object(members) = server else { return Err("it must be an object".into()) };
    let mut made = members.clone();
    // This agent asks before it calls tools, whatever another one did.
    made.shift_remove("trust");
    if made.contains_key("url") && !made.contains_key("httpUrl") {
        return Err(
            "its `url` is reached by the transport `sse`, which is not supported; use the \
                    server's HTTP address (`httpUrl`)"
                .into(),
        );
    }
    if let Some(url) = made.shift_remove("httpUrl") {
        made.insert("url".to_owned(), url);
    }
    let has_variable = |value: &Value| value.to_string().contains('$');
    if let Some((key, _)) = made.iter().find(|(_, value)| has_variable(value)) {
        return Err(format!(
            "`{}` refers to a variable with `$`, which is not expanded here; use `env_vars`, \
             `bearer_token_env_var` or `env_http_headers`",
            visible::exact(key)
        ));
    }
    Ok(Value::Object(made))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn commands_have_a_text_only_or_are_left_out() {
        let check = |text: &str, expected: Result<(Option<&str>, &str), &str>| match (
            command(text),
            expected,
        ) {
            (Ok((description, prompt)), Ok(expected)) => {
                assert_eq!((description.as_deref(), &*prompt), expected, "{text}");
            }
            (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
            (read, expected) => panic!("{text}: {read:?}, not {expected:?}"),
        };
        check("prompt = 'Fix {{args}}.'", Ok((None, "Fix {{args}}.")));
        check("description = 'D'\nprompt = 'P'\nlater = 1", Ok((Some("D"), "P")));
        check("prompt = 'See !{ls}'", Err("it runs commands"));
        check("prompt = 'See @{a.md}'", Err("it inserts files"));
        check("prompt = ' '", Err("`prompt` is missing"));
        check("description = 'D'", Err("`prompt` is missing"));
        check("prompt = 1", Err("`prompt` must be a text"));
        check("prompt = 'a'\nprompt = 'b'", Err("not valid TOML"));
        check("{", Err("not valid TOML"));
    }

    #[test]
    fn servers_are_adapted_or_refused() {
        let check = |given: Value, expected: Result<Value, &str>| match (adapted(&given), expected)
        {
            (Ok(made), Ok(expected)) => assert_eq!(made, expected),
            (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
            (made, expected) => panic!("{given}: {made:?}, not {expected:?}"),
        };
        check(json!({"httpUrl": "https://a", "trust": true}), Ok(json!({"url": "https://a"})));
        check(json!({"command": "x", "timeout": 5}), Ok(json!({"command": "x", "timeout": 5})));
        check(json!({"url": "https://a/sse"}), Err("`sse`"));
        check(json!({"command": "x", "env": {"K": "$KEY"}}), Err("`env` refers to a variable"));
        check(json!(3), Err("an object"));
    }
}
