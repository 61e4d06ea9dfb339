//! The smallest value that a definition allows, for tests that need one of each.

use serde_json::{Map, Value, json};

use super::document::definition_name;
use super::surface::Surface;

/// Nesting depth at which a recursive definition is abandoned.
const MAX_DEPTH: usize = 32;

/// Returns the smallest value of the named definition on the experimental surface, without optional
/// members. `None` for an unknown name.
#[must_use]
pub fn minimal_example(definition: &str) -> Option<Value> {
    let surface = Surface::cached();
    let schema = surface.definitions.get(definition)?;
    example(schema, surface, 0)
}

/// Returns the smallest parameters of a method or notification of either side. `None` for an
/// unknown name.
#[must_use]
pub fn minimal_params(method: &str) -> Option<Value> {
    let surface = Surface::cached();
    let message = surface.messages().find(|message| message.method == method)?;
    example(&message.params.schema, surface, 0)
}

/// Returns the smallest result of a method of either side. `None` for an unknown name.
#[must_use]
pub fn minimal_result(method: &str) -> Option<Value> {
    let surface = Surface::cached();
    let message = surface.messages().find(|message| message.method == method)?;
    example(&message.result.as_ref()?.schema, surface, 0)
}

/// Returns the smallest value of a schema of the experimental surface, with references to its
/// definitions.
#[must_use]
pub fn example_of(schema: &Value) -> Option<Value> {
    example(schema, Surface::cached(), 0)
}

fn example(schema: &Value, surface: &Surface, depth: usize) -> Option<Value> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut parts = Vec::new();
    if let Some(name) = definition_name(schema) {
        parts.push(example(surface.definitions.get(name)?, surface, depth + 1)?);
    }
    if let Some(own) = own_example(schema, surface, depth) {
        parts.push(own?);
    }
    for keyword in ["oneOf", "anyOf"] {
        if let Some(Value::Array(variants)) = schema.get(keyword) {
            parts.push(variants.iter().find_map(|variant| example(variant, surface, depth + 1))?);
        }
    }
    Some(merge(parts))
}

/// Returns a value for the schema's own keywords; the inner `None` means that they cannot be
/// satisfied.
fn own_example(schema: &Value, surface: &Surface, depth: usize) -> Option<Option<Value>> {
    if let Some(value) = schema.get("const") {
        return Some(Some(value.clone()));
    }
    if let Some(Value::Array(values)) = schema.get("enum") {
        return Some(values.first().cloned());
    }
    let kind = match schema.get("type")? {
        Value::Array(kinds) => kinds.first()?.as_str()?,
        kind => kind.as_str()?,
    };
    Some(match kind {
        "object" => object(schema, surface, depth),
        "array" => Some(json!([])),
        "string" => Some(json!("x")),
        "integer" | "number" => Some(schema.get("minimum").cloned().unwrap_or(json!(1))),
        "boolean" => Some(json!(false)),
        _ => Some(Value::Null),
    })
}

fn object(schema: &Value, surface: &Surface, depth: usize) -> Option<Value> {
    let mut members = Map::new();
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        let property = schema.get("properties")?.get(name)?;
        members.insert(name.to_owned(), example(property, surface, depth + 1)?);
    }
    Some(Value::Object(members))
}

/// Joins objects; of other values the last one is used.
fn merge(parts: Vec<Value>) -> Value {
    parts.into_iter().fold(Value::Null, |merged, part| match (merged, part) {
        (Value::Object(mut merged), Value::Object(part)) => {
            merged.extend(part);
            Value::Object(merged)
        }
        (_, part) => part,
    })
}
