//! MCP servers that a client names, as entries of a thread's configuration.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::schema::session::{McpServer, NamedValue};

/// Overrides of the configuration; `None` without servers.
///
/// # Errors
/// A server that this program cannot use, for the client.
pub(crate) fn overrides(servers: &[McpServer]) -> Result<Option<BTreeMap<String, Value>>, String> {
    if servers.is_empty() {
        return Ok(None);
    }
    let mut entries = Map::new();
    for (at, server) in servers.iter().enumerate() {
        let entry = entry(server).map_err(|why| format!("`mcpServers[{at}]`: {why}"))?;
        if entries.insert(server.name.clone(), entry).is_some() {
            return Err(format!(
                "`mcpServers[{at}]`: another server is named `{}` too: give each a name of its own",
                server.name
            ));
        }
    }
    Ok(Some(BTreeMap::from([("mcp_servers".to_owned(), Value::Object(entries))])))
}

fn entry(server: &McpServer) -> Result<Value, String> {
    if server.name.trim().is_empty() {
        return Err("`name` is empty".to_owned());
    }
    let needed = |value: &Option<String>, member: &str| {
        let value = value.clone().filter(|value| !value.is_empty());
        value.ok_or_else(|| format!("the server `{}` has no `{member}`", server.name))
    };
    match server.kind.as_deref() {
        None | Some("stdio") => Ok(json!({
            "command": needed(&server.command, "command")?,
            "args": server.args,
            "env": named(&server.env),
        })),
        Some("http") => Ok(json!({
            "url": needed(&server.url, "url")?,
            "http_headers": named(&server.headers),
        })),
        Some("sse") => Err(format!(
            "the server `{}` uses the transport `sse`, which this agent does not \
             have: use the server's address for streamable HTTP, with \
             the type `http`",
            server.name
        )),
        Some(other) => Err(format!(
            "the server `{}` has the type `{other}`: use `http`, or `stdio` for a program",
            server.name
        )),
    }
}

/// The last value of a name counts.
fn named(values: &[NamedValue]) -> Map<String, Value> {
    values.iter().map(|it| (it.name.clone(), Value::from(it.value.as_str()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(servers: Value, expect: Result<Value, &str>) {
        let servers: Vec<McpServer> = serde_json::from_value(servers).unwrap();
        match (overrides(&servers), expect) {
            (Ok(found), Ok(expected)) => {
                let found = found.map(|mut all| all.remove("mcp_servers").unwrap());
                assert_eq!(found.unwrap_or_default(), expected);
            }
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn servers_become_entries_or_are_refused() {
        check(json!([]), Ok(Value::Null));
        check(
            json!([
                { "name": "a", "command": "/bin/a", "args": ["x"], "env": [{ "name": "K", "value": "v" }] },
                { "type": "http", "name": "b", "url": "http://h/", "headers": [{ "name": "X", "value": "y" }] },
            ]),
            Ok(json!({
                "a": { "command": "/bin/a", "args": ["x"], "env": { "K": "v" } },
                "b": { "url": "http://h/", "http_headers": { "X": "y" } },
            })),
        );
        check(json!([{ "type": "sse", "name": "s", "url": "u", "headers": [] }]), Err("`sse`"));
        check(json!([{ "type": "ftp", "name": "s", "url": "u" }]), Err("the type `ftp`"));
        check(json!([{ "name": "s", "args": [], "env": [] }]), Err("has no `command`"));
        check(json!([{ "name": " ", "command": "c" }]), Err("`mcpServers[0]`: `name` is empty"));
        let twice = json!([{ "name": "s", "command": "c" }, { "name": "s", "command": "d" }]);
        check(twice, Err("`mcpServers[1]`: another server"));
    }
}
