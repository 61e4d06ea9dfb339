//! Properties of any input.

use std::collections::BTreeMap;

use config::{Layer, LayerName};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::{TestHome, parse};

proptest! {
    #[test]
    fn any_text_parses_or_gives_a_located_error(text in "[a-z_.\\[\\]{}=\"', \n0-9<>#\\\\-]{0,80}") {
        if let Err(error) = parse(&text) {
            prop_assert!(error.origin().is_some_and(|origin| origin.range().is_some()));
            prop_assert!(error.diagnostic().contains('^'));
        }
        let _ = Layer::command_line(&[&text]);
    }

    #[test]
    fn any_bytes_parse_or_give_a_located_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        std::fs::write(&file, &bytes).unwrap();
        if let Err(error) = Layer::read(LayerName::User { file }) {
            prop_assert!(error.origin().is_some_and(|origin| origin.range().is_some()));
            let _ = error.diagnostic();
        }
    }

    #[test]
    fn a_value_of_a_known_key_is_accepted_or_refused_at_its_position(
        index in 0..10_000usize,
        value in "(true|-?[0-9]{1,25}|\"[a-zé]{0,5}\"|\\[1\\]|\\{a=1\\}|1979-05-27|nan|''|\\[\\[\\]\\])",
    ) {
        let rows = config::docs::rows();
        let path = rows[index % rows.len()].path.replace(['<', '>'], "");
        let text = format!("\n{path} = {value}\n");
        if let Err(error) = parse(&text) {
            let range = error.origin().and_then(|origin| origin.range()).unwrap().line_column();
            prop_assert_eq!(range.0, 2, "{}", error);
        }
    }

    /// Any order of merging gives the result of merging plain JSON, and each value has the origin
    /// of the last layer that sets it.
    #[test]
    fn merging_is_associative_and_keeps_origins(layers in proptest::collection::vec(document(), 3)) {
        let merged = |parts: &[&Value]| {
            let mut all = Map::new();
            parts.iter().for_each(|part| overlay(&mut all, part.as_object().unwrap()));
            Value::Object(all)
        };
        let [a, b, c] = [&layers[0], &layers[1], &layers[2]];
        let left = merged(&[&merged(&[a, b]), c]);
        let right = merged(&[a, &merged(&[b, c])]);
        prop_assert_eq!(&left, &right);
        let mut home = TestHome::with(&crate::table::toml_of(b));
        home.write("etc/config.toml", &crate::table::toml_of(a));
        home.thread = c.clone();
        let resolved = home.resolved().unwrap();
        prop_assert_eq!(resolved.to_json(), left);
        for (key, origin) in resolved.origins() {
            let has = |layer: &Value| {
                let pointer = format!("/{}", key.replace('.', "/"));
                layer.pointer(&pointer).is_some()
            };
            let expected = match (has(c), has(b)) {
                (true, _) => LayerName::Thread,
                (_, true) => LayerName::User { file: home.home.join("config.toml") },
                _ => LayerName::System { file: home.system.join("config.toml") },
            };
            prop_assert_eq!(origin.layer(), expected, "{}", key);
        }
    }
}

fn overlay(lower: &mut Map<String, Value>, upper: &Map<String, Value>) {
    for (key, value) in upper {
        match (lower.get_mut(key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => overlay(below, above),
            _ => {
                lower.insert(key.clone(), value.clone());
            }
        }
    }
}

/// A document of keys that replace each other in every way.
fn document() -> impl Strategy<Value = Value> {
    let maybe = |value: BoxedStrategy<Value>| proptest::option::of(value);
    let text = || "[a-c]{1,2}".prop_map(Value::from).boxed();
    let flag = || any::<bool>().prop_map(Value::from).boxed();
    let map = || {
        proptest::collection::btree_map("[a-c]", "[x-z]", 1..3).prop_map(|all| json!(all)).boxed()
    };
    let list = || proptest::collection::vec("[a-c]", 0..3).prop_map(|all| json!(all)).boxed();
    (maybe(text()), maybe(list()), maybe(flag()), maybe(flag()), maybe(map()), maybe(map()))
        .prop_map(|(model, names, network, tmp, set, headers)| {
            let some = |entries: Vec<(&str, Option<Value>)>| -> Option<Value> {
                let all: BTreeMap<_, _> =
                    entries.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
                (!all.is_empty()).then(|| json!(all))
            };
            let write = some(vec![("network_access", network), ("exclude_slash_tmp", tmp)]);
            some(vec![
                ("model", model),
                ("project_doc_fallback_filenames", names),
                ("sandbox_workspace_write", write),
                ("shell_environment_policy", some(vec![("set", set)])),
                ("mcp_servers", some(vec![("x", some(vec![("env", headers)]))])),
            ])
            .unwrap_or_else(|| json!({}))
        })
}
