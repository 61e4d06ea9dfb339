//! The upstream's responses: a chat completion or a response of the usual size with its usage,
//! whole or as a stream of events. Created once; every response of a kind is identical.

use serde_json::{Value, json};

/// Chunks of a stream between its first and its last.
const PIECES: usize = 5;
const TEXT: &str = "A token bucket holds as many tokens as its limit and is refilled all the time. A \
                    request takes what it needs, or learns how long it has to wait.";

/// The chunks of each kind of response. A chunk is sent at once, the next one after a delay.
pub(crate) struct Answers {
    chat: Vec<&'static [u8]>,
    chat_stream: Vec<&'static [u8]>,
    chat_stream_with_usage: Vec<&'static [u8]>,
    response: Vec<&'static [u8]>,
    response_stream: Vec<&'static [u8]>,
    unknown: Vec<&'static [u8]>,
}

impl Answers {
    /// Creates the responses once per process, which keeps them to its end.
    pub(crate) fn new() -> Answers {
        Answers {
            chat: whole("200 OK", &chat()),
            chat_stream: stream(chat_events(false)),
            chat_stream_with_usage: stream(chat_events(true)),
            response: whole("200 OK", &response("completed")),
            response_stream: stream(response_events()),
            unknown: whole("404 Not Found", &json!({ "error": { "message": "no such path" } })),
        }
    }

    pub(crate) fn pieces(&self, path: &str, body: &[u8]) -> &[&'static [u8]] {
        let streamed = has(body, br#""stream":true"#) || has(body, br#""stream": true"#);
        let usage = has(body, b"\"include_usage\":true") || has(body, b"\"include_usage\": true");
        match (path, streamed) {
            ("/v1/chat/completions", false) => &self.chat,
            ("/v1/chat/completions", true) if usage => &self.chat_stream_with_usage,
            ("/v1/chat/completions", true) => &self.chat_stream,
            ("/v1/responses", false) => &self.response,
            ("/v1/responses", true) => &self.response_stream,
            _ => &self.unknown,
        }
    }
}

fn has(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

fn whole(status: &str, body: &Value) -> Vec<&'static [u8]> {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         x-request-id: req_upstream\r\n\r\n",
        body.len()
    );
    vec![kept(head + &body)]
}

/// Sends the head with the first event, and the end with the last.
fn stream(events: Vec<String>) -> Vec<&'static [u8]> {
    let last = events.len().saturating_sub(1);
    let piece = |(at, event): (usize, String)| {
        let mut piece = String::new();
        if at == 0 {
            // The last field asks a buffering proxy not to collect the response.
            piece.push_str(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                 transfer-encoding: chunked\r\nx-accel-buffering: no\r\n\r\n",
            );
        }
        piece.push_str(&format!("{:x}\r\n{event}\r\n", event.len()));
        if at == last {
            piece.push_str("0\r\n\r\n");
        }
        kept(piece)
    };
    events.into_iter().enumerate().map(piece).collect()
}

fn kept(text: String) -> &'static [u8] {
    Box::leak(text.into_boxed_str()).as_bytes()
}

fn chat_usage() -> Value {
    json!({ "prompt_tokens": 85, "completion_tokens": 32, "total_tokens": 117,
        "prompt_tokens_details": { "cached_tokens": 0 },
        "completion_tokens_details": { "reasoning_tokens": 0 } })
}

fn chat() -> Value {
    json!({ "id": "chatcmpl-bench", "object": "chat.completion", "created": 1_790_000_000,
        "model": "bench-2026-08-01",
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": TEXT },
            "logprobs": null, "finish_reason": "stop" }],
        "usage": chat_usage(), "service_tier": "default" })
}

fn chat_events(usage: bool) -> Vec<String> {
    let chunk = |choices: Value| {
        json!({ "id": "chatcmpl-bench", "object": "chat.completion.chunk",
            "created": 1_790_000_000, "model": "bench-2026-08-01", "choices": choices })
    };
    let delta = |delta: Value, finish: Value| {
        chunk(json!([{ "index": 0, "delta": delta, "finish_reason": finish }]))
    };
    let first = delta(json!({ "role": "assistant", "content": "A" }), Value::Null);
    let mut events = vec![event(&first)];
    events.extend((0..PIECES).map(|_| event(&delta(json!({ "content": " token" }), Value::Null))));
    let mut last = event(&delta(json!({}), "stop".into()));
    if usage {
        let mut chunk = chunk(json!([]));
        chunk["usage"] = chat_usage();
        last.push_str(&event(&chunk));
    }
    last.push_str("data: [DONE]\n\n");
    events.push(last);
    events
}

fn response(status: &str) -> Value {
    json!({ "id": "resp_bench", "object": "response", "created_at": 1_790_000_000,
        "status": status, "model": "bench-2026-08-01",
        "output": [{ "type": "message", "id": "msg_bench", "status": status, "role": "assistant",
            "content": [{ "type": "output_text", "text": TEXT, "annotations": [] }] }],
        "usage": { "input_tokens": 85, "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": 32, "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": 117 } })
}

fn response_events() -> Vec<String> {
    let named = |value: Value| {
        let name = value["type"].as_str().unwrap_or_default().to_owned();
        format!("event: {name}\n{}", event(&value))
    };
    let begun = json!({ "id": "resp_bench", "object": "response", "status": "in_progress",
        "model": "bench-2026-08-01", "output": [] });
    let delta = || {
        named(json!({ "type": "response.output_text.delta", "item_id": "msg_bench",
            "output_index": 0, "content_index": 0, "delta": " token" }))
    };
    let first = named(json!({ "type": "response.created", "response": begun })) + &delta();
    let last = json!({ "type": "response.completed", "response": response("completed") });
    let pieces = (0..PIECES).map(|_| delta());
    std::iter::once(first).chain(pieces).chain(std::iter::once(named(last))).collect()
}

fn event(value: &Value) -> String {
    format!("data: {value}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::gateway::message::Response;

    #[test]
    fn each_request_gets_its_kind() {
        let answers = Answers::new();
        for (path, body, status, marks, absent) in [
            ("/v1/chat/completions", "{}", 200, vec![r#""total_tokens":117"#], "data:"),
            ("/v1/responses", "{}", 200, vec![r#""total_tokens":117"#], "data:"),
            ("/v1/chat/completions", r#"{"stream":true}"#, 200, vec!["[DONE]"], "usage"),
            (
                "/v1/chat/completions",
                r#"{"stream": true,"stream_options":{"include_usage":true}}"#,
                200,
                vec![r#""choices":[]"#, r#""total_tokens":117"#, "[DONE]"],
                "\"completed\"",
            ),
            (
                "/v1/responses",
                r#"{"stream":true}"#,
                200,
                vec!["event: response.created", "event: response.completed", r#""usage""#],
                "[DONE]",
            ),
            ("/v1/other", "{}", 404, vec!["no such path"], "usage"),
        ] {
            let text = answers.pieces(path, body.as_bytes()).concat();
            let (mut head, length) = Response::read(&text).unwrap().unwrap();
            let mut content = Vec::new();
            let taken = head.body.take(&text[length..], &mut content).unwrap();
            assert!(head.body.is_done() && length + taken == text.len(), "{path} {body}");
            assert_eq!(head.status, status);
            let content = String::from_utf8(content).unwrap();
            assert!(marks.iter().all(|mark| content.contains(mark)), "{content}");
            assert!(!content.contains(absent), "{content}");
        }
    }

    #[test]
    fn a_whole_answer_has_the_usual_size() {
        assert!((500..700).contains(&chat().to_string().len()), "{}", chat().to_string().len());
    }
}
