//! Calls of tools of MCP servers, each in a task of its own, and what their results are for clients and
//! for the model.

use std::collections::HashMap;

use mcp::{Call, Digest, Progress, Reports};
use serde::de::DeserializeOwned;
use serde_json::Value;
use session::{ServerAnswer, ServerCall, ServerOutcome, ServerResult, ToolContent, ToolError};
use telemetry::TraceContext;
use tokio::sync::{mpsc, oneshot};

use crate::thread::inspect::AnswerImages;
use services::allowed::MachineInput;
use services::panics::{self, Panic};
use services::server_skills::{read_skill_file, reads_skill_file};
use services::thread_port::Command;
use services::undo::{self, CallRecorder};

/// The calls of MCP servers' tools.
pub struct ServerCalls {
    thread: String,
    sender: mpsc::Sender<Command>,
    /// Calls that are being carried out, by the session's number; bounded by the tool calls of a
    /// response. A dropped entry cancels its call.
    running: HashMap<u64, oneshot::Sender<()>>,
}

/// The surroundings of a call.
pub(super) struct CallPlace {
    pub(super) turn: String,
    /// Records what it changes.
    pub(super) recorder: Option<CallRecorder>,
    /// Its position in a trace.
    pub(super) trace: Option<TraceContext>,
}

/// The metadata of a call, as the conventions for MCP carry a trace.
fn trace_meta(trace: TraceContext) -> serde_json::Map<String, Value> {
    [("traceparent".to_owned(), trace.to_string().into())].into_iter().collect()
}

impl ServerCalls {
    pub fn new(thread: String, sender: mpsc::Sender<Command>) -> Self {
        Self { thread, sender, running: HashMap::new() }
    }

    /// Calls the tool that was offered. `server` is the one that offered it, or why it cannot be called.
    pub(super) fn start(
        &mut self,
        request: u64,
        call: ServerCall,
        place: CallPlace,
        server: Result<mcp::Server, String>,
        images: AnswerImages,
    ) {
        self.running.retain(|_, cancel| !cancel.is_closed());
        let (cancel, cancelled) = oneshot::channel();
        self.running.insert(request, cancel);
        let CallPlace { turn, recorder, trace } = place;
        let (sender, holder) = (self.sender.clone(), self.thread.clone());
        // From now on: a server that the configuration has no longer finishes its calls.
        let in_use = server.as_ref().ok().map(mcp::Server::in_use);
        tokio::spawn(async move {
            let _in_use = in_use;
            let _recorded = undo::begin_call(recorder).await;
            let (progress, reports) = mcp::reports();
            let wanted = Call {
                holder: Some(holder),
                turn: Some(turn),
                tool: call.target.tool.clone(),
                digest: Some(Digest::from_bytes(call.target.digest)),
                arguments: arguments(&call.arguments),
                exact_arguments: arguments(&call.arguments),
                meta: trace.map(trace_meta),
                progress: Some(progress),
            };
            let work = panics::catch(outcome(server, wanted, images));
            let answered = tokio::select! {
                answered = reported(request, work, reports, &sender) => answered,
                // The turn has ended.
                _ = cancelled => return,
            };
            let Some(outcome) = answered else { return };
            let outcome = outcome.unwrap_or_else(|Panic(panic)| {
                tracing::error!(target: "server::mcp", "the call of a tool panicked: {panic}");
                Err(ToolError::new(format!("an error in the server ended the call ({panic})")))
            });
            let outcome = Box::new(outcome);
            // A thread that has ended needs no answer.
            let input = MachineInput::ServerAnswered { request, outcome };
            let _ = sender.send(Command::Input(input)).await;
        });
    }

    /// The answer to a call is no longer wanted: the server is notified.
    pub(super) fn cancel(&mut self, request: u64) {
        self.running.remove(&request);
    }

    /// Cancels all calls.
    pub(super) fn clear(&mut self) {
        self.running.clear();
    }
}

/// The outcome of `work`, after all reports of progress that came before it were passed on. `None`:
/// the thread has ended.
async fn reported<T>(
    request: u64,
    work: impl Future<Output = T>,
    mut reports: Reports,
    sender: &mpsc::Sender<Command>,
) -> Option<T> {
    let mut work = std::pin::pin!(work);
    let mut outcome = None;
    loop {
        let report = tokio::select! {
            biased;
            Some(report) = reports.recv() => report,
            done = &mut work, if outcome.is_none() => {
                outcome = Some(done);
                // What was reported until now comes first.
                reports.close();
                continue;
            }
            else => return outcome,
        };
        let message = described(&report);
        let input = MachineInput::ServerProgressed { request, message };
        sender.send(Command::Input(input)).await.ok()?;
    }
}

fn described(report: &Progress) -> String {
    let Progress { progress, total, message } = report;
    let count = match total {
        Some(total) => format!("{progress} of {total}"),
        None => progress.to_string(),
    };
    match message {
        Some(message) => format!("{message} ({count})"),
        None => count,
    }
}

/// The arguments of a call, which were read as an object.
fn arguments<T: DeserializeOwned>(json: &str) -> Option<T> {
    serde_json::from_str(json).ok()
}

async fn outcome(
    server: Result<mcp::Server, String>,
    call: Call,
    images: AnswerImages,
) -> ServerOutcome {
    let server = server.map_err(ToolError::new)?;
    running(&server).await?;
    let result = match reads_skill_file(&call) {
        true => read_skill_file(&server, call).await,
        false => server.call(call).await.map_err(|error| error.to_string()),
    };
    let result = result
        .map_err(|error| ToolError::new(format!("MCP server `{}`: {error}", server.name())))?;
    let (answer, content) = read(result);
    Ok(ServerAnswer { content: images.prepared(content).await, ..answer })
}

/// Waits for a server that is on its way back; one that has failed is started.
async fn running(server: &mcp::Server) -> Result<(), ToolError> {
    let (name, limit) = (server.name(), server.definition().tool_timeout);
    let why = match tokio::time::timeout(limit, server.ready()).await {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(error)) => error,
        Err(_) => {
            return Err(ToolError::new(format!(
                "the MCP server `{name}` is still starting after {} s (`tool_timeout_sec`); call it again \
                 later",
                limit.as_secs_f64()
            )));
        }
    };
    let next = match server.next_start() {
        Some(pause) => format!("in {} s, or with the next call", pause.as_secs_f64().ceil()),
        None => "with the next call".to_owned(),
    };
    Err(ToolError::new(format!(
        "the MCP server `{name}` is not running: {why}; it is started again {next}"
    )))
}

/// A result for clients, and its content for the model with images as they came.
fn read(mut result: Value) -> (ServerAnswer, Vec<ToolContent>) {
    show(&mut result);
    let parts = match result.get_mut("content").map(Value::take) {
        Some(Value::Array(parts)) => parts,
        _ => Vec::new(),
    };
    let structured = result.get("structuredContent").filter(|it| !it.is_null());
    let mut content: Vec<ToolContent> = parts.iter().map(for_model).collect();
    if let Some(structured) = structured
        && !texts_contain_it(structured, &content)
    {
        content.retain(|part| !matches!(part, ToolContent::Text(text) if text.is_empty()));
        content.push(ToolContent::Text(structured.to_string()));
    }
    let answer = ServerAnswer {
        result: ServerResult {
            content: Value::Array(parts).to_string(),
            structured: structured.map(Value::to_string),
            meta: result.get("_meta").filter(|it| !it.is_null()).map(Value::to_string),
        },
        content: Vec::new(),
        success: result.get("isError") != Some(&Value::Bool(true)),
    };
    (answer, content)
}

/// True if the texts say all of a structured result: one of them is the same JSON, or they contain each of
/// its values. Servers repeat it as a text for clients that know only texts.
fn texts_contain_it(structured: &Value, content: &[ToolContent]) -> bool {
    let texts: Vec<&str> = content
        .iter()
        .filter_map(|part| match part {
            ToolContent::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    // Some servers put a result that is not an object into one with one member, and repeat it without.
    let inner = structured.as_object().filter(|it| it.len() == 1).and_then(|it| it.values().next());
    let is_said = |value: &Value| texts.iter().any(|text| says(text, value));
    let is_listed = |value: &Value| match value {
        Value::Array(values) => !values.is_empty() && values.iter().all(is_said),
        _ => false,
    };
    is_said(structured)
        || inner.is_some_and(|inner| is_said(inner) || is_listed(inner))
        || (has_values(structured) && values_are_in(structured, &texts))
}

/// Returns whether a text is this value, as JSON or as it is.
fn says(text: &str, value: &Value) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|read| are_equal(&read, value))
        || value.as_str().is_some_and(|words| words.trim() == text.trim())
}

/// Equality of JSON, where the form of a number does not count: 1 is 1.0.
fn are_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || left.as_f64() == right.as_f64()
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(a, b)| are_equal(a, b))
        }
        (Value::Object(left), Value::Object(right)) => {
            let is_in_right = |(name, value): (&String, &Value)| {
                right.get(name).is_some_and(|it| are_equal(value, it))
            };
            left.len() == right.len() && left.iter().all(is_in_right)
        }
        _ => left == right,
    }
}

fn has_values(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().any(has_values),
        Value::Object(members) => members.values().any(has_values),
        _ => true,
    }
}

/// True if the texts contain each string of a value. Whether a number or a `true` in a text is that of the
/// value is unknown, so a value that has one is not in them.
fn values_are_in(value: &Value, texts: &[&str]) -> bool {
    match value {
        Value::String(part) => !part.is_empty() && texts.iter().any(|text| text.contains(part)),
        Value::Array(values) => values.iter().all(|value| values_are_in(value, texts)),
        Value::Object(members) => members.values().all(|value| values_are_in(value, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Makes hidden characters of texts visible: what a server says is data that people and models read.
fn show(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let std::borrow::Cow::Owned(shown) = visible::text(text) {
                *text = shown;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(show),
        Value::Object(members) => members.values_mut().for_each(show),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A part of a result, as the model gets it.
fn for_model(part: &Value) -> ToolContent {
    let text = |key: &str| part.get(key).and_then(Value::as_str).unwrap_or_default();
    let kind = text("type");
    ToolContent::Text(match kind {
        "text" => text("text").to_owned(),
        "image" => {
            let (kind, data) = (text("mimeType"), text("data"));
            return ToolContent::Image { url: format!("data:{kind};base64,{data}") };
        }
        "audio" => {
            let size = text("data").len() / 4 * 3;
            format!("[audio of the type {}, {size} bytes, which you cannot hear]", text("mimeType"))
        }
        "resource_link" => {
            let about = [text("title"), text("description")].join(" ");
            format!("[resource {}: {} {}]", text("uri"), text("name"), about.trim())
        }
        "resource" => {
            let resource = part.get("resource").unwrap_or(&Value::Null);
            let text = |key: &str| resource.get(key).and_then(Value::as_str);
            let uri = text("uri").unwrap_or_default();
            match (text("text"), text("blob"), text("mimeType").unwrap_or_default()) {
                (Some(text), ..) => format!("[resource {uri}]\n{text}"),
                (None, Some(data), kind) if kind.starts_with("image/") => {
                    return ToolContent::Image { url: format!("data:{kind};base64,{data}") };
                }
                (None, Some(data), kind) => {
                    let size = data.len() / 4 * 3;
                    format!("[resource {uri} of the type {kind}, {size} bytes, which are no text]")
                }
                (None, None, _) => format!("[resource {uri} without contents]"),
            }
        }
        _ => part.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(text: &str) -> ToolContent {
        ToolContent::Text(text.to_owned())
    }

    #[test]
    fn every_kind_of_content_has_a_form_for_the_model() {
        for (part, expected) in [
            (json!({"type": "text", "text": "a"}), text("a")),
            (
                json!({"type": "image", "mimeType": "image/png", "data": "QUJD"}),
                ToolContent::Image { url: "data:image/png;base64,QUJD".to_owned() },
            ),
            (
                json!({"type": "audio", "mimeType": "audio/wav", "data": "QUJDQUJD"}),
                text("[audio of the type audio/wav, 6 bytes, which you cannot hear]"),
            ),
            (
                json!({"type": "resource_link", "uri": "file:///a", "name": "a", "title": "T"}),
                text("[resource file:///a: a T]"),
            ),
            (
                json!({"type": "resource", "resource": {"uri": "x:y", "text": "b"}}),
                text("[resource x:y]\nb"),
            ),
            (
                json!({"type": "resource", "resource": {"uri": "x:y", "blob": "QUJD", "mimeType": "a/b"}}),
                text("[resource x:y of the type a/b, 3 bytes, which are no text]"),
            ),
            (json!({"type": "novel", "x": 1}), text(r#"{"type":"novel","x":1}"#)),
            (json!(7), text("7")),
        ] {
            assert_eq!(for_model(&part), expected);
        }
    }

    #[test]
    fn results_are_read_as_data() {
        let (answer, content) = read(json!({
            "content": [{"type": "text", "text": "a\u{202e}b"}],
            "structuredContent": {"x": 1},
            "isError": true,
            "_meta": {"m": 1},
        }));
        assert_eq!(content, [text("a\\u{202e}b"), text(r#"{"x":1}"#)]);
        assert!(!answer.success);
        assert_eq!(answer.result.content, r#"[{"type":"text","text":"a\\u{202e}b"}]"#);
        assert_eq!(answer.result.structured.as_deref(), Some(r#"{"x":1}"#));
        assert_eq!(answer.result.meta.as_deref(), Some(r#"{"m":1}"#));
        // Without a text, the structured content is what the model gets.
        for bare in [
            json!({"structuredContent": {"x": 1}}),
            json!({"content": 7, "structuredContent": {"x": 1}}),
        ] {
            assert_eq!(read(bare).1, [text(r#"{"x":1}"#)]);
        }
        assert_eq!(read(json!(null)).1, []);
        // A text that says the same is not repeated.
        for (said, structured, is_repeated) in [
            (r#"{ "x": 1 }"#, json!({"x": 1}), false),
            ("{\n  \"y\": 2,\n  \"x\": 1\n}", json!({"x": 1.0, "y": 2}), false),
            ("[1, 2]", json!({"result": [1, 2]}), false),
            ("7", json!({"result": 7}), false),
            ("7", json!({"result": [7]}), false),
            ("7", json!({"result": [7, 8]}), true),
            ("the file a.txt was found", json!({"file": "a.txt"}), false),
            ("the file a.txt was found", json!({"file": "b.txt"}), true),
            ("1 file", json!({"count": 1}), true),
            ("nothing", json!({"rows": []}), true),
            ("", json!({"rows": []}), true),
        ] {
            let content = [json!({"type": "text", "text": said})];
            let (_, parts) = read(json!({"content": content, "structuredContent": structured}));
            assert_eq!(parts.contains(&text(&structured.to_string())), is_repeated, "{said}");
        }
    }
}
