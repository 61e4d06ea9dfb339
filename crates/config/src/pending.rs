//! Keys and features without effect, because the part of the program that uses them is missing.

use serde_json::Value as Json;

use crate::kind::{Effect, Kind, Section};
use crate::table::{Keys, is_active_feature};

/// The missing part of the program that a key needs.
pub(crate) fn missing_part(key_path: &[String]) -> Option<&'static str> {
    let mut section = Keys::SECTION;
    let mut parts = key_path.iter();
    loop {
        let entry = section.entry(parts.next()?)?;
        if let Effect::Pending(part) = entry.effect {
            return Some(part);
        }
        section = section_below(&entry.kind, &mut parts)?;
    }
}

/// The section below a key of this kind; skips the name in a map.
fn section_below<'k>(
    kind: &Kind,
    parts: &mut impl Iterator<Item = &'k String>,
) -> Option<&'static Section> {
    match kind {
        Kind::Table(section) => Some(section),
        Kind::Map(_, of) => {
            parts.next()?;
            section_below(of, parts)
        }
        Kind::Either(kinds) => kinds.iter().find_map(|kind| match kind {
            Kind::Table(section) => Some(*section),
            _ => None,
        }),
        _ => None,
    }
}

/// Switches off the features without effect in `value`, the value at `path`.
pub(crate) fn switch_off_pending(path: &[&str], value: &mut Json) {
    match (path, value) {
        ([], Json::Object(root)) => {
            if let Some(features) = root.get_mut("features") {
                switch_off_pending(&["features"], features);
            }
        }
        (["features"], Json::Object(features)) => {
            for (name, value) in features {
                switch_off_pending(&["features", name], value);
            }
        }
        (["features", name], value @ Json::Bool(true)) if !is_active_feature(name) => {
            *value = false.into();
        }
        _ => {}
    }
}

/// Whether `value` at `path` asks for an effect: a feature does so only when it is on.
pub(crate) fn asks_for_effect(path: &[String], value: Option<&Json>) -> bool {
    let is_feature = path.first().is_some_and(|first| first == "features");
    !is_feature || value == Some(&Json::Bool(true))
}
