//! Items of a response: the kind of an item at its beginning, its content at its end, and its JSON
//! for a later request. A member that is missing or has another type is inferred from what streamed in.

use serde_json::Value;

use super::lenient::{Members, text_of};
use crate::{Item, ItemKind, Phase, excerpt};

/// The part of an item that streamed in before its end.
#[derive(Debug, Default)]
pub(super) struct Streamed<'a> {
    /// Its JSON at its beginning.
    pub(super) added: Option<&'a str>,
    /// The text of a message, or the input of a call.
    pub(super) text: &'a str,
    /// The sections of the summary of reasoning, and its blocks.
    pub(super) summary: Vec<String>,
    pub(super) content: Vec<String>,
}

/// A finished item with its JSON as input of a later request (see [`crate::Event::ItemDone`]).
pub(super) struct Finished {
    pub(super) item: Item,
    pub(super) raw: String,
    pub(super) id: Option<String>,
}

/// Members that the end of an item takes over from its beginning.
const TAKEN_OVER: [&str; 6] = ["type", "id", "call_id", "name", "role", "phase"];

/// The id and the kind of an added item; `None` if it is none.
pub(super) fn added(json: &str) -> Option<(String, ItemKind)> {
    let members = Members::read(json)?;
    let name = |member| members.name(member).unwrap_or_default();
    let kind = match &*kind_of(&members)? {
        "message" => ItemKind::Message { phase: phase(&members) },
        "reasoning" => ItemKind::Reasoning,
        "function_call" => ItemKind::FunctionCall { call_id: name("call_id"), name: name("name") },
        "custom_tool_call" => {
            ItemKind::CustomToolCall { call_id: name("call_id"), name: name("name") }
        }
        "web_search_call" => ItemKind::WebSearch { query: searched_for(&members.value("action")) },
        "image_generation_call" => ItemKind::ImageGeneration,
        kind => ItemKind::Other { kind: kind.to_owned() },
    };
    Some((name("id"), kind))
}

/// A finished item. `None` if it is none: it has no effect, and is reported in the log.
pub(super) fn done(json: &str, streamed: &Streamed<'_>) -> Option<Finished> {
    let members = Members::read(json).unwrap_or_default();
    let (mut members, mut changed) = (members, false);
    let added = streamed.added.and_then(Members::read).unwrap_or_default();
    let is_same_kind = members.get("type").is_none() || members.get("type") == added.get("type");
    for name in TAKEN_OVER.into_iter().filter(|_| is_same_kind) {
        if let Some(value) = added.get(name).filter(|_| members.get(name).is_none()) {
            members.set(name, value.to_owned());
            changed = true;
        }
    }
    let Some(kind) = kind_of(&members) else {
        let json = excerpt(json);
        tracing::warn!(json, "the model's response has an item that cannot be read");
        return None;
    };
    if members.get("type").is_none() {
        members.set("type", crate::json::quoted(&kind));
        changed = true;
    }
    let is_call = ["function_call", "custom_tool_call", "tool_search_call"].contains(&&*kind);
    let has_number = members.get("call_id").is_some_and(|id| !id.starts_with('"'));
    if let Some(id) = members.name("call_id").filter(|_| is_call && has_number) {
        members.set("call_id", crate::json::quoted(&id));
        changed = true;
    }
    let text = if is_same_kind { streamed.text } else { "" };
    let item = match &*kind {
        "message" => {
            // Some servers have the text only at the beginning.
            let begun = added.get("content").filter(|_| is_same_kind && text.is_empty());
            let begun = begun.and_then(|json| text_of(&serde_json::from_str(json).ok()?));
            message(&mut members, begun.as_deref().unwrap_or(text), &mut changed)
        }
        "reasoning" => reasoning(&mut members, streamed, &mut changed),
        "function_call" => {
            let arguments = input(&mut members, "arguments", text, &mut changed);
            Item::FunctionCall { call_id: call_id(&members), name: call_name(&members), arguments }
        }
        "custom_tool_call" => {
            let input = input(&mut members, "input", text, &mut changed);
            Item::CustomToolCall { call_id: call_id(&members), name: call_name(&members), input }
        }
        "web_search_call" => web_search(&members),
        "image_generation_call" => image_generation(&members),
        "tool_search_call" if members.name("call_id").is_some() => {
            tool_search_call(&mut members, text, &mut changed)
        }
        _ => Item::Other { kind, call_id: members.string("call_id") },
    };
    let id = members.name("id");
    let raw = if changed { members.write() } else { json.to_owned() };
    Some(Finished { item, raw, id })
}

/// The type of an item; one without a type is recognized by its members.
fn kind_of(members: &Members<'_>) -> Option<String> {
    let has = |name| members.get(name).is_some();
    members.string("type").filter(|kind| !kind.is_empty()).or_else(|| {
        let kind = match () {
            () if has("arguments") && has("name") => "function_call",
            () if has("input") && has("name") => "custom_tool_call",
            () if has("summary") || has("encrypted_content") => "reasoning",
            () if has("content") => "message",
            () => return None,
        };
        Some(kind.to_owned())
    })
}

fn phase(members: &Members<'_>) -> Option<Phase> {
    members.string("phase").as_deref().and_then(Phase::from_name)
}

fn call_id(members: &Members<'_>) -> String {
    members.name("call_id").unwrap_or_default()
}

fn call_name(members: &Members<'_>) -> String {
    members.string("name").unwrap_or_default()
}

/// The texts of a list of parts `{"type": …, "text": …}`, or of a text or a part in its place. A list with
/// other things in it is replaced by one of parts of the type `kind`.
fn parts(
    members: &mut Members<'_>,
    name: &'static str,
    kind: &str,
    changed: &mut bool,
) -> Vec<String> {
    let value = members.value(name);
    let is_part = |part: &Value| {
        let is_empty = ["text", "refusal"]
            .iter()
            .any(|name| part.get(*name).is_some_and(|text| !text.is_string()));
        part.is_object() && !is_empty
    };
    let parts = match value {
        Value::Null if members.0.iter().all(|(member, _)| member != name) => return Vec::new(),
        Value::Array(parts) if parts.iter().all(is_part) => {
            return parts.iter().filter_map(part_text).collect();
        }
        Value::Array(parts) => parts,
        Value::Null => Vec::new(),
        other => vec![other],
    };
    *changed = true;
    let fine = parts.into_iter().filter_map(|part| match is_part(&part) {
        true => Some(part),
        false => text_of(&part).map(|text| new_part(kind, &text)),
    });
    let fine: Vec<Value> = fine.collect();
    let texts = fine.iter().filter_map(part_text).collect();
    members.set(name, Value::Array(fine).to_string());
    texts
}

fn part_text(part: &Value) -> Option<String> {
    let text = |name| part.get(name).and_then(Value::as_str).map(str::to_owned);
    // `refusal` instead of `text` when the model declined to answer.
    text("text").or_else(|| text("refusal"))
}

fn new_part(kind: &str, text: &str) -> Value {
    match kind {
        "output_text" => serde_json::json!({ "type": kind, "text": text, "annotations": [] }),
        _ => serde_json::json!({ "type": kind, "text": text }),
    }
}

fn message(members: &mut Members<'_>, streamed: &str, changed: &mut bool) -> Item {
    const KIND: &str = "output_text";
    let mut text = parts(members, "content", KIND, changed).concat();
    if text.is_empty() && !streamed.is_empty() {
        streamed.clone_into(&mut text);
        members.set("content", Value::Array(vec![new_part(KIND, streamed)]).to_string());
        *changed = true;
    }
    if *changed && members.get("role").is_none() {
        members.set("role", "\"assistant\"".to_owned());
    }
    Item::Message { text, phase: phase(members) }
}

fn reasoning(members: &mut Members<'_>, streamed: &Streamed<'_>, changed: &mut bool) -> Item {
    const SUMMARY: &str = "summary_text";
    let mut summary = parts(members, "summary", SUMMARY, changed);
    let mut content = parts(members, "content", "reasoning_text", changed);
    if summary.is_empty() && !streamed.summary.is_empty() {
        summary.clone_from(&streamed.summary);
        let parts = summary.iter().map(|text| new_part(SUMMARY, text)).collect();
        members.set("summary", Value::Array(parts).to_string());
        *changed = true;
    }
    // Not in the history: providers refuse blocks that they do not give back themselves.
    if content.is_empty() {
        content.clone_from(&streamed.content);
    }
    // Providers refuse it as input.
    *changed |= members.remove("status");
    // Without the encrypted content the provider would look up the id, but nothing is stored there.
    if members.string("encrypted_content").is_none() {
        *changed |= members.remove("id");
    }
    Item::Reasoning { summary, content }
}

/// The input of a call: the text, the JSON of another value, or what streamed in.
fn input(
    members: &mut Members<'_>,
    name: &'static str,
    streamed: &str,
    changed: &mut bool,
) -> String {
    let (text, is_text) = match members.get(name) {
        Some(json) if json.starts_with('"') => (as_text(json), true),
        Some(json) => {
            // A converter wraps the free text of a custom tool in an object.
            let wrapped = members.value(name);
            let inner = wrapped.get("input").and_then(Value::as_str).filter(|_| name == "input");
            (inner.map_or_else(|| json.to_owned(), str::to_owned), false)
        }
        None => (String::new(), false),
    };
    let takes_streamed = text.is_empty() && !streamed.is_empty();
    let text = if takes_streamed { streamed.to_owned() } else { text };
    if takes_streamed || !is_text {
        members.set(name, crate::json::quoted(&text));
        *changed = true;
    }
    text
}

/// A member as text: the text that it is, or its JSON; empty for null.
pub(super) fn as_text(json: &str) -> String {
    match serde_json::from_str(json) {
        Ok(Value::String(text)) => text,
        Ok(Value::Null) => String::new(),
        Ok(_) | Err(_) => json.to_owned(),
    }
}

/// A search that the provider carries out itself has no call id, and is not read here.
fn tool_search_call(members: &mut Members<'_>, streamed: &str, changed: &mut bool) -> Item {
    let written = match members.value("arguments") {
        Value::String(text) => text,
        Value::Null => streamed.to_owned(),
        other => {
            return Item::ToolSearchCall {
                call_id: call_id(members),
                arguments: other.to_string(),
            };
        }
    };
    let read: Option<Value> = serde_json::from_str(&written).ok();
    if let Some(object) = read.filter(Value::is_object) {
        members.set("arguments", object.to_string());
        *changed = true;
        return Item::ToolSearchCall { call_id: call_id(members), arguments: object.to_string() };
    }
    let arguments = members.value("arguments").to_string();
    Item::ToolSearchCall { call_id: call_id(members), arguments }
}

fn web_search(members: &Members<'_>) -> Item {
    let action = members.value("action");
    let failed = members.string("status").as_deref() == Some("failed");
    Item::WebSearch { query: searched_for(&action), action, failed }
}

fn image_generation(members: &Members<'_>) -> Item {
    Item::ImageGeneration {
        status: members.string("status"),
        result: members.string("result").unwrap_or_default(),
        revised_prompt: members.string("revised_prompt"),
    }
}

/// The subject of a search: its query, the first of several, its page or pattern.
fn searched_for(action: &Value) -> String {
    let texts = ["query", "queries", "url", "pattern"].iter().filter_map(|name| {
        let value = action.get(*name)?;
        value.as_str().or_else(|| value.as_array()?.iter().find_map(|query| query.as_str()))
    });
    texts.into_iter().find(|text| !text.trim().is_empty()).unwrap_or_default().to_owned()
}
