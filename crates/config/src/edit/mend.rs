//! Edits of a text that is not TOML: those that remove the cause, and touch no other line.

use std::ops::Range;

use serde_json::Value as Json;

use crate::key_path;
use crate::origin::Origin;
use crate::syntax::recover;
use crate::value::{OriginSource, table_from_toml, table_to_json};

/// `text` with `value` at `path`, the empty text for none, if this leaves fewer mistakes and changes only the
/// lines of this key. Other mistakes stay as they are.
pub(super) fn mended(text: &str, path: &[String], value: &str) -> Option<String> {
    let lines = lines_of(text, path);
    let (first, others) = lines.split_first()?;
    if value.is_empty() {
        let new = without(text, &lines);
        return is_better(text, &new, path).then_some(new);
    }
    // A key that is there twice keeps its first line, which is then edited like any other.
    let once = without(text, others);
    if read(&once).1.is_empty() && is_better(text, &once, path) {
        return Some(once);
    }
    let line = &text[first.clone()];
    let (key, _) = key_path::split_assignment(line).unwrap_or((line.trim_end(), ""));
    let end = line.len() - line.trim_end_matches(['\r', '\n']).len();
    let end = &line[line.len() - end..];
    let mut new = once;
    new.replace_range(first.clone(), &format!("{} = {value}{end}", key.trim_end()));
    is_better(text, &new, path).then_some(new)
}

/// The lines that set the value at `path` or one below it, or begin its table.
fn lines_of(text: &str, path: &[String]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    // `None` below a header that cannot be read.
    let mut table = Some(Vec::new());
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let place = start..start + line.len();
        start = place.end;
        let trimmed = line.trim();
        let key = if let Some(header) = trimmed.strip_prefix('[') {
            let header = header.trim_start_matches('[').split(']').next().unwrap_or_default();
            table = key_path::parse(header).ok();
            table.clone()
        } else if trimmed.is_empty() || trimmed.starts_with('#') {
            None
        } else {
            let (key, _) = key_path::split_assignment(line).unwrap_or((line, ""));
            let key = key_path::parse(key).ok();
            table.clone().zip(key).map(|(table, key)| [table, key].concat())
        };
        if key.is_some_and(|key| key.starts_with(path)) {
            found.push(place);
        }
    }
    found
}

fn without(text: &str, lines: &[Range<usize>]) -> String {
    let mut kept = text.to_owned();
    for line in lines.iter().rev() {
        kept.replace_range(line.clone(), "");
    }
    kept
}

/// Returns whether `new` has a part of the mistakes of `old`, and all its values but those at `path`.
fn is_better(old: &str, new: &str, path: &[String]) -> bool {
    let ((mut old, mut mistakes), (mut new, left)) = (read(old), read(new));
    let before = mistakes.len();
    let are_known = left.iter().all(|mistake| {
        let found = mistakes.iter().position(|known| known == mistake);
        found.map(|at| mistakes.swap_remove(at)).is_some()
    });
    remove(&mut old, path);
    remove(&mut new, path);
    left.len() < before && are_known && holds(&new, &old)
}

fn read(text: &str) -> (Json, Vec<String>) {
    let places = OriginSource::Elsewhere(&Origin::Process);
    let (values, mistakes) = recover(text, |table| table_to_json(&table_from_toml(table, &places)));
    (values, mistakes.into_iter().map(|(_, message)| message).collect())
}

fn remove(values: &mut Json, path: &[String]) {
    let (Some((first, rest)), Json::Object(members)) = (path.split_first(), values) else { return };
    if rest.is_empty() {
        members.shift_remove(first);
    } else if let Some(inner) = members.get_mut(first) {
        remove(inner, rest);
    }
}

/// Returns whether `whole` has every value of `part`; empty tables count for nothing.
fn holds(whole: &Json, part: &Json) -> bool {
    match (whole, part) {
        (Json::Object(whole), Json::Object(part)) => part.iter().all(|(name, value)| {
            let is_empty = value.as_object().is_some_and(serde_json::Map::is_empty);
            is_empty || whole.get(name).is_some_and(|found| holds(found, value))
        }),
        _ => whole == part,
    }
}
