//! MCP servers of other agents as values of `mcp_servers.<id>`.

use serde_json::{Map, Value, json};

use crate::bounds::NAME_CHARS;
use crate::item::{Change, Item};

/// Members of Claude Code that say nothing that this agent must know.
const HARMLESS: [&str; 2] = ["type", "description"];

/// Adds the servers of a member `mcpServers`.
pub(crate) fn add_json(servers: &Map<String, Value>, item: &mut Item) {
    add_adapted(servers, |server| Ok(server.clone()), item);
}

/// As [`add_json`], for servers that are first given the members that Claude Code has.
pub(crate) fn add_adapted(
    servers: &Map<String, Value>,
    adapted: impl Fn(&Value) -> Result<Value, String>,
    item: &mut Item,
) {
    for (name, server) in servers {
        match adapted(server).and_then(|server| converted(&server)) {
            Ok(value) => add(name, value, item),
            Err(why) => item.leave_out(name, &why),
        }
    }
}

/// Adds a server whose value is one of this agent's configuration.
pub(crate) fn add(name: &str, value: Value, item: &mut Item) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || name.len() > NAME_CHARS || !name.chars().all(is_plain) {
        let why = "a name here has 1 to 64 letters, digits, `_` and `-`; rename it";
        return item.leave_out(name, why);
    }
    let summary = match (value["command"].as_str(), value["url"].as_str()) {
        (Some(command), _) => program(command, &value),
        (None, Some(url)) => format!("at {}", visible::exact(&without_secrets(url))),
        (None, None) => return item.leave_out(name, "it has neither `command` nor `url`"),
    };
    let summary = summary + &given(&value);
    let key_path = vec!["mcp_servers".to_owned(), name.to_owned()];
    item.add(name, summary, Change::Setting { key_path, value });
}

/// What a server would run: all of the command line, and where.
fn program(command: &str, value: &Value) -> String {
    let args = value["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let line: Vec<String> =
        std::iter::once(command).chain(args).map(|word| format!("{word:?}")).collect();
    let mut summary = format!("runs {}", visible::exact(&line.join(" ")));
    if let Some(cwd) = value["cwd"].as_str() {
        summary.push_str(&format!(" in {}", visible::exact(cwd)));
    }
    summary
}

/// The variables and headers that a server gets, by their names: the values may be secrets.
fn given(value: &Value) -> String {
    let mut names = Vec::new();
    for key in ["env", "env_vars", "http_headers", "env_http_headers", "bearer_token_env_var"] {
        match &value[key] {
            Value::Object(members) => names.extend(members.keys().map(String::as_str)),
            Value::Array(all) => names.extend(all.iter().filter_map(Value::as_str)),
            Value::String(name) => names.push(name),
            _ => {}
        }
    }
    match names.is_empty() {
        true => String::new(),
        false => format!(", with {}", visible::exact(&names.join(", "))),
    }
}

/// An address without what may be a secret in it: a user before the host, and values behind the path.
fn without_secrets(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = url.split_at(start);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (path, more) = path.find(['?', '#']).map_or((path, ""), |at| (&path[..at], "?…"));
    format!("{scheme}{host}{path}{more}")
}

fn converted(server: &Value) -> Result<Value, String> {
    let Value::Object(server) = server else { return Err("it must be an object".into()) };
    let mut made = Map::new();
    if server.get("type").and_then(Value::as_str) == Some("sse") {
        return Err("the transport `sse` is not supported; use the server's HTTP address".into());
    }
    for (key, value) in server {
        let (key, value) = match key.as_str() {
            "command" | "url" | "cwd" => (key.as_str(), text(key, value)?),
            "args" => ("args", texts(key, value)?),
            "env" => ("env", table(key, value)?),
            "headers" => ("http_headers", table(key, value)?),
            "disabled" => match value {
                Value::Bool(disabled) => ("enabled", json!(!disabled)),
                _ => return Err("`disabled` must be true or false".into()),
            },
            "includeTools" => ("enabled_tools", texts(key, value)?),
            "excludeTools" => ("disabled_tools", texts(key, value)?),
            "timeout" => continue,
            key if HARMLESS.contains(&key) => continue,
            other => {
                return Err(format!("`{}` has no counterpart here", visible::exact(other)));
            }
        };
        made.insert(key.to_owned(), value);
    }
    match (made.contains_key("command"), made.contains_key("url")) {
        (true, true) => Err("it has both `command` and `url`".into()),
        (false, false) => Err("it has neither `command` nor `url`".into()),
        _ => Ok(Value::Object(made)),
    }
}

fn text(key: &str, value: &Value) -> Result<Value, String> {
    let text = value.as_str().filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| format!("`{key}` must be a text"))?;
    literal(key, text)?;
    Ok(value.clone())
}

fn texts(key: &str, value: &Value) -> Result<Value, String> {
    let wrong = || format!("`{key}` must be a list of texts");
    for text in value.as_array().ok_or_else(wrong)? {
        literal(key, text.as_str().ok_or_else(wrong)?)?;
    }
    Ok(value.clone())
}

fn table(key: &str, value: &Value) -> Result<Value, String> {
    let wrong = || format!("`{key}` must be an object of texts");
    for member in value.as_object().ok_or_else(wrong)?.values() {
        literal(key, member.as_str().ok_or_else(wrong)?)?;
    }
    Ok(value.clone())
}

/// `${VARIABLE}` is not expanded here; taken literally it would send a wrong value.
fn literal(key: &str, text: &str) -> Result<(), String> {
    match text.contains("${") {
        true => Err(format!(
            "`{key}` refers to a variable with `${{…}}`, which is not expanded here; use `env_vars`, \
             `bearer_token_env_var` or `env_http_headers`"
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Agent;
    use crate::item::Kind;

    #[test]
    fn servers_are_converted_or_left_out_with_a_reason() {
        let check =
            |given: Value, expected: Result<Value, &str>| match (converted(&given), expected) {
                (Ok(made), Ok(expected)) => assert_eq!(made, expected),
                (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
                (made, expected) => panic!("{given}: {made:?}, not {expected:?}"),
            };
        check(json!({"command": "x"}), Ok(json!({"command": "x"})));
        check(
            json!({"type": "http", "url": "https://a", "headers": {"K": "v"}}),
            Ok(json!({"url": "https://a", "http_headers": {"K": "v"}})),
        );
        check(json!({"type": "sse", "url": "https://a"}), Err("`sse`"));
        check(json!({"command": 1}), Err("`command` must be"));
        check(json!({"command": "x", "args": "y"}), Err("`args`"));
        check(json!({"command": "x", "env": {"A": "${B}"}}), Err("not expanded"));
        check(json!({"command": "x", "url": "y"}), Err("both"));
        check(json!({"headersHelper": "x", "url": "y"}), Err("no counterpart"));
        check(json!([]), Err("object"));
    }

    #[test]
    fn an_address_is_shown_without_what_may_be_secret() {
        let check = |url: &str, shown: &str| assert_eq!(without_secrets(url), shown);
        check("https://a.b/mcp?key=secret", "https://a.b/mcp?…");
        check("https://user:secret@a.b/x", "https://a.b/x");
        check("nonsense", "nonsense");
    }

    #[test]
    fn what_a_server_would_run_is_shown_in_full() {
        let mut item = Item::new(Kind::McpServers, Agent::ClaudeCode, None);
        let server =
            json!({"command": "sh", "args": ["-c", "a\nb"], "env": {"LD_PRELOAD": "secret"}});
        add("one", server, &mut item);
        assert_eq!(item.parts[0].summary, r#"runs "sh" "-c" "a\nb", with LD_PRELOAD"#);
        let before = item.digest();
        let mut other = Item::new(Kind::McpServers, Agent::ClaudeCode, None);
        add("one", json!({"command": "sh", "args": ["-c", "c"]}), &mut other);
        assert_ne!(before, other.digest());
    }
}
