//! Clouds, against real loopback HTTP: credentials, signatures, paths, and answers.

mod bedrock;
mod vertex;

use std::sync::Arc;

use model::{Client, Event, Failure, Item, Platform, Prompt, Provider, Wire};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// A request as it arrived.
struct Arrived {
    /// The request line without the version, such as `POST /path`.
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Arrived {
    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

/// A server that answers each request with the next of `answers`, and passes on what arrived.
async fn server(answers: Vec<Vec<u8>>) -> (String, mpsc::UnboundedReceiver<Arrived>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            let end = loop {
                bytes.push(stream.read_u8().await.unwrap());
                if bytes.ends_with(b"\r\n\r\n") {
                    break bytes.len();
                }
            };
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let (line, rest) = head.split_once("\r\n").unwrap();
            let headers: Vec<(String, String)> = rest
                .lines()
                .filter_map(|line| line.split_once(':'))
                .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
                .collect();
            let length = headers.iter().find(|(name, _)| name == "content-length");
            let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
            stream.read_exact(&mut body).await.unwrap();
            let line = line.strip_suffix(" HTTP/1.1").unwrap().to_owned();
            // Ignored: the test may have ended.
            let _ = sender.send(Arrived { line, headers, body });
            let _ = stream.write_all(&answer).await;
        }
    });
    (address, requests)
}

fn answer(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn json_answer(body: &Value) -> Vec<u8> {
    answer("200 OK", "content-type: application/json\r\n", body.to_string())
}

/// The events of a seed, which begins with the number of its wire.
fn recorded(events: &'static str) -> impl Iterator<Item = &'static str> {
    events.trim_start_matches(|first| first != '{').lines()
}

/// Those events as a stream.
fn text_stream(events: &'static str) -> Vec<u8> {
    let body: String = recorded(events).map(|line| format!("data: {line}\n\n")).collect();
    answer("200 OK", "content-type: text/event-stream\r\n", body)
}

const MESSAGES: &str = include_str!("../../../../fuzz/seeds/wire/messages_events");
const GEMINI: &str = include_str!("../../../../fuzz/seeds/wire/gemini_events");

fn user(text: &str) -> Value {
    json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
}

fn prompt(model: &str, input: &[Value]) -> Prompt {
    let tools = json!([{"type": "function", "name": "read", "description": "Reads.", "strict": false,
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}]);
    Prompt {
        model: model.into(),
        instructions: "Be brief.".into(),
        input: input.iter().map(|item| item.to_string().into()).collect(),
        tools: tools.to_string().into(),
        include_encrypted_reasoning: true,
        ..Prompt::default()
    }
}

async fn events(client: &Client, provider: &Arc<Provider>, prompt: &Prompt) -> Vec<Event> {
    let mut stream = client.stream_prompt(provider, prompt);
    let mut events = Vec::new();
    while let Some(batch) = stream.next().await {
        events.extend(batch);
    }
    events
}

/// The failure that ends a request.
async fn failure(client: &Client, provider: &Arc<Provider>, model: &str) -> Failure {
    let events = events(client, provider, &prompt(model, &[user("Hi.")])).await;
    match events.into_iter().last() {
        Some(Event::Failed(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

async fn completes(client: &Client, provider: &Arc<Provider>, model: &str) {
    let events = events(client, provider, &prompt(model, &[user("Hi.")])).await;
    assert!(matches!(events.last(), Some(Event::Completed { .. })), "{events:?}");
}

/// A turn with reasoning and a call, and the request after it with both. Returns the bodies that arrived.
async fn turn(
    provider: &Arc<Provider>,
    model: &str,
    requests: &mut mpsc::UnboundedReceiver<Arrived>,
) -> [Arrived; 2] {
    let client = Client::new();
    let mut history = vec![user("Look at it.")];
    let first = events(&client, provider, &prompt(model, &history)).await;
    assert!(matches!(first.last(), Some(Event::Completed { .. })), "{first:?}");
    let is_call = |event: &Event| matches!(event, Event::ItemDone { item: Item::FunctionCall { name, .. }, .. } if name == "read");
    assert!(first.iter().any(is_call), "{first:?}");
    for event in &first {
        let Event::ItemDone { raw, .. } = event else { continue };
        let item: Value = serde_json::from_str(raw).unwrap();
        history.push(item.clone());
        if item["type"] == "function_call" {
            let call = item["call_id"].clone();
            history
                .push(json!({"type": "function_call_output", "call_id": call, "output": "plum"}));
        }
    }
    let second = events(&client, provider, &prompt(model, &history)).await;
    assert!(matches!(second.last(), Some(Event::Completed { .. })), "{second:?}");
    [requests.recv().await.unwrap(), requests.recv().await.unwrap()]
}

fn provider(
    platform: Platform,
    wire: Wire,
    address: &str,
    api_key: model::KeySource,
) -> Arc<Provider> {
    Arc::new(Provider { platform, wire, api_key, ..Provider::http("cloud", address) })
}
