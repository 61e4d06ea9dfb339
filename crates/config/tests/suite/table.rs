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

/// All keys but one that replaces others, each with a value that can be used.
fn compatible_keys() -> Value {
    let mut keys = all_keys();
    keys["store"]["url"] = "postgres://a/b".into();
    keys["model_providers"]["x"].as_object_mut().unwrap().shift_remove("auth").unwrap();
    keys
}

#[test]
fn all_keys_resolve_together() {
    let config = TestHome::with(&toml_of(&compatible_keys())).config();
    assert_eq!(config.profile.as_deref(), Some("x"));
}

/// The document with each whole number as `change` returns it.
fn with_numbers(value: &Value, change: &impl Fn(u64) -> Value) -> Value {
    let inner = |value| with_numbers(value, change);
    match value {
        Value::Number(n) => change(n.as_u64().unwrap()),
        Value::Array(all) => all.iter().map(inner).collect(),
        Value::Object(all) => all.iter().map(|(key, value)| (key.clone(), inner(value))).collect(),
        other => other.clone(),
    }
}

#[test]
fn every_number_may_be_written_with_a_point() {
    // Up to here floats are exact.
    let bound = |n: u64| n.min(1 << 53);
    let whole = with_numbers(&compatible_keys(), &|n| bound(n).into());
    #[allow(clippy::cast_precision_loss)]
    let floats = with_numbers(&compatible_keys(), &|n| (bound(n) as f64).into());
    let text = toml_of(&floats);
    assert!(text.contains("86400.0"), "{text}");
    // A layer shows what was written.
    assert_eq!(parse(&text).unwrap().to_json(), floats);
    let home = TestHome::with(&text);
    let config = home.config();
    home.user(&toml_of(&whole));
    assert_eq!(config, home.config());
    let mut thread = TestHome::with("");
    thread.thread = floats;
    assert_eq!(thread.config().mcp_servers["x"].tool_timeout_sec.milliseconds(), 86_400_000);
}

#[test]
fn only_times_have_fractions() {
    for row in rows() {
        let path: Vec<String> = row.path.split('.').map(|part| format!("\"{part}\"")).collect();
        let accepts = |n: &str| crate::accepts(&format!("{} = {n}", path.join(".")));
        match row.entry.kind {
            Kind::Whole { min, max } => {
                assert!(accepts(&format!("{min}.0")), "{}", row.path);
                assert!(max < 2 || !accepts("1.5"), "{}", row.path);
            }
            Kind::Time { min, max, .. } => {
                for n in [format!("{min}.25"), format!("{min}.0"), format!("{max}.0"), "2e1".into()]
                {
                    assert!(accepts(&n), "{}: {n}", row.path);
                }
                for n in
                    [format!("{max}.5"), "-1".into(), "-0.5".into(), "nan".into(), "inf".into()]
                {
                    assert!(!accepts(&n), "{}: {n}", row.path);
                }
            }
            _ => {}
        }
    }
    for (n, milliseconds) in [
        ("2.5", 2_500),
        ("30.0", 30_000),
        ("2.3", 2_300),
        ("0.0001", 1),
        ("0.0", 0),
        ("1_0.5", 10_500),
    ] {
        let text = format!("[mcp_servers.a]\ncommand = \"x\"\ntool_timeout_sec = {n}");
        let config = TestHome::with(&text).config();
        assert_eq!(config.mcp_servers["a"].tool_timeout_sec.milliseconds(), milliseconds, "{n}");
    }
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
