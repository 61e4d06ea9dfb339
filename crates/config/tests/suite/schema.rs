//! Compares the generated JSON Schema with the program's own checks.

use config::docs::{all_keys, sample};
use config::kind::Kind;
use jsonschema::Validator;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::table::toml_of;

fn validator() -> Validator {
    jsonschema::validator_for(&config::schema::config()).unwrap()
}

/// Whether the program accepts a document without a warning about unknown keys.
fn is_accepted(document: &Value) -> bool {
    crate::accepts(&toml_of(document))
}

#[test]
fn schema_accepts_every_key_and_the_examples() {
    let validator = validator();
    for document in [
        all_keys(),
        json!({}),
        json!({ "approval_policy": "on-failure" }),
        json!({ "approval_policy": { "granular": { "rules": true } } }),
        json!({ "tools": { "web_search": false } }),
        json!({ "tui": { "notifications": ["approval"], "status_line": [] } }),
        json!({ "otel": { "exporter": "otlp-http", "trace_exporter": { "otlp-grpc": { "endpoint": "http://x" } } } }),
        json!({ "permissions": { "p": { "filesystem": { ":project_roots": { ".": "write" }, "/a": "none" } } } }),
        json!({ "background_terminal_timeout": 5, "experimental_use_unified_exec_tool": true }),
        json!({ "profiles": { "p": { "tools_view_image": false, "web_search": "live", "windows": { "sandbox": "elevated" } } } }),
        json!({ "agents": { "max_threads": 2, "reviewer": { "description": "x" } } }),
        json!({ "apps": { "_default": { "enabled": false }, "mail": { "tools": { "send": { "approval_mode": "prompt" } } } } }),
        json!({ "notice": { "hide_gpt5_migration_prompt": true, "model_migrations": { "a": "b" } } }),
    ] {
        let errors: Vec<String> = validator.iter_errors(&document).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{document}: {errors:?}");
        assert!(is_accepted(&document), "{document}");
    }
    let required = json!({
        "allowed_approval_policies": ["granular"], "allowed_sandbox_modes": ["read-only"],
        "allowed_web_search_modes": [], "features": { "undo": false },
        "mcp_servers": { "x": { "identity": { "command": "y" } } },
        "rules": { "prefix_rules": [{ "pattern": [{ "token": "a" }, { "any_of": ["b"] }], "decision": "prompt" }] },
    });
    let requirements = jsonschema::validator_for(&config::schema::requirements()).unwrap();
    assert!(requirements.is_valid(&required));
    assert!(!requirements.is_valid(&json!({ "allowed_sandbox_mode": [] })));
}

/// Variants of a document with one invalid value: another type, an unknown name, a number out of
/// bounds, an additional key.
fn broken(document: &Value) -> Vec<(String, Value)> {
    let mut variants = Vec::new();
    let mut open = vec![String::new()];
    while let Some(pointer) = open.pop() {
        match document.pointer(&pointer).unwrap() {
            Value::Object(all) => {
                open.extend(
                    all.keys().map(|key| {
                        format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
                    }),
                );
            }
            Value::Array(_) => {}
            _ => {}
        }
        for wrong in [
            json!(["x", 1]),
            json!(-7),
            json!({ "no_such_key_at_all": 1 }),
            json!("no such name"),
            json!(1.5),
        ] {
            let mut variant = document.clone();
            *variant.pointer_mut(&pointer).unwrap() = wrong.clone();
            variants.push((format!("{pointer} = {wrong}"), variant));
        }
    }
    variants
}

#[test]
fn schema_rejects_what_the_program_rejects() {
    let validator = validator();
    let (mut rejected, mut accepted) = (0, 0);
    let mut keys = all_keys();
    keys["store"]["url"] = "postgres://a/b".into();
    for (what, variant) in broken(&keys).into_iter().filter(|(_, v)| v.is_object()) {
        let valid = validator.is_valid(&variant);
        assert_eq!(valid, is_accepted(&variant), "{what}");
        if valid { accepted += 1 } else { rejected += 1 }
    }
    println!("{rejected} broken variants rejected, {accepted} still in order");
    assert!(rejected >= 200, "{rejected}");
}

#[test]
fn schema_and_program_accept_each_key_alone() {
    let validator = validator();
    for row in config::docs::rows() {
        let kinds = match &row.entry.kind {
            Kind::Either(kinds) => kinds.iter().collect(),
            kind => vec![kind],
        };
        for kind in kinds {
            let mut document = sample(kind);
            for part in row.path.rsplit('.') {
                let name = part.replace(['<', '>'], "_");
                document = match part {
                    "<index>" => json!([document]),
                    _ => json!({ name: document }),
                };
            }
            assert!(validator.is_valid(&document), "{document}");
            assert!(is_accepted(&document), "{document}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn schema_and_program_agree_on_random_documents(
        index in 0..10_000usize,
        value in prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-z-]{0,12}".prop_map(Value::from),
            prop_oneof!["read-only", "never", "high", "auto", "none", "file"].prop_map(Value::from),
            proptest::collection::vec("[a-z]{1,3}", 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-z]{1,3}", "[a-z]{1,3}", 0..3).prop_map(|all| json!(all)),
        ],
    ) {
        let rows = config::docs::rows();
        let row = &rows[index % rows.len()];
        // Only the program knows the names of time zones.
        prop_assume!(!row.path.ends_with(".timezone"));
        let mut document = value;
        for part in row.path.rsplit('.') {
            document = match part {
                "<index>" => json!([document]),
                _ => json!({ part.replace(['<', '>'], "_"): document }),
            };
        }
        prop_assert_eq!(validator().is_valid(&document), is_accepted(&document), "{}", document);
    }
}
