//! The frames of requests: whole, or only what follows the last response of the connection.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json;

/// The members of a body that a frame leaves out: a WebSocket always streams.
const STREAM: &str = r#","store":false,"stream":true"#;
const NOT_STREAM: &str = r#","store":false"#;
const INPUT: &str = r#","input":"#;

/// A body of [`crate::Prompt::encode`].
pub(super) struct Request<'b> {
    /// All before `input`.
    head: &'b str,
    /// All after it, with the brace that ends the body.
    tail: &'b str,
    /// The items of `input` without the brackets.
    items: &'b str,
    /// Where `items` are in the body.
    range: Range<usize>,
    thread: Cow<'b, str>,
}

/// A request with its completed response.
pub(super) struct Exchange {
    body: Bytes,
    head: usize,
    items: Range<usize>,
    tail: usize,
    outputs: Vec<Arc<str>>,
    response_id: String,
}

#[derive(Deserialize)]
struct Members<'b> {
    #[serde(borrow)]
    input: &'b RawValue,
    #[serde(borrow, default)]
    prompt_cache_key: Option<Cow<'b, str>>,
}

impl<'b> Request<'b> {
    /// `None` for bodies that are built in another way.
    pub(super) fn read(body: &'b Bytes) -> Option<Self> {
        let text = std::str::from_utf8(body).ok()?;
        let members: Members<'b> = serde_json::from_str(text).ok()?;
        let input = members.input.get();
        let start = input.as_ptr() as usize - text.as_ptr() as usize;
        let head = text[..start].strip_suffix(INPUT)?;
        let items = input.strip_prefix('[')?.strip_suffix(']')?;
        let tail = &text[start + input.len()..];
        let range = start + 1..start + 1 + items.len();
        let thread = members.prompt_cache_key.unwrap_or_default();
        Some(Self { head, tail, items, range, thread })
    }

    /// The thread whose connection the request uses; empty if it names none.
    pub(super) fn thread(&self) -> &str {
        &self.thread
    }

    /// The frame that follows `last`, and the id of its response if the frame has only the new items: that
    /// is so when all other members are the same, and the items begin with those of the last request and
    /// response, byte by byte.
    pub(super) fn frame<'l>(&self, last: Option<&'l Exchange>) -> (String, Option<&'l str>) {
        let new = last.and_then(|last| Some((last, self.new_items(last)?)));
        let items = new.map_or(self.items, |(_, items)| items);
        let mut frame = Vec::with_capacity(self.head.len() + items.len() + 256);
        frame.extend_from_slice(br#"{"type":"response.create","#);
        let head = &self.head[1..];
        match head.rfind(STREAM) {
            Some(at) => {
                frame.extend_from_slice(&head.as_bytes()[..at]);
                frame.extend_from_slice(NOT_STREAM.as_bytes());
                frame.extend_from_slice(&head.as_bytes()[at + STREAM.len()..]);
            }
            None => frame.extend_from_slice(head.as_bytes()),
        }
        if let Some((last, _)) = new {
            frame.extend_from_slice(br#","previous_response_id":"#);
            json::push_str(&mut frame, &last.response_id);
        }
        frame.extend_from_slice(br#","input":["#);
        frame.extend_from_slice(items.as_bytes());
        frame.push(b']');
        frame.extend_from_slice(self.tail.as_bytes());
        let previous = new.map(|(last, _)| last.response_id.as_str());
        (String::from_utf8_lossy(&frame).into_owned(), previous)
    }

    fn new_items(&self, last: &Exchange) -> Option<&'b str> {
        let is_same = self.head.as_bytes() == &last.body[..last.head]
            && self.tail.as_bytes() == &last.body[last.tail..];
        if !is_same {
            return None;
        }
        let before = std::str::from_utf8(&last.body[last.items.clone()]).ok()?;
        let mut rest = self.items.strip_prefix(before)?;
        for output in &last.outputs {
            rest = rest.strip_prefix(',')?.strip_prefix(&**output)?;
        }
        rest.strip_prefix(',').filter(|rest| !rest.is_empty())
    }

    /// This request with its response.
    pub(super) fn exchange(
        &self,
        body: &Bytes,
        response_id: String,
        outputs: Vec<Arc<str>>,
    ) -> Exchange {
        let (head, items) = (self.head.len(), self.range.clone());
        let tail = body.len() - self.tail.len();
        Exchange { body: body.clone(), head, items, tail, outputs, response_id }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prompt;
    use serde_json::{Value, json};

    fn prompt(instructions: &str, items: &[&str]) -> Bytes {
        let input = items.iter().map(|item| Arc::from(*item)).collect();
        let (model, instructions) = ("m".into(), instructions.into());
        let cache_key = Some("thread \"1\"".into());
        let tools =
            r#"[{"type":"function","enum":[",\"input\":[",",\"store\":false,\"stream\":true"]}]"#;
        Prompt { model, instructions, input, cache_key, tools: tools.into(), ..Prompt::default() }
            .encode()
    }

    #[test]
    fn a_frame_is_the_body_without_what_http_alone_needs() {
        let body = prompt("x", &[r#"{"a":1}"#]);
        let request = Request::read(&body).unwrap();
        assert_eq!(request.thread(), "thread \"1\"");
        let (frame, previous) = request.frame(None);
        let mut expect: Value = serde_json::from_slice(&body).unwrap();
        expect.as_object_mut().unwrap().shift_remove("stream");
        expect["type"] = "response.create".into();
        assert_eq!(serde_json::from_str::<Value>(&frame).unwrap(), expect);
        assert_eq!(previous, None);
        for other in [r#"{"input":"text"}"#, r#"{"input":[]}"#, "{}", "[]", ""] {
            assert!(Request::read(&Bytes::from_static(other.as_bytes())).is_none(), "{other}");
        }
    }

    #[test]
    fn only_an_exact_continuation_is_incremental() {
        let (a, b, c) = (r#"{"a":1}"#, r#"{"b":2}"#, r#"{"c":3}"#);
        let first = prompt("x", &[a]);
        let last = Request::read(&first).unwrap().exchange(&first, "resp_1".into(), vec![b.into()]);
        let check = |instructions: &str, items: &[&str], expect: Option<Value>| {
            let body = prompt(instructions, items);
            let (frame, previous) = Request::read(&body).unwrap().frame(Some(&last));
            let frame: Value = serde_json::from_str(&frame).unwrap();
            assert_eq!(previous, expect.as_ref().map(|_| "resp_1"), "{items:?}");
            assert_eq!(frame.get("previous_response_id").and_then(Value::as_str), previous);
            let all = items.iter().map(|item| serde_json::from_str(item).unwrap()).collect();
            assert_eq!(frame["input"], expect.unwrap_or(Value::Array(all)), "{items:?}");
        };
        check("x", &[a, b, c], Some(json!([{"c": 3}])));
        check("x", &[a, b, c, a], Some(json!([{"c": 3}, {"a": 1}])));
        check("x", &[a, b], None);
        check("x", &[a], None);
        check("x", &[a, c, b], None);
        check("x", &[r#"{"a":2}"#, b, c], None);
        check("x", &[a, r#"{"b":2,"status":"completed"}"#, c], None);
        check("y", &[a, b, c], None);
    }
}
