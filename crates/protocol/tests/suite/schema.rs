//! The generated files: equal to the committed ones, true to the tables, and fit for their types.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use protocol::{METHODS, MessageInfo, NOTIFICATIONS, SERVER_REQUESTS, Stability, generate};
use serde_json::Value;

fn schema_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schema")
}

#[test]
fn committed_files_are_up_to_date() {
    for (path, content) in generate::json_schema(true) {
        let committed = fs::read_to_string(schema_folder().join(path)).unwrap_or_default();
        assert!(committed == content, "schema/{path} is stale: run `cargo xtask generate`");
    }
}

fn file(experimental: bool, name: &str) -> Value {
    let files = generate::json_schema(experimental);
    let (_, content) = files.into_iter().find(|(found, _)| *found == name).unwrap();
    serde_json::from_str(&content).unwrap()
}

fn rows(table: &Value) -> impl Iterator<Item = &Value> {
    table.as_object().unwrap().values().flat_map(|rows| rows.as_array().unwrap())
}

#[test]
fn the_stable_surface_names_nothing_experimental() {
    let schema = file(false, "agentd.schema.json");
    let stable = schema.to_string();
    let typescript = &generate::typescript(false)[0].1;
    let messages = NOTIFICATIONS.iter().chain(SERVER_REQUESTS);
    let gated = messages.filter(|info| info.stability == Stability::Experimental);
    let gated = gated.map(|info: &MessageInfo| info.name).chain(
        METHODS.iter().filter(|info| info.stability == Stability::Experimental).map(|m| m.name),
    );
    for name in gated {
        assert!(!stable.contains(&format!("\"{name}\"")), "{name}");
        assert!(!typescript.contains(&format!("\"{name}\"")), "{name}");
    }
    assert!(!stable.contains("x-experimental"));
    for info in METHODS {
        let params = format!("{}Params", marker(info.name));
        let definition = &schema["$defs"][&params];
        for field in info.experimental_fields {
            assert!(definition["properties"].get(field).is_none(), "{params}.{field}");
        }
    }
    for gone in ["ThreadGoal", "DynamicToolSpec", "RealtimeVoice", "ProcessSpawnParams"] {
        assert!(!typescript.contains(gone), "{gone}");
    }
}

/// `thread/start` to `ThreadStart`.
fn marker(method: &str) -> String {
    method.split('/').map(|part| part[..1].to_uppercase() + &part[1..]).collect()
}

#[test]
fn gated_fields_are_the_marked_properties() {
    let definitions = file(true, "agentd.schema.json")["$defs"].clone();
    let table = file(true, "methods.json");
    for info in METHODS {
        let row = rows(&table).find(|row| row["method"] == info.name).unwrap();
        let properties = &definitions[row["params"].as_str().unwrap()]["properties"];
        let marked: BTreeSet<&str> = properties
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, property)| property.get("x-experimental").is_some())
            .map(|(name, _)| name.as_str())
            .collect();
        let gated: BTreeSet<&str> = info.experimental_fields.iter().copied().collect();
        assert_eq!(marked, gated, "{}", info.name);
    }
}

#[test]
fn every_message_refers_to_a_definition() {
    for experimental in [false, true] {
        let definitions = file(experimental, "agentd.schema.json")["$defs"].clone();
        let table = file(experimental, "methods.json");
        for row in rows(&table) {
            for member in ["params", "result"] {
                let Some(name) = row.get(member) else { continue };
                assert!(definitions.get(name.as_str().unwrap()).is_some(), "{row}");
            }
        }
    }
}

#[test]
fn minimal_examples_fit_their_own_schema() {
    let validator = generate::validator(true);
    for definition in file(true, "agentd.schema.json")["$defs"].as_object().unwrap().keys() {
        let Some(example) = generate::minimal_example(definition) else {
            let union =
                ["ClientRequest", "ClientNotification", "ServerRequest", "ServerNotification"];
            assert!(union.contains(&definition.as_str()), "{definition} has no example");
            continue;
        };
        validator.check_definition(definition, &example).unwrap();
    }
}
