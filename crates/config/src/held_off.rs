//! Values that are held off, because the part of the program that they are about is missing.

use serde_json::Value as Json;

use crate::kind::{Effect, Kind, Section};
use crate::table::{Keys, acts};

/// The part of the program that a key waits for.
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

/// The keys below one of this kind; the name in a map is passed over.
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

/// Switches off the features in `value`, which stands at `path`, whose part is missing.
pub(crate) fn hold_off(path: &[&str], value: &mut Json) {
    match (path, value) {
        ([], Json::Object(root)) => {
            if let Some(features) = root.get_mut("features") {
                hold_off(&["features"], features);
            }
        }
        (["features"], Json::Object(features)) => {
            for (name, value) in features {
                hold_off(&["features", name], value);
            }
        }
        (["features", name], value @ Json::Bool(true)) if !acts(name) => *value = false.into(),
        _ => {}
    }
}

/// Whether a value at `path` that says so wants something that is held off.
pub(crate) fn is_wish(path: &[String], value: Option<&Json>) -> bool {
    let is_feature = path.first().is_some_and(|first| first == "features");
    !is_feature || value == Some(&Json::Bool(true))
}
