//! Leaves out the parts of a configuration that have a mistake and are not used: providers that are
//! not selected, MCP servers that no thread needs, profiles that are not selected. Each is a warning
//! that names the mistake; a mistake anywhere else is an error.

use std::collections::BTreeMap;

use crate::error::{Error, Invalid, Warning, WarningKind};
use crate::key_path::join;
use crate::origin::Origin;
use crate::table::OtlpTransport;
use crate::value::{Node, Table, Value};

/// The provider of another program that is `default` here.
pub(crate) const OTHER_DEFAULT: &str = "openai";
pub(crate) const DEFAULT_PROVIDER: &str = "default";

/// The providers that were left out.
#[derive(Default)]
pub(crate) struct UnusedProviders {
    /// By id, with the mistake of each.
    pub(crate) mistakes: BTreeMap<String, String>,
    /// The variables with their credentials, which no command may see all the same.
    pub(crate) secret_variables: Vec<String>,
}

/// Removes these parts from a merged table, and those that are used, whose mistakes are errors.
pub(crate) fn leave_out(
    root: &mut Table,
    profile: Option<&str>,
    warnings: &mut Vec<Warning>,
    errors: &mut Vec<Error>,
) -> UnusedProviders {
    understand_default(root, warnings);
    unknown_exporters(root, warnings);
    let mut wrong = Vec::new();
    collect(root, &mut Vec::new(), &mut wrong);
    let mut providers = UnusedProviders::default();
    let is_unused: Vec<bool> = wrong.iter().map(|(path, _)| is_unused(root, path)).collect();
    for ((path, invalid), is_unused) in wrong.into_iter().zip(is_unused) {
        let part: Vec<&str> = path.iter().take(2).map(String::as_str).collect();
        if matches!(part[..], ["profiles", name] if profile == Some(name)) {
            // Its values are those of the root, where the mistake is found as well.
            continue;
        }
        let error = Error::Invalid(Box::new(invalid));
        if is_unused {
            warnings.push(warning(&part, &error));
        } else {
            errors.push(error.clone());
        }
        let removed = match (root.get_mut(part[0]), part.get(1)) {
            (Some(Node { value: Value::Table(all), .. }), Some(name)) => all.remove(*name),
            _ => root.remove(part[0]),
        };
        if part[0] == "model_providers" {
            let mistakes = &mut providers.mistakes;
            mistakes.entry(part[1].to_owned()).or_insert_with(|| error.to_string());
            providers.secret_variables.extend(removed.iter().flat_map(secret_variables));
        }
    }
    providers
}

/// Returns whether the part with the value at `path` is not used.
fn is_unused(root: &Table, path: &[String]) -> bool {
    let part: Vec<&str> = path.iter().take(2).map(String::as_str).collect();
    match part[..] {
        ["model_providers", id] => text(root, "model_provider").unwrap_or(DEFAULT_PROVIDER) != id,
        ["mcp_servers", id] => !is_required(root, id),
        ["profiles", _] => true,
        _ => false,
    }
}

/// The warning that a part is left out because of a mistake.
pub(crate) fn warning(part: &[&str], error: &Error) -> Warning {
    let what = match part {
        ["model_providers", ..] => "the provider cannot be used",
        ["mcp_servers", ..] => "the server is left out",
        _ => "the profile cannot be used",
    };
    let (key, mistake) = match error {
        Error::Invalid(invalid) => (invalid.key.clone(), invalid.mistake()),
        Error::Refused { key, message, .. } => (key.clone(), message.clone()),
        other => (join(part), other.to_string()),
    };
    let origin = error.origin().cloned().unwrap_or(Origin::Process);
    let message = format!("{mistake}; {what} until that is corrected");
    Warning { origin, key, message, kind: WarningKind::LeftOut }
}

/// The variables that a provider takes credentials and headers from.
fn secret_variables(provider: &Node) -> Vec<String> {
    let Value::Table(keys) = &provider.value else { return Vec::new() };
    let headers = match keys.get("env_http_headers").map(|node| &node.value) {
        Some(Value::Table(headers)) => headers.values().collect(),
        _ => Vec::new(),
    };
    let all = keys.get("env_key").into_iter().chain(headers);
    all.filter_map(|node| match &node.value {
        Value::Text(name) => Some(name.clone()),
        _ => None,
    })
    .collect()
}

/// Selects `default` where the default of another program is selected and not defined.
fn understand_default(root: &mut Table, warnings: &mut Vec<Warning>) {
    if !selects_other_default(root, text(root, "model_provider")) {
        return;
    }
    let Some(node) = root.get_mut("model_provider") else { return };
    node.value = Value::Text(DEFAULT_PROVIDER.to_owned());
    warnings.push(Warning {
        origin: node.origin.clone(),
        key: "model_provider".to_owned(),
        message: format!(
            "`{OTHER_DEFAULT}` is understood as `default`, the built-in provider; write that"
        ),
        kind: WarningKind::Note,
    });
}

/// Returns whether `id` is the default of another program, and not a provider of this configuration.
pub(crate) fn selects_other_default(root: &Table, id: Option<&str>) -> bool {
    let is_defined = matches!(root.get("model_providers"),
        Some(Node { value: Value::Table(all), .. }) if all.contains_key(OTHER_DEFAULT));
    id == Some(OTHER_DEFAULT) && !is_defined
}

/// Removes settings of exporters that do not exist: without them, nothing is sent.
fn unknown_exporters(root: &mut Table, warnings: &mut Vec<Warning>) {
    let Some(Node { value: Value::Table(otel), .. }) = root.get_mut("otel") else { return };
    for key in ["exporter", "metrics_exporter", "trace_exporter"] {
        let Some(Node { value: Value::Table(named), .. }) = otel.get_mut(key) else { continue };
        named.retain(|name, node| {
            let exists = OtlpTransport::parse(name).is_some();
            if !exists {
                warnings.push(Warning {
                    origin: node.origin.at_key(),
                    key: join(&["otel", key, name]),
                    message: format!(
                        "no exporter is called `{name}`, so it is left out; write `otlp-http` or \
                         `otlp-grpc`"
                    ),
                    kind: WarningKind::LeftOut,
                });
            }
            exists
        });
    }
}

fn text<'t>(table: &'t Table, key: &str) -> Option<&'t str> {
    match table.get(key).map(|node| &node.value) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

/// Returns whether no thread may start without this MCP server.
fn is_required(root: &Table, id: &str) -> bool {
    let Some(Node { value: Value::Table(servers), .. }) = root.get("mcp_servers") else {
        return false;
    };
    match servers.get(id).map(|node| &node.value) {
        Some(Value::Table(server)) => {
            server.get("required").is_some_and(|node| node.value == Value::Boolean(true))
        }
        _ => false,
    }
}

/// Adds each wrong value below `table` with its path.
fn collect(table: &Table, path: &mut Vec<String>, wrong: &mut Vec<(Vec<String>, Invalid)>) {
    for (name, node) in table {
        path.push(name.clone());
        collect_value(node, path, wrong);
        path.pop();
    }
}

fn collect_value(node: &Node, path: &mut Vec<String>, wrong: &mut Vec<(Vec<String>, Invalid)>) {
    match &node.value {
        Value::Table(inner) => collect(inner, path, wrong),
        Value::Array(all) => all.iter().for_each(|one| collect_value(one, path, wrong)),
        Value::Wrong(found) => wrong.push((path.clone(), found.1.clone())),
        _ => {}
    }
}
