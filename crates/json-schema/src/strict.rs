//! Strict schemas: the part of JSON Schema that providers of models hold an answer to while it is written. With
//! `strict: true` they refuse a request whose schema has anything else, so it is sent only with a schema that is
//! strict or becomes so with its meaning kept.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// Keywords that a strict schema may have. Others (`allOf`, `oneOf`, `not`, `if`, `default`, `minLength` …) are
/// refused by some provider.
const KEYWORDS: &[&str] = &[
    "$defs",
    "$ref",
    "$schema",
    "additionalProperties",
    "anyOf",
    "const",
    "definitions",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "multipleOf",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
];
const FORMATS: &[&str] =
    &["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"];
/// Parts that a pattern cannot have: they look at what stands around a match.
const LOOKAROUNDS: &[&str] = &["(?=", "(?!", "(?<=", "(?<!"];

const MAX_DEPTH: usize = 10;
const MAX_PROPERTIES: usize = 5000;
const MAX_ENUM_VALUES: usize = 1000;
/// Characters of all names and values together.
const MAX_TEXT: usize = 120_000;

/// The JSON text of a schema as it is sent, and whether with `strict: true`. A schema that is strict already, or
/// cannot become so, stays the text that it is. An object that names members, requires all of them and says
/// nothing of others is closed: every answer that then fits fits the schema as it was written.
#[must_use]
pub fn for_request(text: &str) -> (Cow<'_, str>, bool) {
    let Ok(mut schema) = serde_json::from_str::<Value>(text) else {
        return (Cow::Borrowed(text), false);
    };
    if violation(&schema).is_none() {
        return (Cow::Borrowed(text), true);
    }
    close(&mut schema, 0);
    match violation(&schema) {
        None => (Cow::Owned(schema.to_string()), true),
        Some(_) => (Cow::Borrowed(text), false),
    }
}

/// Where and why a schema is not strict: `at /properties/a: …`.
#[must_use]
pub fn violation(schema: &Value) -> Option<String> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Some("the top must have the type `object`".to_owned());
    }
    if schema.get("anyOf").is_some() {
        return Some("the top must not have `anyOf`".to_owned());
    }
    let mut check = Check::default();
    check.schema(schema, "", 0).err()
}

/// Counts of a schema's parts.
#[derive(Default)]
struct Check {
    properties: usize,
    enum_values: usize,
    text: usize,
}

impl Check {
    fn schema(&mut self, schema: &Value, at: &str, depth: usize) -> Result<(), String> {
        let wrong = |why: &str| {
            Err(if at.is_empty() { format!("the top {why}") } else { format!("at {at}: it {why}") })
        };
        let Value::Object(members) = schema else { return wrong("must be an object") };
        if depth > MAX_DEPTH {
            return wrong("is nested too deeply");
        }
        if let Some(other) = members.keys().find(|name| !KEYWORDS.contains(&name.as_str())) {
            return wrong(&format!("has `{other}`, which strict schemas do not have"));
        }
        if let Some(target) = members.get("$ref") {
            if !target.as_str().is_some_and(|target| target.starts_with('#')) {
                return wrong("has a `$ref` to another document");
            }
            if members.len() > 1 && depth > 0 {
                return wrong("has other keywords next to its `$ref`");
            }
        } else if !["type", "anyOf", "enum", "const"].iter().any(|name| members.contains_key(*name))
        {
            return wrong("must have a `type`");
        }
        if members.get("format").is_some_and(|format| !is_one_of(format, FORMATS)) {
            return wrong("has a `format` that strict schemas do not have");
        }
        let pattern = members.get("pattern").and_then(Value::as_str).unwrap_or_default();
        if LOOKAROUNDS.iter().any(|part| pattern.contains(part)) {
            return wrong("has a `pattern` that looks around");
        }
        if let Some(values) = members.get("enum").and_then(Value::as_array) {
            self.enum_values += values.len();
            self.text += values.iter().filter_map(Value::as_str).map(str::len).sum::<usize>();
        }
        self.text += members.get("const").and_then(Value::as_str).map_or(0, str::len);
        if has_type(members, "object") || members.contains_key("properties") {
            self.object(members, at, depth)?;
        }
        if has_type(members, "array") && !members.contains_key("items") {
            return wrong("must have `items`");
        }
        if let Some(items) = members.get("items") {
            self.schema(items, &format!("{at}/items"), depth + 1)?;
        }
        if let Some(any_of) = members.get("anyOf") {
            let Some(any_of) = any_of.as_array() else {
                return wrong("has an `anyOf` without a list");
            };
            for (n, of) in any_of.iter().enumerate() {
                self.schema(of, &format!("{at}/anyOf/{n}"), depth + 1)?;
            }
        }
        for name in ["$defs", "definitions"] {
            let Some(definitions) = members.get(name) else { continue };
            let Some(definitions) = definitions.as_object() else {
                return wrong(&format!("has `{name}` without an object"));
            };
            for (definition, schema) in definitions {
                self.text += definition.len();
                self.schema(schema, &format!("{at}/{name}/{definition}"), 1)?;
            }
        }
        if self.properties > MAX_PROPERTIES
            || self.enum_values > MAX_ENUM_VALUES
            || self.text > MAX_TEXT
        {
            return Err("the schema is too large to be strict".to_owned());
        }
        Ok(())
    }

    fn object(
        &mut self,
        members: &Map<String, Value>,
        at: &str,
        depth: usize,
    ) -> Result<(), String> {
        let place = if at.is_empty() { "the top" } else { at };
        if members.get("additionalProperties") != Some(&Value::Bool(false)) {
            return Err(format!("at {place}: `additionalProperties` must be there and be false"));
        }
        let none = Map::new();
        let properties = members.get("properties").map_or(Some(&none), Value::as_object);
        let Some(properties) = properties else {
            return Err(format!("at {place}: `properties` must be an object"));
        };
        if let Some(optional) = properties.keys().find(|name| !requires(members, name)) {
            return Err(format!(
                "at {place}: `required` must name every property, also `{optional}`"
            ));
        }
        for (name, schema) in properties {
            self.properties += 1;
            self.text += name.len();
            self.schema(schema, &format!("{at}/properties/{name}"), depth + 1)?;
        }
        let required = members.get("required").and_then(Value::as_array);
        let is_known =
            |name: &Value| name.as_str().is_some_and(|name| properties.contains_key(name));
        match required.and_then(|names| names.iter().find(|name| !is_known(name))) {
            Some(name) => {
                Err(format!("at {place}: `required` names {name}, which is not a property"))
            }
            None => Ok(()),
        }
    }
}

/// Closes the objects that name members, require all of them, and say nothing of others.
fn close(schema: &mut Value, depth: usize) {
    let Value::Object(members) = schema else { return };
    if depth > MAX_DEPTH {
        return;
    }
    let names = members.get("properties").and_then(Value::as_object);
    let requires_all = names
        .is_some_and(|names| !names.is_empty() && names.keys().all(|name| requires(members, name)));
    if has_type(members, "object") && requires_all && !members.contains_key("additionalProperties")
    {
        members.insert("additionalProperties".to_owned(), false.into());
    }
    for (name, value) in members.iter_mut() {
        match (name.as_str(), value) {
            ("properties" | "$defs" | "definitions", Value::Object(children)) => {
                children.values_mut().for_each(|child| close(child, depth + 1));
            }
            ("anyOf", Value::Array(children)) => {
                children.iter_mut().for_each(|child| close(child, depth + 1));
            }
            ("items", child) => close(child, depth + 1),
            _ => {}
        }
    }
}

pub(crate) fn requires(members: &Map<String, Value>, name: &str) -> bool {
    let required = members.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|other| other == name))
}

pub(crate) fn has_type(members: &Map<String, Value>, name: &str) -> bool {
    match members.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(types)) => types.iter().any(|other| other == name),
        _ => false,
    }
}

fn is_one_of(value: &Value, known: &[&str]) -> bool {
    value.as_str().is_some_and(|value| known.contains(&value))
}

#[cfg(test)]
mod tests;
