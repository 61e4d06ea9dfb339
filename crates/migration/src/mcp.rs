//! MCP servers of other agents as values of `mcp_servers.<id>`.

use serde_json::{Map, Value, json};

use crate::bounds::NAME_CHARS;
use crate::item::{Change, Item};

/// Members of Claude Code that say nothing that this agent must know.
const HARMLESS: [&str; 2] = ["type", "description"];

/// Parts of words of a command line that announce a secret.
const SECRET_WORDS: [&str; 8] =
    ["key", "token", "secret", "passw", "auth", "credential", "bearer", "cookie"];

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

/// As [`add_json`], for servers of a private file that would be in a file of a project, which others may see:
/// values of variables and headers become references to variables of the environment.
pub(crate) fn add_private(servers: &Map<String, Value>, item: &mut Item) {
    for (name, server) in servers {
        let shared = converted(server).and_then(|value| without_values(name, value));
        match shared {
            Ok((value, variables)) => {
                let before = item.parts.len();
                add(name, value, item);
                let variables = match variables.is_empty() {
                    true => String::new(),
                    false => {
                        let names = visible::exact(&variables.join(", "));
                        format!(", without the values of {names}: set these in your environment")
                    }
                };
                for part in item.parts.iter_mut().skip(before) {
                    part.summary.push_str(&format!(
                        " (only yours so far: it would be in a file of the project{variables})"
                    ));
                }
            }
            Err(why) => item.leave_out(name, &why),
        }
    }
}

/// A server whose variables and headers have their values from the environment, and the names that these have
/// there.
///
/// # Errors
/// Another member looks as if it had a secret.
fn without_values(name: &str, mut value: Value) -> Result<(Value, Vec<String>), String> {
    const INSTEAD: &str =
        "which would be in a file of the project; give it to the server in another way";
    let url = value["url"].as_str().unwrap_or_default();
    if without_secrets(url) != url || redact::redact(url).removed > 0 {
        return Err(format!("its `url` looks as if it had a secret, {INSTEAD}"));
    }
    let texts =
        std::iter::once(&value["command"]).chain(value["args"].as_array().into_iter().flatten());
    let words: Vec<&str> = texts.filter_map(Value::as_str).collect();
    let names_secret = |word: &&str| {
        let word = word.to_ascii_lowercase();
        SECRET_WORDS.iter().any(|secret| word.contains(secret))
    };
    if words.iter().any(names_secret) || redact::redact(&words.join(" ")).removed > 0 {
        return Err(format!("its command line looks as if it had a secret, {INSTEAD}"));
    }
    let mut variables = Vec::new();
    let Some(members) = value.as_object_mut() else { return Ok((value, variables)) };
    if let Some(Value::Object(env)) = members.shift_remove("env") {
        variables.extend(env.into_iter().map(|(name, _)| name));
        if !variables.is_empty() {
            members.insert("env_vars".to_owned(), json!(variables));
        }
    }
    if let Some(Value::Object(headers)) = members.shift_remove("http_headers") {
        let variable = |header: &str| -> String {
            let plain =
                |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
            format!("{name}_{header}").chars().map(plain).collect()
        };
        let named: Map<String, Value> =
            headers.keys().map(|header| (header.clone(), json!(variable(header)))).collect();
        variables.extend(headers.keys().map(|header| variable(header)));
        members.insert("env_http_headers".to_owned(), Value::Object(named));
    }
    Ok((value, variables))
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
    let summary = summary + &given(&value) + asked(&value);
    let key_path = vec!["mcp_servers".to_owned(), name.to_owned()];
    item.add(name, summary, Change::Setting { key_path, value });
}

/// Returns the command that a server would run: all of the command line, and its folder.
fn program(command: &str, value: &Value) -> String {
    let args = value["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let line: Vec<String> = std::iter::once(command).chain(args).map(quoted).collect();
    let mut summary = format!("runs {}", line.join(" "));
    if let Some(cwd) = value["cwd"].as_str() {
        summary.push_str(&format!(" in {}", visible::exact(cwd)));
    }
    summary
}

/// A word of a command line in quotes. Hidden characters are written as numbers, and no two words look the same.
fn quoted(word: &str) -> String {
    let mut shown = String::from('"');
    for c in word.chars() {
        match c {
            '"' | '\\' => shown.extend(['\\', c]),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c if visible::is_hidden(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown.push('"');
    shown
}

/// When its tools ask, if not as the approval policy says.
fn asked(value: &Value) -> &'static str {
    match value["default_tools_approval_mode"].as_str() {
        Some("approve") => ", its tools are called WITHOUT A QUESTION",
        Some("prompt") => ", each call of its tools asks",
        _ => "",
    }
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

/// An address without what may be a secret in it: a user before the host, and values after the path.
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
    fn private_values_become_references_or_the_server_is_left_out() {
        let check = |given: Value, expected: Result<(Value, &[&str]), &str>| {
            let read = converted(&given).and_then(|value| without_values("a-b", value));
            match (read, expected) {
                (Ok((value, names)), Ok((expected, expected_names))) => {
                    assert_eq!(value, expected, "{given}");
                    assert_eq!(names, expected_names, "{given}");
                }
                (Err(why), Err(part)) if why.contains(part) => {}
                (read, expected) => panic!("{given}: {read:?}, not {expected:?}"),
            }
        };
        check(
            json!({"command": "x", "args": ["-v"], "env": {"B": "s3cret", "A": ""}}),
            Ok((json!({"command": "x", "args": ["-v"], "env_vars": ["B", "A"]}), &["B", "A"])),
        );
        check(
            json!({"url": "https://a/mcp", "headers": {"X-Key": "s3cret"}}),
            Ok((
                json!({"url": "https://a/mcp", "env_http_headers": {"X-Key": "A_B_X_KEY"}}),
                &["A_B_X_KEY"],
            )),
        );
        check(json!({"url": "https://a/mcp"}), Ok((json!({"url": "https://a/mcp"}), &[])));
        check(json!({"url": "https://a/mcp?k=s3cret"}), Err("`url` looks as if"));
        check(json!({"url": "https://u:s3cret@a/mcp"}), Err("`url` looks as if"));
        let key = "sk-ant-api03-0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T";
        check(json!({"url": format!("https://a/{key}/mcp")}), Err("`url` looks as if"));
        check(json!({"command": "x", "args": [key]}), Err("command line looks as if"));
        check(json!({"command": "x", "args": ["--api-key", "s"]}), Err("command line looks as if"));
        check(json!({"command": "x", "args": ["--Token=s"]}), Err("command line looks as if"));
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
        assert_eq!(
            quoted("\u{1b}[2K \\u{1b} \"\t\u{202e}é"),
            r#""\u{1b}[2K \\u{1b} \"\t\u{202e}é""#
        );
        let before = item.digest();
        let mut other = Item::new(Kind::McpServers, Agent::ClaudeCode, None);
        add("one", json!({"command": "sh", "args": ["-c", "c"]}), &mut other);
        assert_ne!(before, other.digest());
    }
}
