use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::Validator;

fn object(more: Value) -> Value {
    let mut schema = json!({ "type": "object", "properties": { "a": { "type": "string" } },
        "required": ["a"], "additionalProperties": false });
    for (name, value) in more.as_object().unwrap() {
        schema[name] = value.clone();
    }
    schema
}

#[test]
fn strict_schemas_are_sent_as_they_were_written() {
    for text in [
        r#"{"type":"object","properties":{"b":{"type":"string"},"a":{"type":["integer","null"]}},
            "required":["a","b"],"additionalProperties":false}"#,
        r##"{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},
            "required":["next"],"additionalProperties":false}"##,
        r#"{"additionalProperties":false,"type":"object"}"#,
    ] {
        let (sent, is_strict) = for_request(text);
        assert!(is_strict && sent == text && matches!(sent, Cow::Borrowed(_)), "{sent}");
    }
}

#[test]
fn objects_that_require_all_their_members_are_closed() {
    let written = r#"{"type":"object","properties":{"why":{"type":"string"},"answer":{"type":"object",
        "properties":{"x":{"type":"number"}},"required":["x"]}},"required":["answer","why"]}"#;
    let (sent, is_strict) = for_request(written);
    assert!(is_strict);
    assert_eq!(
        sent,
        r#"{"type":"object","properties":{"why":{"type":"string"},"answer":{"type":"object","properties":{"x":{"type":"number"}},"required":["x"],"additionalProperties":false}},"required":["answer","why"],"additionalProperties":false}"#
    );
}

#[test]
fn schemas_that_would_change_their_meaning_are_sent_without_strict() {
    for (schema, why) in [
        (json!({}), "the type `object`"),
        (json!({ "type": "array", "items": { "type": "string" } }), "the type `object`"),
        (json!({ "type": "object" }), "additionalProperties"),
        (json!({ "type": "object", "properties": { "a": { "type": "string" } } }), "additional"),
        (object(json!({ "required": [] })), "also `a`"),
        (object(json!({ "required": ["a", "z"] })), "names \"z\", which is not a property"),
        (object(json!({ "additionalProperties": true })), "additionalProperties"),
        (object(json!({ "additionalProperties": { "type": "string" } })), "additionalProperties"),
        (object(json!({ "anyOf": [{ "type": "object" }] })), "must not have `anyOf`"),
        (object(json!({ "allOf": [] })), "`allOf`"),
        (object(json!({ "default": {} })), "`default`"),
        (object(json!({ "properties": { "a": true } })), "must be an object"),
        (object(json!({ "properties": { "a": {} } })), "must have a `type`"),
        (object(json!({ "properties": { "a": { "type": "array" } } })), "must have `items`"),
        (
            object(json!({ "properties": { "a": { "type": "string", "minLength": 1 } } })),
            "minLength",
        ),
        (object(json!({ "properties": { "a": { "type": "string", "format": "uri" } } })), "format"),
        (
            object(json!({ "properties": { "a": { "type": "string", "pattern": "(?!x)" } } })),
            "around",
        ),
        (object(json!({ "properties": { "a": { "$ref": "http://x/y" } } })), "another document"),
        (
            object(json!({ "properties": { "a": { "$ref": "#", "title": "t" } } })),
            "next to its `$ref`",
        ),
        (object(json!({ "properties": { "a": { "enum": vec!["v"; 1001] } } })), "too large"),
        (object(json!({ "properties": { "a": { "const": "v".repeat(130_000) } } })), "too large"),
    ] {
        let found = violation(&schema).unwrap();
        assert!(found.contains(why), "{schema}: {found}");
        let text = schema.to_string();
        assert_eq!(for_request(&text), (Cow::Borrowed(text.as_str()), false), "{schema}");
    }
    let mut deep = json!({ "type": "string" });
    for _ in 0..11 {
        deep = json!({ "type": "object", "properties": { "a": deep }, "required": ["a"],
            "additionalProperties": false });
    }
    assert!(violation(&deep).unwrap().contains("nested too deeply"));
}

fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop::sample::select(vec![
        json!({ "type": "string" }),
        json!({ "type": "integer", "minimum": 0 }),
        json!({ "type": ["number", "null"] }),
        json!({ "enum": ["x", 1, null] }),
    ]);
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|items| json!({ "type": "array", "items": items })),
            (prop::collection::vec(inner, 0..4), any::<u8>(), 0..3_u8).prop_map(
                |(children, bits, more)| {
                    let names = ["d", "b", "a", "c"].into_iter().zip(children);
                    let properties: Map<String, Value> =
                        names.map(|(name, child)| (name.to_owned(), child)).collect();
                    // All are required in half of the schemas.
                    let is_required = |n: usize| bits & 8 == 0 || (bits >> (4 + n)) & 1 == 1;
                    let required = properties.keys().enumerate().filter(|(n, _)| is_required(*n));
                    let required: Vec<&String> = required.map(|(_, name)| name).collect();
                    let mut schema = json!({ "type": "object", "required": required });
                    schema["properties"] = properties.into();
                    match more {
                        0 => schema["additionalProperties"] = false.into(),
                        1 => schema["additionalProperties"] = json!({ "type": "string" }),
                        _ => {}
                    }
                    schema
                },
            ),
        ]
    })
}

/// A value that fits most schemas of [`schemas`].
fn answer(schema: &Value) -> Value {
    match (schema["type"].as_str(), schema.get("enum")) {
        (Some("object"), _) => {
            let properties = schema["properties"].as_object().unwrap();
            properties.iter().map(|(name, child)| (name.clone(), answer(child))).collect()
        }
        (Some("array"), _) => json!([answer(&schema["items"])]),
        (Some("string"), _) => json!("s"),
        (_, Some(_)) => json!("x"),
        _ => json!(7),
    }
}

proptest! {
    #[test]
    fn what_is_sent_as_strict_is_strict_keeps_its_order_and_allows_no_more(schema in schemas()) {
        let text = schema.to_string();
        let (sent, is_strict) = for_request(&text);
        let parsed: Value = serde_json::from_str(&sent).unwrap();
        prop_assert_eq!(is_strict, violation(&parsed).is_none());
        let without = |text: &str| text.replace(r#","additionalProperties":false"#, "");
        prop_assert_eq!(without(&sent), without(&text));
        let value = answer(&schema);
        if is_strict {
            prop_assert!(Validator::new(&parsed).unwrap().check(&value).is_ok());
            prop_assert!(Validator::new(&schema).unwrap().check(&value).is_ok());
        }
    }
}
