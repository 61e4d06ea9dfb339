//! Schemas that are made of a program's types: their strict form, and answers in that form as values of the type.
//!
//! In the strict form every member is required. One that the type can do without may be null there, and is left out
//! of the answer again ([`without_nulls`]), so that the type has its default.

use serde_json::{Map, Value, json};

use crate::strict::{has_type, requires, violation};

/// References and alternatives that are followed from one to the next.
const MAX_STEPS: usize = 32;
/// Depth to which a value is compared with an alternative: what distinguishes those of a type is near its top, and the
/// cost grows with each level.
const LOOKS_INTO: usize = 4;
/// Parts of a schema that say nothing about its values.
const NOTES: [&str; 3] = ["default", "description", "title"];

/// The strict form of the schema of a type, with its members in their order; `None` where it would have another
/// meaning, as for a map with free keys, or where providers would refuse it.
///
/// Alternatives (`oneOf`) become those of `anyOf`: those of a type exclude each other. Formats of numbers (`uint32`)
/// are left out: they name the program's type, and the bounds stay.
#[must_use]
pub fn strict_form(schema: &Value) -> Option<Value> {
    let made = strict(schema, schema)?;
    violation(&made).is_none().then_some(made)
}

/// An answer in the strict form as a value of the schema: without members that are null in place of missing.
#[must_use]
pub fn without_nulls(schema: &Value, answer: Value) -> Value {
    relaxed(schema, schema, answer)
}

fn strict(root: &Value, schema: &Value) -> Option<Value> {
    let given = schema.as_object()?;
    if given.keys().all(|name| NOTES.contains(&name.as_str())) {
        return None;
    }
    let is_number = has_type(given, "integer") || has_type(given, "number");
    let is_object = has_type(given, "object");
    let mut made = Map::new();
    for (name, value) in given {
        let value = match name.as_str() {
            "default" | "required" => continue,
            "format" if is_number => continue,
            "additionalProperties" if *value == Value::Bool(false) => continue,
            "additionalProperties" => return None,
            "properties" => Value::Object(strict_members(root, given)?),
            "items" => strict(root, value)?,
            "$defs" | "definitions" => {
                let strict =
                    |(name, value): (&String, &Value)| Some((name.clone(), strict(root, value)?));
                Value::Object(value.as_object()?.iter().map(strict).collect::<Option<_>>()?)
            }
            "anyOf" | "oneOf" => {
                let of: Option<_> = value.as_array()?.iter().map(|of| strict(root, of)).collect();
                made.insert("anyOf".to_owned(), Value::Array(of?));
                continue;
            }
            _ => value.clone(),
        };
        made.insert(name.clone(), value);
    }
    if is_object != made.contains_key("properties") {
        return None;
    }
    if let Some(members) = made.get("properties").and_then(Value::as_object) {
        let names = members.keys().cloned().collect::<Vec<_>>();
        made.insert("required".to_owned(), names.into());
        made.insert("additionalProperties".to_owned(), false.into());
    }
    // A reference stands alone in a strict schema.
    let is_inner = !std::ptr::eq(root, schema);
    if is_inner
        && made.len() > 1
        && let Some(target) = made.shift_remove("$ref")
    {
        made.insert("anyOf".to_owned(), json!([{ "$ref": target }]));
    }
    Some(Value::Object(made))
}

fn strict_members(root: &Value, given: &Map<String, Value>) -> Option<Map<String, Value>> {
    let members = given.get("properties")?.as_object()?;
    let strict = |(name, member): (&String, &Value)| {
        let made = strict(root, member)?;
        let made = match requires(given, name) || takes_null(root, member) {
            true => made,
            false => nullable(made),
        };
        Some((name.clone(), made))
    };
    members.iter().map(strict).collect()
}

/// The same schema, for null, too.
fn nullable(schema: Value) -> Value {
    let Value::Object(given) = schema else { return schema };
    let (mut made, mut inner): (Map<_, _>, Map<_, _>) =
        given.into_iter().partition(|(name, _)| NOTES.contains(&name.as_str()));
    let mut choices = match inner.get_mut("anyOf").map(Value::take) {
        Some(Value::Array(choices)) if inner.len() == 1 => choices,
        Some(choices) => {
            inner.insert("anyOf".to_owned(), choices);
            vec![Value::Object(inner)]
        }
        None => vec![Value::Object(inner)],
    };
    choices.push(json!({ "type": "null" }));
    made.insert("anyOf".to_owned(), choices.into());
    Value::Object(made)
}

fn relaxed(root: &Value, schema: &Value, value: Value) -> Value {
    let mut schema = resolved(root, schema);
    for _ in 0..MAX_STEPS {
        let Some(of) = choices(schema).find(|of| fits(root, of, &value, 0)) else { break };
        schema = resolved(root, of);
    }
    match value {
        Value::Array(values) => match schema.get("items") {
            Some(items) => values.into_iter().map(|value| relaxed(root, items, value)).collect(),
            None => Value::Array(values),
        },
        Value::Object(values) => {
            let members = schema.get("properties").and_then(Value::as_object);
            let (Some(given), Some(members)) = (schema.as_object(), members) else {
                return Value::Object(values);
            };
            let kept = values.into_iter().filter_map(|(name, value)| {
                let Some(member) = members.get(&name) else { return Some((name, value)) };
                let is_missing =
                    value.is_null() && !requires(given, &name) && !takes_null(root, member);
                (!is_missing).then(|| (name, relaxed(root, member, value)))
            });
            Value::Object(kept.collect())
        }
        value => value,
    }
}

/// Returns whether a value is one of this alternative, by its type, its constants and its members.
fn fits(root: &Value, schema: &Value, value: &Value, depth: usize) -> bool {
    if depth == LOOKS_INTO {
        return true;
    }
    let depth = depth + 1;
    let schema = resolved(root, schema);
    if schema.get("const").is_some_and(|only| only != value) {
        return false;
    }
    let values = schema.get("enum").and_then(Value::as_array);
    if values.is_some_and(|values| !values.contains(value)) {
        return false;
    }
    if choices(schema).next().is_some() && !choices(schema).any(|of| fits(root, of, value, depth)) {
        return false;
    }
    let is_of = |kind: &Value| match kind.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    };
    let is_of_type = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(is_of),
        Some(kind) => is_of(kind),
        None => true,
    };
    let members = schema.get("properties").and_then(Value::as_object);
    let (Some(members), Some(values)) = (members, value.as_object()) else { return is_of_type };
    is_of_type
        && values.keys().all(|name| members.contains_key(name))
        && members.iter().all(|(name, member)| match values.get(name) {
            Some(Value::Null) => true,
            Some(value) => fits(root, member, value, depth),
            None => schema.as_object().is_none_or(|schema| !requires(schema, name)),
        })
}

fn takes_null(root: &Value, schema: &Value) -> bool {
    fits(root, schema, &Value::Null, 0)
}

fn choices(schema: &Value) -> impl Iterator<Item = &Value> {
    let of = |name| schema.get(name).and_then(Value::as_array);
    of("anyOf").or_else(|| of("oneOf")).into_iter().flatten()
}

/// The schema that a reference within the document stands for; null for one that leads elsewhere or nowhere.
fn resolved<'s>(root: &'s Value, mut schema: &'s Value) -> &'s Value {
    for _ in 0..MAX_STEPS {
        let Some(target) = schema.get("$ref").and_then(Value::as_str) else { return schema };
        let found = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        match found {
            Some(found) => schema = found,
            None => return &Value::Null,
        }
    }
    &Value::Null
}

#[cfg(test)]
mod tests;
