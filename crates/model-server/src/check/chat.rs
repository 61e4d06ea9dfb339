//! The rules of the Chat Completions API: roles, outputs for each call, tools and their choice, parameters that
//! exclude each other.

use serde_json::Value;

use super::chat_shape as shapes;
use super::fault::{Fault, Path, Problem};
use super::shape::Walk;
use super::tools::is_name;

const MAX_TOOLS: usize = 128;
const MAX_STOPS: usize = 4;
const MAX_METADATA: usize = 16;

/// Checks a request.
pub(super) fn check(body: &Value) -> Result<(), Fault> {
    Walk::default().shape(body, &shapes::BODY)?;
    check_parameters(body)?;
    check_tools(body)?;
    check_messages(body["messages"].as_array().map(Vec::as_slice).unwrap_or_default())?;
    if body["response_format"]["type"] == "json_object"
        && !body["messages"].to_string().to_ascii_lowercase().contains("json")
    {
        let message = "'messages' must contain the word 'json' in some form, to use 'response_format' of type \
                       'json_object'.";
        return Err(Fault::rule(Path::of("messages"), message));
    }
    Ok(())
}

fn check_parameters(body: &Value) -> Result<(), Fault> {
    if !body["max_tokens"].is_null() && !body["max_completion_tokens"].is_null() {
        let message =
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.";
        return Err(Fault::coded(Path::of("max_tokens"), "invalid_parameter_combination", message));
    }
    for name in ["max_tokens", "max_completion_tokens", "n"] {
        if body[name] == 0 {
            let message = format!(
                "Invalid '{name}': integer below minimum value. Expected a value >= 1, but got 0 instead."
            );
            return Err(Fault::coded(Path::of(name), "integer_below_min_value", message));
        }
    }
    if !body["stream_options"].is_null() && body["stream"] != true {
        let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
        return Err(Fault::rule(Path::of("stream_options"), message));
    }
    for (name, most) in [("stop", MAX_STOPS), ("tools", MAX_TOOLS)] {
        let count = body[name].as_array().map_or(0, Vec::len);
        if count > most {
            return Err(Fault::coded(
                Path::of(name),
                "array_above_max_length",
                format!(
                    "Invalid '{name}': array too long. Expected an array with maximum length {most}, but got an array \
                     with length {count} instead."
                ),
            ));
        }
    }
    if body["metadata"].as_object().is_some_and(|metadata| metadata.len() > MAX_METADATA) {
        let message = format!("Invalid 'metadata': at most {MAX_METADATA} pairs are allowed.");
        return Err(Fault::rule(Path::of("metadata"), message));
    }
    if !body["top_logprobs"].is_null() && body["logprobs"] != true {
        let message = "The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled.";
        return Err(Fault::rule(Path::of("top_logprobs"), message));
    }
    Ok(())
}

fn check_tools(body: &Value) -> Result<(), Fault> {
    let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut names = Vec::with_capacity(tools.len());
    if body["tools"].as_array().is_some_and(Vec::is_empty) {
        let message = "Invalid 'tools': empty array. Expected an array with minimum length 1.";
        return Err(Fault::coded(Path::of("tools"), "empty_array", message));
    }
    for (index, tool) in tools.iter().enumerate() {
        let kind = tool["type"].as_str().unwrap_or_default();
        let at = Path::of("tools").index(index).name(kind);
        let name = tool[kind]["name"].as_str().unwrap_or_default();
        if !is_name(name, 64) {
            let at = at.name("name");
            let message = format!(
                "Invalid '{}': string does not match pattern. Expected a string that matches the pattern \
                 '^[a-zA-Z0-9_-]+$' and has at most 64 characters.",
                at.bracketed()
            );
            return Err(Fault::rule(at, message));
        }
        if tool[kind]["strict"] == true
            && let Some(why) = json_schema::strict::violation(&tool[kind]["parameters"])
        {
            let message = format!("Invalid schema for function '{name}': {why}.");
            return Err(Fault::coded(
                at.name("parameters"),
                "invalid_function_parameters",
                message,
            ));
        }
        names.push(name);
    }
    let format = &body["response_format"]["json_schema"];
    if format["strict"] == true
        && let Some(why) = json_schema::strict::violation(&format["schema"])
    {
        let name = format["name"].as_str().unwrap_or_default();
        let message = format!("Invalid schema for response_format '{name}': {why}.");
        return Err(Fault::rule(Path::of("response_format"), message));
    }
    check_choice(body, &names)
}

fn check_choice(body: &Value, names: &[&str]) -> Result<(), Fault> {
    let has_tools = !names.is_empty();
    for name in ["tool_choice", "parallel_tool_calls"] {
        let is_none = name == "tool_choice" && body[name] == "none";
        if !has_tools && !body[name].is_null() && !is_none {
            let message = format!(
                "Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified."
            );
            return Err(Fault::rule(Path::of(name), message));
        }
    }
    let choice = &body["tool_choice"];
    if let Some(mode) = choice.as_str() {
        let known = vec!["none", "auto", "required"];
        if !known.contains(&mode) {
            let problem = Problem::Value(mode.to_owned(), known);
            return Err(Fault::new(Path::of("tool_choice"), problem));
        }
    }
    let kind = choice["type"].as_str().unwrap_or_default();
    let listed = choice["allowed_tools"]["tools"].as_array().into_iter().flatten();
    let wanted = listed.chain(Some(choice)).filter_map(|tool| {
        let kind = tool["type"].as_str()?;
        tool[kind]["name"].as_str()
    });
    for name in wanted {
        if !names.contains(&name) {
            let message =
                format!("Tool choice '{kind}' with name '{name}' not found in 'tools' parameter.");
            return Err(Fault::rule(Path::of("tool_choice"), message));
        }
    }
    Ok(())
}

fn check_messages(messages: &[Value]) -> Result<(), Fault> {
    if messages.is_empty() {
        let message = "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty \
                       array instead.";
        return Err(Fault::coded(Path::of("messages"), "empty_array", message));
    }
    // Ids of the calls that wait for their outputs, and the message that made them.
    let (mut open, mut caller): (Vec<&str>, usize) = (Vec::new(), 0);
    for (index, message) in messages.iter().enumerate() {
        let at = Path::of("messages").index(index);
        let Some(role) = message["role"].as_str() else {
            return Err(Fault::new(at.name("role"), Problem::Missing));
        };
        let Some((_, shape)) = shapes::ROLES.iter().find(|(name, _)| *name == role) else {
            let known = shapes::ROLES.iter().map(|(name, _)| *name).collect();
            return Err(Fault::new(at.name("role"), Problem::Value(role.to_owned(), known)));
        };
        Walk::at(at.clone()).shape(message, shape)?;
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let Some(found) = open.iter().position(|open| *open == id) else {
                let message = "Invalid parameter: messages with role 'tool' must be a response to a preceeding \
                               message with 'tool_calls'.";
                return Err(Fault::rule(
                    at.name("tool_call_id"),
                    format!("{message} No call has the id '{id}'."),
                ));
            };
            open.remove(found);
            continue;
        }
        unanswered(&open, caller)?;
        if role == "assistant" {
            check_assistant(message, &at)?;
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            open = calls.filter_map(|call| call["id"].as_str()).collect();
            caller = index;
        }
    }
    unanswered(&open, caller)
}

fn unanswered(open: &[&str], caller: usize) -> Result<(), Fault> {
    if open.is_empty() {
        return Ok(());
    }
    let message = format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. \
         The following tool_call_ids did not have response messages: {}",
        open.join(", ")
    );
    Err(Fault::rule(Path::of("messages").index(caller).name("tool_calls"), message))
}

fn check_assistant(message: &Value, at: &Path) -> Result<(), Fault> {
    let calls = message["tool_calls"].as_array();
    if calls.is_some_and(Vec::is_empty) {
        let at = at.name("tool_calls");
        let message = format!(
            "Invalid '{}': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            at.bracketed()
        );
        return Err(Fault::coded(at, "empty_array", message));
    }
    for (index, call) in calls.into_iter().flatten().enumerate() {
        let earlier = calls.into_iter().flatten().take(index);
        if earlier.into_iter().any(|other| other["id"] == call["id"]) {
            let at = at.name("tool_calls").index(index).name("id");
            let message =
                format!("Duplicate value for '{}': ids of calls are unique.", at.bracketed());
            return Err(Fault::rule(at, message));
        }
    }
    let has_content = ["content", "refusal", "function_call", "audio"]
        .iter()
        .any(|name| !message[*name].is_null());
    if calls.is_none() && !has_content {
        let message = "Invalid value for 'content': expected a string, got null.";
        return Err(Fault::coded(at.name("content"), "invalid_type", message));
    }
    Ok(())
}
