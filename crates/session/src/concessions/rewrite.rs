//! Writes requests as a provider takes them that refused a part of one.

mod messages;
mod tools;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::history::{message, said};
use crate::port::concession::Concession;
use crate::port::prompt::{Prompt, PromptInput};

/// Members of ids that other members refer to: only the item's own is left out.
const ID: &str = "id";
/// Characters of a call id that every provider takes.
const CALL_ID_LENGTH: u32 = 9;

pub(super) fn apply(concession: &Concession, prompt: &mut Prompt) {
    match concession {
        Concession::EarlierReasoning(count) => {
            let mut seen = 0;
            retain(prompt, |item| {
                let is_reasoning = is_of_type(item, "reasoning");
                seen += usize::from(is_reasoning);
                !is_reasoning || seen > *count
            });
        }
        Concession::Reasoning => retain(prompt, |item| !is_of_type(item, "reasoning")),
        Concession::Images => prompt.leave_out_images(),
        Concession::ToolTypes => tools::only_functions(prompt),
        Concession::SystemMessages => prompt.use_one_system_message(),
        Concession::Ids => without_member(prompt, ID),
        Concession::Member(path) => without_member(prompt, path),
        Concession::Parameter(name) => without_parameter(prompt, name),
        Concession::CallIds => rewrite(prompt, |item| {
            let id = item.get("call_id")?.as_str()?;
            let plain = plain_call_id(id);
            item.insert("call_id".into(), plain.into());
            Some(())
        }),
        Concession::ItemType(kind) if kind == "custom_tool_call" => {
            rewrite(prompt, custom_as_function);
        }
        Concession::ItemType(kind) => {
            let is_meant =
                |item: &Map<String, Value>| item.get("type").is_some_and(|it| it == kind);
            as_texts(prompt, &is_meant);
        }
        Concession::CallsOf(name) => {
            let is_meant =
                |item: &Map<String, Value>| item.get("name").is_some_and(|it| it == name);
            as_texts(prompt, &is_meant);
        }
        Concession::ToolMember(path) => tools::without_member(prompt, path),
        Concession::PlainTexts => rewrite(prompt, messages::plain_text),
        Concession::AllMembers => messages::complete(prompt),
        Concession::NoEmptyTexts => rewrite(prompt, messages::without_empty_text),
        Concession::AnswersAsQuotes => messages::quote_answers(prompt),
        Concession::MergedMessages => messages::merge(prompt),
        Concession::AlternatingRoles => {
            prompt.use_one_system_message();
            messages::merge(prompt);
        }
        Concession::ReasoningMember => prompt.reasoning_member = true,
        Concession::UserAtEnd => messages::end_with_user(prompt),
    }
}

impl Prompt {
    /// Sends what the system and the developer say as one message at the beginning: in the instructions. What
    /// comes later in the conversation becomes a message of the user, marked as what it is.
    pub fn use_one_system_message(&mut self) {
        let mut instructions = self.instructions.to_string();
        let mut is_beginning = true;
        let mut items = Vec::new();
        for item in std::mem::replace(&mut self.input, PromptInput::new(Vec::new())).into_items() {
            let text = system_text(&item);
            is_beginning &= text.is_some();
            match text {
                Some(text) if is_beginning => {
                    let gap = if instructions.is_empty() { "" } else { "\n\n" };
                    instructions.extend([gap, &text]);
                }
                Some(text) => {
                    let marked = format!("<system_message>\n{text}\n</system_message>");
                    items.push(message("user", &marked));
                }
                None => items.push(item),
            }
        }
        self.instructions = instructions.into();
        self.input = PromptInput::new(items);
    }
}

/// The text of a message of the system or the developer.
fn system_text(item: &str) -> Option<String> {
    if !(item.contains("\"developer\"") || item.contains("\"system\"")) {
        return None;
    }
    let item: Value = serde_json::from_str(item).ok()?;
    if item["type"].as_str().is_some_and(|kind| kind != "message")
        || !matches!(item["role"].as_str(), Some("developer" | "system"))
    {
        return None;
    }
    let content = &item["content"];
    let parts = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    let parts: Vec<&str> = content.as_str().into_iter().chain(parts).collect();
    Some(parts.join("\n"))
}

/// A call of a custom tool as one of a function with the text as its member `input`, and its output likewise.
fn custom_as_function(item: &mut Map<String, Value>) -> Option<()> {
    match item.get("type")?.as_str()? {
        "custom_tool_call" => {
            let input = item.shift_remove("input").unwrap_or_default();
            item.insert("arguments".into(), json!({ "input": input }).to_string().into());
            item.insert("type".into(), "function_call".into());
            // It says that it is one of a custom tool.
            item.shift_remove(ID);
            Some(())
        }
        "custom_tool_call_output" => {
            item.insert("type".into(), "function_call_output".into());
            item.shift_remove(ID);
            Some(())
        }
        _ => None,
    }
}

/// Items in place of which the model gets text: what it called, and what that returned. Items that are no
/// calls are left out.
fn as_texts(prompt: &mut Prompt, is_meant: &dyn Fn(&Map<String, Value>) -> bool) {
    let mut called: BTreeMap<String, ()> = BTreeMap::new();
    let items = std::mem::replace(&mut prompt.input, PromptInput::new(Vec::new())).into_items();
    let items = items.into_iter().filter_map(|text| {
        let Ok(item) = serde_json::from_str::<Map<String, Value>>(&text) else { return Some(text) };
        let member = |name: &str| item.get(name).and_then(Value::as_str);
        let kind = member("type").unwrap_or("message");
        let call_id = member("call_id");
        if kind.ends_with("_output") {
            let is_answer = call_id.is_some_and(|id| called.contains_key(id));
            return match is_answer {
                true => Some(output_as_text(&item)),
                false => Some(text),
            };
        }
        if !is_meant(&item) {
            return Some(text);
        }
        let call_id = call_id?;
        called.insert(call_id.to_owned(), ());
        let name = member("name").unwrap_or(kind);
        let input = ["arguments", "input", "action"].into_iter().find_map(|name| item.get(name));
        let input =
            input.map(|input| input.as_str().map_or_else(|| input.to_string(), str::to_owned));
        Some(said(&format!("[I called `{name}` with {}]", input.unwrap_or_default())))
    });
    prompt.input = PromptInput::new(items.collect());
}

fn output_as_text(item: &Map<String, Value>) -> Arc<str> {
    let output = item.get("output").or_else(|| item.get("tools")).unwrap_or(&Value::Null);
    if let Some(parts) =
        output.as_array().filter(|parts| parts.iter().all(|it| it["type"].is_string()))
    {
        let parts = [json!({ "type": "input_text", "text": "[the output of the call:]" })]
            .into_iter()
            .chain(parts.iter().cloned());
        let parts: Vec<Value> = parts.collect();
        return json!({ "type": "message", "role": "user", "content": parts }).to_string().into();
    }
    let text = output.as_str().map_or_else(|| output.to_string(), str::to_owned);
    message("user", &format!("[the output of the call: {text}]"))
}

/// Nine letters and digits that follow from the id: a call and its output keep theirs in common.
fn plain_call_id(id: &str) -> String {
    // FNV-1a; a collision within a thread has no chance.
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let digit = |place: u32| char::from(DIGITS[(hash / 36_u64.pow(place) % 36) as usize]);
    (0..CALL_ID_LENGTH).map(digit).collect()
}

fn is_of_type(item: &str, kind: &str) -> bool {
    item.contains(kind)
        && serde_json::from_str::<Value>(item).is_ok_and(|item| item["type"] == kind)
}

fn retain(prompt: &mut Prompt, mut is_kept: impl FnMut(&str) -> bool) {
    let items = std::mem::replace(&mut prompt.input, PromptInput::new(Vec::new())).into_items();
    prompt.input = PromptInput::new(items.into_iter().filter(|item| is_kept(item)).collect());
}

fn without_member(prompt: &mut Prompt, path: &str) {
    let path: Vec<&str> = path.split('.').collect();
    rewrite(prompt, |item| remove(item, &path).then_some(()));
}

/// Removes the member at the path, also from each object of a list. Returns whether there was one.
fn remove(members: &mut Map<String, Value>, path: &[&str]) -> bool {
    match path {
        [] => false,
        [name] => members.shift_remove(*name).is_some(),
        [name, rest @ ..] => match members.get_mut(*name) {
            Some(Value::Object(members)) => remove(members, rest),
            Some(Value::Array(values)) => {
                let mut removed = false;
                for members in values.iter_mut().filter_map(Value::as_object_mut) {
                    removed |= remove(members, rest);
                }
                removed
            }
            _ => false,
        },
    }
}

/// Leaves out a member of the request.
fn without_parameter(prompt: &mut Prompt, name: &str) {
    match name {
        "reasoning.effort" => prompt.effort = None,
        "reasoning.summary" => prompt.summary = None,
        "reasoning" => (prompt.effort, prompt.summary) = (None, None),
        "text.verbosity" => prompt.verbosity = None,
        "text.format" => schema_as_text(prompt),
        "text" => {
            prompt.verbosity = None;
            schema_as_text(prompt);
        }
        "instructions" => instructions_as_message(prompt),
        "service_tier" => prompt.service_tier = None,
        _ => prompt.left_out.push(name.to_owned()),
    }
}

/// Tells the model which form its answer has, in place of the member for it.
fn schema_as_text(prompt: &mut Prompt) {
    if let Some(schema) = prompt.output_schema.take() {
        let gap = if prompt.instructions.is_empty() { "" } else { "\n\n" };
        prompt.instructions = format!(
            "{}{gap}Your final message is JSON alone, without a fence, that follows this JSON Schema:\n{schema}",
            prompt.instructions
        )
        .into();
    }
}

/// The instructions as the first message.
fn instructions_as_message(prompt: &mut Prompt) {
    if prompt.instructions.is_empty() {
        return;
    }
    let instructions = message("developer", &std::mem::take(&mut prompt.instructions));
    let items = std::mem::replace(&mut prompt.input, PromptInput::new(Vec::new())).into_items();
    prompt.input = PromptInput::new([instructions].into_iter().chain(items).collect());
}

/// Changes items in place; `None` leaves one as it is, byte by byte.
fn rewrite(prompt: &mut Prompt, change: impl Fn(&mut Map<String, Value>) -> Option<()>) {
    prompt.input.replace(|_, item| {
        let mut item: Map<String, Value> = serde_json::from_str(item).ok()?;
        change(&mut item)?;
        Some(Value::Object(item).to_string().into())
    });
}
