#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::keywords::MAX_DEPTH;
use super::*;

/// What hosted APIs demand of a function's parameters beside the form of JSON Schema itself.
fn check_top(schema: &Value) {
    assert!(jsonschema::draft202012::meta::is_valid(schema), "{schema:#}");
    assert_eq!(schema["type"], "object", "{schema:#}");
    assert!(schema["properties"].is_object(), "{schema:#}");
    for refused in REFUSED_AT_TOP.into_iter().chain(["$schema", "$id"]) {
        assert!(schema.get(refused).is_none(), "`{refused}` in {schema:#}");
    }
    assert!(schema.to_string().len() <= MAX_BYTES);
    Check { top: schema, left: 100_000 }.schema(schema, 0, 0);
}

struct Check<'s> {
    top: &'s Value,
    /// Schemas that are still looked at: those behind references count each time.
    left: usize,
}

impl Check<'_> {
    /// `references`: those on the way, of which a circle has no end.
    fn schema(&mut self, schema: &Value, depth: usize, references: usize) {
        assert!(depth <= MAX_DEPTH + 1, "too deep");
        assert!(references < 1000, "a circle in {:#}", self.top);
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let members = schema.as_object().unwrap_or_else(|| panic!("{schema} is not an object"));
        if let Some(reference) = members.get("$ref") {
            let definition = definition(self.top, reference);
            assert!(definition.is_object(), "{reference} in {:#}", self.top);
            self.schema(definition, 0, references + 1);
        }
        let is_array = json!(members.get("type")).to_string().contains("\"array\"");
        assert!(!is_array || members.contains_key("items"), "{schema}");
        for (keyword, value) in members {
            let mut inner = |schema: &Value| self.schema(schema, depth + 1, references);
            match keyword.as_str() {
                "properties" | "patternProperties" | "dependentSchemas" | "$defs"
                | "definitions" => {
                    for (name, schema) in value.as_object().unwrap() {
                        assert!(keyword != "properties" || references::is_name(name), "{name:?}");
                        inner(schema);
                    }
                }
                "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                    value.as_array().unwrap().iter().for_each(inner);
                }
                "not" | "if" | "then" | "else" | "contains" | "propertyNames" | "contentSchema"
                | "items" => inner(value),
                "additionalProperties" | "unevaluatedProperties" | "unevaluatedItems"
                    if !value.is_boolean() =>
                {
                    inner(value);
                }
                "$dynamicRef" | "$recursiveRef" | "$anchor" => panic!("{keyword} in {schema}"),
                _ => {}
            }
        }
    }
}

fn definition<'s>(top: &'s Value, reference: &Value) -> &'s Value {
    let reference = reference.as_str().unwrap();
    let is_local = ["#/$defs/", "#/definitions/"].iter().any(|start| reference.starts_with(start));
    assert!(is_local, "{reference}");
    top.pointer(&reference[1..]).unwrap_or(&Value::Null)
}

fn repaired(schema: Value) -> Value {
    let repaired = for_model(&schema).unwrap();
    check_top(&repaired);
    assert_eq!(for_model(&repaired).unwrap(), repaired, "a repaired schema stays");
    repaired
}

#[test]
fn what_apis_take_stays_as_it_is() {
    for schema in [
        json!({"type": "object", "properties": {}}),
        json!({
            "type": "object", "title": "T", "description": "d", "x-vendor": 1,
            "properties": {
                "a": {"type": ["string", "null"], "minLength": 1, "pattern": "^a+$", "default": null},
                "b": {"type": "array", "items": {"$ref": "#/$defs/B"}, "minItems": 1},
                "c": {"oneOf": [{"$ref": "#/$defs/B"}, {"type": "integer", "minimum": 0}]},
                "d": {"enum": ["x", 1, null]},
                "e": {"not": {"const": 5}, "if": {"type": "string"}, "then": {"maxLength": 3}},
                "f": {"type": "object", "additionalProperties": {"type": "string"}},
                "g": {"type": "object", "properties": {}, "unevaluatedProperties": false},
            },
            "required": ["a"], "additionalProperties": false,
            "$defs": {"B": {"type": "object", "properties": {"c": {"$ref": "#/$defs/C"}}},
                      "C": {"type": "string", "format": "uri"}},
        }),
        json!({
            "type": "object", "properties": {"a": {"$ref": "#/definitions/A"}},
            "definitions": {"A": {"type": "string"}},
        }),
    ] {
        assert_eq!(repaired(schema.clone()), schema);
    }
}

#[test]
fn what_apis_refuse_is_loosened() {
    let check = |property: Value, expected: Value| {
        let schema = |property| json!({"type": "object", "properties": {"p": property}});
        assert_eq!(repaired(schema(property)), schema(expected));
    };
    check(json!(5), json!({}));
    check(json!(true), json!({}));
    check(json!({"type": "strnig", "minLength": -1, "maxLength": 3.0}), json!({"maxLength": 3}));
    check(json!({"type": ["string", "string"], "enum": []}), json!({"type": ["string"]}));
    check(json!({"type": "array"}), json!({"type": "array", "items": {}}));
    check(
        json!({"type": "array", "items": [{"type": "string"}, false]}),
        json!({"type": "array", "items": {}, "prefixItems": [{"type": "string"}, {}]}),
    );
    check(json!({"$ref": "http://127.0.0.1:1/x", "title": "t"}), json!({"title": "t"}));
    check(json!({"$ref": "#"}), json!({"type": "object"}));
    check(json!({"$ref": "#/$defs/none"}), json!({}));
    check(json!({"format": 1, "x-y": {"$ref": "#"}}), json!({}));
    check(json!({"pattern": "*.txt"}), json!({"description": "Must match the pattern *.txt"}));
    check(
        json!({"pattern": "^\\p{L}+$", "description": "A name", "type": "string"}),
        json!({"description": "A name\nMust match the pattern ^\\p{L}+$", "type": "string"}),
    );
    check(json!({"anyOf": [], "required": "p", "properties": null}), json!({}));
    check(json!({"exclusiveMinimum": true, "multipleOf": 0, "minimum": 1}), json!({"minimum": 1}));
    // What would allow less, once a part of it allows more.
    check(json!({"not": {"minLength": -1}}), json!({}));
    check(json!({"if": {"minLength": -1}, "then": {"maxLength": 1}}), json!({}));
    check(
        json!({"oneOf": [{"minLength": -1}, {"type": "null"}]}),
        json!({"anyOf": [{}, {"type": "null"}]}),
    );
    check(
        json!({"properties": {"a": {"minLength": -1}}, "unevaluatedProperties": false}),
        json!({"properties": {"a": {}}}),
    );
    let mut deep = json!({"type": "string"});
    for _ in 0..60 {
        deep = json!({"type": "object", "properties": {"d": deep}});
    }
    assert!(repaired(deep).to_string().len() < 60 * 30);
}

#[test]
fn names_that_apis_refuse_are_described() {
    let schema = json!({
        "description": "Finds.", "additionalProperties": false, "required": ["a b", "ok"],
        "properties": {"a b": {"type": "string"}, "$top": {}, "ok": {}},
    });
    let expected = json!({
        "type": "object", "properties": {"ok": {}}, "required": ["ok"],
        "description": "Finds.\nFurther properties: \"a b\" (required), \"$top\"",
    });
    assert_eq!(repaired(schema), expected);
}

#[test]
fn references_are_kept_inlined_or_cut() {
    let node = json!({"type": "object", "properties": {
        "next": {"$ref": "#/$defs/Node"}, "all": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
    }});
    let schema = json!({
        "type": "object",
        "properties": {
            "root": {"$ref": "#/$defs/Node"},
            "one": {"type": "string"}, "same": {"$ref": "#/properties/one", "description": "d"},
            "odd": {"$ref": "#/$defs/an%20odd"},
        },
        "$defs": {"Node": node, "an odd": {"type": "integer"}},
    });
    let done = repaired(schema);
    assert_eq!(done["properties"]["root"], json!({"$ref": "#/$defs/Node"}));
    assert_eq!(done["properties"]["same"], json!({"type": "string", "description": "d"}));
    assert_eq!(done["properties"]["odd"], json!({"type": "integer"}));
    let object = json!({"type": "object"});
    assert_eq!(done["$defs"]["Node"]["properties"]["next"], object);
    assert_eq!(done["$defs"]["Node"]["properties"]["all"]["items"], object);
    // A condition on a definition that allows more now.
    let schema = json!({
        "properties": {"p": {"oneOf": [{"$ref": "#/$defs/D"}, {"type": "null"}]}},
        "$defs": {"D": {"minLength": -1}},
    });
    assert_eq!(
        repaired(schema)["properties"]["p"],
        json!({"anyOf": [{"$ref": "#/$defs/D"}, {"type": "null"}]})
    );
    // Parts that double with each step.
    let mut definitions = Object::new();
    for step in 0..30 {
        let next = json!({"$ref": format!("#/$defs/d {}", step + 1)});
        definitions.insert(format!("d {step}"), json!({"properties": {"a": next, "b": next}}));
    }
    let doubled = json!({"properties": {"p": {"$ref": "#/$defs/d 0"}}, "$defs": definitions});
    assert!(repaired(doubled).to_string().len() < MAX_BYTES);
}

#[test]
fn unions_at_the_top_are_merged() {
    let union = json!({
        "type": "object", "required": ["kind"],
        "properties": {"kind": {"type": "string"}},
        "oneOf": [
            {"properties": {"kind": {"const": "a"}, "x": {"type": "string"}}, "required": ["kind", "x"]},
            {"properties": {"x": {"type": "integer"}, "y": {}}, "required": ["x"]},
            {"type": "string"},
        ],
    });
    let expected = json!({
        "type": "object", "required": ["kind", "x"],
        "properties": {
            "kind": {"type": "string"}, "x": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "y": {},
        },
    });
    assert_eq!(repaired(union), expected);
    let referred = json!({
        "$ref": "#/$defs/Args",
        "$defs": {"Args": {
            "type": "object", "description": "d", "properties": {"n": {"$ref": "#/$defs/Args"}},
            "additionalProperties": false,
        }},
    });
    let done = repaired(referred);
    assert_eq!(done["description"], "d");
    assert_eq!(done["additionalProperties"], false);
    assert_eq!(done["properties"]["n"], json!({"$ref": "#/$defs/Args"}));
    let all = json!({"allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"required": ["b"]}],
                     "not": {"required": ["c"]}, "enum": [{}]});
    let expected = json!({"type": "object", "properties": {"a": {}}, "required": ["a", "b"]});
    assert_eq!(repaired(all), expected);
}

#[test]
fn a_schema_that_no_arguments_fit_is_refused() {
    for (schema, part) in [
        (Value::Null, "no object as its `inputSchema`"),
        (json!(true), "no object as its `inputSchema`"),
        (json!({"type": "string"}), "no object fits"),
        (json!({"anyOf": [{"type": "string"}, false]}), "no object fits"),
        (json!({"const": 1}), "no object fits"),
        (json!({"description": "x".repeat(MAX_BYTES)}), "more than 64 KiB"),
    ] {
        let reason = for_model(&schema).unwrap_err();
        assert!(reason.contains(part), "{reason}");
    }
}

/// Schemas with what servers do wrong, and parts of schemas that are right.
fn schemas() -> impl Strategy<Value = Value> {
    let number = prop_oneof![(-3i64..4).prop_map(Value::from), Just(json!(2.0)), Just(json!(1.5))];
    let text = prop::sample::select(vec![
        "string",
        "object",
        "array",
        "integer",
        "null",
        "any",
        "a",
        "b c",
        "#",
        "#/$defs/a",
        "#/$defs/b",
        "#/definitions/a",
        "#/properties/a",
        "#/$defs/b%20c",
        "http://x/y",
        "*",
        "[a-z]",
        "",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        text.prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "type",
        "properties",
        "required",
        "items",
        "prefixItems",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "if",
        "then",
        "enum",
        "const",
        "$ref",
        "$defs",
        "definitions",
        "$id",
        "minLength",
        "maxLength",
        "minimum",
        "pattern",
        "additionalProperties",
        "unevaluatedProperties",
        "patternProperties",
        "dependentRequired",
        "dependentSchemas",
        "contains",
        "maxContains",
        "default",
        "a",
        "b",
        "b c",
        "minProperties",
        "uniqueItems",
    ]);
    leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            4 => prop::collection::btree_map(key.clone(), inner, 0..6).prop_map(|members| {
                members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            }),
        ]
    })
}

/// Schemas that are valid, with what APIs refuse. `bare`: also with references that are a whole schema,
/// which in definitions might have no end.
fn valid_schemas(bare: bool) -> impl Strategy<Value = Value> {
    let reference =
        prop::sample::select(vec!["#/$defs/a", "#/$defs/b", "#/$defs/b%20c", "#/properties/p"])
            .prop_map(|reference| json!({"$ref": reference}));
    let reference =
        (reference, 0..if bare { 3 } else { 2 }).prop_map(|(reference, place)| match place {
            0 => json!({"properties": {"a": reference}}),
            1 => json!({"items": reference}),
            _ => reference,
        });
    let types = prop::sample::select(vec!["string", "object", "array", "integer", "null"]);
    let leaf = prop_oneof![
        1 => any::<bool>().prop_map(Value::from),
        3 => types.prop_map(|one| json!({"type": one})),
        1 => (0u64..3).prop_map(|length| json!({"minLength": length})),
        1 => (-1i64..3).prop_map(|least| json!({"minimum": least})),
        1 => values().prop_map(|value| json!({"const": value})),
        1 => prop::collection::vec(values(), 1..3).prop_map(|all| json!({"enum": all})),
        1 => Just(json!({"required": ["a"]})),
        1 => Just(json!({"additionalProperties": false})),
        1 => Just(json!({"unevaluatedProperties": false})),
        1 => Just(json!({"required": ["b c"], "description": "d"})),
        3 => reference,
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let name = prop::sample::select(vec!["a", "b", "b c"]);
        let some = || prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            2 => (name, inner.clone()).prop_map(|(name, one)| json!({"properties": {name: one}})),
            1 => inner.clone().prop_map(|one| json!({"patternProperties": {"^a": one}})),
            1 => inner.clone().prop_map(|one| json!({"additionalProperties": one})),
            1 => inner.clone().prop_map(|one| json!({"dependentSchemas": {"a": one}})),
            1 => inner.clone().prop_map(|one| json!({"items": one})),
            1 => some().prop_map(|all| json!({"prefixItems": all})),
            1 => some().prop_map(|all| json!({"anyOf": all})),
            2 => some().prop_map(|all| json!({"oneOf": all})),
            1 => some().prop_map(|all| json!({"allOf": all})),
            1 => inner.clone().prop_map(|one| json!({"not": one})),
            1 => inner.clone().prop_map(|one| json!({"contains": one, "maxContains": 1})),
            1 => (inner.clone(), inner.clone())
                .prop_map(|(one, other)| json!({"if": one, "then": other, "else": false})),
            // Several keywords of one schema.
            6 => some().prop_map(|all| {
                let members = all.into_iter().filter_map(|one| one.as_object().cloned());
                Value::Object(members.flatten().collect())
            }),
        ]
    })
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..4).prop_map(Value::from),
        prop::sample::select(vec!["", "a", "string", "zzz"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let key = prop::sample::select(vec!["a", "b", "b c", "p"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..4).prop_map(|members| {
                members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_schema_becomes_one_that_apis_take_or_is_refused(schema in schemas()) {
        match for_model(&schema) {
            Ok(repaired) => {
                check_top(&repaired);
                prop_assert_eq!(for_model(&repaired), Ok(repaired));
            }
            Err(reason) => prop_assert!(!reason.is_empty()),
        }
    }

    #[test]
    fn what_fitted_a_property_still_fits(
        property in valid_schemas(true),
        definitions in [valid_schemas(false), valid_schemas(false), valid_schemas(false)],
        all in prop::collection::vec(values(), 8),
    ) {
        let [a, b, c] = definitions;
        let schema = json!({
            "type": "object", "properties": {"p": property}, "$defs": {"a": a, "b": b, "b c": c},
        });
        let Ok(repaired) = for_model(&schema) else { return Ok(()) };
        check_top(&repaired);
        let Ok(before) = jsonschema::draft202012::new(&schema) else { return Ok(()) };
        let after = jsonschema::draft202012::new(&repaired).unwrap();
        for value in all {
            let arguments = json!({"p": value});
            prop_assert!(
                !before.is_valid(&arguments) || after.is_valid(&arguments),
                "{} fitted {} and does not fit {}", arguments, schema, repaired
            );
        }
    }
}
