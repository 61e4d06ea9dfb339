//! Sessions of Claude Code: a line for each message, with the blocks of its API.

use serde_json::Value;

use super::lines::{Builder, each, time};
use super::session::Session;

pub(super) fn parse(bytes: &[u8]) -> Session {
    let mut builder = Builder::default();
    each(bytes, &mut builder, take);
    builder.session
}

fn take(line: &Value, builder: &mut Builder) {
    if let Some(title) =
        ["customTitle", "aiTitle", "summary"].iter().find_map(|key| line[*key].as_str())
    {
        builder.session.title = Some(title.to_owned());
    }
    // Messages of sub-agents, and those that the program adds by itself.
    let is_true = |key: &str| line[key].as_bool() == Some(true);
    if is_true("isSidechain") || is_true("isMeta") || is_true("isCompactSummary") {
        return;
    }
    if builder.session.cwd.is_none() {
        builder.session.cwd = line["cwd"].as_str().map(str::to_owned);
    }
    let at = time(&line["timestamp"]);
    let content = &line["message"]["content"];
    match line["type"].as_str() {
        Some("user") => match content {
            Value::String(text) => user(text, at, builder),
            content => {
                for block in content.as_array().into_iter().flatten() {
                    match block["type"].as_str() {
                        Some("text") => {
                            user(block["text"].as_str().unwrap_or_default(), at, builder);
                        }
                        Some("image") => builder.user("[an image, which was not imported]", at),
                        Some("tool_result") => {
                            let id = block["tool_use_id"].as_str().unwrap_or_default();
                            let is_failed = block["is_error"].as_bool() == Some(true);
                            builder.output(id, &text_of(&block["content"]), is_failed, at);
                        }
                        _ => {}
                    }
                }
            }
        },
        Some("assistant") => {
            for block in content.as_array().into_iter().flatten() {
                match block["type"].as_str() {
                    Some("text") => {
                        builder.assistant(block["text"].as_str().unwrap_or_default(), at);
                    }
                    Some("tool_use") => {
                        let id = block["id"].as_str().unwrap_or_default();
                        let tool = block["name"].as_str().unwrap_or("tool");
                        builder.call(id, tool, block["input"].clone(), at);
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// Leaves out what the program itself reports as words of the user.
fn user(text: &str, at: i64, builder: &mut Builder) {
    let tags = ["<command-name>", "<command-message>", "<local-command-", "<system-reminder>"];
    if !tags.iter().any(|tag| text.trim_start().starts_with(tag)) {
        builder.user(text, at);
    }
}

/// The text of a tool's result.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<&str> =
                blocks.iter().filter_map(|block| block["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}
