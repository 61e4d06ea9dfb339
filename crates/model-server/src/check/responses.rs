//! The rules of the Responses API: its members, and an output for each call.

use serde_json::Value;

use super::fault::{Fault, Path, Problem, Type};

const MEMBERS: [&str; 34] = [
    "background",
    "client_metadata",
    "context_management",
    "conversation",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "moderation",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
    "verbosity",
    "reasoning_effort",
];

const ROLES: [&str; 4] = ["assistant", "system", "developer", "user"];

/// Calls, and the outputs that answer them.
const CALLS: [(&str, &str); 6] = [
    ("function_call", "function_call_output"),
    ("custom_tool_call", "custom_tool_call_output"),
    ("local_shell_call", "local_shell_call_output"),
    ("shell_call", "shell_call_output"),
    ("apply_patch_call", "apply_patch_call_output"),
    ("computer_call", "computer_call_output"),
];

/// Checks a request.
pub(super) fn check(body: &Value) -> Result<(), Fault> {
    let Some(members) = body.as_object() else {
        return Err(Fault::new(Path::default(), Problem::Type(Type::Object, body.to_string())));
    };
    if let Some(name) = members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        return Err(Fault::new(Path::of(name), Problem::Unknown));
    }
    match &body["model"] {
        Value::String(_) => {}
        Value::Null => return Err(Fault::new(Path::of("model"), Problem::Missing)),
        other => {
            return Err(Fault::new(
                Path::of("model"),
                Problem::Type(Type::Text, other.to_string()),
            ));
        }
    }
    check_numbers(body)?;
    let has_state =
        ["previous_response_id", "conversation", "prompt"].iter().any(|it| !body[*it].is_null());
    match &body["input"] {
        Value::String(_) => Ok(()),
        Value::Array(items) => check_items(items, has_state),
        Value::Null if has_state => Ok(()),
        Value::Null => Err(Fault::new(Path::of("input"), Problem::Missing)),
        other => Err(Fault::new(Path::of("input"), Problem::Type(Type::List, other.to_string()))),
    }
}

/// The smallest limit of the output that the API takes, in tokens.
const MIN_OUTPUT: u64 = 16;

/// Members that are numbers, with their ranges.
fn check_numbers(body: &Value) -> Result<(), Fault> {
    for (name, most) in [("temperature", 2.0), ("top_p", 1.0)] {
        let value = &body[name];
        if value.is_null() {
            continue;
        }
        let Some(number) = value.as_f64() else {
            return Err(Fault::new(Path::of(name), Problem::Type(Type::Number, value.to_string())));
        };
        if !(0.0..=most).contains(&number) {
            let message = format!(
                "Invalid '{name}': decimal number out of range. Expected a value between 0 and {most}, but got {number} \
                 instead."
            );
            return Err(Fault::coded(Path::of(name), "decimal_out_of_range", message));
        }
    }
    match &body["max_output_tokens"] {
        Value::Null => Ok(()),
        limit if limit.as_u64().is_some_and(|limit| limit >= MIN_OUTPUT) => Ok(()),
        limit => {
            let message = format!(
                "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {MIN_OUTPUT}, but got \
                 {limit} instead."
            );
            Err(Fault::coded(Path::of("max_output_tokens"), "integer_below_min_value", message))
        }
    }
}

/// Encrypted reasoning is its maker's: that of another wire, or a changed one, cannot be read.
fn check_encrypted(item: &Value, at: &Path) -> Result<(), Fault> {
    let content = item["encrypted_content"].as_str().unwrap_or_default();
    let is_readable =
        !wire::Envelope::is_tagged(content) && !content.starts_with(crate::wires::FALSE_CONTENT);
    if is_readable {
        return Ok(());
    }
    let message = "The encrypted content could not be verified. Reason: Encrypted content could not be decrypted or \
                   parsed.";
    Err(Fault::coded(at.name("encrypted_content"), "invalid_encrypted_content", message))
}

fn check_items(items: &[Value], has_state: bool) -> Result<(), Fault> {
    let mut calls: Vec<(&str, &str)> = Vec::new();
    let mut answered: Vec<(&str, &str)> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let at = Path::of("input").index(index);
        if !item.is_object() {
            return Err(Fault::new(at, Problem::Type(Type::Object, item.to_string())));
        }
        let kind = match &item["type"] {
            Value::String(kind) => kind.as_str(),
            Value::Null if !item["role"].is_null() => "message",
            _ => return Err(Fault::new(at.name("type"), Problem::Missing)),
        };
        if kind == "message" {
            let role = item["role"].as_str().unwrap_or_default();
            if !ROLES.contains(&role) {
                let problem = Problem::Value(role.to_owned(), ROLES.to_vec());
                return Err(Fault::new(at.name("role"), problem));
            }
        }
        if kind == "reasoning" {
            check_encrypted(item, &at)?;
        }
        let id = item["call_id"].as_str();
        if let Some((_, output)) = CALLS.iter().find(|(call, _)| *call == kind) {
            let id = id.ok_or_else(|| Fault::new(at.name("call_id"), Problem::Missing))?;
            calls.push((output, id));
        } else if let Some((call, output)) = CALLS.iter().find(|(_, output)| *output == kind) {
            let id = id.ok_or_else(|| Fault::new(at.name("call_id"), Problem::Missing))?;
            if !has_state && !calls.contains(&(output, id)) {
                let call = call.replace('_', " ");
                let message = format!("No tool call found for {call} output with call_id {id}.");
                return Err(Fault::rule(at, message));
            }
            answered.push((output, id));
        }
    }
    let open = calls.iter().find(|call| !answered.contains(call));
    let Some((output, id)) = open else { return Ok(()) };
    let call = output.trim_end_matches("_output").replace('_', " ");
    Err(Fault::rule(Path::of("input"), format!("No tool output found for {call} {id}.")))
}
