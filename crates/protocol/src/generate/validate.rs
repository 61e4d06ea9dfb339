//! Checks a message against the committed schema, for tests. It supports the keywords that the
//! schema uses and returns an error for any other, so that no constraint is skipped.

use serde_json::{Map, Value};

use super::document::Message;
use crate::artifacts;
use crate::message_schema::SchemaError;

/// Checks values against the definitions of one surface.
#[derive(Clone, Copy)]
pub struct Validator {
    experimental: bool,
}

/// Creates a validator for the stable or the experimental surface. The schema is read at the first check: it takes
/// milliseconds.
#[must_use]
pub const fn validator(experimental: bool) -> Validator {
    Validator { experimental }
}

/// Keywords that constrain nothing.
const ANNOTATIONS: &[&str] =
    &["description", "title", "default", "deprecated", "format", "x-experimental"];

impl Validator {
    /// Checks the parameters of a method or notification of either side.
    ///
    /// # Errors
    /// If a member does not fit, with its path, or the name is unknown.
    pub fn check_params(&self, method: &str, params: &Value) -> Result<(), SchemaError> {
        self.check(self.definition(&self.message(method)?.params)?, params, "params")
    }

    /// Checks the result of a method of either side.
    ///
    /// # Errors
    /// As for [`Self::check_params`].
    pub fn check_result(&self, method: &str, result: &Value) -> Result<(), SchemaError> {
        self.check(self.definition(self.result(method)?)?, result, "result")
    }

    /// Checks a value against the named definition.
    ///
    /// # Errors
    /// As for [`Self::check_params`].
    pub fn check_definition(&self, definition: &str, value: &Value) -> Result<(), SchemaError> {
        self.check(self.definition(definition)?, value, definition)
    }

    /// Name of the type of a message's parameters.
    #[must_use]
    pub fn params_type(&self, method: &str) -> Option<&'static str> {
        self.message(method).ok().map(|message| message.params.as_str())
    }

    /// Name of the type of a method's result.
    #[must_use]
    pub fn result_type(&self, method: &str) -> Option<&'static str> {
        self.result(method).ok()
    }

    /// The schema of a type.
    ///
    /// # Errors
    /// If the surface has no type of that name.
    pub fn definition(&self, name: &str) -> Result<&'static Value, SchemaError> {
        let definition = artifacts::document(self.experimental).definitions.get(name);
        definition.ok_or_else(|| SchemaError::unknown_name(format!("no type is named `{name}`")))
    }

    fn message(&self, method: &str) -> Result<&'static Message, SchemaError> {
        let message = artifacts::document(self.experimental).messages.row(method);
        message.ok_or_else(|| SchemaError::unknown_name(format!("no message is named `{method}`")))
    }

    fn result(&self, method: &str) -> Result<&'static str, SchemaError> {
        let result = self.message(method)?.result.as_deref();
        result.ok_or_else(|| {
            SchemaError::unknown_name(format!("`{method}` is a notification: it has no result"))
        })
    }

    fn check(&self, schema: &Value, value: &Value, path: &str) -> Result<(), SchemaError> {
        let keywords = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Object(keywords) => keywords,
            other => {
                let message = format!("{path}: `{other}` is not a schema");
                return Err(SchemaError::unsupported(message));
            }
        };
        for (keyword, argument) in keywords {
            self.check_keyword(keyword, argument, keywords, value, path)?;
        }
        Ok(())
    }

    fn check_keyword(
        &self,
        keyword: &str,
        argument: &Value,
        schema: &Map<String, Value>,
        value: &Value,
        path: &str,
    ) -> Result<(), SchemaError> {
        match keyword {
            "$ref" => {
                let name = argument.as_str().and_then(|name| name.strip_prefix("#/$defs/"));
                let name = name.ok_or_else(|| {
                    SchemaError::unsupported(format!("{path}: unsupported reference {argument}"))
                })?;
                self.check(self.definition(name)?, value, path)
            }
            "type" => check_type(argument, value, path),
            "const" => expect(argument == value, || format!("{path}: {value} is not {argument}")),
            "enum" => expect(argument.as_array().is_some_and(|all| all.contains(value)), || {
                format!("{path}: {value} is not one of {argument}")
            }),
            "minimum" => expect(number(value) >= number(argument), || {
                format!("{path}: {value} is below {argument}")
            }),
            "maximum" => expect(!value.is_number() || number(value) <= number(argument), || {
                format!("{path}: {value} is above {argument}")
            }),
            "required" => check_required(argument, value, path),
            "properties" => self.check_properties(argument, value, path),
            "additionalProperties" => self.check_others(argument, schema, value, path),
            "items" => self.check_items(argument, value, path),
            "anyOf" => self.check_variants(argument, value, path).map(|_| ()),
            "oneOf" => match self.check_variants(argument, value, path)? {
                1 => Ok(()),
                several => {
                    let message = format!("{path}: matches {several} alternatives instead of one");
                    Err(SchemaError::mismatch(message))
                }
            },
            known if ANNOTATIONS.contains(&known) => Ok(()),
            unknown => {
                let message = format!("{path}: the keyword `{unknown}` is not supported");
                Err(SchemaError::unsupported(message))
            }
        }
    }

    fn check_properties(
        &self,
        schemas: &Value,
        value: &Value,
        path: &str,
    ) -> Result<(), SchemaError> {
        let (Some(schemas), Some(members)) = (schemas.as_object(), value.as_object()) else {
            return Ok(());
        };
        for (name, member) in members {
            if let Some(schema) = schemas.get(name) {
                self.check(schema, member, &format!("{path}.{name}"))?;
            }
        }
        Ok(())
    }

    fn check_others(
        &self,
        others: &Value,
        schema: &Map<String, Value>,
        value: &Value,
        path: &str,
    ) -> Result<(), SchemaError> {
        let named = schema.get("properties").and_then(Value::as_object);
        for (name, member) in value.as_object().into_iter().flatten() {
            if !named.is_some_and(|named| named.contains_key(name)) {
                if *others == Value::Bool(false) {
                    let message = format!("{path}: `{name}` is not a member");
                    return Err(SchemaError::mismatch(message));
                }
                self.check(others, member, &format!("{path}.{name}"))?;
            }
        }
        Ok(())
    }

    fn check_items(&self, schema: &Value, value: &Value, path: &str) -> Result<(), SchemaError> {
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            self.check(schema, item, &format!("{path}[{index}]"))?;
        }
        Ok(())
    }

    /// Returns the number of alternatives that fit; an error if none does.
    fn check_variants(
        &self,
        variants: &Value,
        value: &Value,
        path: &str,
    ) -> Result<usize, SchemaError> {
        let mut reasons = Vec::new();
        let mut fitting = 0;
        for variant in variants.as_array().into_iter().flatten() {
            match self.check(variant, value, path) {
                Ok(()) => fitting += 1,
                Err(error) => reasons.push(error.to_string()),
            }
        }
        expect(fitting > 0, || format!("{path}: matches no alternative: {}", reasons.join("; ")))?;
        Ok(fitting)
    }
}

fn check_type(expected: &Value, value: &Value, path: &str) -> Result<(), SchemaError> {
    let fits = match expected {
        Value::Array(kinds) => kinds.iter().any(|kind| is_kind(kind, value)),
        kind => is_kind(kind, value),
    };
    expect(fits, || format!("{path}: {value} is not of type {expected}"))
}

fn is_kind(kind: &Value, value: &Value) -> bool {
    match kind.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => false,
    }
}

fn check_required(names: &Value, value: &Value, path: &str) -> Result<(), SchemaError> {
    let Some(members) = value.as_object() else { return Ok(()) };
    for name in names.as_array().into_iter().flatten().filter_map(Value::as_str) {
        expect(members.contains_key(name), || format!("{path}: `{name}` is missing"))?;
    }
    Ok(())
}

/// Returns the value as a number. Any other value is infinite, so that no minimum excludes it.
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::INFINITY)
}

fn expect(fits: bool, reason: impl FnOnce() -> String) -> Result<(), SchemaError> {
    if fits { Ok(()) } else { Err(SchemaError::mismatch(reason())) }
}
