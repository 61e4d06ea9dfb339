//! The messages and other texts of a request, for providers that refused their form or their order.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::rewrite;
use crate::history::message;
use crate::port::prompt::{Prompt, PromptInput};

type Members = Map<String, Value>;

/// A message or an output with its text as one text; `None` for one that has it, or has something else.
pub(super) fn plain_text(item: &mut Members) -> Option<()> {
    if kind(item).ends_with("_output") {
        let text = text_of(item.get("output")?.as_array()?, "\n")?;
        item.insert("output".into(), text.into());
        return Some(());
    }
    let gap = if role(item)? == "assistant" { "" } else { "\n" };
    let text = text_of(item.get("content")?.as_array()?, gap)?;
    item.insert("content".into(), text.into());
    Some(())
}

/// The text of parts that are all text.
fn text_of(parts: &[Value], gap: &str) -> Option<String> {
    let texts: Option<Vec<&str>> = parts
        .iter()
        .map(|part| part.get("text").or_else(|| part.get("refusal")).and_then(Value::as_str))
        .collect();
    texts.map(|texts| texts.join(gap))
}

/// Adds what items of the API have, and a history may lack.
pub(super) fn complete(prompt: &mut Prompt) {
    prompt.input.replace(|at, text| {
        let mut item: Members = serde_json::from_str(text).ok()?;
        let before = item.clone();
        let mark = match kind(&item) {
            "message" if role(&item) == Some("assistant") => "msg",
            "function_call" => "fc",
            "custom_tool_call" => "ctc",
            "reasoning" => "rs",
            _ => return None,
        };
        let add = |item: &mut Members, name: &str, value: Value| {
            if item.get(name).is_none_or(Value::is_null) {
                item.insert(name.to_owned(), value);
            }
        };
        add(&mut item, "id", format!("{mark}_{at:08}").into());
        if mark == "rs" {
            add(&mut item, "summary", json!([]));
        } else {
            add(&mut item, "status", "completed".into());
        }
        if mark == "msg" {
            if let Some(Value::String(text)) = item.get("content") {
                let parts = json!([{ "type": "output_text", "text": text }]);
                item.insert("content".into(), parts);
            }
            let parts = item.get_mut("content").and_then(Value::as_array_mut);
            let texts = parts.into_iter().flatten().filter(|part| part["type"] == "output_text");
            texts
                .filter_map(Value::as_object_mut)
                .for_each(|part| add(part, "annotations", json!([])));
        }
        (item != before).then(|| Value::Object(item).to_string().into())
    });
}

/// A word in place of a text without characters.
pub(super) fn without_empty_text(item: &mut Members) -> Option<()> {
    let (name, word) = match kind(item) {
        "message" => ("content", "(empty)"),
        kind if kind.ends_with("_output") => ("output", "(no output)"),
        _ => return None,
    };
    let is_blank = |text: &Value| text.as_str().is_some_and(|text| text.trim().is_empty());
    match item.get_mut(name)? {
        Value::Array(parts) if !parts.is_empty() => {
            let mut blank = parts.iter_mut().filter_map(|part| part.get_mut("text"));
            let mut changed = false;
            for text in blank.by_ref().filter(|text| is_blank(text)) {
                (*text, changed) = (word.into(), true);
            }
            changed.then_some(())
        }
        text if is_blank(text) || text.is_null() || text.is_array() => {
            *text = word.into();
            Some(())
        }
        _ => None,
    }
}

/// Messages of the model as marked messages of the user.
pub(super) fn quote_answers(prompt: &mut Prompt) {
    rewrite(prompt, |item| {
        if role(item) != Some("assistant") {
            return None;
        }
        let text = match item.get("content")? {
            Value::String(text) => text.clone(),
            parts => text_of(parts.as_array()?, "")?,
        };
        let quote = message("user", &format!("<assistant_message>\n{text}\n</assistant_message>"));
        *item = serde_json::from_str(&quote).ok()?;
        Some(())
    });
}

/// One message in place of those of one role in a row.
pub(super) fn merge(prompt: &mut Prompt) {
    let items = std::mem::replace(&mut prompt.input, PromptInput::new(Vec::new())).into_items();
    let mut merged: Vec<Arc<str>> = Vec::with_capacity(items.len());
    // The message that was added last.
    let mut last: Option<Members> = None;
    for text in items {
        let item: Option<Members> = serde_json::from_str(&text).ok();
        let item = item.filter(|item| role(item).is_some());
        if let (Some(last), Some(item), Some(written)) = (&mut last, &item, merged.last_mut())
            && role(last) == role(item)
        {
            append(last, item);
            *written = Value::Object(last.clone()).to_string().into();
            continue;
        }
        last = item;
        merged.push(text);
    }
    prompt.input = PromptInput::new(merged);
}

/// Adds the content of a message to that of another one of its role.
fn append(to: &mut Members, more: &Members) {
    let kind = if role(to) == Some("assistant") { "output_text" } else { "input_text" };
    let content = match (to.get("content"), more.get("content")) {
        (Some(Value::String(text)), Some(Value::String(more))) => {
            format!("{text}\n\n{more}").into()
        }
        contents => {
            let parts = |content: Option<&Value>| match content {
                Some(Value::Array(parts)) => parts.clone(),
                Some(Value::String(text)) => vec![json!({ "type": kind, "text": text })],
                _ => Vec::new(),
            };
            Value::Array([parts(contents.0), parts(contents.1)].concat())
        }
    };
    let of_one = ["id", "status", "phase"];
    to.retain(|name, _| !of_one.contains(&name.as_str()));
    to.insert("content".into(), content);
}

/// The user's word after a message of the model.
pub(super) fn end_with_user(prompt: &mut Prompt) {
    let last = prompt.input.last().and_then(|item| serde_json::from_str::<Members>(item).ok());
    if last.is_some_and(|item| role(&item) == Some("assistant")) {
        prompt.input.push(message("user", "Go on."));
    }
}

fn kind(item: &Members) -> &str {
    item.get("type").and_then(Value::as_str).unwrap_or("message")
}

/// The role of a message; `None` for another item.
fn role(item: &Members) -> Option<&str> {
    item.get("role").and_then(Value::as_str).filter(|_| kind(item) == "message")
}
