//! Schemas of Gemini's own form, a subset of OpenAPI, as JSON Schema.

use std::borrow::Cow;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::json::At;

/// Reads a schema whose types are written in capitals and whose `nullable` is a member.
pub(super) fn to_json_schema<'a>(
    raw: &'a RawValue,
    at: &At<'_>,
) -> Result<Cow<'a, RawValue>, Error> {
    let mut schema: Value = serde_json::from_str(raw.get()).map_err(|error| at.invalid(error))?;
    convert(&mut schema);
    to_raw_value(&schema).map(Cow::Owned).map_err(|error| at.invalid(error))
}

fn convert(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    // An order for the answer, which JSON Schema takes from the properties.
    members.shift_remove("propertyOrdering");
    let is_nullable = members.shift_remove("nullable") == Some(Value::Bool(true));
    if let Some(Value::String(kind)) = members.get_mut("type") {
        kind.make_ascii_lowercase();
        if is_nullable {
            let kinds = vec![Value::String(std::mem::take(kind)), "null".into()];
            members.insert("type".into(), Value::Array(kinds));
        }
    }
    for name in ["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"]
    {
        number(members, name);
    }
    for name in ["items", "additionalProperties"] {
        members.get_mut(name).into_iter().for_each(convert);
    }
    for name in ["properties", "$defs", "defs"] {
        if let Some(Value::Object(properties)) = members.get_mut(name) {
            properties.values_mut().for_each(convert);
        }
    }
    for name in ["anyOf", "prefixItems"] {
        if let Some(Value::Array(schemas)) = members.get_mut(name) {
            schemas.iter_mut().for_each(convert);
        }
    }
}

/// 64-bit numbers are texts in JSON of Google's APIs.
fn number(members: &mut Map<String, Value>, name: &str) {
    if let Some(value) = members.get_mut(name)
        && let Some(number) = value.as_str().and_then(|text| text.parse::<u64>().ok())
    {
        *value = number.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_and_nullable_members_become_those_of_json_schema() {
        let schema = json!({"type": "OBJECT", "propertyOrdering": ["b", "a"], "properties": {
            "b": {"type": "ARRAY", "maxItems": "3", "items": {"type": "STRING", "nullable": true}},
            "a": {"anyOf": [{"type": "INTEGER"}, {"type": "OBJECT", "properties": {}}]}}});
        let raw = to_raw_value(&schema).unwrap();
        let converted = to_json_schema(&raw, &At::Root).unwrap();
        let expect = json!({"type": "object", "properties": {
            "b": {"type": "array", "maxItems": 3, "items": {"type": ["string", "null"]}},
            "a": {"anyOf": [{"type": "integer"}, {"type": "object", "properties": {}}]}}});
        assert_eq!(converted.get(), expect.to_string());
    }
}
