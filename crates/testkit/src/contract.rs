//! The protocol as a contract on every message of a connection: it has the shape of its schema,
//! and no member that the connection's surface does not name.

use std::sync::OnceLock;

use protocol::generate::{Validator, validator};
use serde_json::{Map, Value};

/// Checks messages against the surface that a connection may see.
pub struct Contract {
    validator: Validator,
    surface: &'static Surface,
}

/// The committed schema of a surface.
struct Surface {
    definitions: Value,
    messages: Vec<Value>,
}

impl Contract {
    /// The contract of connections with or without `experimentalApi`.
    #[must_use]
    pub fn new(experimental: bool) -> Self {
        Self { validator: validator(experimental), surface: Surface::of(experimental) }
    }

    /// Checks the parameters of a message of either side.
    ///
    /// # Errors
    /// The first member that does not fit, or that is not of this surface.
    pub fn check_params(&self, method: &str, params: &Value) -> Result<(), String> {
        self.validator.check_params(method, params)?;
        self.check_members(method, "params", params)
    }

    /// Checks the result of a method of either side.
    ///
    /// # Errors
    /// As for [`Self::check_params`].
    pub fn check_result(&self, method: &str, result: &Value) -> Result<(), String> {
        self.validator.check_result(method, result)?;
        self.check_members(method, "result", result)
    }

    fn check_members(&self, method: &str, part: &str, value: &Value) -> Result<(), String> {
        let message = self.surface.messages.iter().find(|message| message["method"] == method);
        let definition = message.and_then(|message| message[part].as_str());
        let schema = definition.and_then(|name| self.surface.definitions.get(name));
        let schema = schema.ok_or_else(|| format!("`{method}` has no {part} on this surface"))?;
        self.surface.no_stranger(&[schema], value, &format!("{method} {part}"))
    }
}

impl Surface {
    fn of(experimental: bool) -> &'static Self {
        static SURFACES: [OnceLock<Surface>; 2] = [OnceLock::new(), OnceLock::new()];
        SURFACES[usize::from(experimental)].get_or_init(|| {
            let read = |name: &str| -> Value {
                let files = protocol::artifacts::json_schema(experimental);
                let file = files.iter().find(|(file, _)| *file == name).expect("a committed file");
                serde_json::from_str(&file.1).expect("committed schemas are JSON")
            };
            let mut schema = read("agentd.schema.json");
            let Value::Object(tables) = read("methods.json") else { return Self::empty() };
            let rows = tables.into_iter().filter_map(|(_, rows)| rows.as_array().cloned());
            Self { definitions: schema["$defs"].take(), messages: rows.flatten().collect() }
        })
    }

    fn empty() -> Self {
        Self { definitions: Value::Null, messages: Vec::new() }
    }

    /// Every member of `value` is named by one of `schemas`, at every depth.
    fn no_stranger(&self, schemas: &[&Value], value: &Value, path: &str) -> Result<(), String> {
        let mut parts = Vec::new();
        for schema in schemas {
            self.parts(schema, value, &mut parts);
        }
        match value {
            Value::Object(members) => members
                .iter()
                .try_for_each(|(name, member)| check_member(self, &parts, name, member, path)),
            Value::Array(elements) => {
                let of_items: Vec<&Value> =
                    parts.iter().filter_map(|part| part.get("items")).collect();
                let path = format!("{path}[]");
                elements.iter().try_for_each(|element| self.no_stranger(&of_items, element, &path))
            }
            _ => Ok(()),
        }
    }

    /// The schemas that speak of `value`: references resolved, alternatives that fit chosen.
    fn parts<'a>(
        &'a self,
        schema: &'a Value,
        value: &Value,
        parts: &mut Vec<&'a Map<String, Value>>,
    ) {
        let Some(schema) = schema.as_object() else { return };
        parts.push(schema);
        if let Some(target) = self.referred(schema) {
            self.parts(target, value, parts);
        }
        for keyword in ["oneOf", "anyOf"] {
            let variants = schema.get(keyword).and_then(Value::as_array).into_iter().flatten();
            for variant in variants.filter(|variant| self.may_fit(variant, value)) {
                self.parts(variant, value, parts);
            }
        }
    }

    fn referred(&self, schema: &Map<String, Value>) -> Option<&Value> {
        let name = schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")?;
        self.definitions.get(name)
    }

    /// Whether the tags and the required members of an alternative are there.
    fn may_fit(&self, variant: &Value, value: &Value) -> bool {
        let Some(variant) = variant.as_object() else { return true };
        if let Some(target) = self.referred(variant) {
            return self.may_fit(target, value);
        }
        let names = variant.get("required").and_then(Value::as_array).into_iter().flatten();
        let mut required = names.filter_map(Value::as_str);
        let properties = variant.get("properties").and_then(Value::as_object);
        let mut tags = properties.into_iter().flatten().filter_map(|(name, property)| {
            Some((value.get(name)?, property.get("const").filter(|tag| !tag.is_null())?))
        });
        let is_object = variant.get("type").is_none_or(|kind| kind == "object");
        (is_object || !value.is_object())
            && required.all(|name| value.get(name).is_some())
            && tags.all(|(found, tag)| found == tag)
    }
}

fn check_member(
    surface: &Surface,
    parts: &[&Map<String, Value>],
    name: &str,
    member: &Value,
    path: &str,
) -> Result<(), String> {
    let named: Vec<&Value> =
        parts.iter().filter_map(|part| part.get("properties")?.get(name)).collect();
    // `true` is the schema of anything.
    if named.contains(&&Value::Bool(true)) {
        return Ok(());
    }
    if !named.is_empty() {
        return surface.no_stranger(&named, member, &format!("{path}.{name}"));
    }
    let is_open = |part: &&Map<String, Value>| match part.get("additionalProperties") {
        Some(others) => *others != Value::Bool(false),
        // A type that names no member at all is a map of anything.
        None => !["properties", "$ref", "oneOf", "anyOf", "const", "enum"]
            .iter()
            .any(|keyword| part.contains_key(*keyword)),
    };
    if parts.iter().any(is_open) {
        return Ok(());
    }
    Err(format!("{path}: `{name}` is not of this surface"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn strangers_and_misfits_are_found() {
        let check = |experimental, method: &str, params: Value, expected: Option<&str>| {
            let found = Contract::new(experimental).check_params(method, &params).err();
            match (found, expected) {
                (None, None) => {}
                (Some(found), Some(expected)) => assert!(found.contains(expected), "{found}"),
                (found, expected) => panic!("{method}: {found:?}, expected {expected:?}"),
            }
        };
        let agent = json!({ "item": { "type": "agentMessage", "id": "i", "text": "x" },
            "threadId": "t", "turnId": "u", "startedAtMs": 1 });
        check(false, "item/started", agent.clone(), None);
        let mut odd = agent;
        odd["item"]["odd"] = json!(1);
        check(false, "item/started", odd, Some("`odd`"));
        check(false, "thread/start", json!({ "model": 1 }), Some("model"));
        let tools = json!({ "dynamicTools": [] });
        check(true, "thread/start", tools.clone(), None);
        check(false, "thread/start", tools, Some("`dynamicTools`"));
        check(false, "no/such", json!({}), Some("no/such"));
    }

    #[test]
    fn a_smallest_message_of_each_kind_keeps_the_contract() {
        let contract = Contract::new(true);
        for info in protocol::NOTIFICATIONS.iter().chain(protocol::SERVER_REQUESTS) {
            let params = protocol::generate::minimal_params(info.name).unwrap();
            contract.check_params(info.name, &params).unwrap();
        }
    }
}
