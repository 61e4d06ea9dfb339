//! The MCP servers of plugins, as entries of the configuration. Only keys that say how a server is reached
//! are taken: a plugin does not decide which of its tools run unasked.

use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value, json};

/// The variables that stand for the plugin's folder.
const ROOTS: [&str; 2] = ["${AGENT_PLUGIN_ROOT}", "${CLAUDE_PLUGIN_ROOT}"];
/// The variables by which a program knows its plugin's folder.
const ROOT_VARIABLES: [&str; 2] = ["AGENT_PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT"];
/// Keys that are taken as they are, in the spelling of the configuration.
const KEPT: [&str; 5] = [
    "env_vars",
    "env_http_headers",
    "bearer_token_env_var",
    "startup_timeout_sec",
    "tool_timeout_sec",
];

/// The entry of `mcp_servers` for the definition of a plugin in `root`.
///
/// # Errors
/// It cannot be used: the reason, as part of a sentence.
pub fn entry(definition: &Value, root: &Path) -> Result<Value, String> {
    let Value::Object(definition) = definition else {
        return Err("its definition must be an object".to_owned());
    };
    let mut entry = Map::new();
    for key in KEPT {
        if let Some(value) = definition.get(key) {
            entry.insert(key.to_owned(), value.clone());
        }
    }
    match (text(definition, "command")?, text(definition, "url")?) {
        (Some(command), None) => program(definition, command, root, &mut entry)?,
        (None, Some(url)) => address(definition, url, &mut entry)?,
        (Some(_), Some(_)) => return Err("it has both `command` and `url`".to_owned()),
        (None, None) => return Err("it has neither `command` nor `url`".to_owned()),
    }
    Ok(entry.into())
}

/// Returns the program or address of a server, as a sentence.
pub fn action(name: &str, entry: &Value) -> String {
    let words = |key: &str| {
        let all = entry[key].as_array().cloned().unwrap_or_default();
        all.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut variables = words("env_vars");
    let headers = entry["env_http_headers"].as_object();
    variables.extend(headers.into_iter().flat_map(Map::values).map(plain));
    variables.extend(entry["bearer_token_env_var"].as_str().map(str::to_owned));
    let variables = match variables.is_empty() {
        true => String::new(),
        false => format!("; it gets these variables of your environment: {}", variables.join(", ")),
    };
    match entry["url"].as_str() {
        Some(url) => format!("the MCP server `{name}` is reached at {url}{variables}"),
        None => {
            let args = words("args");
            let args = args.iter().map(String::as_str);
            let line = visible::command_line(entry["command"].as_str().into_iter().chain(args));
            let set = entry["env"].as_object().into_iter().flatten();
            let set = set.filter(|(name, _)| !ROOT_VARIABLES.contains(&name.as_str()));
            let set: Vec<String> =
                set.map(|(name, value)| format!("{name}={}", plain(value))).collect();
            let set = match set.is_empty() {
                true => String::new(),
                false => {
                    format!("; with {}", visible::command_line(set.iter().map(String::as_str)))
                }
            };
            format!("the MCP server `{name}` runs, outside of the sandbox: {line}{set}{variables}")
        }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn program(
    definition: &Map<String, Value>,
    command: &str,
    root: &Path,
    entry: &mut Map<String, Value>,
) -> Result<(), String> {
    let command = with_root(command, root)?;
    let command = match command.starts_with("./") {
        true => within(&command, root)?.display().to_string(),
        false => command,
    };
    entry.insert("command".to_owned(), command.into());
    let mut args = Vec::new();
    for arg in array(definition, "args")? {
        let arg = arg.as_str().ok_or("`args` must be an array of strings")?;
        args.push(Value::from(with_root(arg, root)?));
    }
    entry.insert("args".to_owned(), args.into());
    let cwd = match text(definition, "cwd")? {
        Some(cwd) => within(&with_root(cwd, root)?, root)?,
        None => root.to_owned(),
    };
    entry.insert("cwd".to_owned(), cwd.display().to_string().into());
    let mut env = Map::new();
    let mut passed = Vec::new();
    for (name, value) in object(definition, "env")? {
        let value = value.as_str().ok_or_else(|| format!("`env.{name}` must be a string"))?;
        match variable(value) {
            Some(variable) if variable == name => passed.push(Value::from(variable)),
            _ => drop(env.insert(name.clone(), with_root(value, root)?.into())),
        }
    }
    for name in ROOT_VARIABLES {
        env.entry(name).or_insert_with(|| json!(root));
    }
    entry.insert("env".to_owned(), env.into());
    if !passed.is_empty() {
        let listed = entry.entry("env_vars").or_insert_with(|| json!([]));
        let listed = listed.as_array_mut().ok_or("`env_vars` must be an array of strings")?;
        listed.extend(passed);
    }
    Ok(())
}

fn address(
    definition: &Map<String, Value>,
    url: &str,
    entry: &mut Map<String, Value>,
) -> Result<(), String> {
    entry.insert("url".to_owned(), without_variables(url)?.into());
    let mut headers = Map::new();
    for (name, value) in
        object(definition, "headers")?.iter().chain(object(definition, "http_headers")?)
    {
        let value =
            value.as_str().ok_or_else(|| format!("the header `{name}` must be a string"))?;
        let is_login = name.eq_ignore_ascii_case("authorization");
        let bearer = value.strip_prefix("Bearer ").filter(|_| is_login).and_then(variable);
        match (bearer, variable(value)) {
            (Some(variable), _) => {
                entry.insert("bearer_token_env_var".to_owned(), variable.into());
            }
            (None, Some(variable)) => {
                let listed = entry.entry("env_http_headers").or_insert_with(|| json!({}));
                let listed =
                    listed.as_object_mut().ok_or("`env_http_headers` must be an object")?;
                listed.insert(name.clone(), variable.into());
            }
            (None, None) => drop(headers.insert(name.clone(), without_variables(value)?.into())),
        }
    }
    entry.insert("http_headers".to_owned(), headers.into());
    Ok(())
}

/// The name in `${NAME}`, when the text is just that.
fn variable(text: &str) -> Option<&str> {
    let name = text.strip_prefix("${")?.strip_suffix('}')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(is_name) && !ROOTS.contains(&text)).then_some(name)
}

/// The text with the plugin's folder.
fn with_root(text: &str, root: &Path) -> Result<String, String> {
    let mut rest = text.to_owned();
    for name in ROOTS {
        rest = rest.replace(name, "");
    }
    without_variables(&rest)?;
    let root = root.display().to_string();
    Ok(ROOTS.iter().fold(text.to_owned(), |text, name| text.replace(name, &root)))
}

fn without_variables(text: &str) -> Result<String, String> {
    match text.contains("${") {
        false => Ok(text.to_owned()),
        true => Err(format!(
            "`{text}` has a variable in a place where none is replaced; variables of the environment are \
             passed on with `env_vars`"
        )),
    }
}

/// A path in the plugin; an absolute one stays as it is.
fn within(path: &str, root: &Path) -> Result<PathBuf, String> {
    let given = Path::new(path);
    if given.components().any(|part| part == Component::ParentDir) {
        return Err(format!("the path `{path}` leads out of the plugin"));
    }
    Ok(root.join(given.strip_prefix(".").unwrap_or(given)))
}

fn text<'d>(definition: &'d Map<String, Value>, key: &str) -> Result<Option<&'d str>, String> {
    match definition.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`{key}` must be a string")),
    }
}

fn array<'d>(definition: &'d Map<String, Value>, key: &str) -> Result<&'d [Value], String> {
    match definition.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(all)) => Ok(all),
        Some(_) => Err(format!("`{key}` must be an array of strings")),
    }
}

fn object<'d>(
    definition: &'d Map<String, Value>,
    key: &str,
) -> Result<&'d Map<String, Value>, String> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    match definition.get(key) {
        None | Some(Value::Null) => Ok(&EMPTY),
        Some(Value::Object(members)) => Ok(members),
        Some(_) => Err(format!("`{key}` must be an object of strings")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_relative_to_the_plugin_and_grant_nothing() {
        let check = |definition: Value, expected: Value| {
            let found = entry(&definition, Path::new("/p")).unwrap();
            for (key, value) in expected.as_object().unwrap() {
                assert_eq!(found[key], *value, "{key} of {definition}: {found}");
            }
            assert_eq!(found.get("default_tools_approval_mode"), None);
        };
        let path = "${CLAUDE_PLUGIN_ROOT}/s.py";
        check(
            json!({ "command": "python", "args": [path], "default_tools_approval_mode": "approve" }),
            json!({ "command": "python", "args": ["/p/s.py"], "cwd": "/p" }),
        );
        check(
            json!({ "command": "./bin/s", "cwd": "data", "env": { "KEY": "${KEY}", "A": "b" } }),
            json!({ "command": "/p/bin/s", "cwd": "/p/data", "env_vars": ["KEY"],
                "env": { "A": "b", "AGENT_PLUGIN_ROOT": "/p", "CLAUDE_PLUGIN_ROOT": "/p" } }),
        );
        check(
            json!({ "type": "http", "url": "https://a.test",
                "headers": { "Authorization": "Bearer ${T}", "X-Key": "${K}", "X": "y" } }),
            json!({ "url": "https://a.test", "bearer_token_env_var": "T",
                "env_http_headers": { "X-Key": "K" }, "http_headers": { "X": "y" } }),
        );
    }

    #[test]
    fn definitions_that_cannot_be_used_are_refused() {
        for (definition, wanted) in [
            (json!([]), "must be an object"),
            (json!({}), "neither"),
            (json!({ "command": "a", "url": "b" }), "both"),
            (json!({ "command": 1 }), "must be a string"),
            (json!({ "command": "a", "args": [1] }), "array of strings"),
            (json!({ "command": "./../a" }), "leads out"),
            (json!({ "command": "a", "cwd": "../x" }), "leads out"),
            (json!({ "command": "a", "args": ["${HOME}"] }), "none is replaced"),
            (json!({ "command": "a", "env": { "X": "${SECRET}" } }), "none is replaced"),
            (json!({ "url": "https://a/${SECRET}" }), "none is replaced"),
            (json!({ "url": "https://a", "headers": { "X": "a ${SECRET}" } }), "none is replaced"),
        ] {
            let error = entry(&definition, Path::new("/p")).unwrap_err();
            assert!(error.contains(wanted), "{definition}: {error}");
        }
    }

    #[test]
    fn what_a_server_would_run_is_said() {
        let definition = json!({ "command": "sh", "args": ["-c", "x\n y"], "env": { "A": "b c", "KEY": "${KEY}" } });
        let said = action("one", &entry(&definition, Path::new("/p")).unwrap());
        assert_eq!(
            said,
            "the MCP server `one` runs, outside of the sandbox: sh -c 'x\\u{a} y'; with 'A=b c'; it gets these variables \
             of your environment: KEY"
        );
    }
}
