//! Keys without effect, because the part of the program that uses them is missing.

use crate::kind::{Effect, Kind, Section};
use crate::table::Keys;

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
