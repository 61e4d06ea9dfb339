//! Checks of values: the places where one does not follow its schema.

use std::fmt::Write as _;

use serde_json::Value;

/// Most problems of a value that are named.
const MAX_PROBLEMS: usize = 5;
/// Longest description of one problem, in characters: it may quote the value.
const MAX_PROBLEM: usize = 300;

/// A schema that values are checked with. Every keyword of its draft counts: that of `$schema`, or 2020-12.
/// References to other documents are refused: nothing is fetched.
#[derive(Debug)]
pub struct Validator(jsonschema::Validator);

impl Validator {
    /// # Errors
    /// Where and why the schema is invalid.
    pub fn new(schema: &Value) -> Result<Self, String> {
        match jsonschema::validator_for(schema) {
            Ok(validator) => Ok(Self(validator)),
            Err(error) => Err(described(&error)),
        }
    }

    /// # Errors
    /// Where and why the value does not follow the schema: the first problems, each with a JSON pointer.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        let mut problems = String::new();
        let mut errors = self.0.iter_errors(value);
        for error in errors.by_ref().take(MAX_PROBLEMS) {
            if !problems.is_empty() {
                problems.push_str("; ");
            }
            problems.push_str(&described(&error));
        }
        if problems.is_empty() {
            return Ok(());
        }
        match errors.count() {
            0 => {}
            more => {
                // A string takes all text.
                let _ = write!(problems, "; and {more} more");
            }
        }
        Err(problems)
    }
}

/// `at /a/0: why`, or only why when it is about the whole.
fn described(error: &jsonschema::ValidationError<'_>) -> String {
    let why = error.to_string();
    let why = match why.char_indices().nth(MAX_PROBLEM) {
        Some((end, _)) => format!("{}…", why.get(..end).unwrap_or_default()),
        None => why,
    };
    match error.instance_path().as_str() {
        "" => why,
        at => format!("at {at}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_checked() {
        let schema = json!({
            "type": "object",
            "properties": {
                "n": { "type": "integer", "minimum": 1, "exclusiveMaximum": 10 },
                "s": { "type": ["string", "null"], "minLength": 2, "pattern": "^[a-c]+$" },
                "l": { "items": { "$ref": "#/$defs/flag" }, "maxItems": 2 },
            },
            "required": ["n"],
            "additionalProperties": false,
            "$defs": { "flag": { "anyOf": [{ "type": "boolean" }, { "const": 0 }] } },
        });
        let schema = Validator::new(&schema).unwrap();
        for (value, expected) in [
            (json!({ "n": 1 }), None),
            (json!({ "n": 2.0, "s": null, "l": [true, 0] }), None),
            (json!([]), Some(r#"[] is not of type "object""#)),
            (json!({}), Some(r#""n" is a required property"#)),
            (json!({ "n": 1.5 }), Some("at /n: 1.5 is not of type \"integer\"")),
            (json!({ "n": 10 }), Some("at /n: 10 is greater than or equal to")),
            (json!({ "n": 1, "s": "d" }), Some("at /s: \"d\" is shorter than 2 characters")),
            (json!({ "n": 1, "s": "dd" }), Some("at /s: \"dd\" does not match")),
            (json!({ "n": 1, "l": [1] }), Some("at /l/0: 1 is not valid under any")),
            (json!({ "n": 1, "x": 1 }), Some("Additional properties are not allowed ('x'")),
        ] {
            match (schema.check(&value), expected) {
                (Ok(()), None) => {}
                (Err(found), Some(part)) => assert!(found.contains(part), "{value}: {found}"),
                (found, _) => panic!("{value}: {found:?}"),
            }
        }
    }

    #[test]
    fn schemas_that_are_invalid_or_elsewhere_are_refused() {
        for schema in [
            json!("x"),
            json!({ "type": "text" }),
            json!({ "required": [1] }),
            json!({ "minLength": -1 }),
            json!({ "anyOf": [] }),
            json!({ "items": 1 }),
            json!({ "pattern": "(" }),
            json!({ "$ref": "https://example.com/schema.json" }),
            json!({ "$ref": "file:///etc/passwd" }),
            json!({ "$ref": "#/$defs/missing" }),
        ] {
            assert!(Validator::new(&schema).is_err(), "{schema}");
        }
    }

    #[test]
    fn descriptions_are_bounded() {
        let schema = Validator::new(&json!({ "items": { "type": "null" } })).unwrap();
        let problems = schema.check(&json!(vec!["x".repeat(5000); 100])).unwrap_err();
        assert!(problems.len() < 2000 && problems.ends_with("; and 95 more"), "{problems}");
    }
}
