//! Finds the reasoning that a gateway has sealed in a request that stays in its wire: no provider can read it. Only what
//! has to go is named; every other byte of the request stays as its client wrote it.

use std::ops::Range;

use serde_json::value::RawValue;

use crate::envelope::SEALED;
use crate::gemini;
use crate::json::{At, Object, array, object};
use crate::kind::Wire;

/// A range of a body, and the text in its place.
pub type SealedPart = (Range<usize>, String);

/// The parts of a request with sealed reasoning, in their order and apart from each other. A body that cannot be read has
/// none. `signs_calls` is true for a model of Gemini that refuses calls without a signature: those that lose theirs get
/// the one that is taken for the calls of other models.
#[must_use]
pub fn sealed_parts(wire: Wire, body: &[u8], signs_calls: bool) -> Vec<SealedPart> {
    let body = std::str::from_utf8(body).unwrap_or_default();
    let mut finder = Finder { body, parts: Vec::new(), signs_calls };
    if let Ok(mut root) = Object::read_str(body, &At::Root) {
        match wire {
            Wire::Responses => finder.member(&mut root, "input", |_, item| !is_sealed_item(item)),
            Wire::Messages => finder.member(&mut root, "messages", Finder::message),
            Wire::Chat => finder.member(&mut root, "messages", Finder::chat_message),
            Wire::Gemini => finder.gemini(root),
        }
    }
    finder.parts.sort_by_key(|(range, _)| range.start);
    finder.parts
}

struct Finder<'a> {
    body: &'a str,
    parts: Vec<SealedPart>,
    signs_calls: bool,
}

impl<'a> Finder<'a> {
    /// Looks through the elements of a list, under whichever of its equal names.
    fn member(
        &mut self,
        object: &mut Object<'a>,
        name: &str,
        mut keeps: impl FnMut(&mut Self, &'a RawValue) -> bool,
    ) {
        while let Some(raw) = object.take(name) {
            self.elements(raw, &mut keeps);
        }
    }

    /// Removes the elements of a list that are not kept. Returns false if none is left.
    fn elements(
        &mut self,
        raw: &'a RawValue,
        keeps: &mut impl FnMut(&mut Self, &'a RawValue) -> bool,
    ) -> bool {
        let Ok(list) = array(raw, &At::Root) else { return true };
        let mut kept = Vec::with_capacity(list.len());
        for element in &list {
            let before = self.parts.len();
            kept.push(keeps(self, element));
            if kept.last() == Some(&false) {
                self.parts.truncate(before);
            }
        }
        let range = |at: usize| self.range(list[at].get());
        let last_kept = kept.iter().rposition(|kept| *kept);
        let before = (0..last_kept.unwrap_or(0)).filter(|at| !kept[*at]);
        let mut removed: Vec<_> = before.map(|at| range(at).start..range(at + 1).start).collect();
        if kept.last() == Some(&false) {
            let start = last_kept.map_or_else(|| range(0).start, |last| range(last).end);
            removed.push(start..range(list.len() - 1).end);
        }
        self.parts.extend(removed.into_iter().map(|range| (range, String::new())));
        list.is_empty() || last_kept.is_some()
    }

    /// The place of a part of the body.
    fn range(&self, part: &str) -> Range<usize> {
        let start = part.as_ptr().addr() - self.body.as_ptr().addr();
        start..start + part.len()
    }

    fn replace(&mut self, raw: &RawValue, with: String) {
        self.parts.push((self.range(raw.get()), with));
    }

    /// Returns whether a message of Messages is kept.
    fn message(&mut self, raw: &'a RawValue) -> bool {
        let Ok(mut message) = Object::read(raw, &At::Root) else { return true };
        let Some(content) = message.take("content") else { return true };
        self.elements(content, &mut |_, block| !is_sealed_block(block))
    }

    /// Returns whether a message of Chat Completions is kept. The text of sealed reasoning goes with it.
    fn chat_message(&mut self, raw: &'a RawValue) -> bool {
        let Ok(mut message) = Object::read(raw, &At::Root) else { return true };
        let Some(details) = message.take("reasoning_details") else { return true };
        let Ok(details) = array(details, &At::Root) else { return true };
        let kept: Vec<&str> =
            details.iter().filter(|it| !has_sealed(it, "data")).map(|it| it.get()).collect();
        if kept.len() == details.len() {
            return true;
        }
        if kept.is_empty() {
            message.take("reasoning");
            message.take("reasoning_content");
        }
        let is_said = |raw: &RawValue| !matches!(raw.get(), "\"\"" | "[]");
        let says = ["content", "tool_calls", "refusal", "audio"];
        if !says.iter().any(|name| message.peek(name).is_some_and(is_said)) {
            return false;
        }
        let mut out = String::new();
        object(&mut out, |members| {
            message.copy_rest(members);
            if !kept.is_empty() {
                members.raw("reasoning_details", &format!("[{}]", kept.join(",")));
            }
        });
        self.replace(raw, out);
        true
    }

    fn gemini(&mut self, root: Object<'a>) {
        let mut root = root.in_camel_case();
        self.member(&mut root, "contents", Self::content);
        // A request that is counted may stand inside a member.
        if let Some(inner) = root.take("generateContentRequest")
            && let Ok(inner) = Object::read(inner, &At::Root)
        {
            self.member(&mut inner.in_camel_case(), "contents", Self::content);
        }
    }

    /// Returns whether a content of Gemini is kept.
    fn content(&mut self, raw: &'a RawValue) -> bool {
        let Ok(mut content) = Object::read(raw, &At::Root) else { return true };
        let Some(parts) = content.take("parts") else { return true };
        let list = array(parts, &At::Root).unwrap_or_default();
        if !list.iter().any(|part| is_sealed_part(part)) {
            return true;
        }
        let mut needs_signature = self.signs_calls;
        self.elements(parts, &mut |this, part| this.part(part, &mut needs_signature))
    }

    /// Returns whether a part of a content is kept. `needs_signature` is true until the first call.
    fn part(&mut self, raw: &'a RawValue, needs_signature: &mut bool) -> bool {
        let Ok(part) = Object::read(raw, &At::Root) else { return true };
        let mut part = part.in_camel_case();
        let is_call = part.peek("functionCall").is_some();
        let is_sealed = is_sealed_part(raw);
        let has_own = !is_sealed && part.peek("thoughtSignature").is_some();
        let signature = (is_call && !has_own && *needs_signature).then_some(gemini::NO_SIGNATURE);
        *needs_signature &= !is_call;
        if !is_sealed && signature.is_none() {
            return true;
        }
        part.take("thoughtSignature");
        let is_thought = part.peek("thought").is_some_and(|thought| thought.get() == "true");
        let is_said = |(name, raw): (&str, &RawValue)| {
            name != "thought" && !(name == "text" && raw.get() == "\"\"")
        };
        if is_thought || !part.members().any(is_said) {
            return false;
        }
        let mut out = String::new();
        object(&mut out, |members| {
            part.copy_rest(members);
            members.opt_text("thoughtSignature", signature);
        });
        self.replace(raw, out);
        true
    }
}

fn is_sealed_item(item: &RawValue) -> bool {
    is_of_type(item, &["reasoning"]) && has_sealed(item, "encrypted_content")
}

fn is_sealed_block(block: &RawValue) -> bool {
    is_of_type(block, &["thinking", "redacted_thinking"])
        && (has_sealed(block, "signature") || has_sealed(block, "data"))
}

fn is_sealed_part(part: &RawValue) -> bool {
    let Ok(part) = Object::read(part, &At::Root) else { return false };
    let signature = part.in_camel_case().opt_text(&At::Root, "thoughtSignature").ok().flatten();
    let sealed = signature.and_then(|signature| gemini::envelope_of(&signature));
    sealed.is_some_and(|text| text.starts_with(SEALED))
}

fn is_of_type(raw: &RawValue, kinds: &[&str]) -> bool {
    let Ok(mut object) = Object::read(raw, &At::Root) else { return false };
    let kind = object.opt_text(&At::Root, "type").ok().flatten();
    kind.is_some_and(|kind| kinds.contains(&&*kind))
}

/// Returns whether a member of an object is a text that a gateway has sealed.
fn has_sealed(raw: &RawValue, name: &str) -> bool {
    let Ok(mut object) = Object::read(raw, &At::Root) else { return false };
    let text = object.opt_text(&At::Root, name).ok().flatten();
    text.is_some_and(|text| text.starts_with(SEALED))
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::{Value, json};

    use super::*;

    const TEXT: &str = "gateway:1:mac:wire:1:messages:u:m:e30";

    fn cut(wire: Wire, body: &str, signs_calls: bool) -> String {
        let (mut out, mut at) = (String::new(), 0);
        for (range, with) in sealed_parts(wire, body.as_bytes(), signs_calls) {
            out.push_str(&body[at..range.start]);
            out.push_str(&with);
            at = range.end;
        }
        out.push_str(&body[at..]);
        out
    }

    #[track_caller]
    fn check_bytes(wire: Wire, body: &str, expected: &str) {
        assert_eq!(cut(wire, body, false), expected, "{body}");
        assert!(serde_json::from_str::<Value>(expected).is_ok(), "{expected}");
    }

    #[track_caller]
    fn check(wire: Wire, body: &Value, signs_calls: bool, expected: &Value) {
        let out: Value = serde_json::from_str(&cut(wire, &body.to_string(), signs_calls)).unwrap();
        assert_eq!(out, *expected, "{body}");
    }

    #[test]
    fn items_and_blocks_go_and_no_other_byte_changes() {
        let item = format!(r#"{{"type":"reasoning","summary":[],"encrypted_content":"{TEXT}"}}"#);
        let own = r#"{"type":"reasoning", "encrypted_content":"gAAAA"}"#;
        let user = format!(r#"{{ "role":"user","content":"{TEXT}" }}"#);
        for (list, expected) in [
            (format!("{item}, {user} ,{own}"), format!("{user} ,{own}")),
            (format!("{user} , {item}, {item} ,{own}"), format!("{user} , {own}")),
            (format!("{user}, {own} ,{item} , {item} "), format!("{user}, {own} ")),
            (format!(" {item} "), "  ".to_owned()),
            (format!("{user},{own}"), format!("{user},{own}")),
        ] {
            let body = |list: &str| {
                format!(
                    r#"{{ "model":"m","previous_response_id":"r","input" : [{list}] , "x":1.0}}"#
                )
            };
            check_bytes(Wire::Responses, &body(&list), &body(&expected));
        }
        let block = format!(r#"{{"type":"thinking","thinking":"","signature":"{TEXT}"}}"#);
        let redacted = format!(r#"{{"type":"redacted_thinking","data":"{TEXT}"}}"#);
        let text = format!(r#"{{"type":"text","text":"{TEXT}"}}"#);
        let message = |list: &str| format!(r#"{{"role":"assistant","content":[{list}]}}"#);
        let body = |list: &str| format!(r#"{{"messages":[{user},{list}]}}"#);
        let sealed = message(&format!("{block},{text},{redacted}"));
        check_bytes(Wire::Messages, &body(&sealed), &body(&message(&text)));
        let body = |list: &str| format!(r#"{{"messages":[{user}{list}]}}"#);
        check_bytes(Wire::Messages, &body(&format!(",{}", message(&block))), &body(""));
    }

    #[test]
    fn reasoning_of_chats_goes_with_its_text() {
        let detail = json!({ "type": "reasoning.encrypted", "data": TEXT });
        let own = json!({ "type": "reasoning.text", "text": "hm" });
        let message = |message: Value| json!({ "messages": [message] });
        let said = json!({ "role": "assistant", "content": "a" });
        let with = |details: Value| {
            let mut message = said.clone();
            message["reasoning_content"] = json!("hm");
            message["reasoning_details"] = details;
            message
        };
        check(Wire::Chat, &message(with(json!([detail]))), false, &message(said.clone()));
        let both = message(with(json!([detail, own])));
        check(Wire::Chat, &both, false, &message(with(json!([own]))));
        let only_own = message(with(json!([own])));
        check(Wire::Chat, &only_own, false, &only_own);
        let silent = json!({ "role": "assistant", "content": null, "reasoning_details": [detail] });
        check(Wire::Chat, &message(silent), false, &json!({ "messages": [] }));
    }

    #[test]
    fn parts_of_gemini_lose_their_signature() {
        let sealed = STANDARD.encode(TEXT);
        let call = json!({ "functionCall": { "name": "f" } });
        let with = |mut part: Value, signature: &str| {
            part["thoughtSignature"] = json!(signature);
            part
        };
        let text = json!({ "text": "a" });
        let empty = with(json!({ "text": "" }), &sealed);
        for name in ["contents", "generateContentRequest"] {
            let body = |parts: Value| {
                let contents = json!([{ "role": "model", "parts": parts }]);
                match name {
                    "contents" => json!({ "contents": contents }),
                    _ => json!({ "generateContentRequest": { "contents": contents } }),
                }
            };
            let skip = with(call.clone(), gemini::NO_SIGNATURE);
            let sent = body(json!([with(text.clone(), &sealed), empty, call, call]));
            check(Wire::Gemini, &sent, false, &body(json!([text, call, call])));
            check(Wire::Gemini, &sent, true, &body(json!([text, skip, call])));
            let sent = body(json!([with(call.clone(), &sealed), call]));
            check(Wire::Gemini, &sent, true, &body(json!([skip, call])));
            let own = body(json!([with(call.clone(), "c2ln"), call]));
            check(Wire::Gemini, &own, true, &own);
        }
        let alone = json!({ "contents": [{ "parts": [empty] }] });
        check(Wire::Gemini, &alone, true, &json!({ "contents": [] }));
    }
}
