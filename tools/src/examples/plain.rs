//! Makes recorded messages the same in every run, and short: folders, addresses, ids and times of the
//! test become plain ones, and long lists and texts are cut. Members and types stay what they are.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Longest text, in characters.
const MOST_CHARS: usize = 160;
/// Number of characters that are kept of a longer one.
const KEPT_CHARS: usize = 120;
/// Longest list, and what is left of a longer one.
const MOST_ELEMENTS: usize = 3;
const KEPT_ELEMENTS: usize = 2;

/// Names of the test kit for what differs between runs, and what stands in their place.
const PLACES: &[(&str, &str)] = &[
    ("$WORK", "/home/me/project"),
    ("$ROOT/home", "/home/me/.agent"),
    ("$ROOT/system", "/etc/agent"),
    ("$ROOT/user", "/home/me"),
    ("$ROOT", "/home/me/other"),
    ("$MODEL", "http://127.0.0.1:8000"),
];
/// The range of numbers that are seconds since 1970; a thousand times that for milliseconds.
const TIMES: std::ops::Range<i64> = 1_500_000_000..4_000_000_000;
/// 2026-01-01 00:00:00 UTC, where the clock of tests begins.
const TIME: i64 = 1_767_225_600;
/// Fewest characters of a hash in hexadecimal, and what stands in its place.
const HASH_CHARS: usize = 12;
const HASH: &str = "0123456789ab";
/// The text before random parts of links, and their substitute.
const SECRETS: &[&str] = &["state=", "code_challenge="];
const SECRET: &str = "random";
/// In place of how long something took, which is measured.
const DURATION: i64 = 120;

/// Makes the members of an example plain.
pub(super) fn plain(example: &Map<String, Value>) -> Map<String, Value> {
    let mut example = Plain::default().members(example);
    // Left out on the wire.
    example.retain(|part, value| part != "params" || !value.is_null());
    example
}

#[derive(Default)]
struct Plain {
    /// The substitute for each id, in the order in which the ids appear.
    ids: BTreeMap<String, String>,
}

impl Plain {
    fn value(&mut self, name: &str, found: &Value) -> Value {
        match found {
            // Counted by the server.
            Value::String(text) if name == "processId" && text.parse::<u32>().is_ok() => "1".into(),
            Value::String(text) => Value::String(self.text(text)),
            Value::Number(number) => number
                .as_i64()
                .map_or_else(|| found.clone(), |number| Value::from(plain_number(name, number))),
            Value::Array(elements) => elements
                .iter()
                .take(kept(elements.len()))
                .map(|element| self.value(name, element))
                .collect(),
            Value::Object(members) => Value::Object(self.members(members)),
            other => other.clone(),
        }
    }

    fn members(&mut self, members: &Map<String, Value>) -> Map<String, Value> {
        // Of a map whose keys are paths or dotted names, as much as of a list.
        let is_map = members.keys().any(|name| name.contains(['.', '/']));
        let kept = if is_map { kept(members.len()) } else { members.len() };
        let members = members
            .iter()
            .take(kept)
            .map(|(name, member)| (self.text(name), self.value(name, member)));
        members.collect()
    }

    fn text(&mut self, text: &str) -> String {
        let text = PLACES.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
        let text = replaced(&text, "id-", char::is_ascii_digit, |id| self.id(id));
        let text = replaced(&text, "127.0.0.1:", char::is_ascii_digit, |_| "127.0.0.1:8000".into());
        let text =
            replaced(&text, "/tmp/.tmp", char::is_ascii_alphanumeric, |_| "/tmp/folder".into());
        let text = SECRETS.iter().fold(text, |text, name| {
            replaced(&text, name, is_of_secret, |_| format!("{name}{SECRET}"))
        });
        let text = without_hashes(&text);
        if text.chars().count() <= MOST_CHARS {
            return text;
        }
        text.chars().take(KEPT_CHARS).chain(['…']).collect()
    }

    fn id(&mut self, id: &str) -> String {
        let next = format!("id-{:06}", self.ids.len() + 1);
        self.ids.entry(id.to_owned()).or_insert(next).clone()
    }
}

/// Returns the number of a list's elements that are kept.
fn kept(elements: usize) -> usize {
    if elements > MOST_ELEMENTS { KEPT_ELEMENTS } else { elements }
}

fn is_of_secret(c: &char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

/// Replaces hashes, which depend on folders.
fn without_hashes(text: &str) -> String {
    let mut done = String::new();
    let is_hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    let mut rest = text;
    while let Some(start) = rest.find(is_hex) {
        let end = rest[start..].find(|c| !is_hex(c)).map_or(rest.len(), |length| start + length);
        done.push_str(&rest[..start]);
        done.push_str(if end - start < HASH_CHARS { &rest[start..end] } else { HASH });
        rest = &rest[end..];
    }
    done + rest
}

fn plain_number(name: &str, number: i64) -> i64 {
    match number {
        _ if name.ends_with("durationMs") || name.ends_with("DurationMs") => DURATION,
        _ if TIMES.contains(&number) => TIME,
        _ if TIMES.contains(&(number / 1000)) => TIME * 1000,
        _ => number,
    }
}

/// Replaces `prefix` and the characters that follow and fit, if there are any.
fn replaced(
    text: &str,
    prefix: &str,
    fits: impl Fn(&char) -> bool,
    mut by: impl FnMut(&str) -> String,
) -> String {
    let mut done = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(prefix) {
        let from = start + prefix.len();
        let tail = rest[from..].find(|c| !fits(&c)).unwrap_or(rest.len() - from);
        done.push_str(&rest[..start]);
        match tail {
            0 => done.push_str(prefix),
            _ => done.push_str(&by(&rest[start..from + tail])),
        }
        rest = &rest[from + tail..];
    }
    done + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_differs_between_runs_becomes_plain() {
        let example = json!({
            "params": { "cwd": "$WORK/src", "home": "$ROOT/home", "ids": ["id-000042", "id-000007"] },
            "result": { "id": "id-000042", "url": "http://127.0.0.1:40123/v1", "createdAt": 1_767_225_612,
                "atMs": 1_767_225_600_123_i64, "durationMs": 7, "count": 3, "map": { "id-000007": true } },
        });
        let plain = plain(example.as_object().unwrap());
        let expected = json!({
            "params": { "cwd": "/home/me/project/src", "home": "/home/me/.agent",
                "ids": ["id-000001", "id-000002"] },
            "result": { "id": "id-000001", "url": "http://127.0.0.1:8000/v1", "createdAt": 1_767_225_600,
                "atMs": 1_767_225_600_000_i64, "durationMs": 120, "count": 3, "map": { "id-000002": true } },
        });
        assert_eq!(Value::Object(plain.clone()), expected);
        assert_eq!(super::plain(&plain), plain);
    }

    #[test]
    fn long_texts_and_lists_are_cut() {
        let example =
            json!({ "params": null, "result": { "text": "é".repeat(200), "list": [1, 2, 3, 4] } });
        let plain = plain(example.as_object().unwrap());
        assert!(!plain.contains_key("params"));
        assert_eq!(plain["result"]["list"], json!([1, 2]));
        let text = plain["result"]["text"].as_str().unwrap();
        assert_eq!((text.chars().count(), text.ends_with('…')), (KEPT_CHARS + 1, true));
    }
}
