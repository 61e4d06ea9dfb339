//! The client over real loopback HTTP: the scripted server, and raw servers that misbehave.

use std::{
    io::Write,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use model::{Client, Event, Failure, FailureKind, Item, Prompt, Provider, Retry, Secret};
use model_server::script::Script;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

fn client() -> Client {
    Client::new()
}

fn provider(address: SocketAddr) -> Provider {
    Provider::http("test", format!("http://{address}/v1"))
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Write::write(&mut *self.0.lock().unwrap(), bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn lines(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

async fn scripted(script: &Value) -> (Provider, Log) {
    let script = Script::parse("test", &script.to_string()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let log = Log::default();
    let writer = Box::new(log.clone());
    tokio::spawn(model_server::serve(listener, script, Some(writer), std::future::pending()));
    (provider(address), log)
}

/// A server that responds to the n-th connection's only request with the n-th text (the last one
/// from then on) and closes, or keeps the connection open in silence.
async fn raw(answers: Vec<Vec<u8>>, close: bool) -> (Provider, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            read_request(&mut stream).await;
            let at = counted.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
            // A client may disconnect in the middle of a huge response.
            let _ = stream.write_all(&answers[at]).await;
            if !close {
                open.push(stream);
            }
        }
    });
    (provider(address), count)
}

async fn read_request(stream: &mut TcpStream) {
    let mut request = Vec::new();
    let mut block = [0; 4096];
    while !request.ends_with(b"}") {
        let read = stream.read(&mut block).await.unwrap();
        if read == 0 {
            return;
        }
        request.extend_from_slice(&block[..read]);
    }
}

fn prompt() -> Prompt {
    let input = r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}"#;
    Prompt { model: "m".into(), input: vec![input.into()], ..Prompt::default() }
}

async fn run(provider: Provider) -> Vec<Event> {
    run_with(&client(), &Arc::new(provider), &prompt()).await
}

async fn run_with(client: &Client, provider: &Arc<Provider>, prompt: &Prompt) -> Vec<Event> {
    let mut stream = client.stream_prompt(provider, prompt);
    let mut events = Vec::new();
    while let Some(batch) = stream.next().await {
        assert!(!batch.is_empty());
        events.extend(batch);
    }
    let ends = events.iter().filter(|event| event.is_terminal()).count();
    assert_eq!(ends, 1, "{events:?}");
    assert!(events.last().unwrap().is_terminal());
    events
}

fn failure(events: &[Event]) -> &Failure {
    match events.last() {
        Some(Event::Failed(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

fn http(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}

fn stream_of(body: &str) -> Vec<u8> {
    let headers = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    format!("{headers}{body}").into_bytes()
}

const DELTA: &str = "data: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\n";

#[tokio::test]
async fn a_scripted_response_arrives_whole_and_connections_are_reused() {
    let (provider, log) = scripted(&json!({"on_exhausted": "repeat_last", "responses": [
        {"expect": {"header": {"authorization": "Bearer sk-test"}},
         "steps": [{"reasoning": "why"}, {"message": "Hello, you said {{last_user_text}}."}]}]}))
    .await;
    let mut provider = provider;
    provider.api_key = model::KeySource::Value(Secret::new("sk-test"));
    provider.query_params.insert("v".into(), "1".into());
    let (provider, client) = (Arc::new(provider), client());
    client.warm_up(&provider).await;
    for _ in 0..3 {
        let events = run_with(&client, &provider, &prompt()).await;
        assert!(matches!(&events[0], Event::Created { .. }));
        let text = events.iter().find_map(|event| match event {
            Event::ItemDone { item: Item::Message { text, .. }, .. } => Some(text.as_str()),
            _ => None,
        });
        assert_eq!(text, Some("Hello, you said hi."));
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0]["path"], "/v1/models");
    assert_eq!(lines[1]["body"]["stream"], true);
    assert!(!lines[1].to_string().contains("sk-test"));
}

#[tokio::test]
async fn refusals_state_whether_and_when_to_retry() {
    // Checks a refusal: whether and when it can be retried, and its kind.
    let check = async |status: &str, headers: &str, body: &str, retry, wait: Option<u64>, kind| {
        let (provider, count) = raw(vec![http(status, headers, body)], true).await;
        let events = run(provider).await;
        let failure = failure(&events);
        assert_eq!((failure.kind, failure.retry), (kind, retry), "{}", failure.message);
        assert_eq!(failure.retry_after, wait.map(Duration::from_millis), "{status}");
        assert_eq!(count.load(Ordering::SeqCst), 1, "{status}");
        let status: u16 = status[..3].parse().unwrap();
        assert_eq!(failure.http_status, Some(status));
        assert!(failure.message.contains("127.0.0.1"), "{}", failure.message);
    };
    let now = "retry-after-ms: 1\r\n";
    use {FailureKind::*, Retry::*};
    check("500 Oops", now, "broken", Request, Some(1), HttpConnectionFailed).await;
    check("503 Busy", "retry-after: 0\r\n", "", Request, Some(0), HttpConnectionFailed).await;
    check("429 Slow", now, "", Request, Some(1), ResponseTooManyFailedAttempts).await;
    let limit = r#"{"error":{"code":"rate_limit_exceeded","message":"Please try again in 2ms."}}"#;
    check("429 Slow", "", limit, Request, Some(2), ResponseTooManyFailedAttempts).await;
    let hour = "retry-after: 3600\r\n";
    check("429 Slow", hour, "", Request, Some(3_600_000), ResponseTooManyFailedAttempts).await;
    let quota = r#"{"error":{"code":"insufficient_quota"}}"#;
    check("429 No", now, quota, Never, Some(1), UsageLimitExceeded).await;
    check("500 No", "x-should-retry: false\r\n", "", Never, None, HttpConnectionFailed).await;
    check("404 Yes", "x-should-retry: true\r\n", "", Request, None, HttpConnectionFailed).await;
    check("400 Bad", "", r#"{"error":{"message":"m"}}"#, Never, None, BadRequest).await;
    check("401 No", "", "", Never, None, Unauthorized).await;
    check("404 No", "", "", Never, None, HttpConnectionFailed).await;
}

#[tokio::test]
async fn failures_name_the_request_for_support() {
    let check = async |answer: Vec<u8>, details: &str| {
        let (provider, _) = raw(vec![answer], true).await;
        let events = run(provider).await;
        assert_eq!(failure(&events).details.as_deref(), Some(details));
    };
    let id = "x-request-id: req_7\r\n";
    let body = r#"{"error":{"code":"some_code","message":"m"}}"#;
    check(http("500 Oops", id, body), "error code `some_code`, request id `req_7`").await;
    let text = String::from_utf8(stream_of(DELTA)).unwrap();
    let cut = text.replacen("\r\n", &format!("\r\n{id}"), 1);
    check(cut.into_bytes(), "request id `req_7`").await;
}

#[tokio::test]
async fn broken_streams_are_reported_and_can_be_retried() {
    let check = async |answer: Vec<u8>, deltas: usize, part: &str| {
        let (provider, count) = raw(vec![answer], true).await;
        let events = run(provider).await;
        assert_eq!(events.len(), deltas + 1, "{events:?}");
        let failure = failure(&events);
        assert_eq!(failure.kind, FailureKind::ResponseStreamDisconnected);
        assert_eq!(failure.retry, Retry::Stream);
        assert!(failure.message.contains(part), "{}", failure.message);
        assert_eq!(count.load(Ordering::SeqCst), 1);
    };
    check(stream_of(DELTA), 1, "before the response was complete").await;
    check(stream_of(&format!("{DELTA}data: {{\"typ")), 1, "before the response was complete").await;
    check(stream_of("data: garbage\n\n"), 0, "garbage").await;
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\n";
    check(format!("{chunked}{DELTA}").into_bytes(), 1, "127.0.0.1").await;
    let huge = format!("data: {}", "x".repeat(17 << 20));
    check(stream_of(&huge), 0, "16 MiB").await;
}

#[tokio::test]
async fn silence_ends_a_stream() {
    let never_begun = (FailureKind::ResponseStreamConnectionFailed, Retry::Request);
    let broken_off = (FailureKind::ResponseStreamDisconnected, Retry::Stream);
    for (answer, kind, message_part) in [
        (Vec::new(), never_begun, "did not answer for 0.04 s"),
        (stream_of(DELTA), broken_off, "sent nothing for 0.04 s"),
    ] {
        let (mut provider, _) = raw(vec![answer], false).await;
        provider.stream_idle_timeout = Duration::from_millis(40);
        let events = run(provider).await;
        let failure = failure(&events);
        assert_eq!((failure.kind, failure.retry), kind);
        assert!(failure.message.contains(message_part), "{}", failure.message);
    }
}

#[tokio::test]
async fn responses_without_a_stream_and_unreachable_hosts_are_errors() {
    let page = http("200 OK", "content-type: text/html\r\n", "<html>Sign in</html>");
    let (provider, _) = raw(vec![page], true).await;
    let events = run(provider).await;
    assert_eq!(failure(&events).kind, FailureKind::ResponseStreamConnectionFailed);
    assert!(failure(&events).message.contains("base_url"));

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let events = run(self::provider(address)).await;
    assert_eq!(failure(&events).kind, FailureKind::ResponseStreamConnectionFailed);
    assert!(failure(&events).message.contains("refused"), "{}", failure(&events).message);
    assert_eq!(failure(&events).retry, Retry::Request);

    let events = run(Provider::built_in(None, None)).await;
    assert_eq!(failure(&events).kind, FailureKind::Unauthorized);
}

#[tokio::test]
async fn scripted_failures_reach_the_client() {
    let check = async |steps: Value, kind: FailureKind, part: &str| {
        let (mut provider, _) = scripted(&json!({"responses": [{"steps": steps}]})).await;
        provider.stream_idle_timeout = Duration::from_millis(300);
        let events = run(provider).await;
        assert_eq!(failure(&events).kind, kind, "{events:?}");
        assert!(failure(&events).message.contains(part), "{}", failure(&events).message);
    };
    use FailureKind::*;
    check(json!([{"message": "a"}, {"cut": "data: {"}]), ResponseStreamDisconnected, "broke").await;
    check(json!([{"message": "a"}, "idle"]), ResponseStreamDisconnected, "nothing").await;
    let error = json!({"code": "context_length_exceeded", "message": "too long"});
    check(json!([{"error": error}]), ContextWindowExceeded, "too long").await;
    check(json!([{"error": {"incomplete": "content_filter"}}]), Other, "content filter").await;
    let error = json!({"status": 403, "message": "not yours"});
    check(json!([{"delay_ms": 1}, {"error": error}]), HttpConnectionFailed, "not yours").await;
}

#[tokio::test]
async fn an_expectation_that_fails_is_a_bad_request_with_the_reason() {
    let (provider, _) = scripted(&json!({"responses": [
        {"expect": {"tool_output_contains": "exit 0"}, "steps": [{"message": "a"}]}]}))
    .await;
    let events = run(provider).await;
    assert_eq!(failure(&events).kind, FailureKind::BadRequest);
    assert!(failure(&events).message.contains("tool_output_contains: `exit 0`"));
}

#[tokio::test]
async fn dropping_the_stream_closes_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let provider = Arc::new(provider(listener.local_addr().unwrap()));
    let client = client();
    let mut stream = client.stream_prompt(&provider, &prompt());
    let (mut connection, _) = listener.accept().await.unwrap();
    read_request(&mut connection).await;
    connection.write_all(&stream_of(DELTA)).await.unwrap();
    assert!(stream.next().await.is_some());
    drop(stream);
    let mut rest = Vec::new();
    // Ends only after the client has closed its side.
    let _ = connection.read_to_end(&mut rest).await;
}

#[tokio::test]
async fn many_conversations_share_one_script() {
    let (provider, _) = scripted(&json!({"responses": [
        {"steps": [{"message": "first"}]}, {"steps": [{"message": "second"}]}]}))
    .await;
    let (provider, client) = (Arc::new(provider), client());
    let mut tasks = tokio::task::JoinSet::new();
    for conversation in 0..50 {
        let (provider, client) = (Arc::clone(&provider), client.clone());
        tasks.spawn(async move {
            let key = format!("thread-{conversation}");
            let prompt = Prompt { cache_key: Some(key.as_str().into()), ..prompt() };
            for expect in ["first", "second"] {
                let events = run_with(&client, &provider, &prompt).await;
                let said = |event: &Event| matches!(event, Event::TextDelta { text, .. } if text == expect);
                assert!(events.iter().any(said), "{events:?}");
            }
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
}
