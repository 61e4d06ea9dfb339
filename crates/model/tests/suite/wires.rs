//! Providers with another wire than Responses, against real loopback HTTP: where and how a request is sent, and what
//! the answer becomes.

mod failures;

use std::sync::Arc;

use model::{Client, Event, FailureKind, Item, ModelsAnswer, Prompt, Provider, Retry, Wire};
use model::{KeySource, Secret};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// A request as it arrived.
struct Arrived {
    head: String,
    body: Value,
}

/// A server that answers each request with the next of `answers`, and tells what arrived.
async fn server(answers: Vec<String>) -> (String, mpsc::UnboundedReceiver<Arrived>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (arrived, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            let head = loop {
                let mut buffer = [0; 4096];
                let count = stream.read(&mut buffer).await.unwrap();
                bytes.extend_from_slice(&buffer[..count]);
                if let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
                    break String::from_utf8(bytes.drain(..end + 4).collect())
                        .unwrap()
                        .to_lowercase();
                }
            };
            let length = head.split("content-length: ").nth(1).and_then(|it| it.lines().next());
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            while bytes.len() < length {
                let mut buffer = [0; 4096];
                let count = stream.read(&mut buffer).await.unwrap();
                bytes.extend_from_slice(&buffer[..count]);
            }
            let body = serde_json::from_slice(&bytes).unwrap_or_default();
            arrived.send(Arrived { head, body }).unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (address, requests)
}

fn answer(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// The events of a seed, one a line, as a stream. A seed begins with the number of its wire.
fn stream(events: &str) -> String {
    let events = events.trim_start_matches(|first| first != '{');
    let body: String = events.lines().map(|line| format!("data: {line}\n\n")).collect();
    answer("200 OK", "text/event-stream", &body)
}

fn provider(wire: Wire, address: &str) -> Arc<Provider> {
    let api_key = KeySource::Value(Secret::new("sk-test-key"));
    Arc::new(Provider { wire, api_key, ..Provider::http("test", address) })
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

async fn events(provider: &Arc<Provider>, prompt: &Prompt) -> Vec<Event> {
    let mut stream = Client::new().stream_prompt(provider, prompt);
    let mut events = Vec::new();
    while let Some(batch) = stream.next().await {
        events.extend(batch);
    }
    events
}

fn items(events: &[Event]) -> Vec<Value> {
    let done = events.iter().filter_map(|event| match event {
        Event::ItemDone { raw, .. } => Some(serde_json::from_str(raw).unwrap()),
        _ => None,
    });
    done.collect()
}

fn left_out(events: &[Event]) -> Vec<&str> {
    let named = events.iter().filter_map(|event| match event {
        Event::LeftOut(what) => Some(what.as_str()),
        _ => None,
    });
    named.collect()
}

/// What the provider's wire cannot carry is an event before those of the response.
#[tokio::test]
async fn what_is_left_out_is_named() {
    let recorded = include_str!("../../../../fuzz/seeds/wire/messages_events");
    let (address, mut requests) = server(vec![stream(recorded)]).await;
    let provider = provider(Wire::Messages, &address);
    let foreign =
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"});
    let events = events(&provider, &prompt("claude-opus-4-6", &[user("Hi."), foreign])).await;
    assert_eq!(left_out(&events), ["reasoning of another model is not sent"]);
    assert!(matches!(events[0], Event::LeftOut(_)), "{events:?}");
    assert!(matches!(events.last(), Some(Event::Completed { .. })), "{events:?}");
    assert!(!requests.recv().await.unwrap().body.to_string().contains("gAAAA"));
}

fn user(text: &str) -> Value {
    json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
}

/// A turn with reasoning and a call, and the request after it, which carries all of that back.
#[tokio::test]
async fn a_turn_on_each_wire() {
    let messages = include_str!("../../../../fuzz/seeds/wire/messages_events");
    let chat = include_str!("../../../../fuzz/seeds/wire/chat_events");
    let gemini = include_str!("../../../../fuzz/seeds/wire/gemini_events");
    for (wire, model, recorded, path, key) in [
        (
            Wire::Messages,
            "claude-opus-4-6",
            messages,
            "post /v1/messages ",
            "x-api-key: sk-test-key",
        ),
        (
            Wire::Chat,
            "deepseek",
            chat,
            "post /chat/completions ",
            "authorization: bearer sk-test-key",
        ),
        (
            Wire::Gemini,
            "gemini-3-pro",
            gemini,
            "post /v1beta/models/gemini-3-pro:streamgeneratecontent?alt=sse ",
            "x-goog-api-key: sk-test-key",
        ),
    ] {
        let (address, mut requests) = server(vec![stream(recorded), stream(recorded)]).await;
        let provider = provider(wire, &address);
        let mut history = vec![user("Look at it.")];
        let first = events(&provider, &prompt(model, &history)).await;
        let sent = requests.recv().await.unwrap();
        assert!(sent.head.starts_with(path), "{}", sent.head);
        assert!(sent.head.contains(key), "{}", sent.head);
        assert!(sent.body.to_string().contains("Look at it."), "{}", sent.body);
        assert!(sent.body.to_string().contains("Be brief."), "{}", sent.body);
        assert!(left_out(&first).is_empty(), "{wire}: {first:?}");
        let Some(Event::Completed { usage, .. }) = first.last() else {
            panic!("{wire}: {first:?}")
        };
        assert!(usage.output > 0 && usage.cached_input > 0, "{wire}: {usage:?}");
        let made = items(&first);
        let has = |kind: &str| made.iter().any(|item| item["type"] == kind);
        assert!(has("reasoning") && has("message") && has("function_call"), "{wire}: {made:#?}");
        assert!(first.iter().any(|event| matches!(event, Event::TextDelta { .. })), "{wire}");
        let is_call = |event: &Event| matches!(event, Event::ItemDone { item: Item::FunctionCall { name, .. }, .. } if name == "read");
        assert!(first.iter().any(is_call), "{wire}: {first:?}");
        for item in made {
            history.push(item.clone());
            if item["type"] == "function_call" {
                let call = item["call_id"].clone();
                history.push(
                    json!({"type": "function_call_output", "call_id": call, "output": "plum"}),
                );
            }
        }
        let second = events(&provider, &prompt(model, &history)).await;
        assert!(matches!(second.last(), Some(Event::Completed { .. })), "{wire}: {second:?}");
        assert!(left_out(&second).is_empty(), "{wire}: {second:?}");
        let sent = requests.recv().await.unwrap().body.to_string();
        let kept = match wire {
            Wire::Messages => "\"signature\":\"c2ln\"",
            Wire::Chat => "\"reasoning_content\":\"Hmm\"",
            Wire::Gemini => "\"thoughtSignature\":\"c2lnbg==\"",
            Wire::Responses => unreachable!(),
        };
        assert!(sent.contains("plum") && sent.contains(kept), "{wire}: {sent}");
    }
}

#[tokio::test]
async fn refusals_have_the_meaning_of_their_wire() {
    let full = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#;
    let busy = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let key = r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key sk-test-key"}}"#;
    let quota =
        r#"{"error":{"code":429,"message":"Quota exceeded.","status":"RESOURCE_EXHAUSTED"}}"#;
    for (wire, status, body, kind, again) in [
        (Wire::Messages, "400 Bad Request", full, FailureKind::ContextWindowExceeded, false),
        (Wire::Messages, "529 Overloaded", busy, FailureKind::ServerOverloaded, true),
        (Wire::Messages, "401 Unauthorized", key, FailureKind::Unauthorized, false),
        (
            Wire::Gemini,
            "429 Too Many Requests",
            quota,
            FailureKind::ResponseTooManyFailedAttempts,
            true,
        ),
    ] {
        let (address, _requests) = server(vec![answer(status, "application/json", body)]).await;
        let failed = events(&provider(wire, &address), &prompt("m", &[user("x")])).await;
        let Some(Event::Failed(failure)) = failed.last() else { panic!("{failed:?}") };
        assert_eq!((failure.kind, failure.retry == Retry::Request), (kind, again), "{failure:?}");
        assert!(!failure.message.contains("sk-test-key"), "{failure:?}");
    }
}

/// A failure inside of a stream that began with 200, a stream that is cut, and one that never was one.
#[tokio::test]
async fn a_stream_that_fails_is_a_failure() {
    let started = r#"{"type":"message_start","message":{"id":"m","role":"assistant","content":[],"usage":{"input_tokens":1}}}"#;
    let failed = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    for (answer, again) in [
        (stream(&format!("{started}\n{failed}")), true),
        (stream(started), true),
        (answer("200 OK", "application/json", failed), true),
        (answer("200 OK", "text/event-stream", ""), true),
    ] {
        let (address, _requests) = server(vec![answer]).await;
        let events =
            events(&provider(Wire::Messages, &address), &prompt("claude", &[user("x")])).await;
        let Some(Event::Failed(failure)) = events.last() else { panic!("{events:?}") };
        assert_eq!(failure.retry != Retry::Never, again, "{failure:?}");
    }
}

#[tokio::test]
async fn models_are_listed_on_each_wire() {
    let claude = r#"{"data":[{"type":"model","id":"claude-opus-4-6","display_name":"Claude","max_input_tokens":200000}]}"#;
    let gemini = r#"{"models":[{"name":"models/gemini-3-pro","displayName":"Gemini","inputTokenLimit":1000000,"supportedGenerationMethods":["generateContent"]}]}"#;
    for (wire, path, body, id, window) in [
        (Wire::Messages, "get /v1/models?limit=1000 ", claude, "claude-opus-4-6", 200_000),
        (Wire::Gemini, "get /v1beta/models?pagesize=1000 ", gemini, "gemini-3-pro", 1_000_000),
    ] {
        let (address, mut requests) =
            server(vec![answer("200 OK", "application/json", body)]).await;
        let listed = Client::new().models(&provider(wire, &address), None).await.unwrap();
        let head = requests.recv().await.unwrap().head;
        assert!(head.starts_with(path), "{head}");
        let ModelsAnswer::Listed { models, .. } = listed else { panic!("{listed:?}") };
        assert_eq!((&*models[0].id, models[0].context_window), (id, Some(window)));
    }
}
