//! The protocol as a contract: every message of a connection fits its schema and has no member that
//! the connection's surface does not define.

use protocol::generate::{SchemaError, Validator, validator};
use serde_json::{Map, Value};

/// Checks messages against the surface available to a connection.
pub struct Contract {
    surface: Validator,
}

/// The way in which a message violates the contract.
#[derive(Debug, thiserror::Error)]
pub enum ContractError {
    /// The message does not fit its schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The surface does not define the message, or this part of it.
    #[error("`{method}` has no {part} on this surface")]
    NotOnSurface {
        /// The method of the message.
        method: String,
        /// `params` or `result`.
        part: String,
    },
    /// The surface does not define the member.
    #[error("{path}: `{name}` is not defined on this surface")]
    UnknownMember {
        /// Path of the object.
        path: String,
        /// Name of the member.
        name: String,
    },
}

impl Contract {
    /// Creates the contract of connections with or without `experimentalApi`.
    #[must_use]
    pub fn new(experimental: bool) -> Self {
        Self { surface: validator(experimental) }
    }

    /// Checks the parameters of a message from either side.
    ///
    /// # Errors
    /// At the first member that does not fit or is not defined on the surface.
    pub fn check_params(&self, method: &str, params: &Value) -> Result<(), ContractError> {
        self.surface.check_params(method, params)?;
        self.check_members(method, "params", self.surface.params_type(method), params)
    }

    /// Checks the result of a method from either side.
    ///
    /// # Errors
    /// As for [`Self::check_params`].
    pub fn check_result(&self, method: &str, result: &Value) -> Result<(), ContractError> {
        self.surface.check_result(method, result)?;
        self.check_members(method, "result", self.surface.result_type(method), result)
    }

    fn check_members(
        &self,
        method: &str,
        part: &str,
        name: Option<&str>,
        value: &Value,
    ) -> Result<(), ContractError> {
        let schema = name.and_then(|name| self.surface.definition(name).ok());
        let schema = schema.ok_or_else(|| ContractError::NotOnSurface {
            method: method.to_owned(),
            part: part.to_owned(),
        })?;
        self.check_known(&[schema], value, &format!("{method} {part}"))
    }

    /// Checks that one of `schemas` defines each member of `value`, at every depth.
    fn check_known(
        &self,
        schemas: &[&Value],
        value: &Value,
        path: &str,
    ) -> Result<(), ContractError> {
        // Any JSON.
        if schemas.iter().any(|schema| **schema == Value::Bool(true)) {
            return Ok(());
        }
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
                elements.iter().try_for_each(|element| self.check_known(&of_items, element, &path))
            }
            _ => Ok(()),
        }
    }

    /// Collects the schemas that apply to `value`: follows references and chooses alternatives.
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

    fn referred(&self, schema: &Map<String, Value>) -> Option<&'static Value> {
        let name = schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")?;
        self.surface.definition(name).ok()
    }

    /// Returns whether `value` has the tags and the required members of an alternative.
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
    contract: &Contract,
    parts: &[&Map<String, Value>],
    name: &str,
    member: &Value,
    path: &str,
) -> Result<(), ContractError> {
    let named: Vec<&Value> =
        parts.iter().filter_map(|part| part.get("properties")?.get(name)).collect();
    // The schema `true` accepts any value.
    if named.contains(&&Value::Bool(true)) {
        return Ok(());
    }
    if !named.is_empty() {
        return contract.check_known(&named, member, &format!("{path}.{name}"));
    }
    let is_open = |part: &&Map<String, Value>| match part.get("additionalProperties") {
        Some(others) => *others != Value::Bool(false),
        // A schema that names no members is a map with any keys.
        None => !["properties", "$ref", "oneOf", "anyOf", "const", "enum"]
            .iter()
            .any(|keyword| part.contains_key(*keyword)),
    };
    if parts.iter().any(is_open) {
        return Ok(());
    }
    Err(ContractError::UnknownMember { path: path.to_owned(), name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_members_and_mismatches_are_found() {
        let check = |experimental, method: &str, params: Value, expected: Option<&str>| {
            let found = Contract::new(experimental).check_params(method, &params).err();
            match (found, expected) {
                (None, None) => {}
                (Some(found), Some(expected)) => {
                    assert!(found.to_string().contains(expected), "{found}");
                }
                (found, expected) => panic!("{method}: {found:?}, expected {expected:?}"),
            }
        };
        let agent = json!({ "item": { "type": "agentMessage", "id": "i", "text": "x" },
            "threadId": "t", "turnId": "u", "startedAtMs": 1 });
        check(false, "item/started", agent.clone(), None);
        let mut unknown = agent;
        unknown["item"]["odd"] = json!(1);
        check(false, "item/started", unknown, Some("`odd`"));
        check(false, "thread/start", json!({ "model": 1 }), Some("model"));
        let tools = json!({ "dynamicTools": [] });
        check(true, "thread/start", tools.clone(), None);
        check(false, "thread/start", tools, Some("`dynamicTools`"));
        check(false, "no/such", json!({}), Some("no/such"));
    }

    #[test]
    fn minimal_messages_of_each_kind_satisfy_the_contract() {
        let contract = Contract::new(true);
        for info in protocol::NOTIFICATIONS.iter().chain(protocol::SERVER_REQUESTS) {
            let params = protocol::generate::minimal_params(info.name).unwrap();
            contract.check_params(info.name, &params).unwrap();
        }
    }
}
