//! Where Gemini CLI keeps its configuration. Its commands are TOML files with a syntax of their own and stay
//! where they are.

use std::path::Path;

use serde_json::Value;

use crate::agent::Agent;
use crate::error::Error;
use crate::item::{Detected, Item, Kind, Roots};
use crate::{instructions, mcp, source};

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
    if let Err(error) = servers(base, &folder.join("settings.json"), &mut item) {
        detected.problems.push(error);
    }
    detected.items.push(item);
}

fn servers(root: &Path, file: &Path, item: &mut Item) -> Result<(), Error> {
    let Some(read) = source::json(root, file)? else { return Ok(()) };
    match &read["mcpServers"] {
        Value::Null => Ok(()),
        Value::Object(servers) => {
            mcp::add_adapted(servers, adapted, item);
            Ok(())
        }
        _ => Err(Error::contents(file, "its member `mcpServers` must be an object")),
    }
}

/// The server with the members that `.mcp.json` would have.
///
/// # Errors
/// Why there is no such server.
fn adapted(server: &Value) -> Result<Value, String> {
    let Value::Object(members) = server else { return Err("it must be an object".into()) };
    let mut made = members.clone();
    // This agent asks before it calls tools, whatever another one did.
    made.remove("trust");
    if made.contains_key("url") && !made.contains_key("httpUrl") {
        return Err(
            "its `url` is reached by the transport `sse`, which is not supported; use the \
                    server's HTTP address (`httpUrl`)"
                .into(),
        );
    }
    if let Some(url) = made.remove("httpUrl") {
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
