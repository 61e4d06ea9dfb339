//! The rules of the Messages API: its headers, the order of roles, results for each call, signatures of thinking,
//! marks of the cache, tools.

use hyper::HeaderMap;
use serde_json::Value;

use super::fault::{Fault, Path, Problem};
use super::messages_shape as shapes;
use super::shape::Walk;
use super::tools::{is_name, open_object};
use super::turns::{Block, Turn, turns};
use crate::signature;

/// Versions of the API that the header may name.
const VERSIONS: [&str; 3] = ["2023-01-01", "2023-06-01", "2026-10-21"];
/// The first version without parameters of sampling.
const WITHOUT_SAMPLING: &str = "2026-10-21";
const MAX_MARKS: usize = 4;
const MIN_BUDGET: u64 = 1024;
const MAX_USER_ID: usize = 256;

/// Families whose answer the request may begin.
const WITH_PREFILL: [&str; 9] = [
    "claude-2",
    "claude-instant",
    "claude-3",
    "claude-sonnet-4-2",
    "claude-sonnet-4-5",
    "claude-opus-4-1",
    "claude-opus-4-2",
    "claude-opus-4-5",
    "claude-haiku-4-5",
];

/// Checks a request for a message.
pub(super) fn check(body: &Value, headers: &HeaderMap) -> Result<(), Fault> {
    let version = check_version(headers)?;
    Walk::default().shape(body, &shapes::BODY)?;
    check_parameters(body, version)?;
    check_rest(body)
}

/// Checks a request to count tokens.
pub(super) fn check_count(body: &Value, headers: &HeaderMap) -> Result<(), Fault> {
    check_version(headers)?;
    Walk::default().shape(body, &shapes::COUNT)?;
    check_rest(body)
}

fn check_rest(body: &Value) -> Result<(), Fault> {
    check_tools(body)?;
    let model = body["model"].as_str().unwrap_or_default();
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    check_contents(messages)?;
    let turns = turns(messages);
    check_turns(&turns, model)?;
    check_signatures(&turns, model)?;
    check_marks(body)
}

pub(crate) fn check_version(headers: &HeaderMap) -> Result<&str, Fault> {
    let Some(version) = headers.get("anthropic-version") else {
        return Err(Fault::rule(Path::default(), "anthropic-version: header is required"));
    };
    let version = version.to_str().unwrap_or_default();
    if !VERSIONS.contains(&version) {
        let message =
            format!("anthropic-version: \"{version}\" is not a valid version for this API");
        return Err(Fault::rule(Path::default(), message));
    }
    Ok(version)
}

fn check_parameters(body: &Value, version: &str) -> Result<(), Fault> {
    if version >= WITHOUT_SAMPLING {
        for name in ["temperature", "top_p", "top_k"] {
            if !body[name].is_null() {
                return Err(Fault::new(Path::of(name), Problem::Unknown));
            }
        }
    }
    if let Some(user) = body["metadata"]["user_id"].as_str()
        && user.chars().count() > MAX_USER_ID
    {
        let message = format!("String should have at most {MAX_USER_ID} characters");
        return Err(Fault::rule(Path::of("metadata").name("user_id"), message));
    }
    for (index, text) in body["stop_sequences"].as_array().into_iter().flatten().enumerate() {
        if text.as_str().is_some_and(|text| text.trim().is_empty()) {
            let message = "each stop sequence must contain non-whitespace";
            return Err(Fault::rule(Path::of("stop_sequences").index(index), message));
        }
    }
    check_thinking(body)
}

fn check_thinking(body: &Value) -> Result<(), Fault> {
    let thinking = &body["thinking"];
    let kind = thinking["type"].as_str().unwrap_or("disabled");
    if kind == "disabled" {
        return Ok(());
    }
    if let Some(budget) = thinking["budget_tokens"].as_u64() {
        let at = Path::of("thinking").name("enabled").name("budget_tokens");
        if budget < MIN_BUDGET {
            let message = format!("Input should be greater than or equal to {MIN_BUDGET}");
            return Err(Fault::rule(at, message));
        }
        if body["max_tokens"].as_u64().unwrap_or_default() <= budget {
            let message = "`max_tokens` must be greater than `thinking.budget_tokens`";
            return Err(Fault::rule(Path::of("max_tokens"), message));
        }
    }
    if matches!(body["tool_choice"]["type"].as_str(), Some("any" | "tool")) {
        let message = "Thinking may not be enabled when tool_choice forces tool use.";
        return Err(Fault::rule(Path::of("tool_choice"), message));
    }
    if body["temperature"].as_f64().is_some_and(|it| (it - 1.0).abs() > f64::EPSILON) {
        let message = "`temperature` may only be set to 1 when thinking is enabled";
        return Err(Fault::rule(Path::of("temperature"), message));
    }
    Ok(())
}

fn check_tools(body: &Value) -> Result<(), Fault> {
    let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut names: Vec<&str> = Vec::with_capacity(tools.len());
    for (index, tool) in tools.iter().enumerate() {
        let at = Path::of("tools").index(index);
        let kind = tool["type"].as_str();
        Walk::at(at.clone()).shape(tool, shapes::tool(kind))?;
        let name = tool["name"].as_str().unwrap_or_default();
        if !is_name(name, 128) {
            let message = "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'";
            return Err(Fault::rule(at.name("name"), message));
        }
        if names.contains(&name) {
            return Err(Fault::rule(at.name("name"), "Tool names must be unique."));
        }
        names.push(name);
        if kind.is_some_and(|kind| kind != "custom") {
            continue;
        }
        let schema = at.name("input_schema");
        match tool["input_schema"].get("type") {
            None => return Err(Fault::new(schema.name("type"), Problem::Missing)),
            Some(kind) if kind != "object" => {
                return Err(Fault::rule(schema.name("type"), "Input should be 'object'"));
            }
            Some(_) => {}
        }
        if tool["strict"] == true {
            check_closed(&tool["input_schema"], &schema)?;
        }
    }
    let schema = &body["output_config"]["format"]["schema"];
    if !schema.is_null() {
        check_closed(schema, &Path::of("output_config").name("format").name("schema"))?;
    }
    let choice = &body["tool_choice"];
    let at = Path::of("tool_choice");
    if tools.is_empty() && matches!(choice["type"].as_str(), Some("any" | "tool")) {
        return Err(Fault::rule(at, "may only be specified while providing tools"));
    }
    if let Some(name) = choice["name"].as_str()
        && !names.contains(&name)
    {
        return Err(Fault::rule(
            at.name("name"),
            format!("Tool '{name}' not found in provided tools"),
        ));
    }
    Ok(())
}

/// A schema that answers are held to: each object says that it has no other members.
fn check_closed(schema: &Value, at: &Path) -> Result<(), Fault> {
    match open_object(schema, at) {
        None => Ok(()),
        Some(at) => {
            let message =
                "For 'object' type, 'additionalProperties' must be explicitly set to false";
            Err(Fault::rule(at, message))
        }
    }
}

fn check_contents(messages: &[Value]) -> Result<(), Fault> {
    let Some(first) = messages.first() else {
        return Err(Fault::rule(Path::of("messages"), "at least one message is required"));
    };
    if first["role"] != "user" {
        let at = Path::of("messages").index(0).name("role");
        return Err(Fault::rule(at, "first message must use the \"user\" role"));
    }
    for (index, message) in messages.iter().enumerate() {
        let at = Path::of("messages").index(index);
        let is_empty = match &message["content"] {
            Value::String(text) => text.is_empty(),
            Value::Array(blocks) => blocks.is_empty(),
            _ => false,
        };
        let is_last = index + 1 == messages.len() && message["role"] == "assistant";
        if is_empty && !is_last {
            let message = "all messages must have non-empty content except for the optional final assistant message";
            return Err(Fault::rule(at, message));
        }
        for (block, value) in message["content"].as_array().into_iter().flatten().enumerate() {
            let at = at.name("content").index(block);
            check_block(value, message["role"].as_str().unwrap_or_default(), &at)?;
        }
    }
    Ok(())
}

fn check_block(block: &Value, role: &str, at: &Path) -> Result<(), Fault> {
    let kind = block["type"].as_str().unwrap_or_default();
    let of_assistant =
        matches!(kind, "tool_use" | "thinking" | "redacted_thinking" | "server_tool_use");
    if of_assistant && role != "assistant" {
        let message = format!("`{kind}` blocks can only be in `assistant` messages");
        return Err(Fault::rule(at.clone(), message));
    }
    if matches!(kind, "tool_result" | "image") && role != "user" {
        let message = format!("`{kind}` blocks can only be in `user` messages");
        return Err(Fault::rule(at.clone(), message));
    }
    if role == "system" && kind != "text" {
        return Err(Fault::rule(at.clone(), "`system` messages can only have `text` blocks"));
    }
    match kind {
        "text" if block["text"] == "" => {
            Err(Fault::rule(at.clone(), "text content blocks must be non-empty"))
        }
        "image" | "document" => check_data(block, at),
        "tool_use" => {
            let id = block["id"].as_str().unwrap_or_default();
            if is_name(id, usize::MAX) {
                return Ok(());
            }
            Err(Fault::rule(at.name("id"), "String should match pattern '^[a-zA-Z0-9_-]+$'"))
        }
        "tool_result" => {
            let parts = block["content"].as_array().into_iter().flatten().enumerate();
            parts
                .filter(|(_, part)| part["type"] == "image" || part["type"] == "document")
                .try_for_each(|(index, part)| check_data(part, &at.name("content").index(index)))
        }
        _ => Ok(()),
    }
}

/// Data of an image or a document is base64.
fn check_data(block: &Value, at: &Path) -> Result<(), Fault> {
    use base64::Engine;
    let source = &block["source"];
    let data = source["data"].as_str().filter(|_| source["type"] == "base64");
    let is_valid = data.is_none_or(|data| {
        !data.is_empty() && base64::engine::general_purpose::STANDARD.decode(data).is_ok()
    });
    if is_valid {
        return Ok(());
    }
    Err(Fault::rule(at.name("source").name("data"), "invalid base64 data"))
}

fn check_turns(turns: &[Turn<'_>], model: &str) -> Result<(), Fault> {
    let mut ids: Vec<&str> = Vec::new();
    for (index, turn) in turns.iter().enumerate() {
        let calls: Vec<&Block<'_>> = turn.of("tool_use").collect();
        for call in &calls {
            let id = call.text("id");
            if ids.contains(&id) {
                return Err(Fault::rule(call.at.name("id"), "`tool_use` ids must be unique"));
            }
            ids.push(id);
        }
        let next = turns.get(index + 1);
        check_results(&calls, next, turn)?;
        let before: Vec<&str> = match index.checked_sub(1).map(|before| &turns[before]) {
            Some(before) => before.of("tool_use").map(|call| call.text("id")).collect(),
            None => Vec::new(),
        };
        for result in turn.of("tool_result") {
            let id = result.text("tool_use_id");
            if !before.contains(&id) {
                let message = format!(
                    "unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must \
                     have a corresponding `tool_use` block in the previous message."
                );
                return Err(Fault::rule(result.at.clone(), message));
            }
        }
    }
    match turns.last() {
        Some(last) if last.role == "assistant" => check_prefill(last, model),
        _ => Ok(()),
    }
}

/// Each call has one result, at the beginning of the next turn.
fn check_results(
    calls: &[&Block<'_>],
    next: Option<&Turn<'_>>,
    turn: &Turn<'_>,
) -> Result<(), Fault> {
    if calls.is_empty() {
        return Ok(());
    }
    let leading: Vec<&str> = next
        .into_iter()
        .flat_map(|next| next.blocks.iter().take_while(|block| block.kind == "tool_result"))
        .map(|block| block.text("tool_use_id"))
        .collect();
    let missing: Vec<&str> =
        calls.iter().map(|call| call.text("id")).filter(|id| !leading.contains(id)).collect();
    if !missing.is_empty() {
        let message = format!(
            "`tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block must \
             have a corresponding `tool_result` block in the next message.",
            missing.join(", ")
        );
        return Err(Fault::rule(Path::of("messages").index(turn.last), message));
    }
    for (index, id) in leading.iter().enumerate() {
        if leading[..index].contains(id) {
            let message = format!(
                "each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
            );
            return Err(Fault::rule(Path::of("messages").index(turn.last + 1), message));
        }
    }
    Ok(())
}

/// The last turn is the assistant's: older models continue it.
fn check_prefill(last: &Turn<'_>, model: &str) -> Result<(), Fault> {
    if !WITH_PREFILL.iter().any(|family| model.contains(family)) {
        let message = "This model does not support assistant message prefill. The conversation must end with a user \
                       message.";
        return Err(Fault::rule(Path::of("messages").index(last.last), message));
    }
    let text =
        last.blocks.last().filter(|block| block.kind == "text").map(|block| block.text("text"));
    if text.is_some_and(|text| text.ends_with(char::is_whitespace)) {
        let message = "final assistant content cannot end with trailing whitespace";
        return Err(Fault::rule(Path::of("messages").index(last.last), message));
    }
    Ok(())
}

/// Thinking comes back as this server sent it, for the model that it was made for.
fn check_signatures(turns: &[Turn<'_>], model: &str) -> Result<(), Fault> {
    for turn in turns.iter().filter(|turn| turn.role == "assistant") {
        for block in &turn.blocks {
            let is_own = match block.kind {
                "thinking" => signature::is_of_thinking(
                    model,
                    block.text("thinking"),
                    block.text("signature"),
                ),
                // This server hides no thinking.
                "redacted_thinking" => false,
                _ => true,
            };
            if !is_own {
                let member = if block.kind == "thinking" { "signature" } else { "data" };
                let message = format!("Invalid `{member}` in `{}` block", block.kind);
                return Err(Fault::rule(block.at.clone(), message));
            }
        }
        if let Some(last) = turn.blocks.last()
            && matches!(last.kind, "thinking" | "redacted_thinking")
        {
            let message = "The final block in an assistant message cannot be `thinking`.";
            return Err(Fault::rule(last.at.clone(), message));
        }
    }
    Ok(())
}

/// At most four marks of the cache, those that stay longer first.
fn check_marks(body: &Value) -> Result<(), Fault> {
    let mut marks: Vec<(Path, bool)> = Vec::new();
    super::marks::each(body, &mut |at, mark| marks.push((at.clone(), mark["ttl"] == "1h")));
    if marks.len() > MAX_MARKS {
        let message = format!(
            "A maximum of {MAX_MARKS} blocks with cache_control may be provided. Found {}.",
            marks.len()
        );
        return Err(Fault::rule(marks[MAX_MARKS].0.clone(), message));
    }
    for (index, (at, is_long)) in marks.iter().enumerate() {
        if *is_long && marks[..index].iter().any(|(_, is_long)| !is_long) {
            let message = "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block; the \
                           order is tools, system, messages";
            return Err(Fault::rule(at.name("cache_control"), message));
        }
    }
    Ok(())
}
