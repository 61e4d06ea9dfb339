use serde_json::json;

use super::*;
use crate::Validator;

fn object(properties: Value, required: Value) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}

fn closed(properties: Value, required: Value) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

#[test]
fn every_member_is_required_in_its_order() {
    let given = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Plan",
        "type": "object",
        "properties": {
            "title": { "type": "string" },
            "days": { "type": ["integer", "null"], "format": "uint32", "minimum": 0 },
            "score": { "description": "From 0 on.", "type": "number", "format": "double", "default": 1.5 },
            "at": { "type": "string", "format": "date-time" },
            "step": { "description": "The first one.", "$ref": "#/$defs/Step" },
            "other": { "$ref": "#/$defs/Step", "default": { "text": "" } },
            "kind": { "anyOf": [{ "$ref": "#/$defs/Kind" }, { "type": "null" }] },
            "either": { "anyOf": [{ "type": "string" }, { "type": "boolean" }], "default": true },
        },
        "required": ["title", "at", "step"],
        "$defs": {
            "Step": object(json!({ "text": { "type": "string" } }), json!(["text"])),
            "Kind": { "oneOf": [
                { "description": "A task.", "type": "string", "const": "task" },
                object(json!({ "other": { "type": "string" } }), json!(["other"])),
            ] },
        },
    });
    let made = strict_form(&given).unwrap();
    let expected = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Plan",
        "type": "object",
        "properties": {
            "title": { "type": "string" },
            "days": { "type": ["integer", "null"], "minimum": 0 },
            "score": { "description": "From 0 on.", "anyOf": [{ "type": "number" }, { "type": "null" }] },
            "at": { "type": "string", "format": "date-time" },
            "step": { "description": "The first one.", "anyOf": [{ "$ref": "#/$defs/Step" }] },
            "other": { "anyOf": [{ "$ref": "#/$defs/Step" }, { "type": "null" }] },
            "kind": { "anyOf": [{ "$ref": "#/$defs/Kind" }, { "type": "null" }] },
            "either": { "anyOf": [{ "type": "string" }, { "type": "boolean" }, { "type": "null" }] },
        },
        "required": ["title", "days", "score", "at", "step", "other", "kind", "either"],
        "additionalProperties": false,
        "$defs": {
            "Step": closed(json!({ "text": { "type": "string" } }), json!(["text"])),
            "Kind": { "anyOf": [
                { "description": "A task.", "type": "string", "const": "task" },
                closed(json!({ "other": { "type": "string" } }), json!(["other"])),
            ] },
        },
    });
    assert_eq!(made, expected);
    let order: Vec<_> = made["properties"].as_object().unwrap().keys().collect();
    assert_eq!(made["required"], json!(order));
    // The strict form of it is the same.
    assert_eq!(strict_form(&made), Some(made));
}

#[test]
fn a_recursive_type_has_a_strict_form() {
    let given = object(
        json!({ "next": { "anyOf": [{ "$ref": "#" }, { "type": "null" }] }, "also": { "type": "array", "items": { "$ref": "#" } } }),
        json!(["also"]),
    );
    let made = strict_form(&given).unwrap();
    assert_eq!(made["required"], json!(["next", "also"]));
    let answer =
        json!({ "next": { "next": null, "also": [] }, "also": [{ "next": null, "also": [] }] });
    assert_eq!(without_nulls(&given, answer.clone()), answer, "null is a value of these members");
}

#[test]
fn a_type_that_would_mean_something_else_has_none() {
    let with = |member: Value| object(json!({ "a": member }), json!(["a"]));
    for given in [
        json!(true),
        json!({}),
        json!({ "type": "string" }),
        json!({ "type": "array", "items": { "type": "string" } }),
        json!({ "type": "object" }),
        json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        json!({ "type": "object", "properties": { "a": { "type": "string" } }, "additionalProperties": true }),
        json!({ "oneOf": [object(json!({ "a": { "type": "string" } }), json!(["a"]))] }),
        json!({ "type": "object", "properties": ["a"] }),
        with(json!(true)),
        with(json!({ "title": "Anything" })),
        with(json!({ "type": "object", "additionalProperties": { "type": "string" } })),
        with(json!({ "type": "array", "prefixItems": [{ "type": "string" }], "items": false })),
        with(json!({ "type": "array" })),
        with(json!({ "type": "array", "items": { "type": "string" }, "uniqueItems": true })),
        with(json!({ "type": "string", "minLength": 1 })),
        with(json!({ "type": "string", "format": "uri" })),
        with(json!({ "allOf": [{ "type": "string" }] })),
        with(json!({ "anyOf": [{ "type": "string" }, true] })),
        with(json!({ "$ref": "https://example.com/schema.json" })),
    ] {
        assert_eq!(strict_form(&given), None, "{given}");
    }
}

#[test]
fn null_in_place_of_missing_is_left_out() {
    let step = object(
        json!({ "kind": { "const": "step" }, "days": { "type": "integer", "default": 1 } }),
        json!(["kind"]),
    );
    let stop = object(
        json!({ "kind": { "const": "stop" }, "days": { "type": ["integer", "null"] } }),
        json!(["kind"]),
    );
    let schema = json!({
        "type": "object",
        "properties": {
            "a": { "type": "string" },
            "b": { "type": "integer", "default": 1 },
            "c": { "type": ["string", "null"] },
            "d": { "$ref": "#/$defs/Any", "default": {} },
            "list": { "type": "array", "items": { "$ref": "#/$defs/Any" } },
        },
        "required": ["a", "c"],
        "$defs": { "Any": { "oneOf": [step, stop] } },
    });
    for (answer, expected) in [
        (
            json!({ "a": "x", "b": null, "c": null, "d": null, "list": null }),
            json!({ "a": "x", "c": null }),
        ),
        // A mistake stays one, and so does what the schema does not have.
        (json!({ "a": null, "other": null }), json!({ "a": null, "other": null })),
        (
            json!({ "list": [{ "kind": "step", "days": null }, { "kind": "stop", "days": null }, { "kind": "else", "days": null }, null] }),
            json!({ "list": [{ "kind": "step" }, { "kind": "stop", "days": null }, { "kind": "else", "days": null }, null] }),
        ),
        (json!([null]), json!([null])),
        (json!(null), json!(null)),
    ] {
        assert_eq!(without_nulls(&schema, answer), expected);
    }
}

#[test]
fn schemas_that_lead_in_circles_end() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "anyOf": [{ "$ref": "#" }] }),
        json!({ "anyOf": [{ "$ref": "#" }, { "$ref": "#" }], "properties": { "a": { "$ref": "#" } } }),
        json!({ "$ref": "#/nowhere" }),
    ] {
        let answer = json!({ "a": { "a": { "a": null } } });
        assert_eq!(without_nulls(&schema, answer.clone()), answer);
        assert_eq!(strict_form(&schema), None);
    }
}

#[test]
fn an_answer_of_the_strict_form_is_one_of_the_schema() {
    let schema = object(
        json!({ "a": { "type": "string" }, "b": { "type": "integer", "default": 1 } }),
        json!(["a"]),
    );
    let made = Validator::new(&strict_form(&schema).unwrap()).unwrap();
    let own = Validator::new(&schema).unwrap();
    for (answer, is_strict) in [
        (json!({ "a": "x", "b": 2 }), true),
        (json!({ "a": "x", "b": null }), true),
        (json!({ "a": "x" }), false),
        (json!({ "a": null, "b": null }), false),
    ] {
        assert_eq!(made.check(&answer).is_ok(), is_strict, "{answer}");
        if is_strict {
            assert_eq!(own.check(&without_nulls(&schema, answer)), Ok(()));
        }
    }
}
