//! Scripted responses of the model, as the batches of events that a stream yields.

use std::sync::Arc;

use serde_json::{Value, json};
use session::{
    Failure, FailureKind, ModelEvent, ModelItem, ModelItemKind, Retry, SearchAction, Usage,
};

/// The events of one streamed response, one batch an event.
pub(crate) type Response = Vec<ModelEvent>;

/// One output item of a response.
#[derive(Clone, Debug)]
pub(crate) enum Output {
    /// A message, in the parts that it streams in.
    Message(Vec<String>),
    /// A message without deltas.
    Whole(String),
    /// Reasoning: summary sections and raw blocks.
    Reasoning { summary: Vec<String>, content: Vec<String> },
    /// A function call.
    Call { id: String, name: String, arguments: String },
    /// A custom tool call.
    Custom { id: String, name: String, input: String },
    /// A search by the provider.
    Search(String),
    /// Something unknown.
    Unknown,
}

/// A message that streams in two parts.
pub(crate) fn say(text: &str) -> Output {
    let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
    Output::Message(vec![text[..middle].to_owned(), text[middle..].to_owned()])
}

/// A call of a function tool.
pub(crate) fn call(id: &str, name: &str, arguments: Value) -> Output {
    Output::Call { id: id.into(), name: name.into(), arguments: arguments.to_string() }
}

/// A call of `exec_command`.
pub(crate) fn exec(id: &str, cmd: &str) -> Output {
    call(id, "exec_command", json!({ "cmd": cmd }))
}

/// A call of `exec_command` with a terminal.
pub(crate) fn tty(id: &str, cmd: &str) -> Output {
    call(id, "exec_command", json!({ "cmd": cmd, "tty": true }))
}

/// A call of `exec_command` that wants to leave the sandbox.
pub(crate) fn escalated(id: &str, cmd: &str) -> Output {
    let arguments = json!({
        "cmd": cmd,
        "sandbox_permissions": "require_escalated",
        "justification": "needed",
    });
    call(id, "exec_command", arguments)
}

/// A call of `apply_patch` as a function.
pub(crate) fn patch(id: &str, text: &str) -> Output {
    call(id, "apply_patch", json!({ "input": text }))
}

/// A call of `request_user_input` with questions of these ids, secret or not.
pub(crate) fn ask(id: &str, questions: &[(&str, bool)]) -> Output {
    let question = |(id, secret): &(&str, bool)| json!({ "id": id, "header": "h", "question": "Which one?", "isSecret": secret });
    let questions: Vec<Value> = questions.iter().map(question).collect();
    call(id, "request_user_input", json!({ "questions": questions }))
}

/// A call of `request_permissions` for folders to write and perhaps the network.
pub(crate) fn request(id: &str, write: &[&str], network: bool) -> Output {
    let permissions =
        json!({ "file_system": { "write": write }, "network": { "enabled": network } });
    call(id, "request_permissions", json!({ "reason": "needed", "permissions": permissions }))
}

/// A call of `write_stdin`.
pub(crate) fn write(id: &str, session: u64, chars: &str) -> Output {
    call(id, "write_stdin", json!({ "session_id": session, "chars": chars }))
}

/// A whole response.
pub(crate) fn respond(outputs: &[Output]) -> Response {
    let mut events = cut(outputs);
    events.push(completed());
    events
}

/// A response without its end.
pub(crate) fn cut(outputs: &[Output]) -> Response {
    outputs.iter().enumerate().flat_map(|(index, output)| item(index, output)).collect()
}

/// The end of a response.
pub(crate) fn completed() -> ModelEvent {
    let usage = Usage {
        input: 10,
        cached_input: 4,
        output: 3,
        reasoning_output: 1,
        total: 13,
        ..Usage::default()
    };
    ModelEvent::Completed { usage: usage.into() }
}

/// A failure of the stream.
pub(crate) fn failed(retry: Retry) -> ModelEvent {
    ModelEvent::Failed(Failure {
        retry,
        ..Failure::new(FailureKind::ResponseStreamDisconnected, "the stream broke")
    })
}

fn item(index: usize, output: &Output) -> Vec<ModelEvent> {
    let added = |kind| ModelEvent::ItemAdded { index, kind };
    let done = |raw: Value, item| ModelEvent::ItemDone { index, raw: raw_json(&raw), item };
    match output {
        Output::Message(parts) => {
            let mut events = vec![added(ModelItemKind::Message { phase: None })];
            events.extend(
                parts.iter().map(|part| ModelEvent::TextDelta { index, text: part.clone() }),
            );
            events.extend(item(index, &Output::Whole(parts.concat())).pop());
            events
        }
        Output::Whole(text) => {
            let content = json!([{ "type": "output_text", "text": text }]);
            let raw = json!({ "type": "message", "role": "assistant", "content": content });
            vec![done(raw, ModelItem::Message { text: text.clone(), phase: None })]
        }
        Output::Reasoning { summary, content } => {
            let mut events = vec![added(ModelItemKind::Reasoning)];
            for (part, text) in summary.iter().enumerate() {
                events.push(ModelEvent::SummaryPartAdded { index, part });
                events.push(ModelEvent::SummaryDelta { index, part, text: text.clone() });
            }
            for (part, text) in content.iter().enumerate() {
                events.push(ModelEvent::ReasoningDelta { index, part, text: text.clone() });
            }
            let raw = json!({ "type": "reasoning", "summary": summary });
            let (summary, content) = (summary.clone(), content.clone());
            events.push(done(raw, ModelItem::Reasoning { summary, content }));
            events
        }
        Output::Call { id, name, arguments } => {
            let raw = json!({
                "type": "function_call", "call_id": id, "name": name, "arguments": arguments,
            });
            let (call_id, name, arguments) = (id.clone(), name.clone(), arguments.clone());
            let item = ModelItem::FunctionCall { call_id, name, arguments };
            vec![added(ModelItemKind::Other), done(raw, item)]
        }
        Output::Custom { id, name, input } => {
            let raw = json!({
                "type": "custom_tool_call", "call_id": id, "name": name, "input": input,
            });
            let (call_id, name, input) = (id.clone(), name.clone(), input.clone());
            vec![
                added(ModelItemKind::Other),
                done(raw, ModelItem::CustomToolCall { call_id, name, input }),
            ]
        }
        Output::Search(query) => {
            let action = SearchAction::Search { query: Some(query.clone()), queries: None };
            let item =
                ModelItem::WebSearch { query: query.clone(), action: Some(action), failed: false };
            vec![
                added(ModelItemKind::WebSearch { query: String::new() }),
                done(json!({ "type": "web_search_call", "query": query }), item),
            ]
        }
        Output::Unknown => {
            let item = ModelItem::Other { kind: "novel".into(), call_id: None };
            vec![added(ModelItemKind::Other), done(json!({ "type": "novel" }), item)]
        }
    }
}

fn raw_json(value: &Value) -> Arc<str> {
    value.to_string().into()
}
