//! The part of JSON Schema that results are checked with: the keywords that models write for
//! structured output. A schema with other keywords is refused, because a check that skips some
//! would pass results that do not fit.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use session::ToolError;

use super::NAME;

/// Keywords that say nothing about values.
const ANNOTATIONS: [&str; 8] =
    ["$comment", "$id", "$schema", "default", "description", "examples", "format", "title"];
const KEYWORDS: [&str; 15] = [
    "additionalProperties",
    "anyOf",
    "const",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "items",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "properties",
    "required",
];
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// A schema that was parsed.
#[derive(Debug, Default)]
pub(super) struct Schema {
    /// Fits nothing: the schema `false`.
    is_never: bool,
    /// Empty: any.
    types: Vec<String>,
    properties: BTreeMap<String, Schema>,
    required: Vec<String>,
    additional: Option<Box<Schema>>,
    items: Option<Box<Schema>>,
    /// `enum` or `const`.
    allowed: Option<Vec<Value>>,
    any_of: Vec<Schema>,
    bounds: Bounds,
}

#[derive(Debug, Default)]
struct Bounds {
    minimum: Option<f64>,
    maximum: Option<f64>,
    above: Option<f64>,
    below: Option<f64>,
    length: (Option<u64>, Option<u64>),
    items: (Option<u64>, Option<u64>),
}

impl Schema {
    /// # Errors
    /// The schema is malformed, or has a keyword that is not checked.
    pub(super) fn parse(value: &Value) -> Result<Self, ToolError> {
        parse(value, "").map_err(|why| ToolError::new(format!("{NAME}: `output_schema`: {why}")))
    }

    /// # Errors
    /// Where and why the value does not fit.
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        self.check_at(value, "result")
    }

    fn check_at(&self, value: &Value, at: &str) -> Result<(), String> {
        if self.is_never {
            return Err(format!("`{at}` must be absent"));
        }
        if !self.types.is_empty() && !self.types.iter().any(|name| has_type(value, name)) {
            let wanted = self.types.join(" or ");
            return Err(format!("`{at}` is {}, not {wanted}", type_of(value)));
        }
        if let Some(allowed) = &self.allowed
            && !allowed.iter().any(|other| is_same(value, other))
        {
            let shown = Value::from(allowed.clone()).to_string();
            let shown: String = shown.chars().take(200).collect();
            return Err(format!("`{at}` is none of {shown}"));
        }
        if !self.any_of.is_empty() && self.any_of.iter().all(|of| of.check_at(value, at).is_err()) {
            return Err(format!("`{at}` fits none of the schemas in `anyOf`"));
        }
        self.bounds.check(value, at)?;
        match value {
            Value::Object(members) => self.check_members(members, at),
            Value::Array(list) => {
                let Some(items) = &self.items else { return Ok(()) };
                let mut numbered = list.iter().enumerate();
                numbered.try_for_each(|(n, item)| items.check_at(item, &format!("{at}[{n}]")))
            }
            _ => Ok(()),
        }
    }

    fn check_members(&self, members: &Map<String, Value>, at: &str) -> Result<(), String> {
        if let Some(missing) = self.required.iter().find(|name| !members.contains_key(*name)) {
            return Err(format!("`{at}.{missing}` is missing"));
        }
        for (name, value) in members {
            let at = format!("{at}.{name}");
            match (self.properties.get(name), &self.additional) {
                (Some(schema), _) => schema.check_at(value, &at)?,
                (None, Some(additional)) if additional.is_never => {
                    let known: Vec<&str> = self.properties.keys().map(String::as_str).collect();
                    return Err(format!("`{at}` is not a member; they are {}", known.join(", ")));
                }
                (None, Some(additional)) => additional.check_at(value, &at)?,
                (None, None) => {}
            }
        }
        Ok(())
    }
}

impl Bounds {
    fn check(&self, value: &Value, at: &str) -> Result<(), String> {
        let number = value.as_f64();
        let is = |bound: Option<f64>, wrong: fn(f64, f64) -> bool| {
            bound.filter(|bound| number.is_some_and(|number| wrong(number, *bound)))
        };
        for (found, what) in [
            (is(self.minimum, |n, b| n < b), "less than"),
            (is(self.maximum, |n, b| n > b), "more than"),
            (is(self.above, |n, b| n <= b), "not more than"),
            (is(self.below, |n, b| n >= b), "not less than"),
        ] {
            if let Some(bound) = found {
                return Err(format!("`{at}` is {what} {bound}"));
            }
        }
        let text = value.as_str().map(|text| text.chars().count() as u64);
        let list = value.as_array().map(|list| list.len() as u64);
        for (length, (min, max), what) in
            [(text, self.length, "characters"), (list, self.items, "items")]
        {
            let Some(length) = length else { continue };
            if min.is_some_and(|min| length < min) || max.is_some_and(|max| length > max) {
                return Err(format!("`{at}` has {length} {what}, which its bounds do not allow"));
            }
        }
        Ok(())
    }
}

fn parse(value: &Value, at: &str) -> Result<Schema, String> {
    let place = || if at.is_empty() { "the schema".to_owned() } else { format!("`{at}`") };
    let members = match value {
        Value::Bool(fits) => return Ok(Schema { is_never: !fits, ..Schema::default() }),
        Value::Object(members) => members,
        _ => return Err(format!("{} must be an object", place())),
    };
    for name in members.keys() {
        let known = KEYWORDS.contains(&name.as_str()) || ANNOTATIONS.contains(&name.as_str());
        if !known && name != "type" {
            return Err(format!(
                "{} has `{name}`, which is not checked; use only type, {}",
                place(),
                KEYWORDS.join(", ")
            ));
        }
    }
    let child = |value: &Value, name: &str| parse(value, &format!("{at}/{name}"));
    let one =
        |name: &str| members.get(name).map(|value| child(value, name).map(Box::new)).transpose();
    let wrong = |name: &str, wanted: &str| format!("`{at}/{name}` must be {wanted}");
    let properties = match members.get("properties") {
        None => BTreeMap::new(),
        Some(Value::Object(properties)) => properties
            .iter()
            .map(|(name, value)| Ok((name.clone(), child(value, &format!("properties/{name}"))?)))
            .collect::<Result<_, String>>()?,
        Some(_) => return Err(wrong("properties", "an object")),
    };
    let any_of = match members.get("anyOf") {
        None => Vec::new(),
        Some(Value::Array(list)) if !list.is_empty() => {
            list.iter().map(|value| child(value, "anyOf")).collect::<Result<_, _>>()?
        }
        Some(_) => return Err(wrong("anyOf", "a list of schemas")),
    };
    let allowed = match (members.get("enum"), members.get("const")) {
        (Some(Value::Array(list)), None) => Some(list.clone()),
        (None, Some(only)) => Some(vec![only.clone()]),
        (None, None) => None,
        _ => return Err(wrong("enum", "a list, without `const`")),
    };
    Ok(Schema {
        is_never: false,
        types: types(members).ok_or_else(|| wrong("type", &TYPES.join(", ")))?,
        properties,
        required: names(members.get("required")).ok_or_else(|| wrong("required", "names"))?,
        additional: one("additionalProperties")?,
        items: one("items")?,
        allowed,
        any_of,
        bounds: bounds(members).map_err(|name| wrong(name, "a number that is not negative"))?,
    })
}

fn types(members: &Map<String, Value>) -> Option<Vec<String>> {
    let types = match members.get("type") {
        Some(Value::String(only)) => vec![only.clone()],
        other => names(other)?,
    };
    types.iter().all(|name| TYPES.contains(&name.as_str())).then_some(types)
}

fn names(value: Option<&Value>) -> Option<Vec<String>> {
    let Some(value) = value else { return Some(Vec::new()) };
    value.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
}

fn bounds(members: &Map<String, Value>) -> Result<Bounds, &'static str> {
    let number = |name: &'static str| match members.get(name) {
        None => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or(name),
    };
    let length = |name: &'static str| match members.get(name) {
        None => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or(name),
    };
    Ok(Bounds {
        minimum: number("minimum")?,
        maximum: number("maximum")?,
        above: number("exclusiveMinimum")?,
        below: number("exclusiveMaximum")?,
        length: (length("minLength")?, length("maxLength")?),
        items: (length("minItems")?, length("maxItems")?),
    })
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        name => type_of(value) == name,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns whether two values are equal; numbers by their value.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.total_cmp(&other).is_eq(),
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_checked() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "n": { "type": "integer", "minimum": 1, "exclusiveMaximum": 10 },
                "s": { "type": ["string", "null"], "minLength": 2, "maxLength": 3 },
                "e": { "enum": ["a", 1] },
                "l": { "items": { "anyOf": [{ "type": "boolean" }, { "const": 0 }] }, "maxItems": 2 },
            },
            "required": ["n"],
            "additionalProperties": false,
        });
        let schema = Schema::parse(&schema).unwrap();
        for (value, expected) in [
            (json!({ "n": 1 }), Ok(())),
            (json!({ "n": 2.0, "s": null, "e": 1.0, "l": [true, 0] }), Ok(())),
            (json!([]), Err("`result` is array, not object")),
            (json!({}), Err("`result.n` is missing")),
            (json!({ "n": "1" }), Err("`result.n` is string, not integer")),
            (json!({ "n": 1.5 }), Err("`result.n` is number, not integer")),
            (json!({ "n": 0 }), Err("`result.n` is less than 1")),
            (json!({ "n": 10 }), Err("`result.n` is not less than 10")),
            (json!({ "n": 1, "s": "ä" }), Err("`result.s` has 1 characters")),
            (json!({ "n": 1, "e": "b" }), Err("`result.e` is none of [\"a\",1]")),
            (json!({ "n": 1, "l": [1] }), Err("`result.l[0]` fits none")),
            (json!({ "n": 1, "l": [0, 0, 0] }), Err("`result.l` has 3 items")),
            (json!({ "n": 1, "x": 1 }), Err("`result.x` is not a member; they are e, l, n, s")),
        ] {
            match (schema.check(&value), expected) {
                (Ok(()), Ok(())) => {}
                (Err(found), Err(part)) => assert!(found.starts_with(part), "{value}: {found}"),
                (found, _) => panic!("{value}: {found:?}"),
            }
        }
    }

    #[test]
    fn schemas_that_cannot_be_checked_are_refused() {
        for (schema, expected) in [
            (json!("x"), "the schema must be an object"),
            (json!({ "pattern": "a" }), "the schema has `pattern`, which is not checked"),
            (json!({ "properties": { "a": { "$ref": "#" } } }), "`/properties/a` has `$ref`"),
            (json!({ "type": "text" }), "`/type` must be array, boolean"),
            (json!({ "required": [1] }), "`/required` must be names"),
            (json!({ "minLength": -1 }), "`/minLength` must be a number"),
            (json!({ "anyOf": [] }), "`/anyOf` must be a list"),
            (json!({ "items": 1 }), "`/items` must be an object"),
        ] {
            let error = Schema::parse(&schema).unwrap_err().into_message();
            assert!(error.contains(expected), "{schema}: {error}");
        }
        assert!(Schema::parse(&json!({ "additionalProperties": { "type": "null" } })).is_ok());
    }
}
