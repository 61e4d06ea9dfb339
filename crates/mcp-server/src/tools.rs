//! The definitions of the two tools.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// Starts a thread.
pub(crate) const AGENT: &str = "agent";
/// Continues a thread.
pub(crate) const AGENT_REPLY: &str = "agent-reply";

/// Both tools, in the order in which they are listed.
pub(crate) fn all() -> Vec<Tool> {
    vec![agent(), agent_reply()]
}

/// The tool of a name.
pub(crate) fn named(name: &str) -> Option<Tool> {
    all().into_iter().find(|tool| tool.name == name)
}

fn agent() -> Tool {
    let description = "Starts a thread with a coding agent, which works on the prompt in a folder: it \
                       reads and changes files and runs commands within the sandbox. Returns the \
                       agent's final message, and the thread's id for `agent-reply`.";
    let properties = json!({
        "prompt": { "type": "string", "description": "What the agent is to do." },
        "cwd": {
            "type": "string",
            "description": "Absolute path of the folder in which the agent works. Default: the folder of this server.",
        },
        "model": { "type": "string", "description": "Name of the model. Default: the configuration's." },
        "sandbox": {
            "type": "string",
            "enum": ["read-only", "workspace-write", "danger-full-access"],
            "description": "What commands may access. Default: the configuration's.",
        },
        "approvalPolicy": {
            "type": "string",
            "enum": ["untrusted", "on-failure", "on-request", "never"],
            "description": "When the agent asks for approval. Default: the configuration's.",
        },
        "profile": { "type": "string", "description": "Name of a profile of the configuration." },
        "config": {
            "type": "object",
            "additionalProperties": true,
            "description": "Values of the configuration for this thread, by dotted key.",
        },
        "baseInstructions": {
            "type": "string",
            "description": "Replaces the built-in instructions of the agent.",
        },
        "developerInstructions": {
            "type": "string",
            "description": "Text that is added to the instructions of the agent.",
        },
    });
    tool(AGENT, "Coding agent", description, properties, &["prompt"])
}

fn agent_reply() -> Tool {
    let description = "Continues a thread that `agent` started, with a further prompt. Returns the \
                       agent's final message.";
    let properties = json!({
        "threadId": { "type": "string", "description": "Id of the thread, from the result of `agent`." },
        "prompt": { "type": "string", "description": "What the agent is to do next." },
    });
    let needed = ["threadId", "prompt"];
    tool(AGENT_REPLY, "Continue with the coding agent", description, properties, &needed)
}

fn tool(
    name: &'static str,
    title: &str,
    description: &'static str,
    properties: Value,
    required: &[&str],
) -> Tool {
    let input = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    // The agent changes files, runs commands and reaches services, with each call again.
    let annotations = ToolAnnotations::with_title(title)
        .read_only(false)
        .destructive(true)
        .idempotent(false)
        .open_world(true);
    Tool::new(name, description, object(input))
        .with_title(title)
        .with_raw_output_schema(object(output_schema()))
        .with_annotations(annotations)
}

fn output_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "threadId": {
                "type": "string",
                "description": "Id of the thread; absent when none was started.",
            },
            "status": { "type": "string", "enum": ["completed", "failed", "interrupted"] },
            "content": { "type": "string", "description": "The agent's final message." },
            "error": { "type": "string", "description": "Why the turn failed." },
            "declined": {
                "type": "array",
                "items": { "type": "string" },
                "description": "What was declined during the turn, each with the reason.",
            },
            "warnings": {
                "type": "array",
                "items": { "type": "string" },
                "description": "What the server warned of when it opened the thread.",
            },
        },
        "required": ["status", "content"],
    })
}

fn object(value: Value) -> Arc<JsonObject> {
    match value {
        Value::Object(object) => Arc::new(object),
        _ => Arc::default(),
    }
}
