//! Generates TypeScript from the JSON Schema of a surface, so that the two cannot disagree. It
//! supports the part of JSON Schema that the types use; `validate` refuses any other.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::bundle;
use super::document::{Document, Message, definition_name};

/// Returns one file with every type and the maps of messages.
pub(crate) fn render(document: &Document) -> String {
    let mut out = String::from("// Generated from the protocol's types. Do not edit.\n");
    for (name, schema) in &document.definitions {
        out.push('\n');
        declaration(&mut out, name, schema);
    }
    let messages = &document.messages;
    for (name, description, messages) in [
        ("ClientRequests", "Requests from the client.", &messages.client_requests),
        ("ClientNotifications", "Notifications from the client.", &messages.client_notifications),
        ("ServerRequests", "Requests from the server.", &messages.server_requests),
        ("ServerNotifications", "Notifications from the server.", &messages.server_notifications),
    ] {
        message_map(&mut out, name, description, messages, document);
    }
    out.push_str(UNIONS);
    out.push_str(if document.experimental { PLACED_NOTIFICATION } else { NOTIFICATION });
    out
}

/// The envelopes, defined in terms of the maps.
const UNIONS: &str = r#"
type Request<M> = {
  [K in keyof M]: { id: RequestId; method: K } & Omit<M[K], "result">;
}[keyof M];

type Notification<M> = {
  [K in keyof M]: { method: K } & M[K];
}[keyof M];

/** A request of the client. */
export type ClientRequest = Request<ClientRequests>;

/** A notification of the client. */
export type ClientNotification = Notification<ClientNotifications>;

/** A request of the server. */
export type ServerRequest = Request<ServerRequests>;
"#;

/// Notifications on the stable surface.
const NOTIFICATION: &str = r#"
/** A notification from the server. */
export type ServerNotification = Notification<ServerNotifications>;
"#;

/// Notifications on the experimental surface, which has `capabilities.eventCursor`.
const PLACED_NOTIFICATION: &str = r#"
/** A notification from the server. With `capabilities.eventCursor`, notifications about a thread have an `eventCursor`. */
export type ServerNotification = Notification<ServerNotifications> & { eventCursor?: string };
"#;

fn message_map(
    out: &mut String,
    name: &str,
    description: &str,
    messages: &[Message],
    document: &Document,
) {
    let _ = writeln!(out, "\n/** {description} */\nexport interface {name} {{");
    for message in messages {
        comment(out, 1, Some(&message.description));
        let optional = if bundle::needs_params(message, document) { "" } else { "?" };
        let (method, params) = (quoted(&message.method), &message.params);
        let _ = write!(out, "  {method}: {{ params{optional}: {params}");
        if let Some(result) = &message.result {
            let _ = write!(out, "; result: {result}");
        }
        out.push_str(" };\n");
    }
    out.push_str("}\n");
}

fn declaration(out: &mut String, name: &str, schema: &Value) {
    comment(out, 0, description(schema));
    if let Some(variants) = variants(schema).filter(|_| schema.get("properties").is_none()) {
        let _ = write!(out, "export type {name} =");
        for variant in &variants {
            out.push('\n');
            comment(out, 1, description(variant));
            let _ = write!(out, "  | {}", expression(variant, 1));
        }
        out.push_str(";\n");
        return;
    }
    match schema.get("properties") {
        Some(Value::Object(properties)) if variants(schema).is_none() => {
            let _ = writeln!(out, "export interface {name} {}", object(schema, properties, 0));
        }
        _ => {
            let _ = writeln!(out, "export type {name} = {};", expression(schema, 0));
        }
    }
}

/// Returns a type expression; `depth` is the indentation of an object literal's members.
fn expression(schema: &Value, depth: usize) -> String {
    let Value::Object(members) = schema else { return "unknown".to_owned() };
    let mut parts = Vec::new();
    if let Some(name) = definition_name(schema) {
        parts.push(name.to_owned());
    }
    if let Some(own) = own_type(members, schema, depth) {
        parts.push(own);
    }
    if let Some(variants) = variants(schema) {
        parts.push(union(variants.iter().map(|variant| expression(variant, depth))));
    }
    match parts.len() {
        0 => "unknown".to_owned(),
        1 => parts.remove(0),
        _ => parts.iter().map(|part| grouped(part)).collect::<Vec<_>>().join(" & "),
    }
}

/// Returns the type of the schema's own keywords, without references and alternatives.
fn own_type(members: &Map<String, Value>, schema: &Value, depth: usize) -> Option<String> {
    if let Some(value) = members.get("const") {
        return Some(value.to_string());
    }
    if let Some(Value::Array(values)) = members.get("enum") {
        return Some(union(values.iter().map(Value::to_string)));
    }
    match members.get("type")? {
        Value::String(kind) => Some(of_kind(kind, schema, depth)),
        Value::Array(kinds) => {
            let kinds = kinds.iter().filter_map(Value::as_str);
            Some(union(kinds.map(|kind| of_kind(kind, schema, depth))))
        }
        _ => None,
    }
}

fn of_kind(kind: &str, schema: &Value, depth: usize) -> String {
    match kind {
        "integer" | "number" => "number".to_owned(),
        "array" => {
            let items = schema.get("items").map_or("unknown".to_owned(), |i| expression(i, depth));
            format!("Array<{items}>")
        }
        "object" => object_expression(schema, depth),
        other => other.to_owned(),
    }
}

fn object_expression(schema: &Value, depth: usize) -> String {
    if let Some(Value::Object(properties)) = schema.get("properties") {
        return object(schema, properties, depth);
    }
    match schema.get("additionalProperties") {
        Some(values) => format!("{{ [key: string]: {} }}", expression(values, depth)),
        None => "Record<string, never>".to_owned(),
    }
}

fn object(schema: &Value, properties: &Map<String, Value>, depth: usize) -> String {
    let mut out = String::from("{\n");
    let is_tag = |property: &Value| property.get("const").is_some();
    let tags = properties.iter().filter(|(_, property)| is_tag(property));
    let others = properties.iter().filter(|(_, property)| !is_tag(property));
    for (name, property) in tags.chain(others) {
        comment(&mut out, depth + 1, description(property));
        let optional = if is_required(schema, name) { "" } else { "?" };
        let value = expression(property, depth + 1);
        let indent = "  ".repeat(depth + 1);
        let _ = writeln!(out, "{indent}{}{optional}: {value};", member_name(name));
    }
    let _ = write!(out, "{}}}", "  ".repeat(depth));
    out
}

fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|required| required == name))
}

/// Returns the alternatives that are not deprecated.
fn variants(schema: &Value) -> Option<Vec<&Value>> {
    let all = schema.get("oneOf").or_else(|| schema.get("anyOf"))?.as_array()?;
    Some(all.iter().filter(|variant| variant.get("deprecated").is_none()).collect())
}

fn union(parts: impl Iterator<Item = String>) -> String {
    let mut unique: Vec<String> = Vec::new();
    for part in parts {
        if !unique.contains(&part) {
            unique.push(part);
        }
    }
    unique.join(" | ")
}

/// Adds parentheses where `&` would otherwise bind tighter than `|`.
fn grouped(part: &str) -> String {
    if part.contains(" | ") { format!("({part})") } else { part.to_owned() }
}

fn description(schema: &Value) -> Option<&str> {
    schema.get("description").and_then(Value::as_str)
}

fn comment(out: &mut String, depth: usize, text: Option<&str>) {
    let Some(text) = text else { return };
    let indent = "  ".repeat(depth);
    // No current doc comment contains `*/`, but none may be able to end the comment.
    let text = text.replace("*/", "* /");
    if !text.contains('\n') {
        let _ = writeln!(out, "{indent}/** {text} */");
        return;
    }
    let _ = writeln!(out, "{indent}/**");
    for line in text.lines() {
        let _ = writeln!(out, "{}", format!("{indent} * {line}").trim_end());
    }
    let _ = writeln!(out, "{indent} */");
}

fn member_name(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
    let digit_first = name.starts_with(|c: char| c.is_ascii_digit());
    if plain && !digit_first { name.to_owned() } else { quoted(name) }
}

fn quoted(name: &str) -> String {
    Value::from(name).to_string()
}
