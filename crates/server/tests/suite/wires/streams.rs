//! Streams of each wire as text, and a server that sends some of them before it passes connections on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the server does after its bytes.
#[derive(Clone)]
pub(super) enum Then {
    Close,
    /// Sends this until the client goes away.
    Repeat(String),
}

/// The first answers of a server.
#[derive(Clone)]
pub(super) struct Answer {
    pub(super) bytes: String,
    pub(super) then: Then,
}

impl Answer {
    /// An event stream of this text.
    pub(super) fn stream(body: &str) -> Self {
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        Self { bytes: format!("{head}{body}"), then: Then::Close }
    }

    /// A document with this status and these lines of the head.
    pub(super) fn document(status: &str, head: &str, body: &str) -> Self {
        let length = body.len();
        let bytes = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{head}content-length: {length}\r\n\
             connection: close\r\n\r\n{body}"
        );
        Self { bytes, then: Then::Close }
    }

    pub(super) fn repeats(self, more: &str) -> Self {
        Self { then: Then::Repeat(more.to_owned()), ..self }
    }
}

/// A server that answers the first requests with `answers`, and passes the later ones on to `behind`. Returns its
/// address, and the answers that are left.
pub(super) async fn front(
    answers: Vec<Answer>,
    behind: &str,
) -> (String, Arc<Mutex<VecDeque<Answer>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let behind = behind.trim_start_matches("http://").to_owned();
    let left = Arc::new(Mutex::new(VecDeque::from(answers)));
    let answers = Arc::clone(&left);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (behind, answers) = (behind.clone(), Arc::clone(&answers));
            // An error means that the client went away.
            tokio::spawn(async move { serve(stream, &behind, &answers).await.unwrap_or(()) });
        }
    });
    (address, left)
}

async fn serve(
    mut stream: TcpStream,
    behind: &str,
    answers: &Mutex<VecDeque<Answer>>,
) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    if !request.starts_with(b"POST") {
        // A list of models. Its connection must not serve what follows, which would pass the answers by.
        let none = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        return stream.write_all(none.as_bytes()).await;
    }
    let answer = answers.lock().unwrap().pop_front();
    let Some(Answer { bytes, then }) = answer else {
        let mut server = TcpStream::connect(behind).await?;
        server.write_all(&request).await?;
        return tokio::io::copy_bidirectional(&mut stream, &mut server).await.map(drop);
    };
    stream.write_all(bytes.as_bytes()).await?;
    if let Then::Repeat(more) = &then {
        loop {
            stream.write_all(more.as_bytes()).await?;
            tokio::task::yield_now().await;
        }
    }
    stream.shutdown().await?;
    // Unread bytes would turn the end into a reset.
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.map(drop)
}

/// Events as a stream; those of Messages have their names.
pub(super) fn sse(events: &[Value]) -> String {
    let event = |event: &Value| match event["type"].as_str() {
        Some(name) => format!("event: {name}\ndata: {event}\n\n"),
        None => format!("data: {event}\n\n"),
    };
    events.iter().map(event).collect()
}

pub(super) fn message_start() -> Value {
    json!({ "type": "message_start", "message": { "id": "msg_1", "type": "message", "role": "assistant",
        "model": "claude-sonnet-5", "content": [], "stop_reason": null,
        "usage": { "input_tokens": 10, "output_tokens": 1 } } })
}

/// A content block of Messages with its deltas.
pub(super) fn block(index: usize, start: Value, deltas: &[Value]) -> Vec<Value> {
    let mut events =
        vec![json!({ "type": "content_block_start", "index": index, "content_block": start })];
    events.extend(
        deltas
            .iter()
            .map(|delta| json!({ "type": "content_block_delta", "index": index, "delta": delta })),
    );
    events.push(json!({ "type": "content_block_stop", "index": index }));
    events
}

pub(super) fn text_block(index: usize, text: &str) -> Vec<Value> {
    block(
        index,
        json!({ "type": "text", "text": "" }),
        &[json!({ "type": "text_delta", "text": text })],
    )
}

pub(super) fn tool_block(index: usize, id: &str, name: &str, arguments: &str) -> Vec<Value> {
    let start = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
    block(index, start, &[json!({ "type": "input_json_delta", "partial_json": arguments })])
}

/// The end of a message of Messages.
pub(super) fn message_end(reason: &str) -> Vec<Value> {
    vec![
        json!({ "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null },
            "usage": { "output_tokens": 5 } }),
        json!({ "type": "message_stop" }),
    ]
}

/// A chunk of Chat Completions with this delta.
pub(super) fn chunk(delta: Value, finish: Value) -> Value {
    json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "some-model",
        "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
}

pub(super) const DONE: &str = "data: [DONE]\n\n";

/// A chunk of Gemini with these parts.
pub(super) fn candidate(parts: Value, finish: Value) -> Value {
    let mut candidate = json!({ "index": 0, "content": { "role": "model", "parts": parts } });
    if !finish.is_null() {
        candidate["finishReason"] = finish;
    }
    json!({ "candidates": [candidate], "modelVersion": "gemini-3-pro", "responseId": "g",
        "usageMetadata": { "promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15 } })
}

/// A whole answer of a wire with this text.
pub(super) fn says(wire: &str, text: &str) -> String {
    match wire {
        "messages" => {
            sse(&[vec![message_start()], text_block(0, text), message_end("end_turn")].concat())
        }
        "chat" => {
            let events =
                [chunk(json!({ "content": text }), Value::Null), chunk(json!({}), "stop".into())];
            sse(&events) + DONE
        }
        "gemini" => sse(&[candidate(json!([{ "text": text }]), "STOP".into())]),
        _ => sse(&[
            json!({ "type": "response.output_item.done", "output_index": 0, "item": { "type": "message",
                "id": "m", "role": "assistant", "content": [{ "type": "output_text", "text": text }] } }),
            json!({ "type": "response.completed", "response": { "id": "r" } }),
        ]),
    }
}
