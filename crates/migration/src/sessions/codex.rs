//! Sessions of Codex: a line for each item that the model was sent or has sent.

use serde_json::{Value, json};

use super::lines::{Builder, each, time};
use super::session::Session;

pub(super) fn parse(bytes: &[u8]) -> Session {
    let mut builder = Builder::default();
    each(bytes, &mut builder, take);
    builder.session
}

fn take(line: &Value, builder: &mut Builder) {
    let at = time(&line["timestamp"]);
    let payload = &line["payload"];
    match line["type"].as_str() {
        Some("session_meta") if builder.session.cwd.is_none() => {
            builder.session.cwd = payload["cwd"].as_str().map(str::to_owned);
        }
        Some("response_item") => item(payload, at, builder),
        _ => {}
    }
}

fn item(item: &Value, at: i64, builder: &mut Builder) {
    let id = item["call_id"].as_str().unwrap_or_default();
    let name = item["name"].as_str().unwrap_or("tool");
    match item["type"].as_str() {
        Some("message") => {
            for part in item["content"].as_array().into_iter().flatten() {
                let text = part["text"].as_str().unwrap_or_default();
                match item["role"].as_str() {
                    Some("user") if !is_added(text) => builder.user(text, at),
                    Some("assistant") => builder.assistant(text, at),
                    _ => {}
                }
            }
        }
        Some("function_call") => {
            let text = item["arguments"].as_str().unwrap_or_default();
            let arguments = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
            builder.call(id, name, arguments, at);
        }
        Some("custom_tool_call") => builder.call(id, name, json!({ "input": item["input"] }), at),
        Some("local_shell_call") => builder.call(id, "shell", item["action"].clone(), at),
        Some("function_call_output" | "custom_tool_call_output") => {
            let output = &item["output"];
            let text = match output {
                Value::String(text) => text.clone(),
                Value::Array(parts) => {
                    let texts: Vec<&str> =
                        parts.iter().filter_map(|part| part["text"].as_str()).collect();
                    texts.join("\n")
                }
                output => output["content"].as_str().unwrap_or_default().to_owned(),
            };
            let is_failed = output["success"].as_bool() == Some(false);
            builder.output(id, &text, is_failed, at);
        }
        _ => {}
    }
}

/// Returns whether the program itself added the text.
fn is_added(text: &str) -> bool {
    let starts = [
        "<environment_context>",
        "<user_instructions>",
        "<permissions instructions>",
        "# AGENTS.md instructions",
        "<turn_aborted>",
    ];
    starts.iter().any(|start| text.trim_start().starts_with(start))
}
