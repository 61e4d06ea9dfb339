//! The four wires as their clients and servers speak them: requests, scripted answers, and the reading of answers.

use hyper::Method;
use serde_json::{Value, json};
use wire::Wire;

use crate::common::gateway::{Answer, Tenant, TestGateway};
use crate::common::upstream::{Script, Step};

/// The text of plain answers.
pub(super) const TEXT: &str = "Hello there.";
/// The tokens that scripted answers report.
pub(super) const TOKENS: (u64, u64) = (20, 10);
/// The prompt of each request: two tokens.
pub(super) const PROMPT: &str = "abcdefgh";

/// What a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Text,
    Call,
}

/// The path of a request.
pub(super) fn path(wire: Wire, stream: bool) -> &'static str {
    match (wire, stream) {
        (Wire::Responses, _) => "/v1/responses",
        (Wire::Chat, _) => "/v1/chat/completions",
        (Wire::Messages, _) => "/v1/messages",
        (Wire::Gemini, false) => "/v1beta/models/big:generateContent",
        (Wire::Gemini, true) => "/v1beta/models/big:streamGenerateContent?alt=sse",
    }
}

/// The path on which a server gets a request.
pub(super) fn server_path(wire: Wire, stream: bool) -> String {
    path(wire, stream).replace("models/big", "models/up")
}

/// A request with a tool.
pub(super) fn request(wire: Wire, stream: bool) -> Value {
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    match wire {
        Wire::Responses => json!({
            "model": "big", "input": PROMPT, "stream": stream, "max_output_tokens": 50,
            "tools": [{ "type": "function", "name": "weather", "parameters": schema, "strict": false }],
        }),
        Wire::Chat => json!({
            "model": "big", "messages": [{ "role": "user", "content": PROMPT }], "stream": stream, "max_tokens": 50,
            "stream_options": if stream { json!({ "include_usage": true }) } else { Value::Null },
            "tools": [{ "type": "function", "function": { "name": "weather", "parameters": schema } }],
        }),
        Wire::Messages => json!({
            "model": "big", "messages": [{ "role": "user", "content": PROMPT }], "stream": stream, "max_tokens": 50,
            "tools": [{ "name": "weather", "input_schema": schema }],
        }),
        Wire::Gemini => json!({
            "contents": [{ "role": "user", "parts": [{ "text": PROMPT }] }],
            "generationConfig": { "maxOutputTokens": 50 },
            "tools": [{ "functionDeclarations": [{ "name": "weather", "parametersJsonSchema": schema }] }],
        }),
    }
}

/// Sends a request with the key in the header that clients of the wire use.
pub(super) async fn send(
    gateway: &TestGateway,
    tenant: &Tenant,
    wire: Wire,
    stream: bool,
    body: &Value,
) -> Answer {
    let bearer = format!("Bearer {}", tenant.key);
    let key = match wire {
        Wire::Responses | Wire::Chat => ("authorization", bearer.as_str()),
        Wire::Messages => ("x-api-key", tenant.key.as_str()),
        Wire::Gemini => ("x-goog-api-key", tenant.key.as_str()),
    };
    let headers = [key, ("content-type", "application/json"), ("anthropic-version", "2023-06-01")];
    gateway.send(Method::POST, path(wire, stream), &headers, body.to_string()).await
}

/// The answer of a server: a body, or the events of a stream.
pub(super) fn answer(wire: Wire, reply: Reply, stream: bool) -> Script {
    match stream {
        true => Script::events(events(wire, reply)),
        false => Script::json(&document(wire, reply)),
    }
}

/// A stream that breaks off after the beginning of its text.
pub(super) fn broken(wire: Wire) -> Script {
    let all = events(wire, Reply::Text);
    let text = all.iter().position(|event| event.contains("Hello")).expect("text");
    let kept = all[..=text].iter().map(|event| Step::Bytes(event.clone().into()));
    Script::stream(kept.chain([Step::Cut]).collect())
}

pub(super) fn document(wire: Wire, reply: Reply) -> Value {
    let (input, output) = TOKENS;
    let is_call = reply == Reply::Call;
    match wire {
        Wire::Responses => json!({
            "id": "resp_9", "object": "response", "status": "completed", "model": "up", "error": null,
            "output": [match is_call {
                true => json!({ "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather",
                    "arguments": "{\"city\":\"Oslo\"}", "status": "completed" }),
                false => json!({ "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                    "content": [{ "type": "output_text", "text": TEXT, "annotations": [] }] }),
            }],
            "usage": { "input_tokens": input, "output_tokens": output, "total_tokens": input + output },
        }),
        Wire::Chat => json!({
            "id": "chatcmpl-9", "object": "chat.completion", "model": "up", "created": 1,
            "choices": [{ "index": 0, "finish_reason": if is_call { "tool_calls" } else { "stop" },
                "message": match is_call {
                    true => json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": "call_1",
                        "type": "function", "function": { "name": "weather", "arguments": "{\"city\":\"Oslo\"}" } }] }),
                    false => json!({ "role": "assistant", "content": TEXT }),
                } }],
            "usage": { "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output },
        }),
        Wire::Messages => json!({
            "id": "msg_9", "type": "message", "role": "assistant", "model": "up",
            "content": [match is_call {
                true => json!({ "type": "tool_use", "id": "toolu_1", "name": "weather", "input": { "city": "Oslo" } }),
                false => json!({ "type": "text", "text": TEXT }),
            }],
            "stop_reason": if is_call { "tool_use" } else { "end_turn" }, "stop_sequence": null,
            "usage": { "input_tokens": input, "output_tokens": output },
        }),
        Wire::Gemini => json!({
            "responseId": "g9", "modelVersion": "up",
            "candidates": [{ "index": 0, "finishReason": "STOP", "content": { "role": "model", "parts": [match is_call {
                true => json!({ "functionCall": { "id": "call_1", "name": "weather", "args": { "city": "Oslo" } } }),
                false => json!({ "text": TEXT }),
            }] } }],
            "usageMetadata": { "promptTokenCount": input, "candidatesTokenCount": output,
                "totalTokenCount": input + output },
        }),
    }
}

/// The events of a stream, one text each.
pub(super) fn events(wire: Wire, reply: Reply) -> Vec<String> {
    let named = |value: Value| {
        let name = value["type"].as_str().expect("a type").to_owned();
        format!("event: {name}\ndata: {value}\n\n")
    };
    let plain = |value: Value| format!("data: {value}\n\n");
    match wire {
        Wire::Responses => responses(reply).into_iter().map(named).collect(),
        Wire::Messages => messages(reply).into_iter().map(named).collect(),
        Wire::Chat => {
            let chunks = chat(reply).into_iter().map(plain);
            chunks.chain(["data: [DONE]\n\n".to_owned()]).collect()
        }
        Wire::Gemini => gemini(reply).into_iter().map(plain).collect(),
    }
}

fn responses(reply: Reply) -> Vec<Value> {
    let whole = document(Wire::Responses, reply);
    let mut begun = whole.clone();
    (begun["status"], begun["output"], begun["usage"]) =
        (json!("in_progress"), json!([]), Value::Null);
    let mut item = whole["output"][0].clone();
    let done = item.clone();
    item["status"] = json!("in_progress");
    let mut all = vec![json!({ "type": "response.created", "response": begun })];
    match reply {
        Reply::Text => {
            item["content"] = json!([]);
            all.push(
                json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
            );
            for text in ["Hello", " there."] {
                all.push(json!({ "type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0,
                    "content_index": 0, "delta": text }));
            }
        }
        Reply::Call => {
            item["arguments"] = json!("");
            all.push(
                json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
            );
            all.push(json!({ "type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 0,
                "delta": "{\"city\":\"Oslo\"}" }));
        }
    }
    all.push(json!({ "type": "response.output_item.done", "output_index": 0, "item": done }));
    all.push(json!({ "type": "response.completed", "response": whole }));
    all
}

fn messages(reply: Reply) -> Vec<Value> {
    let whole = document(Wire::Messages, reply);
    let mut begun = whole.clone();
    (begun["content"], begun["stop_reason"]) = (json!([]), Value::Null);
    begun["usage"] = json!({ "input_tokens": TOKENS.0, "output_tokens": 1 });
    let mut all = vec![json!({ "type": "message_start", "message": begun })];
    let delta = |delta: Value| json!({ "type": "content_block_delta", "index": 0, "delta": delta });
    match reply {
        Reply::Text => {
            all.push(json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }));
            all.push(json!({ "type": "ping" }));
            for text in ["Hello", " there."] {
                all.push(delta(json!({ "type": "text_delta", "text": text })));
            }
        }
        Reply::Call => {
            all.push(json!({ "type": "content_block_start", "index": 0,
                "content_block": { "type": "tool_use", "id": "toolu_1", "name": "weather", "input": {} } }));
            all.push(delta(
                json!({ "type": "input_json_delta", "partial_json": "{\"city\":\"Oslo\"}" }),
            ));
        }
    }
    all.push(json!({ "type": "content_block_stop", "index": 0 }));
    all.push(json!({ "type": "message_delta",
        "delta": { "stop_reason": whole["stop_reason"], "stop_sequence": null },
        "usage": { "output_tokens": TOKENS.1 } }));
    all.push(json!({ "type": "message_stop" }));
    all
}

fn chat(reply: Reply) -> Vec<Value> {
    let whole = document(Wire::Chat, reply);
    let chunk = |delta: Value, finish: Value| {
        json!({ "id": "chatcmpl-9", "object": "chat.completion.chunk", "model": "up", "created": 1,
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
    };
    let mut all = vec![chunk(json!({ "role": "assistant", "content": "" }), Value::Null)];
    match reply {
        Reply::Text => {
            for text in ["Hello", " there."] {
                all.push(chunk(json!({ "content": text }), Value::Null));
            }
        }
        Reply::Call => all.push(chunk(
            json!({ "tool_calls": [{ "index": 0, "id": "call_1", "type": "function",
                "function": { "name": "weather", "arguments": "{\"city\":\"Oslo\"}" } }] }),
            Value::Null,
        )),
    }
    all.push(chunk(json!({}), whole["choices"][0]["finish_reason"].clone()));
    all.push(
        json!({ "id": "chatcmpl-9", "object": "chat.completion.chunk", "model": "up", "created": 1,
        "choices": [], "usage": whole["usage"] }),
    );
    all
}

fn gemini(reply: Reply) -> Vec<Value> {
    let whole = document(Wire::Gemini, reply);
    let Reply::Text = reply else { return vec![whole] };
    let mut first = whole.clone();
    let candidate =
        json!({ "index": 0, "content": { "role": "model", "parts": [{ "text": "Hello" }] } });
    first["candidates"] = json!([candidate]);
    first["usageMetadata"] = json!({ "promptTokenCount": TOKENS.0, "totalTokenCount": TOKENS.0 });
    let mut last = whole;
    last["candidates"][0]["content"]["parts"] = json!([{ "text": " there." }]);
    vec![first, last]
}

/// An answer as a client of a wire reads it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Read {
    pub(super) text: String,
    /// Name and arguments.
    pub(super) call: Option<(String, Value)>,
    /// Input and output.
    pub(super) tokens: (u64, u64),
    /// True if the answer has its regular end.
    pub(super) is_complete: bool,
    /// The error of a stream.
    pub(super) error: Value,
}

impl Read {
    pub(super) fn reply(reply: Reply) -> Self {
        let (text, call) = match reply {
            Reply::Text => (TEXT.to_owned(), None),
            Reply::Call => (String::new(), Some(("weather".to_owned(), json!({ "city": "Oslo" })))),
        };
        Self { text, call, tokens: TOKENS, is_complete: true, error: Value::Null }
    }
}

/// The data of each event.
pub(super) fn data(text: &str) -> Vec<Value> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
    lines.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

/// Reads an answer.
pub(super) fn read(wire: Wire, answer: &Answer, stream: bool) -> Read {
    if !stream {
        return whole(wire, &answer.json());
    }
    assert!(answer.header("content-type").starts_with("text/event-stream"), "{}", answer.text());
    let text = answer.text();
    let events = data(&text);
    let mut read = Read::default();
    match wire {
        Wire::Responses => {
            for event in &events {
                match event["type"].as_str().unwrap_or_default() {
                    "response.output_text.delta" => read.text += event["delta"].as_str().unwrap(),
                    "response.completed" => {
                        let deltas = std::mem::take(&mut read.text);
                        read = whole(wire, &event["response"]);
                        assert_eq!(read.text, deltas, "deltas are the text");
                    }
                    "response.failed" => read.error = event["response"]["error"].clone(),
                    "error" => read.error = event.clone(),
                    _ => {}
                }
            }
        }
        Wire::Messages => messages_stream(&text, &events, &mut read),
        Wire::Chat => chat_stream(&text, &events, &mut read),
        Wire::Gemini => {
            for event in &events {
                if event["error"].is_object() {
                    read.error = event["error"].clone();
                    continue;
                }
                let part = whole(wire, event);
                read.text += &part.text;
                read.call = part.call.or(read.call);
                read.is_complete |= part.is_complete;
                read.tokens = part.tokens;
            }
        }
    }
    read
}

fn messages_stream(text: &str, events: &[Value], read: &mut Read) {
    let names = text.lines().filter_map(|line| line.strip_prefix("event: "));
    let types: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(names.collect::<Vec<_>>(), types, "each event has its name");
    let mut arguments = String::new();
    for event in events {
        match event["type"].as_str().unwrap() {
            "message_start" => {
                read.tokens.0 = event["message"]["usage"]["input_tokens"].as_u64().unwrap();
            }
            "content_block_start" if event["content_block"]["type"] == "tool_use" => {
                let name = event["content_block"]["name"].as_str().unwrap().to_owned();
                read.call = Some((name, Value::Null));
            }
            "content_block_delta" => {
                read.text += event["delta"]["text"].as_str().unwrap_or_default();
                arguments += event["delta"]["partial_json"].as_str().unwrap_or_default();
            }
            "message_delta" => {
                let usage = &event["usage"];
                read.tokens.0 = usage["input_tokens"].as_u64().unwrap_or(read.tokens.0);
                read.tokens.1 = usage["output_tokens"].as_u64().unwrap();
                assert!(event["delta"]["stop_reason"].is_string());
            }
            "message_stop" => read.is_complete = true,
            "error" => read.error = event["error"].clone(),
            _ => {}
        }
    }
    if let Some((_, input)) = &mut read.call {
        *input = serde_json::from_str(&arguments).unwrap_or_default();
    }
}

fn chat_stream(text: &str, events: &[Value], read: &mut Read) {
    let mut arguments = String::new();
    for event in events {
        if event["error"].is_object() {
            read.error = event["error"].clone();
            continue;
        }
        let delta = &event["choices"][0]["delta"];
        read.text += delta["content"].as_str().unwrap_or_default();
        let call = &delta["tool_calls"][0]["function"];
        if let Some(name) = call["name"].as_str() {
            read.call = Some((name.to_owned(), Value::Null));
        }
        arguments += call["arguments"].as_str().unwrap_or_default();
        if event["usage"].is_object() {
            read.tokens = (
                event["usage"]["prompt_tokens"].as_u64().unwrap(),
                event["usage"]["completion_tokens"].as_u64().unwrap(),
            );
        }
    }
    if let Some((_, input)) = &mut read.call {
        *input = serde_json::from_str(&arguments).unwrap_or_default();
    }
    read.is_complete = text.trim_end().ends_with("data: [DONE]") && read.error.is_null();
}

fn whole(wire: Wire, body: &Value) -> Read {
    let parsed = |text: &Value| serde_json::from_str(text.as_str().unwrap_or("null")).unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let mut read = Read::default();
    match wire {
        Wire::Responses => {
            for item in body["output"].as_array().unwrap() {
                read.text += item["content"][0]["text"].as_str().unwrap_or_default();
                if item["type"] == "function_call" {
                    read.call = Some((name(item), parsed(&item["arguments"])));
                }
            }
            let usage = &body["usage"];
            read.tokens = (number(&usage["input_tokens"]), number(&usage["output_tokens"]));
            read.is_complete = body["status"] == "completed";
        }
        Wire::Chat => {
            let choice = &body["choices"][0];
            read.text += choice["message"]["content"].as_str().unwrap_or_default();
            let call = &choice["message"]["tool_calls"][0]["function"];
            read.call = call.is_object().then(|| (name(call), parsed(&call["arguments"])));
            let usage = &body["usage"];
            read.tokens = (number(&usage["prompt_tokens"]), number(&usage["completion_tokens"]));
            read.is_complete = choice["finish_reason"].is_string();
        }
        Wire::Messages => {
            for block in body["content"].as_array().unwrap() {
                read.text += block["text"].as_str().unwrap_or_default();
                if block["type"] == "tool_use" {
                    read.call = Some((name(block), block["input"].clone()));
                }
            }
            let usage = &body["usage"];
            read.tokens = (number(&usage["input_tokens"]), number(&usage["output_tokens"]));
            read.is_complete = body["stop_reason"].is_string();
        }
        Wire::Gemini => {
            let candidate = &body["candidates"][0];
            for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
                read.text += part["text"].as_str().unwrap_or_default();
                let call = &part["functionCall"];
                if call.is_object() {
                    read.call = Some((name(call), call["args"].clone()));
                }
            }
            let usage = &body["usageMetadata"];
            let output =
                number(&usage["candidatesTokenCount"]) + number(&usage["thoughtsTokenCount"]);
            read.tokens = (number(&usage["promptTokenCount"]), output);
            read.is_complete = candidate["finishReason"].is_string();
        }
    }
    read
}
