//! The JSON Schema of a surface: all definitions and the unions of messages.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::document::{Document, Message, UNIONS};

/// Returns the bundle, JSON Schema draft 2020-12, with the definitions in the order of their names.
pub(crate) fn schema(document: &Document) -> Value {
    let mut definitions: BTreeMap<&str, Value> =
        document.definitions.iter().map(|(name, schema)| (&**name, schema.clone())).collect();
    let messages = &document.messages;
    let unions = [
        ("A request from the client.", &messages.client_requests),
        ("A notification from the client.", &messages.client_notifications),
        ("A request from the server.", &messages.server_requests),
        ("A notification from the server.", &messages.server_notifications),
    ];
    for (name, (description, messages)) in UNIONS.into_iter().zip(unions) {
        let variants = messages.iter().map(|message| envelope(message, document));
        let placed = document.experimental && name == "ServerNotification";
        let variants: Vec<Value> =
            variants.map(|variant| if placed { with_place(variant) } else { variant }).collect();
        definitions.insert(name, json!({"description": description, "oneOf": variants}));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "agentd application-server protocol",
        "anyOf": UNIONS.map(|name| json!({"$ref": format!("#/$defs/{name}")})),
        "$defs": definitions,
    })
}

/// A message as it is sent; only requests have a result, and an id.
fn envelope(message: &Message, document: &Document) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    if message.result.is_some() {
        properties.insert("id".to_owned(), json!({"$ref": "#/$defs/RequestId"}));
        required.push("id");
    }
    properties.insert("method".to_owned(), json!({"const": message.method}));
    let params = format!("#/$defs/{}", message.params);
    properties.insert("params".to_owned(), json!({"$ref": params}));
    required.push("method");
    if needs_params(message, document) {
        required.push("params");
    }
    json!({
        "description": message.description,
        "type": "object",
        "properties": properties,
        "required": required,
    })
}

/// Adds the position of a notification about a thread, for clients with `capabilities.eventCursor`.
fn with_place(mut envelope: Value) -> Value {
    let description = "Position in the thread's event log; set with `capabilities.eventCursor`.";
    envelope["properties"]["eventCursor"] = json!({"type": "string", "description": description});
    envelope
}

/// Returns whether `params` has required members.
pub(crate) fn needs_params(message: &Message, document: &Document) -> bool {
    document.definitions.get(&message.params).is_none_or(|schema| {
        schema.get("required").is_some() || schema.get("type") != Some(&json!("object"))
    })
}
