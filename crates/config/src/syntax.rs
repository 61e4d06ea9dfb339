//! Mistakes in the syntax of a file: all of them with their places, and the values that are nevertheless
//! certain. The values serve checks and edits; a file with such a mistake never counts.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Lines that are skipped because the parser stops at them. After more of them, the rest is not read.
const MAX_SKIPPED: usize = 100;

/// A mistake: its bytes in the text, and what is wrong with what to do.
pub(crate) type Mistake = (Range<usize>, String);

/// Parses `text`, gives the values that no mistake touches to `read`, and returns the mistakes in the
/// order of the text.
pub(crate) fn recover<T>(text: &str, read: impl FnOnce(&DeTable<'_>) -> T) -> (T, Vec<Mistake>) {
    let mut mistakes = Vec::new();
    if let Ok(table) = DeTable::parse(text) {
        mistakes.extend(malformed_numbers(table.get_ref()));
        return (read(table.get_ref()), mistakes);
    }
    let mut kept = text.to_owned();
    // Skipped lines become spaces, so that all places stay.
    while mistakes.len() < MAX_SKIPPED
        && let Some(at) = stop(&kept)
    {
        let line = line_at(&kept, at);
        mistakes.push((at..at, advice(text, &(at..at), NO_VALUE)));
        kept.replace_range(line.clone(), &" ".repeat(line.len()));
    }
    let (mut table, errors) = DeTable::parse_recoverable(&kept);
    let mut errors: Vec<(Range<usize>, &str)> =
        errors.iter().map(|error| (error.span().unwrap_or(0..0), error.message())).collect();
    errors.sort_by_key(|(span, _)| span.start);
    let open = errors.iter().find(|(_, message)| is_unclosed(message)).map(|(span, _)| span.start);
    // Others in the line of a mistake result from it.
    errors.dedup_by_key(|(span, _)| line_at(&kept, span.start).start);
    let mut unclosed = None;
    if let Some(end) = open
        && let Some(start) = opening(table.get_ref(), end)
    {
        // What follows was taken for a part of the value, and the parser's other mistakes result from that.
        errors.retain(|(span, _)| span.start < start);
        let message = "this array, table or text is never closed, so the rest of the file was not \
                       checked; close it";
        mistakes.push((start..start + 1, message.to_owned()));
        unclosed = Some(start);
    }
    let spans: Vec<Range<usize>> = errors.iter().map(|(span, _)| span.clone()).collect();
    leave_out(table.get_mut(), &spans, unclosed);
    mistakes.extend(errors.into_iter().map(|(span, message)| {
        let message = advice(text, &span, message);
        (span, message)
    }));
    mistakes.extend(malformed_numbers(table.get_ref()));
    mistakes.sort_by_key(|(span, _)| span.start);
    (read(table.get_ref()), mistakes)
}

const NO_VALUE: &str = "key with no value";

/// Where the parser stops and leaves the rest of the text unread, if it does.
fn stop(text: &str) -> Option<usize> {
    let (_, errors) = DeTable::parse_recoverable(text);
    let stopped = errors.iter().find(|error| error.message().starts_with(NO_VALUE))?;
    let at = stopped.span()?.start;
    (!text[line_at(text, at)].trim().is_empty()).then_some(at)
}

/// The bytes of the line that contains `at`, without its end.
pub(crate) fn line_at(text: &str, at: usize) -> Range<usize> {
    let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
    start..end
}

fn is_unclosed(message: &str) -> bool {
    ["unclosed array", "unclosed inline table", "invalid multi-line"]
        .iter()
        .any(|open| message.starts_with(open))
}

/// The start of the outermost value that is still open at `end`.
fn opening(table: &DeTable<'_>, end: usize) -> Option<usize> {
    table.values().find_map(|value| match value.get_ref() {
        DeValue::Table(inner) if !is_open(value, end) => opening(inner, end),
        DeValue::Array(all) if !is_open(value, end) => all.iter().find_map(|one| {
            let DeValue::Table(inner) = one.get_ref() else { return None };
            opening(inner, end)
        }),
        _ => is_open(value, end).then_some(value.span().start),
    })
}

fn is_open(value: &Spanned<DeValue<'_>>, end: usize) -> bool {
    value.span().start < end && value.span().end >= end
}

/// Removes the values that contain the start of one of `mistakes`, and the one that begins at `unclosed`.
fn leave_out(table: &mut DeTable<'_>, mistakes: &[Range<usize>], unclosed: Option<usize>) {
    let has_mistake = |span: Range<usize>| {
        mistakes.iter().any(|mistake| (span.start..=span.end).contains(&mistake.start))
    };
    let wrong: Vec<_> = table
        .iter()
        .filter(|(key, value)| match value.get_ref() {
            _ if unclosed == Some(value.span().start) => true,
            DeValue::Table(_) => false,
            _ => has_mistake(value.span()) || key.span().is_empty() && has_mistake(key.span()),
        })
        .map(|(key, _)| key.clone())
        .collect();
    for key in wrong {
        table.remove(&key);
    }
    for (_, value) in table.iter_mut() {
        match value.get_mut() {
            DeValue::Table(inner) => leave_out(inner, mistakes, unclosed),
            DeValue::Array(all) => {
                for one in all.iter_mut() {
                    if let DeValue::Table(inner) = one.get_mut() {
                        leave_out(inner, mistakes, unclosed);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The parser's message, with what to do where it does not say so.
fn advice(text: &str, span: &Range<usize>, message: &str) -> String {
    let message = message.trim().replace('\n', ", ");
    let marked = text.get(span.clone()).unwrap_or_default();
    let line = &text[line_at(text, span.start)];
    let is_empty_value = span.is_empty() && line.trim_end().ends_with('=');
    let next = match () {
        () if message.starts_with("duplicate key") => {
            format!("`{marked}` is set before; keep one of the two")
        }
        () if message.starts_with(NO_VALUE) => "write it as `key = value`".to_owned(),
        () if is_empty_value => {
            return "there is no value after `=`; write one, or remove the line".to_owned();
        }
        () if message.contains("expected") || message.contains("must") => "correct it".to_owned(),
        () => "correct it, or remove the line".to_owned(),
    };
    format!("{message}; {next}")
}

/// The malformed numbers; the parser accepts any spelling.
fn malformed_numbers(table: &DeTable<'_>) -> Vec<Mistake> {
    let mut found: Vec<Mistake> = table.values().flat_map(malformed_in).collect();
    found.sort_by_key(|(span, _)| span.start);
    found
}

fn malformed_in(value: &Spanned<DeValue<'_>>) -> Vec<Mistake> {
    let message = match value.get_ref() {
        DeValue::Integer(n) if i64::from_str_radix(n.as_str(), n.radix()).is_err() => {
            "the number does not fit 64 bits, or has an invalid digit"
        }
        DeValue::Float(n) if n.as_str().parse::<f64>().is_err() => "malformed number",
        DeValue::Array(all) => return all.iter().flat_map(malformed_in).collect(),
        DeValue::Table(table) => return malformed_numbers(table),
        _ => return Vec::new(),
    };
    vec![(value.span(), format!("{message}; correct it"))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::Origin;
    use crate::value::{OriginSource, table_from_toml, table_to_json};

    #[test]
    fn all_mistakes_of_a_text_are_found_and_the_other_values_read() {
        for (text, lines, rest) in [
            ("a = 1\n", &[][..], r#"{"a":1}"#),
            ("a = \nb = 1 2\nc = \"x\nd = 3\n[t]\nx=1\n", &[1, 2, 3], r#"{"d":3,"t":{"x":1}}"#),
            ("a = 1\na = 2\nb = 5\n", &[2], r#"{"a":1,"b":5}"#),
            ("[t]\na=1\n[u]\nb=1\n[t]\nc=2\n", &[5], r#"{"t":{"a":1,"c":2},"u":{"b":1}}"#),
            ("key\na = 1\nword word\nb = 2\n= 3\nc = yes\n", &[1, 3, 5, 6], r#"{"a":1,"b":2}"#),
            ("a = 1\nb = [\"x\",\nc = 2\n[t]\nd = 1\n", &[2], r#"{"a":1}"#),
            ("a = 1\nb = ['x',\nc = 2\n", &[2], r#"{"a":1}"#),
            ("a = 1\nb = { x = 1\nc = 2\n", &[2], r#"{"a":1}"#),
            ("a = 1\nb = \"\"\"x\nc = 2\n", &[2], r#"{"a":1}"#),
            ("a = 99999999999999999999\nb = 1\na = 2\n", &[1, 3], ""),
            ("[a\nb = 1\n[t]\nc = 2\n", &[1], r#"{"t":{"c":2}}"#),
            ("a = {b = 1, b = 2}\nc = 1\n", &[1], r#"{"a":{"b":1},"c":1}"#),
            ("[[l]]\nq = 1\nq = 2\n[[l]]\nq = 3\n", &[3], r#"{"l":[{"q":1},{"q":3}]}"#),
        ] {
            let read = |table: &DeTable<'_>| {
                table_to_json(&table_from_toml(table, &OriginSource::Elsewhere(&Origin::Process)))
            };
            let (read, mistakes) = recover(text, read);
            let line = |at: usize| text[..at].matches('\n').count() + 1;
            let found: Vec<usize> = mistakes.iter().map(|(span, _)| line(span.start)).collect();
            assert_eq!(found, lines, "{text:?} {mistakes:?}");
            assert!(rest.is_empty() || format!("{read}") == rest, "{text:?} {read}");
        }
    }
}
