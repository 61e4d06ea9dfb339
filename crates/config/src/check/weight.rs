//! The weight of keys: a value that cannot be used is left out, is replaced by the strictest one, or
//! prevents the start.

use crate::origin::Origin;
use crate::value::{Node, Table, Value};

/// Keys of `config.toml` that grant or restrict permissions, including all keys below them. Their
/// values are never guessed.
pub(crate) const PERMISSION_KEYS: [&str; 6] = [
    "approval_policy",
    "approvals_reviewer",
    "default_permissions",
    "permissions",
    "sandbox_mode",
    "sandbox_workspace_write",
];

/// Other keys, with all below them, without whose value more would be permitted, or the conversation
/// would be sent or stored elsewhere. `*` stands for any name.
const NEVER_LEFT_OUT: [&str; 12] = [
    "agents.max_total_seconds",
    "agents.max_total_tokens",
    "apps",
    "command_limits",
    "default_provider_base_url",
    "forced_hosted_workspace_id",
    "forced_login_method",
    "model_provider",
    "profile",
    "shell_environment_policy",
    "store",
    "thread_limits",
];
/// A list that is longer for each value that is left out.
const RESTRICTING_LIST: &str = "tools.web_search.allowed_domains";

/// The strictest value of keys that restrict without being permissions.
#[derive(Clone, Copy)]
enum Strictest {
    Boolean(bool),
    Number(i64),
    Name(&'static str),
    /// `{ enabled = false }`.
    Disabled,
    /// `{ _default = { enabled = false } }`.
    NoneByDefault,
}

const STRICTEST: [(&str, Strictest); 23] = [
    ("agents.max_depth", Strictest::Number(0)),
    ("agents.max_threads", Strictest::Number(1)),
    ("allow_login_shell", Strictest::Boolean(false)),
    ("apps", Strictest::NoneByDefault),
    ("apps.*", Strictest::Disabled),
    ("apps.*.default_tools_approval_mode", Strictest::Name("prompt")),
    ("apps.*.default_tools_enabled", Strictest::Boolean(false)),
    ("apps.*.destructive_enabled", Strictest::Boolean(false)),
    ("apps.*.enabled", Strictest::Boolean(false)),
    ("apps.*.open_world_enabled", Strictest::Boolean(false)),
    ("apps.*.tools.*", Strictest::Disabled),
    ("apps.*.tools.*.approval_mode", Strictest::Name("prompt")),
    ("apps.*.tools.*.enabled", Strictest::Boolean(false)),
    ("features.shell_tool", Strictest::Boolean(false)),
    ("history", Strictest::Name("none")),
    ("history.persistence", Strictest::Name("none")),
    ("hooks.state.*", Strictest::Disabled),
    ("hooks.state.*.enabled", Strictest::Boolean(false)),
    ("plugins.*", Strictest::Disabled),
    ("plugins.*.enabled", Strictest::Boolean(false)),
    ("tools.view_image", Strictest::Boolean(false)),
    ("tools.web_search", Strictest::Boolean(false)),
    ("web_search", Strictest::Name("disabled")),
];

/// Keys in an entry that is otherwise not usable with a mistake, and is usable without these.
const OPTIONAL_IN_PARTS: [&str; 10] = [
    "mcp_servers.*.startup_timeout_ms",
    "mcp_servers.*.startup_timeout_sec",
    "mcp_servers.*.tool_timeout_sec",
    "model_providers.*.env_key_instructions",
    "model_providers.*.name",
    "model_providers.*.request_max_retries",
    "model_providers.*.stream_idle_timeout_ms",
    "model_providers.*.stream_max_retries",
    "model_providers.*.supports_websockets",
    "model_providers.*.tool_types",
];

/// Tables whose entries are used one by one: a mistake in an entry that is not used is a warning.
const TABLES_OF_PARTS: [&str; 3] = ["mcp_servers", "model_providers", "profiles"];

/// Returns whether a key is `pattern`, in which `*` stands for any name.
pub(crate) fn is(key: &[String], pattern: &str) -> bool {
    key.len() == pattern.split('.').count() && is_below(key, pattern)
}

/// Returns whether a key is `pattern` or below it.
fn is_below(key: &[String], pattern: &str) -> bool {
    let mut names = key.iter();
    pattern.split('.').all(|part| names.next().is_some_and(|name| part == "*" || part == name))
}

/// Returns whether a key grants or restricts permissions.
pub(crate) fn is_permission(key: &[String]) -> bool {
    key.first().is_some_and(|first| PERMISSION_KEYS.contains(&first.as_str()))
}

/// Returns whether a value that cannot be used prevents the start.
pub(crate) fn is_never_left_out(key: &[String]) -> bool {
    is_permission(key)
        || NEVER_LEFT_OUT.iter().any(|decisive| is_below(key, decisive))
        || is_below(key, RESTRICTING_LIST)
}

/// The strictest value of a key, if it has one.
pub(crate) fn strictest(key: &[String], origin: &Origin) -> Option<Value> {
    let (_, strictest) = STRICTEST.iter().find(|(pattern, _)| is(key, pattern))?;
    let disabled = || table("enabled", Value::Boolean(false), origin);
    Some(match strictest {
        Strictest::Boolean(on) => Value::Boolean(*on),
        Strictest::Number(n) => Value::Integer(*n),
        Strictest::Name(name) if is(key, "history") => {
            table("persistence", Value::Text((*name).to_owned()), origin)
        }
        Strictest::Name(name) => Value::Text((*name).to_owned()),
        Strictest::Disabled => disabled(),
        Strictest::NoneByDefault => table("_default", disabled(), origin),
    })
}

/// A table with one member.
pub(crate) fn table(name: &str, value: Value, origin: &Origin) -> Value {
    Value::Table(Table::from([(name.to_owned(), Node { value, origin: origin.clone() })]))
}

/// Returns whether a mistake at this path, profile included, concerns one entry of a table of parts.
pub(crate) fn is_in_part(path: &[String]) -> bool {
    let is_part = path.len() > 1 && TABLES_OF_PARTS.contains(&path[0].as_str());
    is_part && !OPTIONAL_IN_PARTS.iter().any(|key| is(path, key))
}
