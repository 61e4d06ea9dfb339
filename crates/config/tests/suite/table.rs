//! The option table itself: whole, and true of the program around it.

use std::collections::BTreeSet;
use std::path::Path;

use config::docs::{Row, all_keys, rows};
use config::kind::{Effect, Kind};
use config::table::{DEPRECATED, RENAMED};
use serde_json::Value;

use crate::{Place, parse};

/// The document as TOML.
pub(crate) fn toml_of(document: &Value) -> String {
    let all = document.as_object().unwrap().iter();
    all.map(|(key, value)| format!("{key} = {}\n", config::edit::value_text(value))).collect()
}

#[test]
fn every_key_is_accepted_at_once() {
    let layer =
        parse(&toml_of(&all_keys())).unwrap_or_else(|error| panic!("{}", error.diagnostic()));
    let unknown = layer.warnings().iter().filter(|w| w.message.contains("no such key"));
    assert_eq!(unknown.count(), 0);
    assert_eq!(layer.to_json(), all_keys());
}

#[test]
fn every_key_can_be_used_at_once() {
    let config = Place::with(&toml_of(&all_keys())).config();
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
fn old_names_lead_to_keys() {
    let paths: BTreeSet<String> = rows().into_iter().map(|row| row.path).collect();
    for renamed in RENAMED {
        assert!(paths.contains(renamed.new) && !paths.contains(renamed.old), "{}", renamed.old);
    }
    for one in DEPRECATED {
        assert!(paths.contains(one.key), "{}", one.key);
    }
}

#[test]
fn defaults_fit_their_keys() {
    for row in rows() {
        let Some(default) = (row.entry.default)() else { continue };
        let path: Vec<String> = row.path.split('.').map(|part| format!("\"{part}\"")).collect();
        let text = format!("{} = {}", path.join("."), config::edit::value_text(&default));
        assert!(parse(&text).is_ok(), "{text}");
    }
}

/// Every key has an effect and a test that shows it, or says what it waits for.
#[test]
fn every_effect_has_its_test() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let missing: BTreeSet<String> =
        rows().iter().filter_map(|row| without_test(row, crates)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

fn without_test(row: &Row, crates: &Path) -> Option<String> {
    let (krate, test) = match row.entry.effect {
        Effect::In { krate, test } => (krate, test),
        Effect::With(part) => {
            let said = part.is_empty().then(|| format!("{}: waits for nothing", row.path));
            return said;
        }
        Effect::Parts => {
            let group = !matches!(
                row.entry.kind,
                Kind::Table(_) | Kind::Map(..) | Kind::Either(_) | Kind::List(_)
            );
            return group.then(|| format!("{}: is no group", row.path));
        }
    };
    let (module, function) = test.rsplit_once("::").unwrap_or(("", test));
    let file = format!("{}.rs", module.rsplit("::").next().unwrap_or_default());
    let mut folders = vec![crates.join(krate)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let named =
                module.is_empty() || path.file_name().is_some_and(|name| name == file.as_str());
            let is_rust = path.extension().is_some_and(|extension| extension == "rs");
            if named && is_rust {
                let text = std::fs::read_to_string(&path).unwrap();
                if text.contains(&format!("fn {function}(")) {
                    return None;
                }
            }
        }
    }
    Some(format!("{}: no `fn {function}` in {file} of crate {krate}", row.path))
}
