//! Splits what a program writes into lines of bounded length. Of a line that is too long, the id of the
//! answered request is found, so that its caller gets an error at once.

use serde_json::Value;

/// Bytes kept of the start and of the end of a line that is too long.
const EDGE: usize = 512;

/// Splits a stream into lines.
pub(crate) struct Lines {
    max: usize,
    line: Vec<u8>,
    /// While the rest of a line that is too long is skipped.
    skipped: Option<Skipped>,
}

/// The edges of a line that is too long.
#[derive(Default)]
struct Skipped {
    head: Vec<u8>,
    tail: Vec<u8>,
}

/// A line without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Whole(Vec<u8>),
    /// It was longer than the bound; `answers` is the id that it contains, if it can be found.
    TooLong {
        answers: Option<Value>,
    },
}

impl Lines {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, line: Vec::new(), skipped: None }
    }

    /// Takes bytes and returns the lines that they complete.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (part, rest) = bytes.split_at(end);
            bytes = rest.get(1..).unwrap_or_default();
            self.extend(part);
            lines.push(self.finish());
        }
        self.extend(bytes);
        lines
    }

    /// Returns whether the line that is being read is too long.
    pub(crate) fn is_skipping(&self) -> bool {
        self.skipped.is_some()
    }

    fn extend(&mut self, part: &[u8]) {
        if let Some(skipped) = &mut self.skipped {
            return skipped.extend(part);
        }
        if self.line.len() + part.len() <= self.max {
            return self.line.extend_from_slice(part);
        }
        let mut skipped = Skipped::default();
        skipped.extend(&std::mem::take(&mut self.line));
        skipped.extend(part);
        self.skipped = Some(skipped);
    }

    fn finish(&mut self) -> Line {
        match self.skipped.take() {
            Some(skipped) => Line::TooLong { answers: skipped.id() },
            None => {
                let mut line = std::mem::take(&mut self.line);
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                Line::Whole(line)
            }
        }
    }

    /// Bytes in memory, for tests of the bound.
    #[cfg(test)]
    fn held(&self) -> usize {
        let skipped = self.skipped.as_ref().map_or(0, |kept| kept.head.len() + kept.tail.len());
        self.line.len() + skipped
    }
}

impl Skipped {
    fn extend(&mut self, part: &[u8]) {
        let missing = (EDGE - self.head.len()).min(part.len());
        self.head.extend_from_slice(part.get(..missing).unwrap_or_default());
        let part = part.get(part.len().saturating_sub(EDGE)..).unwrap_or_default();
        self.tail.extend_from_slice(part);
        let excess = self.tail.len().saturating_sub(EDGE);
        self.tail.drain(..excess);
    }

    /// The id of the request that the line answers.
    fn id(&self) -> Option<Value> {
        id_at_start(&self.head).or_else(|| id_at_end(&self.tail))
    }
}

/// The id of the request that a line answers which cannot be read. Another line, such as one of a log,
/// may have an `id` too.
pub(super) fn answered_by(line: &[u8]) -> Option<Value> {
    let has = |member: &[u8]| line.windows(member.len()).any(|part| part == member);
    let is_answer = has(b"\"jsonrpc\"") && !has(b"\"method\"");
    if !is_answer || !(has(b"\"result\"") || has(b"\"error\"")) {
        return None;
    }
    let mut edges = Skipped::default();
    edges.extend(line);
    edges.id()
}

/// The value of the member `id` among the first members of an object, each of which is a string or a
/// number.
fn id_at_start(head: &[u8]) -> Option<Value> {
    let mut rest = trim(head).strip_prefix(b"{")?;
    loop {
        let (key, after) = scalar(rest)?;
        let (value, after) = scalar(trim(after).strip_prefix(b":")?)?;
        if key == "id" {
            return Some(value);
        }
        rest = trim(after).strip_prefix(b",")?;
    }
}

/// The value of the member `id` in a line that ends with it, perhaps followed by `jsonrpc`.
fn id_at_end(tail: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(tail);
    let at = text.rfind("\"id\"")?;
    let after = text.get(at + 4..)?.trim_start().strip_prefix(':')?;
    let (value, after) = scalar(after.as_bytes())?;
    let after = String::from_utf8_lossy(after);
    let end: String = after.chars().filter(|c| !c.is_whitespace()).collect();
    matches!(end.as_str(), "}" | ",\"jsonrpc\":\"2.0\"}").then_some(value)
}

/// A string or a number at the start of `text`, and what follows it.
fn scalar(text: &[u8]) -> Option<(Value, &[u8])> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    let rest = text.get(values.byte_offset()..)?;
    // A number at the end of what is known may have more digits.
    (value.is_string() || value.is_number() && !rest.is_empty()).then_some((value, rest))
}

fn trim(text: &[u8]) -> &[u8] {
    text.trim_ascii_start()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn whole(text: &str) -> Line {
        Line::Whole(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_are_split_and_bounded() {
        let check = |pieces: &[&str], expect: &[Line]| {
            let mut lines = Lines::new(8);
            let found: Vec<Line> =
                pieces.iter().flat_map(|piece| lines.push(piece.as_bytes())).collect();
            assert_eq!(found, expect, "{pieces:?}");
        };
        check(&["ab\ncd", "ef\r\n", "gh"], &[whole("ab"), whole("cdef")]);
        check(&["\n\n"], &[whole(""), whole("")]);
        check(&["12345678\n"], &[whole("12345678")]);
        let long = || Line::TooLong { answers: None };
        check(&["123456789\nab\n"], &[long(), whole("ab")]);
        check(&["12345678", "9", "\n\n"], &[long(), whole("")]);
        let of = |id| Line::TooLong { answers: Some(id) };
        check(&["{\"jsonrpc\":\"2.0\",", "\"id\":7,\"result\":{\"a\n"], &[of(json!(7))]);
        check(&["{\"id\": \"x\" , \"result\":1}\n"], &[of(json!("x"))]);
        check(&["{\"result\":{\"id\":1},\"id\":12}\n"], &[of(json!(12))]);
        check(&["{\"result\":[1],\"id\":3,\"jsonrpc\":\"2.0\"}\n"], &[of(json!(3))]);
        check(&["{\"result\":{\"id\":1}}}}}\n"], &[long()]);
    }

    #[test]
    fn the_id_of_a_huge_answer_is_found() {
        let huge = "x".repeat(100_000);
        for text in [
            format!("{{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":\"{huge}\"}}\n"),
            format!("{{\"result\":\"{huge}\",\"id\":5}}\n"),
        ] {
            for piece in [1000, 4096, 1 << 20] {
                let mut lines = Lines::new(10_000);
                let found: Vec<Line> =
                    text.as_bytes().chunks(piece).flat_map(|bytes| lines.push(bytes)).collect();
                assert_eq!(found, [Line::TooLong { answers: Some(json!(5)) }]);
            }
        }
    }

    proptest! {
        #[test]
        fn any_division_gives_the_same_lines_within_the_bound(
            text in prop::collection::vec(prop::sample::select(b"a{\"id:1,}\n\r ".to_vec()), 0..200),
            cuts in prop::collection::vec(1usize..30, 1..20),
            max in 0usize..40,
        ) {
            let whole = Lines::new(max).push(&text);
            let mut lines = Lines::new(max);
            let mut found = Vec::new();
            let mut rest = text.as_slice();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (part, after) = rest.split_at((*cut).min(rest.len()));
                rest = after;
                found.extend(lines.push(part));
                prop_assert!(lines.held() <= max.max(2 * EDGE));
            }
            prop_assert_eq!(found, whole);
        }
    }
}
