//! Scripted faults of answers: what broken servers and proxies send. They change the events of any wire after these are
//! written, so that a client's reading of them is tested, and not the script's.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use wire::Wire;

use crate::script::player::Action;
use crate::script::{Fault, Step};

/// The model that answers in place of the one that was asked.
const OTHER_MODEL: &str = "another-model";
/// A count of tokens at the beginning, which no script exceeds by chance.
const MANY: u64 = 100_000;
/// The prefix of `encrypted_content` that was changed.
pub(crate) const FALSE_CONTENT: &str = "false:";

/// The faults of one answer.
#[derive(Debug)]
pub(crate) struct Faults {
    wire: Wire,
    faults: Vec<Fault>,
    has_begun: bool,
    /// The arguments of calls as they were cut, by the index of the call.
    cut: BTreeMap<u64, String>,
}

/// A stream of events with faults.
#[derive(Debug)]
pub(crate) struct FaultyStream<A> {
    actions: A,
    faults: Faults,
    /// An event that is not whole yet.
    rest: String,
}

impl Faults {
    /// The faults of a script's steps; `None` without any.
    pub(crate) fn of(steps: &[Step], wire: Wire) -> Option<Self> {
        let faults: Vec<Fault> = steps
            .iter()
            .filter_map(|step| match step {
                Step::Fault(fault) => Some(*fault),
                _ => None,
            })
            .collect();
        let is_any = !faults.is_empty();
        is_any.then(|| Self { wire, faults, has_begun: false, cut: BTreeMap::new() })
    }

    /// A fault that only a stream can have.
    pub(crate) fn of_streams(&self) -> Option<Fault> {
        let mut faults = self.faults.iter();
        faults.find(|it| matches!(it, Fault::RepeatedIndex | Fault::ShrinkingUsage)).copied()
    }

    /// The same stream with the faults.
    pub(crate) fn stream<A: Iterator<Item = Action>>(self, actions: A) -> FaultyStream<A> {
        FaultyStream { actions, faults: self, rest: String::new() }
    }

    /// Changes an answer that is no stream.
    pub(crate) fn document(&mut self, answer: &mut Value) {
        for fault in self.faults.clone() {
            match fault {
                Fault::MissingEnd => end_of_document(answer),
                Fault::CutArguments => self.cut_arguments(answer, true),
                fault => self.everywhere(fault, answer),
            }
        }
    }

    /// Changes the data of an event. Returns false for one that is not sent.
    fn event(&mut self, event: &mut Value) -> bool {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        for fault in self.faults.clone() {
            match fault {
                Fault::MissingEnd if is_last_event(event) => return false,
                Fault::MissingEnd => without_reason(event),
                Fault::ShrinkingUsage if is_first => self.large_usage(event),
                Fault::ShrinkingUsage => {}
                Fault::RepeatedIndex => repeat_index(event),
                Fault::CutArguments => self.cut_arguments(event, false),
                fault => self.everywhere(fault, event),
            }
        }
        true
    }

    /// Changes a value and all that is in it.
    fn everywhere(&self, fault: Fault, value: &mut Value) {
        match value {
            Value::Array(values) => values.iter_mut().for_each(|it| self.everywhere(fault, it)),
            Value::Object(members) => {
                self.in_object(fault, members);
                members.values_mut().for_each(|it| self.everywhere(fault, it));
            }
            _ => {}
        }
    }

    fn in_object(&self, fault: Fault, members: &mut Map<String, Value>) {
        match fault {
            Fault::OtherModel => {
                for name in ["model", "modelVersion"] {
                    if let Some(model) = members.get_mut(name).filter(|it| it.is_string()) {
                        *model = OTHER_MODEL.into();
                    }
                }
            }
            Fault::MissingId => {
                let kind = members.get("type").and_then(Value::as_str).unwrap_or_default();
                match (self.wire, kind) {
                    (Wire::Messages, "tool_use") => drop(members.shift_remove("id")),
                    (Wire::Responses, "function_call" | "custom_tool_call") => {
                        members.shift_remove("call_id");
                    }
                    _ => {}
                }
                // Of Chat Completions, and of Gemini.
                for name in ["tool_calls", "functionCall"] {
                    let calls = match members.get_mut(name) {
                        Some(Value::Array(calls)) => calls.iter_mut().collect(),
                        Some(call) => vec![call],
                        None => continue,
                    };
                    for call in calls.into_iter().filter_map(Value::as_object_mut) {
                        call.shift_remove("id");
                    }
                }
            }
            Fault::FalseSignature => {
                for name in ["signature", "thoughtSignature"] {
                    if let Some(Value::String(signature)) = members.get_mut(name) {
                        *signature = changed(signature);
                    }
                }
                if let Some(Value::String(content)) = members.get_mut("encrypted_content") {
                    content.insert_str(0, FALSE_CONTENT);
                }
            }
            Fault::MissingEnd
            | Fault::ShrinkingUsage
            | Fault::RepeatedIndex
            | Fault::CutArguments => {}
        }
    }

    /// A usage at the beginning that the one at the end falls below.
    fn large_usage(&self, event: &mut Value) {
        match self.wire {
            Wire::Messages => event["message"]["usage"]["output_tokens"] = MANY.into(),
            Wire::Chat => {
                event["usage"] = json!({"prompt_tokens": MANY, "completion_tokens": MANY,
                    "total_tokens": 2 * MANY});
            }
            Wire::Gemini => {
                event["usageMetadata"] = json!({"promptTokenCount": MANY,
                    "candidatesTokenCount": MANY, "totalTokenCount": 2 * MANY});
            }
            Wire::Responses => {
                event["response"]["usage"] = json!({"input_tokens": MANY, "output_tokens": MANY,
                    "total_tokens": 2 * MANY});
            }
        }
    }

    /// Arguments end in their middle. Gemini, whose arguments are objects, says that the call is malformed.
    fn cut_arguments(&mut self, value: &mut Value, is_whole: bool) {
        match self.wire {
            Wire::Gemini => malformed_calls(value),
            Wire::Messages if is_whole => {
                for block in value["content"].as_array_mut().into_iter().flatten() {
                    if block["type"] == "tool_use" {
                        block["input"] = json!({});
                    }
                }
            }
            Wire::Messages => {
                let index = value["index"].as_u64().unwrap_or_default();
                if let Some(Value::String(text)) = value.pointer_mut("/delta/partial_json") {
                    self.cut_delta(index, text);
                }
            }
            Wire::Chat => {
                let part = if is_whole { "/choices/0/message" } else { "/choices/0/delta" };
                let calls = value.pointer_mut(part).and_then(|part| part.get_mut("tool_calls"));
                for call in calls.and_then(Value::as_array_mut).into_iter().flatten() {
                    let index = call["index"].as_u64().unwrap_or_default();
                    let arguments = call.pointer_mut("/function/arguments");
                    match arguments {
                        Some(Value::String(text)) if is_whole => *text = half(text).to_owned(),
                        Some(Value::String(text)) => self.cut_delta(index, text),
                        _ => {}
                    }
                }
            }
            Wire::Responses => {
                let index = value["output_index"].as_u64().unwrap_or_default();
                if value["type"] == "response.function_call_arguments.delta"
                    && let Some(Value::String(text)) = value.get_mut("delta")
                {
                    self.cut_delta(index, text);
                }
                self.cut_wholes(value, None);
            }
        }
    }

    /// A piece of arguments: the first one is halved, and the others are empty.
    fn cut_delta(&mut self, index: u64, text: &mut String) {
        if text.is_empty() {
            return;
        }
        let is_first = !self.cut.contains_key(&index);
        *text = if is_first { half(text).to_owned() } else { String::new() };
        if is_first {
            self.cut.insert(index, text.clone());
        }
    }

    /// Whole arguments of items, and of events that end them, as their deltas were cut.
    fn cut_wholes(&self, value: &mut Value, index: Option<u64>) {
        let own = value.get("output_index").and_then(Value::as_u64).or(index);
        match value {
            Value::Array(values) => {
                (0..).zip(values).for_each(|(at, it)| self.cut_wholes(it, Some(at)));
            }
            Value::Object(members) => {
                if let Some(Value::String(text)) = members.get_mut("arguments") {
                    let cut = own.and_then(|own| self.cut.get(&own));
                    *text = cut.cloned().unwrap_or_else(|| half(text).to_owned());
                }
                members.values_mut().for_each(|it| self.cut_wholes(it, own));
            }
            _ => {}
        }
    }
}

/// Returns whether an event ends a response.
fn is_last_event(event: &Value) -> bool {
    let kinds = ["message_stop", "response.completed", "response.incomplete", "response.failed"];
    event["type"].as_str().is_some_and(|kind| kinds.contains(&kind))
}

/// Removes the reason that ends a stream of chunks, and that of a message.
fn without_reason(event: &mut Value) {
    if let Some(choice) = event.pointer_mut("/choices/0") {
        choice["finish_reason"] = Value::Null;
    }
    // Clients take the reason for the end, too.
    if event["type"] == "message_delta" {
        event["delta"]["stop_reason"] = Value::Null;
    }
    if let Some(Value::Object(candidate)) = event.pointer_mut("/candidates/0") {
        candidate.shift_remove("finishReason");
    }
}

fn end_of_document(answer: &mut Value) {
    without_reason(answer);
    if !answer["stop_reason"].is_null() {
        answer["stop_reason"] = Value::Null;
    }
    if answer["object"] == "response" {
        answer["status"] = "in_progress".into();
    }
}

/// Each block, item or call has the index of the first one.
fn repeat_index(event: &mut Value) {
    for name in ["index", "output_index"] {
        if let Some(index) = event.get_mut(name).filter(|index| index.is_u64()) {
            *index = 0.into();
        }
    }
    let calls = event.pointer_mut("/choices/0/delta/tool_calls").and_then(Value::as_array_mut);
    for call in calls.into_iter().flatten() {
        call["index"] = 0.into();
    }
}

fn malformed_calls(chunk: &mut Value) {
    let Some(candidate) = chunk.pointer_mut("/candidates/0") else { return };
    let Some(parts) = candidate.pointer_mut("/content/parts").and_then(Value::as_array_mut) else {
        return;
    };
    let before = parts.len();
    parts.retain(|part| part.get("functionCall").is_none());
    if parts.len() < before {
        candidate["finishReason"] = "MALFORMED_FUNCTION_CALL".into();
    }
}

/// The first half of a text.
fn half(text: &str) -> &str {
    &text[..text.floor_char_boundary(text.len() / 2)]
}

/// Another signature of the same form.
fn changed(signature: &str) -> String {
    let mut characters = signature.chars();
    match characters.next() {
        None => String::new(),
        Some(first) => {
            let other = if first == 'A' { 'B' } else { 'A' };
            std::iter::once(other).chain(characters).collect()
        }
    }
}

impl<A> FaultyStream<A> {
    /// The whole events of a text, changed.
    fn changed(&mut self, bytes: &[u8]) -> String {
        self.rest.push_str(&String::from_utf8_lossy(bytes));
        let text = std::mem::take(&mut self.rest);
        let end = match self.faults.wire {
            Wire::Gemini => "\r\n\r\n",
            _ => "\n\n",
        };
        let (mut out, mut rest) = (String::with_capacity(text.len()), text.as_str());
        while let Some(at) = rest.find(end) {
            let (event, after) = rest.split_at(at + end.len());
            rest = after;
            self.event(event, &mut out);
        }
        rest.clone_into(&mut self.rest);
        out
    }

    fn event(&mut self, event: &str, out: &mut String) {
        let Some((name, data)) = event.split_once("data: ") else { return out.push_str(event) };
        let json = data.trim_end();
        let end = &data[json.len()..];
        match serde_json::from_str::<Value>(json) {
            Ok(mut value) => {
                if self.faults.event(&mut value) {
                    out.extend([name, "data: ", &value.to_string(), end]);
                }
            }
            // `[DONE]`.
            Err(_) if self.faults.faults.contains(&Fault::MissingEnd) => {}
            Err(_) => out.push_str(event),
        }
    }
}

impl<A: Iterator<Item = Action>> Iterator for FaultyStream<A> {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        loop {
            match self.actions.next()? {
                Action::Bytes(bytes) => {
                    let changed = self.changed(&bytes);
                    if !changed.is_empty() {
                        return Some(Action::Bytes(changed.into()));
                    }
                }
                other => return Some(other),
            }
        }
    }
}
