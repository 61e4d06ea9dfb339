//! Finds the path of the value at a position in a JSON text. `serde_json` reports the position
//! where decoding stopped; computing the path from it costs nothing until there is an error, and
//! needs no second decoder for each type.

/// One container on the path to the position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// The object's current key, as written; `None` before the first.
    Object(Option<&'a str>),
    /// The array's current index.
    Array(usize),
}

/// Returns the path of the value that an error concerns, such as `input[1].text`. `decode` decodes
/// another text as the same type. `None` when the error concerns the whole text.
#[cfg(test)]
fn path_of(
    json: &str,
    error: &serde_json::Error,
    decode: &dyn Fn(&str) -> Option<serde_json::Error>,
) -> Option<String> {
    shown(&steps_of(json, error, decode)?)
}

/// Returns the containers around the value that an error concerns, outermost first.
pub(crate) fn steps_of<'a>(
    json: &'a str,
    error: &serde_json::Error,
    decode: &dyn Fn(&str) -> Option<serde_json::Error>,
) -> Option<Vec<Step<'a>>> {
    let end = position(json, error)?;
    let same = |longer: &str, at: usize| {
        decode(longer).is_some_and(|again| {
            message(&again) == message(error)
                && position(longer, &again).is_some_and(|found| found == at || found == at + 1)
        })
    };
    // Some errors get their position only where the container continues or ends. Inserting another
    // value there distinguishes them from errors about the next value or the container itself.
    let (before, after) = json.split_at(end);
    match before.as_bytes().last()? {
        b',' => {
            let is_before = same(&format!("{before}null,{after}"), end);
            path_at(json, if is_before { end - 1 } else { end })
        }
        b'}' | b']' => {
            let filler = if before.ends_with('}') { ",\"\":null" } else { ",null" };
            let inside = before[..end - 1].trim_end();
            let longer = format!("{inside}{filler}{}", &json[end - 1..]);
            path_at(json, if same(&longer, inside.len()) { inside.len() } else { end })
        }
        _ => path_at(json, end),
    }
}

/// Returns the path of the innermost value that ends or begins at `end`, or encloses it.
fn path_at(json: &str, end: usize) -> Option<Vec<Step<'_>>> {
    let bytes = json.as_bytes();
    let mut steps: Vec<Step<'_>> = Vec::new();
    let mut at = 0;
    while at < end {
        match bytes[at] {
            b'{' => steps.push(Step::Object(None)),
            b'[' => steps.push(Step::Array(0)),
            b'}' | b']' => drop(steps.pop()),
            b',' => match steps.last_mut() {
                Some(Step::Array(index)) => *index += 1,
                Some(Step::Object(key)) => *key = None,
                None => {}
            },
            b'"' => {
                let close = string_end(bytes, at);
                if close >= end {
                    break;
                }
                if let Some(Step::Object(key @ None)) = steps.last_mut() {
                    *key = json.get(at + 1..close - 1);
                }
                at = close;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    // The position of a container's first byte means the container, not its content.
    if at > 0 && at == end && matches!(bytes[at - 1], b'{' | b'[') {
        steps.pop();
    }
    Some(steps)
}

/// Returns the index after the closing quote of the string that begins at `start`.
pub(crate) fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns how many bytes were decoded when the error occurred, without trailing white space.
fn position(json: &str, error: &serde_json::Error) -> Option<usize> {
    let lines = error.line().checked_sub(1)?;
    let before: usize = json.split_inclusive('\n').take(lines).map(str::len).sum();
    Some(json.get(..before + error.column())?.trim_end().len())
}

/// Returns the error without its position, which counts from the start of a text that the caller
/// does not see.
pub(crate) fn message(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    if text.ends_with(&position) {
        text.truncate(text.len() - position.len());
    }
    text
}

/// Formats the path for a person; `None` for the whole text.
pub(crate) fn shown(steps: &[Step<'_>]) -> Option<String> {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Object(Some(key)) if path.is_empty() => path.push_str(key),
            Step::Object(Some(key)) => {
                path.push('.');
                path.push_str(key);
            }
            // Between members, the error concerns the object itself.
            Step::Object(None) => {}
            Step::Array(index) => path.push_str(&format!("[{index}]")),
        }
    }
    (!path.is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only how it fails to decode is used")]
    struct Shape {
        text: String,
        #[serde(default)]
        list: Vec<Inner>,
        #[serde(default)]
        map: BTreeMap<String, u8>,
        #[serde(default)]
        grid: Vec<Vec<u8>>,
        #[serde(default)]
        tagged: Vec<Tagged>,
        one: Option<Tagged>,
        mode: Option<Mode>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
    #[allow(dead_code, reason = "only how it fails to decode is used")]
    enum Tagged {
        A { size: u8 },
        B {},
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    enum Mode {
        Fast,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only how it fails to decode is used")]
    struct Inner {
        size: u8,
    }

    fn path(json: &str) -> String {
        let decode = |json: &str| serde_json::from_str::<Shape>(json).err();
        let error = decode(json).unwrap();
        path_of(json, &error, &decode).unwrap_or_default()
    }

    #[test]
    fn the_wrong_value_is_named() {
        for (json, expected) in [
            (r#"{}"#, ""),
            (r#"{"text":1}"#, "text"),
            (r#"{ "text" : [1] }"#, "text"),
            (r#"{"text":{"a":1}}"#, "text"),
            (r#"{"text":null}"#, "text"),
            (r#"{"text":"a","list":3}"#, "list"),
            (r#"{"text":"a","list":[{"size":1},{}]}"#, "list[1]"),
            (r#"{"text":"a","list":[{"size":"x"}]}"#, "list[0].size"),
            (r#"{"text":"a","list":[{"size":1},{"size":300}]}"#, "list[1].size"),
            ("{\"text\":\"a\",\n \"map\":\n{\"b\":1,\"c d\":[]}}", "map.c d"),
            (r#"{"text":"a","grid":[[1],[2,3,-1]]}"#, "grid[1][2]"),
            (r#"{"text":"a]}\"\\","grid":[[1],{}]}"#, "grid[1]"),
            (r#"{"text":"a","tagged":[{"type":"a","size":1},{"type":"a"}]}"#, "tagged[1]"),
            (
                r#"{"text":"a","tagged":[{"type":"a","size":1} , {"type":"a"} ] , "map":{}}"#,
                "tagged[1]",
            ),
            (r#"{"text":"a","tagged":[{"type":"c"},{"type":"b"}]}"#, "tagged[0].type"),
            (r#"{"text":"a","tagged":[{"type":"b","x":1}]}"#, "tagged[0]"),
            (r#"{"text":"a","one":{"type":"a"}}"#, "one"),
            (r#"{"one":{"type":"a"},"text":"a"}"#, "one"),
            (r#"{"one":{"type":"b"}}"#, ""),
            (r#"{"text":"a","mode":"slow"}"#, "mode"),
            (r#"{"text":"a","mode":"slow" }"#, "mode"),
            (r#"{"mode":"slow","text":"a"}"#, "mode"),
            (r#"{"text":"a","mode":{}}"#, "mode"),
            (r#"{"text":"a","text":"b"}"#, ""),
            (r#"{"other":{"deep":[1,{"x":"}"}]},"text":false}"#, "text"),
        ] {
            assert_eq!(path(json), expected, "{json}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_handled(json in "[\\[\\]{}:,\"\\\\a0-9 \n\u{e4}]{0,60}") {
            let decode = |json: &str| serde_json::from_str::<Shape>(json).err();
            if let Some(error) = decode(&json) {
                let _ = path_of(&json, &error, &decode);
            }
        }
    }
}
