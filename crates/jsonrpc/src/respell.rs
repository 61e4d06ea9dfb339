//! Accepts names in another spelling: when decoding stops at an unknown name that differs from a
//! known one only in case style, the name is replaced in the text and decoding restarts. Only types
//! that refuse unknown members, and names of enumerations, get here. Messages in the
//! specification's spelling cost nothing extra, and no type needs a second decoder.

use std::ops::Range;

use crate::decode_error::{DecodeError, Unknown};
use crate::json_path::{Step, message, shown, steps_of, string_end};

/// Most names of one message that are accepted in another spelling.
const MAX_RESPELLED: usize = 64;
/// serde reports an internally tagged value as a whole. In a larger one no name is searched for.
const MAX_SEARCHED: usize = 64 * 1024;
/// Depth of that search.
const MAX_DEPTH: usize = 32;

/// Returns the text with the names as the type spells them, and without unknown members that are
/// null, which carry no meaning. `error` is the result of decoding `json`; `decode` decodes another
/// text.
///
/// # Errors
/// Why the text cannot be decoded in any spelling.
pub(crate) fn respelled(
    json: &str,
    mut error: serde_json::Error,
    decode: &dyn Fn(&str) -> Option<serde_json::Error>,
) -> Result<String, DecodeError> {
    let mut text = json.to_owned();
    for _ in 0..MAX_RESPELLED {
        text = respell_one(&text, &error, decode)?;
        match decode(&text) {
            None => return Ok(text),
            Some(next) => error = next,
        }
    }
    Err(DecodeError::other(format!(
        "more than {MAX_RESPELLED} names are not spelled as the specification spells them"
    )))
}

fn respell_one(
    text: &str,
    error: &serde_json::Error,
    decode: &dyn Fn(&str) -> Option<serde_json::Error>,
) -> Result<String, DecodeError> {
    let message = message(error);
    let steps = steps_of(text, error, decode).unwrap_or_default();
    let Some(unknown) = Unknown::read(&message) else {
        let found = value_at(text, &steps).and_then(|value| text.get(value));
        // A derived struct decodes from an array by position.
        let is_array = found.is_some_and(|value| value.starts_with('['));
        let message = match is_array && message.starts_with("missing field ") {
            true => "invalid type: array, expected an object".to_owned(),
            false => message,
        };
        return Err(DecodeError::other(message).at(shown(&steps)));
    };
    let respelled = match value_at(text, &steps) {
        None => None,
        Some(value) if unknown.is_member => respell_member(text, &value, &steps, &unknown)?,
        Some(value) => unknown
            .respelled()
            .and_then(|right| find_name(text, &value, &unknown.name, 0).map(|at| (at, right)))
            .map(|(at, right)| replaced(text, at, &format!("\"{right}\""))),
    };
    respelled.ok_or_else(|| DecodeError::unknown(unknown).at(shown(&steps)))
}

/// Returns `None` when no known member differs only in case style.
fn respell_member(
    text: &str,
    value: &Range<usize>,
    steps: &[Step<'_>],
    unknown: &Unknown,
) -> Result<Option<String>, DecodeError> {
    let mut below = steps.to_vec();
    let Some(owner) = find_owner(text, value, &unknown.name, &mut below) else { return Ok(None) };
    let is_it = |child: &Child<'_>| child.is_named(&unknown.name);
    let Some(member) = children(text, &owner).find(is_it) else { return Ok(None) };
    let Some(key) = member.key else { return Ok(None) };
    if &text[member.value.clone()] == "null" {
        return Ok(Some(removed(text, key.start..member.value.end)));
    }
    let Some(right) = unknown.respelled() else {
        return Err(DecodeError::unknown(unknown.clone()).at(shown(&below)));
    };
    if children(text, &owner).any(|child| child.is_named(right)) {
        let twice = format!("`{}` and `{right}` are the same member: give one", unknown.name);
        return Err(DecodeError::other(twice).at(shown(&below)));
    }
    Ok(Some(replaced(text, key, &format!("\"{right}\""))))
}

/// Returns the first object with such a member: the value itself, or one inside it. Extends `path`
/// to it.
fn find_owner<'a>(
    text: &'a str,
    value: &Range<usize>,
    name: &str,
    path: &mut Vec<Step<'a>>,
) -> Option<Range<usize>> {
    if children(text, value).any(|child| child.is_named(name)) {
        return Some(value.clone());
    }
    if value.len() > MAX_SEARCHED || path.len() > MAX_DEPTH {
        return None;
    }
    children(text, value).enumerate().find_map(|(index, child)| {
        path.push(match &child.key {
            Some(key) => Step::Object(text.get(key.start + 1..key.end - 1)),
            None => Step::Array(index),
        });
        let found = find_owner(text, &child.value, name, path);
        if found.is_none() {
            path.pop();
        }
        found
    })
}

/// Finds an unknown name of an enumeration: the value itself, the single member of its object, or a
/// member's value inside an internally tagged value.
fn find_name(text: &str, value: &Range<usize>, name: &str, depth: usize) -> Option<Range<usize>> {
    if is_string(&text[value.clone()], name) {
        return Some(value.clone());
    }
    let mut keys = children(text, value).filter(|child| child.is_named(name));
    if let Some(key) = keys.next().and_then(|child| child.key) {
        return Some(key);
    }
    if value.len() > MAX_SEARCHED || depth > MAX_DEPTH {
        return None;
    }
    children(text, value).find_map(|child| match child.key {
        None if text[child.value.clone()].starts_with('"') => None,
        _ => find_name(text, &child.value, name, depth + 1),
    })
}

/// A value inside an object or an array.
struct Child<'a> {
    text: &'a str,
    /// The key of a member, quotes included.
    key: Option<Range<usize>>,
    value: Range<usize>,
}

impl Child<'_> {
    fn is_named(&self, name: &str) -> bool {
        self.key.as_ref().is_some_and(|key| is_string(&self.text[key.clone()], name))
    }
}

/// Returns whether this JSON is a string with this content.
fn is_string(json: &str, content: &str) -> bool {
    let Some(inside) = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return false;
    };
    inside == content
        || inside.contains('\\')
            && serde_json::from_str::<String>(json).is_ok_and(|text| text == content)
}

/// Returns the direct children of an object or array, without those of nested values.
fn children<'a>(text: &'a str, value: &Range<usize>) -> impl Iterator<Item = Child<'a>> + use<'a> {
    let bytes = text.as_bytes();
    let (mut at, end) = (value.start + 1, value.end.saturating_sub(1));
    let is_object = bytes.get(value.start) == Some(&b'{');
    let is_container = is_object || bytes.get(value.start) == Some(&b'[');
    std::iter::from_fn(move || {
        at = skip(bytes, at);
        if !is_container || at >= end {
            return None;
        }
        let key = is_object.then(|| at..string_end(bytes, at));
        if let Some(key) = &key {
            at = skip(bytes, key.end);
        }
        let value = at..value_end(bytes, at);
        at = value.end;
        Some(Child { text, key, value })
    })
}

/// Returns the index after white space, commas and colons.
fn skip(bytes: &[u8], at: usize) -> usize {
    let is_between = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':');
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| is_between(byte)).count()
}

fn value_end(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = string_end(bytes, at);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth <= 1 => return if depth == 0 { at } else { at + 1 },
            b'}' | b']' => depth -= 1,
            b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

fn value_at(text: &str, steps: &[Step<'_>]) -> Option<Range<usize>> {
    let start = skip(text.as_bytes(), 0);
    let whole = start..value_end(text.as_bytes(), start);
    steps.iter().try_fold(whole, |value, step| {
        let child = match step {
            Step::Object(None) => return Some(value),
            Step::Object(Some(written)) => children(text, &value).find(|child| {
                let key = child.key.as_ref().and_then(|key| text.get(key.start + 1..key.end - 1));
                key == Some(written)
            }),
            Step::Array(index) => children(text, &value).nth(*index),
        };
        child.map(|child| child.value)
    })
}

fn replaced(text: &str, at: Range<usize>, by: &str) -> String {
    format!("{}{by}{}", &text[..at.start], &text[at.end..])
}

/// Returns the text without the member and its comma.
fn removed(text: &str, member: Range<usize>) -> String {
    let (before, after) = (&text[..member.start], &text[member.end..]);
    match after.trim_start().strip_prefix(',') {
        Some(after) => format!("{before}{after}"),
        None => {
            let before = before.trim_end();
            format!("{}{after}", before.strip_suffix(',').unwrap_or(before))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Outer {
        one_name: Option<u8>,
        list: Option<Vec<Tagged>>,
        mode: Option<Mode>,
        map: Option<BTreeMap<String, Option<u8>>>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
    #[serde(deny_unknown_fields)]
    enum Tagged {
        FirstKind { some_path: Option<String>, inner: Option<Box<Tagged>> },
        OtherKind {},
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase")]
    enum Mode {
        OnRequest,
        AsGiven(u8),
    }

    fn read(json: &str) -> Result<Outer, DecodeError> {
        let decode = |json: &str| serde_json::from_str::<Outer>(json).err();
        match decode(json) {
            None => Ok(serde_json::from_str(json).unwrap()),
            Some(error) => {
                respelled(json, error, &decode).map(|text| serde_json::from_str(&text).unwrap())
            }
        }
    }

    #[test]
    fn other_spellings_decode_to_the_same_value() {
        for (json, same) in [
            (r#"{"one_name":1}"#, r#"{"oneName":1}"#),
            (r#"{ "one-name" : 1 , "mode" : null }"#, r#"{"oneName":1}"#),
            (r#"{"one\u005fname":1}"#, r#"{"oneName":1}"#),
            (r#"{"later":null}"#, r#"{}"#),
            (r#"{ "later" : null , "one_name":1,"other": null }"#, r#"{"oneName":1}"#),
            (r#"{"map":{"one_name":null}}"#, r#"{"map":{"one_name":null}}"#),
            (r#"{"mode":"on-request"}"#, r#"{"mode":"onRequest"}"#),
            (r#"{"mode":{"as_given":3}}"#, r#"{"mode":{"asGiven":3}}"#),
            (
                r#"{"list":[{"type":"other_kind"},{"some_path":"other_kind","type":"first-kind"}]}"#,
                r#"{"list":[{"type":"otherKind"},{"somePath":"other_kind","type":"firstKind"}]}"#,
            ),
            (
                r#"{"list":[{"type":"first_kind","inner":{"type":"first_kind","some_path":"a","x":null}}]}"#,
                r#"{"list":[{"type":"firstKind","inner":{"type":"firstKind","somePath":"a"}}]}"#,
            ),
        ] {
            let expect = serde_json::from_str::<Outer>(same).unwrap();
            assert_eq!(read(json).unwrap(), expect, "{json}");
        }
    }

    #[test]
    fn unknown_members_are_named_with_their_path() {
        for (json, expected) in [
            (r#"{"oneNam":1}"#, "unknown member `oneNam`; did you mean `oneName`?"),
            (
                r#"{"map":{"a":true}}"#,
                "`map.a`: invalid type: boolean `true`, expected a whole number from 0 to 255",
            ),
            (
                r#"{"list":[{"type":"firstKind","inner":{"type":"otherKind","colour":1}}]}"#,
                "`list[0].inner`: unknown member `colour`, expected none",
            ),
            (
                r#"{"list":[{"type":"seventh"}]}"#,
                "`list[0].type`: unknown variant `seventh`, expected one of `firstKind`, `otherKind`",
            ),
            (
                r#"{"one_name":1,"oneName":2}"#,
                "`one_name` and `oneName` are the same member: give one",
            ),
            (r#"{"one_name":1,"mode":"onRequest","mode":"onRequest"}"#, "duplicate field `mode`"),
        ] {
            assert_eq!(read(json).unwrap_err().to_string(), expected, "{json}");
        }
    }

    #[test]
    fn too_many_names_are_an_error() {
        let many: Vec<String> = (0..200).map(|_| r#"{"type":"other_kind"}"#.to_owned()).collect();
        let error = read(&format!(r#"{{"list":[{}]}}"#, many.join(","))).unwrap_err().to_string();
        assert!(error.contains("more than 64 names"), "{error}");
    }

    proptest! {
        #[test]
        fn any_json_is_handled(value in any_value()) {
            let json = value.to_string();
            let _ = read(&json);
            let _ = read(&format!(r#"{{"list":[{json}]}}"#));
            let _ = read(&format!(r#"{{"one_name":{json}, "oneName" : null}}"#));
        }
    }

    fn any_value() -> impl Strategy<Value = serde_json::Value> {
        let name =
            prop::sample::select(vec!["type", "one_name", "some-path", "inner", "\u{e4}\"", "x"]);
        let text =
            prop::sample::select(vec!["first_kind", "other-kind", "on_request", "\\\"{", ""]);
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<u8>().prop_map(serde_json::Value::from),
            text.prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
                prop::collection::btree_map(name.clone().prop_map(str::to_owned), inner, 0..4)
                    .prop_map(|all| serde_json::Value::Object(all.into_iter().collect())),
            ]
        })
    }
}
