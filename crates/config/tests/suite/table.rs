//! The option table: complete, consistent, and accepted by the parser.

use std::collections::BTreeSet;

use config::WarningKind;
use config::docs::{all_keys, rows};
use config::kind::{Effect, Kind};
use config::table::{DEPRECATED, RENAMED};
use serde_json::Value;

use crate::{TestHome, parse};

/// A JSON document as TOML.
pub(crate) fn toml_of(document: &Value) -> String {
    let all = document.as_object().unwrap().iter();
    all.map(|(key, value)| format!("{key} = {}\n", config::edit::value_text(value))).collect()
}

#[test]
fn all_keys_parse_together() {
    let layer =
        parse(&toml_of(&all_keys())).unwrap_or_else(|error| panic!("{}", error.diagnostic()));
    let unknown = layer.warnings().iter().filter(|w| w.kind == WarningKind::Unknown);
    assert_eq!(unknown.count(), 0);
    assert_eq!(layer.to_json(), all_keys());
}

#[test]
fn all_keys_resolve_together() {
    let config = TestHome::with(&toml_of(&all_keys())).config();
    assert_eq!(config.profile.as_deref(), Some("x"));
}

#[test]
fn paths_are_distinct_and_documented() {
    let rows = rows();
    assert!(rows.len() > 180, "{}", rows.len());
    let paths: BTreeSet<&str> = rows.iter().map(|row| row.path.as_str()).collect();
    assert_eq!(paths.len(), rows.len());
    for row in &rows {
        let doc = row.entry.doc.trim();
        assert!(doc.len() >= 5 && doc.ends_with('.'), "{}: {doc:?}", row.path);
    }
}

#[test]
fn old_names_map_to_existing_keys() {
    let paths: BTreeSet<String> = rows().into_iter().map(|row| row.path).collect();
    for renamed in RENAMED {
        assert!(paths.contains(renamed.new) && !paths.contains(renamed.old), "{}", renamed.old);
    }
    for one in DEPRECATED {
        assert!(paths.contains(one.key), "{}", one.key);
    }
}

#[test]
fn defaults_are_valid_values() {
    for row in rows() {
        let Some(default) = (row.entry.default)() else { continue };
        let path: Vec<String> = row.path.split('.').map(|part| format!("\"{part}\"")).collect();
        let text = format!("{} = {}", path.join("."), config::edit::value_text(&default));
        assert!(parse(&text).is_ok(), "{text}");
    }
}

#[test]
fn pending_keys_name_what_they_wait_for_and_groups_have_parts() {
    for row in rows() {
        let is_group = matches!(
            row.entry.kind,
            Kind::Table(_) | Kind::Map(..) | Kind::Either(_) | Kind::List(_)
        );
        match row.entry.effect {
            Effect::Active => {}
            Effect::Pending(part) => assert!(!part.is_empty(), "{}", row.path),
            Effect::Group => assert!(is_group, "{}", row.path),
        }
    }
}
