//! Values of another shape than their key accepts, which still say clearly what is meant: `"100"` for
//! a number, a word for a list of one, a switch for a table with `enabled`.

use super::weight::{is, is_permission, table};
use crate::form::leaf_fits;
use crate::kind::{Kind, Section};
use crate::origin::Origin;
use crate::suggest::is_same_name;
use crate::value::{Node, Value};

/// Tables that are meant by the value of one of their keys.
const MAIN_MEMBERS: [(&str, &str); 2] =
    [("history", "persistence"), ("shell_environment_policy", "inherit")];
/// Keys with choices, one of which a switch that is on stands for.
const SWITCHED_ON: [(&str, &str); 4] = [
    ("history.persistence", "save-all"),
    ("tools.web_search", "live"),
    ("tui.alternate_screen", "always"),
    ("web_search", "live"),
];
/// Choices that a switch that is off stands for.
const OFF: [&str; 4] = ["none", "disabled", "never", "off"];
/// Maps of texts, in which any value is meant as its text.
const MAPS_OF_TEXTS: [&str; 6] = [
    "mcp_servers.*.env.*",
    "mcp_servers.*.http_headers.*",
    "model_providers.*.http_headers.*",
    "model_providers.*.query_params.*",
    "otel.*.*.headers.*",
    "shell_environment_policy.set.*",
];

/// The value of `kind` that `value` stands for; `None` where it could mean more than one, and for all
/// that grants or restricts permissions.
pub(crate) fn understood(
    key: &[String],
    value: &Value,
    kind: &Kind,
    origin: &Origin,
) -> Option<Value> {
    if is_permission(key) {
        return None;
    }
    let found = match (kind, value) {
        (Kind::Either(kinds), _) => {
            return kinds.iter().find_map(|kind| understood(key, value, kind, origin));
        }
        (Kind::List(of), _) => list(key, value, of, origin)?,
        (Kind::Table(section), _) => return member(key, value, section, origin),
        (Kind::Boolean, _) => Value::Boolean(switch(value)?),
        (Kind::Whole { .. } | Kind::Time { .. }, Value::Text(text)) => number(text)?,
        (Kind::Choice(names, _), _) => choice(key, value, names)?,
        (Kind::Map(..) | Kind::Profile | Kind::Whole { .. } | Kind::Time { .. }, _) => return None,
        (_, Value::Boolean(on)) if MAPS_OF_TEXTS.iter().any(|map| is(key, map)) => {
            Value::Text(on.to_string())
        }
        (_, Value::Integer(n)) => Value::Text(n.to_string()),
        (_, Value::Other(text)) if value.float().is_some() => Value::Text(text.clone()),
        _ => return None,
    };
    let found = match (kind, found.floor()) {
        (Kind::Whole { .. }, Some(whole)) => Value::Integer(i64::try_from(whole).ok()?),
        _ => found,
    };
    (matches!(kind, Kind::List(_)) || leaf_fits(&found, kind)).then_some(found)
}

/// True for a switch that is on; `None` for a value that is not meant as a switch.
fn switch(value: &Value) -> Option<bool> {
    match value {
        Value::Boolean(on) => Some(*on),
        Value::Integer(0) => Some(false),
        Value::Integer(1) => Some(true),
        Value::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "on" | "yes" | "enabled" | "1" => Some(true),
            "false" | "off" | "no" | "disabled" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

fn number(text: &str) -> Option<Value> {
    let text = text.trim().replace('_', "");
    let digits = text.bytes().next().is_some_and(|first| first.is_ascii_digit());
    match text.parse() {
        Ok(whole) => Some(Value::Integer(whole)),
        Err(_) => (digits && text.parse::<f64>().is_ok()).then_some(Value::Other(text)),
    }
}

/// The choice that has this name in other letters, or that a switch stands for.
fn choice(key: &[String], value: &Value, names: &[&str]) -> Option<Value> {
    let named = |name: &str| Some(Value::Text(name.to_owned()));
    if let Value::Text(text) = value
        && let Some(same) = names.iter().find(|name| is_same_name(name, text))
    {
        return named(same);
    }
    let is_off = matches!(value, Value::Text(text) if is_same_name(text, "none"));
    match switch(value).or(is_off.then_some(false))? {
        false => named(OFF.iter().find(|off| names.contains(off))?),
        true => {
            let (_, on) = SWITCHED_ON.iter().find(|(pattern, _)| is(key, pattern))?;
            names.contains(on).then(|| named(on)).flatten()
        }
    }
}

/// A list of one.
fn list(key: &[String], value: &Value, of: &Kind, origin: &Origin) -> Option<Value> {
    let mut words = vec![value.clone()];
    match (of, value) {
        (_, Value::Array(_)) => return None,
        (Kind::Table(_) | Kind::Map(..), Value::Table(_)) => {}
        (Kind::Table(_) | Kind::Map(..), _) | (_, Value::Table(_) | Value::Boolean(_)) => {
            return None;
        }
        // A program with its arguments, unless it takes a shell to read them.
        (_, Value::Text(text)) if is(key, "notify") && text.contains(char::is_whitespace) => {
            if text.contains(['"', '\'', '\\', '$', '`', '|', '&', ';', '<', '>', '*']) {
                return None;
            }
            words = text.split_whitespace().map(|word| Value::Text(word.to_owned())).collect();
        }
        (of, scalar) if leaf_fits(scalar, of) => {}
        (of, scalar) => {
            let mut below = key.to_vec();
            below.push("0".to_owned());
            words = vec![understood(&below, scalar, of, origin)?];
        }
    }
    let node = |value| Node { value, origin: origin.clone() };
    Some(Value::Array(words.into_iter().map(node).collect()))
}

/// A table by the value of its main member.
fn member(key: &[String], value: &Value, section: &Section, origin: &Origin) -> Option<Value> {
    if matches!(value, Value::Table(_) | Value::Array(_)) {
        return None;
    }
    if let Some((_, name)) = MAIN_MEMBERS.iter().find(|(pattern, _)| is(key, pattern)) {
        let kind = &section.entry(name)?.kind;
        let below: Vec<String> = key.iter().cloned().chain([(*name).to_owned()]).collect();
        let fits = leaf_fits(value, kind);
        let member =
            if fits { Some(value.clone()) } else { understood(&below, value, kind, origin) };
        return Some(table(name, member?, origin));
    }
    let has_switch = section.entries.iter().any(|entry| entry.name == "enabled");
    let on = switch(value).filter(|_| has_switch)?;
    Some(table("enabled", Value::Boolean(on), origin))
}
