//! The JSON files of a surface: a schema with all definitions and the unions of messages, and a
//! table of the definitions of each method's parameters and result.

use serde_json::{Map, Value, json};

use crate::message_schema::MessageSchema;
use crate::registry;
use crate::table::Stability;

use super::definition_name;
use super::surface::Surface;

/// Returns the bundle, JSON Schema draft 2020-12.
pub(crate) fn schema(surface: &Surface) -> Value {
    let mut definitions: Map<String, Value> =
        surface.definitions.iter().map(|(name, schema)| (name.clone(), schema.clone())).collect();
    let unions = [
        ("ClientRequest", "A request from the client.", &surface.client_requests, true),
        (
            "ClientNotification",
            "A notification from the client.",
            &surface.client_notifications,
            false,
        ),
        ("ServerRequest", "A request from the server.", &surface.server_requests, true),
        (
            "ServerNotification",
            "A notification from the server.",
            &surface.server_notifications,
            false,
        ),
    ];
    for (name, description, messages, has_id) in unions {
        let variants = messages.iter().map(|message| envelope(message, has_id, surface));
        let placed = surface.experimental && name == "ServerNotification";
        let variants: Vec<Value> =
            variants.map(|variant| if placed { with_place(variant) } else { variant }).collect();
        definitions.insert(name.to_owned(), json!({"description": description, "oneOf": variants}));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "agentd application-server protocol",
        "anyOf": [
            {"$ref": "#/$defs/ClientRequest"},
            {"$ref": "#/$defs/ClientNotification"},
            {"$ref": "#/$defs/ServerRequest"},
            {"$ref": "#/$defs/ServerNotification"},
        ],
        "$defs": definitions,
    })
}

/// Returns the table of methods.
pub(crate) fn methods(surface: &Surface) -> Value {
    json!({
        "clientRequests": rows(&surface.client_requests),
        "clientNotifications": rows(&surface.client_notifications),
        "serverRequests": rows(&surface.server_requests),
        "serverNotifications": rows(&surface.server_notifications),
    })
}

fn envelope(message: &MessageSchema, has_id: bool, surface: &Surface) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    if has_id {
        properties.insert("id".to_owned(), json!({"$ref": "#/$defs/RequestId"}));
        required.push("id");
    }
    properties.insert("method".to_owned(), json!({"const": message.method}));
    properties.insert("params".to_owned(), message.params.schema.clone());
    required.push("method");
    if needs_params(message, surface) {
        required.push("params");
    }
    json!({
        "description": message.doc.trim(),
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
pub(crate) fn needs_params(message: &MessageSchema, surface: &Surface) -> bool {
    let definition =
        definition_name(&message.params.schema).and_then(|n| surface.definitions.get(n));
    definition.is_none_or(|schema| {
        schema.get("required").is_some() || schema.get("type") != Some(&json!("object"))
    })
}

fn rows(messages: &[MessageSchema]) -> Vec<Value> {
    messages.iter().map(row).collect()
}

fn row(message: &MessageSchema) -> Value {
    let mut row = Map::new();
    row.insert("method".to_owned(), json!(message.method));
    row.insert("params".to_owned(), json!(definition_name(&message.params.schema)));
    if let Some(result) = &message.result {
        row.insert("result".to_owned(), json!(definition_name(&result.schema)));
    }
    let experimental = message.stability == Stability::Experimental;
    row.insert("stability".to_owned(), json!(if experimental { "experimental" } else { "stable" }));
    let info = registry::lookup(message.method);
    if let Some(info) = info.filter(|info| !info.experimental_fields.is_empty()) {
        row.insert("experimentalFields".to_owned(), json!(info.experimental_fields));
    }
    row.insert("description".to_owned(), json!(message.doc.trim()));
    Value::Object(row)
}
