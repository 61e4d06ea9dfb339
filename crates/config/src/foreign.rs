//! Values that the files of another agent have, and that this program writes otherwise. People bring
//! such files along: a value that means the same is understood.

use crate::kind::Kind;
use crate::value::{Table, Value};

/// The use of a value that its key does not accept.
pub(crate) enum Meaning {
    /// This value.
    As(Value),
    /// Nothing: the key counts as unset.
    LeftOut,
}

/// A key, in which `*` stands for any name, the value of the other agent, and ours.
const SYNONYMS: [(&str, &str, &str); 10] = [
    ("file_opener", "vscode", "editor"),
    ("file_opener", "vscode-insiders", "editor-insiders"),
    ("forced_login_method", "chatgpt", "hosted"),
    ("mcp_servers.*.default_tools_approval_mode", "writes", "prompt"),
    ("mcp_servers.*.tools.*.approval_mode", "writes", "prompt"),
    ("oss_provider", "ollama-chat", "ollama"),
    ("otel.metrics_exporter", "statsig", "hosted"),
    ("permissions.*.filesystem.*", "deny", "none"),
    ("permissions.*.filesystem.*.*", "deny", "none"),
    ("service_tier", "priority", "fast"),
];
/// The built-in permission profiles, and the sandbox mode that means the same.
const BUILT_IN_PROFILES: [(&str, &str); 4] = [
    (":read-only", "read-only"),
    (":workspace", "workspace-write"),
    (":danger-full-access", "danger-full-access"),
    (":danger-no-sandbox", "danger-full-access"),
];

/// The meaning of a value that does not fit `kind`; `None` for one that is a mistake.
pub(crate) fn meaning(path: &[String], value: &Value, kind: &Kind) -> Option<Meaning> {
    let is = |key: &str| {
        let parts = key.split('.');
        parts.clone().count() == path.len()
            && parts.zip(path).all(|(part, name)| part == "*" || part == name)
    };
    if let Value::Text(text) = value
        && let Some((.., ours)) = SYNONYMS.iter().find(|(key, theirs, _)| is(key) && theirs == text)
    {
        return Some(Meaning::As(Value::Text((*ours).to_owned())));
    }
    match (kind, value) {
        // A switch with settings.
        (Kind::Boolean, Value::Table(table)) if is("features.*") => {
            match member(table, "enabled") {
                Some(Value::Boolean(on)) => return Some(Meaning::As(Value::Boolean(*on))),
                _ => return None,
            }
        }
        // A variable with the place that it comes from.
        (Kind::Text, Value::Table(table)) if is("mcp_servers.*.env_vars.*") => {
            return match (member(table, "name"), member(table, "source")) {
                (Some(name @ Value::Text(_)), None) => Some(Meaning::As(name.clone())),
                (Some(name @ Value::Text(_)), Some(Value::Text(source))) if source == "local" => {
                    Some(Meaning::As(name.clone()))
                }
                _ => Some(Meaning::LeftOut),
            };
        }
        (Kind::Whole { min, max }, Value::Other(_)) => {
            let whole = value.floor().filter(|n| (*min..=*max).contains(n));
            if let Some(whole) = whole.and_then(|n| i64::try_from(n).ok()) {
                return Some(Meaning::As(Value::Integer(whole)));
            }
        }
        _ => {}
    }
    None
}

/// The sandbox mode that a built-in permission profile stands for.
pub(crate) fn sandbox_mode(profile: &str) -> Option<&'static str> {
    BUILT_IN_PROFILES.iter().find(|(name, _)| *name == profile).map(|(_, mode)| *mode)
}

fn member<'t>(table: &'t Table, name: &str) -> Option<&'t Value> {
    table.get(name).map(|node| &node.value)
}
