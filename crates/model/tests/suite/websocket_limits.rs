//! Rate limits and refused credentials over a WebSocket, against a server that the tests script.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use model::{
    Authorization, AuthorizationFuture, Client, Credentials, Event, FailureKind, Item, KeySource,
    Prompt, Provider, RateLimit, Retry, Secret,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Message, Role};

type Authorizations = Arc<Mutex<Vec<String>>>;

/// Answers each upgrade with these headers, and the requests over WebSockets with these events. Requests
/// over HTTP complete, but for those with `token-1`. Returns the provider, and the credentials of all requests and upgrades.
async fn provider(
    headers: &'static str,
    answers: Vec<Vec<Value>>,
) -> (Arc<Provider>, Authorizations) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answers = Arc::new(Mutex::new(answers.into_iter()));
    let seen = Authorizations::default();
    let log = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (answers, log) = (Arc::clone(&answers), Arc::clone(&log));
            tokio::spawn(async move {
                let next = move || answers.lock().unwrap().next().unwrap_or_default();
                serve(stream, headers, next, &log).await;
            });
        }
    });
    let mut provider = Provider::http("test", format!("http://{address}/v1"));
    provider.supports_websockets = true;
    (Arc::new(provider), seen)
}

async fn serve(
    mut stream: TcpStream,
    headers: &str,
    next: impl Fn() -> Vec<Value>,
    log: &Mutex<Vec<String>>,
) {
    let mut head = Vec::new();
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.unwrap();
        head.extend_from_slice(&buffer[..count]);
    }
    let head = String::from_utf8(head).unwrap();
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    };
    let method = head.split(' ').next().unwrap();
    log.lock().unwrap().push(format!("{method} {}", header("authorization").unwrap_or_default()));
    if method == "POST" && head.contains("token-1") {
        let refusal =
            b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        return stream.write_all(refusal).await.unwrap();
    }
    if method == "POST" {
        let body = format!("data: {}\n\n", completed());
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{body}",
            body.len()
        );
        return stream.write_all(answer.as_bytes()).await.unwrap();
    }
    let accept = derive_accept_key(header("sec-websocket-key").unwrap().as_bytes());
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-accept: {accept}\r\n{headers}\r\n"
    );
    stream.write_all(answer.as_bytes()).await.unwrap();
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
    while let Some(Ok(Message::Text(_))) = socket.next().await {
        for event in next() {
            socket.feed(Message::text(event.to_string())).await.unwrap();
        }
        // Together, so that the client has whatever follows an answer when it reads the answer's end.
        socket.flush().await.unwrap();
    }
}

fn created() -> Value {
    json!({ "type": "response.created", "response": { "id": "r" } })
}

fn completed() -> Value {
    json!({ "type": "response.completed", "response": { "id": "r" } })
}

/// A report of 20 requests a minute.
fn limits(remaining: u64, reset_seconds: f64) -> Value {
    json!({ "type": "rate_limits.updated", "rate_limits": [{ "name": "requests", "limit": 20,
        "remaining": remaining, "reset_seconds": reset_seconds }] })
}

async fn events(client: &Client, provider: &Arc<Provider>) -> Vec<Event> {
    continued(client, provider, &mut Vec::new()).await
}

/// The events of a request that continues the history `items`.
async fn continued(
    client: &Client,
    provider: &Arc<Provider>,
    items: &mut Vec<Arc<str>>,
) -> Vec<Event> {
    items.push(json!({ "role": "user", "content": "x" }).to_string().into());
    let (model, cache_key) = ("m".into(), Some("a".into()));
    let prompt = Prompt { model, cache_key, input: items.clone(), ..Prompt::default() };
    let mut stream = client.stream_prompt(provider, &prompt);
    let mut events = Vec::new();
    while let Some(batch) = stream.next().await {
        events.extend(batch);
    }
    items.extend(events.iter().filter_map(|event| match event {
        Event::ItemDone { raw, .. } => Some(Arc::clone(raw)),
        _ => None,
    }));
    events
}

fn requests(event: &Event) -> RateLimit {
    let Event::RateLimits(limits) = event else { panic!("{event:?}") };
    limits.requests.unwrap()
}

#[tokio::test]
async fn upgrades_events_and_refusals_report_limits() {
    let refusal = json!({ "type": "error", "status": 429,
        "error": { "code": "rate_limit_exceeded", "message": "Busy." },
        "headers": { "x-ratelimit-limit-requests": "20", "x-ratelimit-remaining-requests": "1",
            "x-ratelimit-reset-requests": "57s", "retry-after-ms": "1" } });
    let plan = json!({ "type": "house.rate_limits", "rate_limits": {
        "primary": { "used_percent": 12, "window_minutes": 300 } } });
    let (provider, _) = provider(
        "x-ratelimit-limit-requests: 20\r\nx-ratelimit-remaining-requests: 19\r\n\
         x-ratelimit-reset-requests: 3s\r\n",
        vec![
            vec![created(), limits(18, 6.0), plan.clone(), completed()],
            // Between two responses of a connection that is used again.
            vec![limits(17, 9.0), refusal],
        ],
    )
    .await;
    let (client, mut items) = (Client::new(), Vec::new());
    let first = continued(&client, &provider, &mut items).await;
    assert_eq!(requests(&first[0]).remaining, 19, "of the upgrade");
    assert!(matches!(first[1], Event::Created { .. }), "{first:?}");
    assert_eq!(requests(&first[2]).remaining, 18);
    let Event::PlanUsage(usage) = &first[3] else { panic!("{first:?}") };
    assert_eq!(usage.primary.unwrap().minutes, Some(300));
    assert!(matches!(first[4..], [Event::Completed { .. }]), "{first:?}");
    let second = continued(&client, &provider, &mut items).await;
    assert_eq!([requests(&second[0]).remaining, requests(&second[1]).remaining], [17, 1]);
    assert!(matches!(second[2..], [Event::Failed(_)]), "{second:?}");
}

/// The provider reports over the WebSocket that half a second remains until a request is available again.
#[tokio::test]
async fn requests_wait_for_limits_that_a_websocket_reports() {
    let answer = |reset| vec![created(), limits(0, reset), completed()];
    let (provider, _) = provider("", vec![answer(57.5), answer(57.0)]).await;
    let client = Client::new();
    events(&client, &provider).await;
    let started = Instant::now();
    events(&client, &provider).await;
    assert!(started.elapsed() >= Duration::from_millis(450), "{:?}", started.elapsed());
}

fn of_response(kind: &str, response: Value) -> Value {
    json!({ "type": kind, "response": response })
}

fn began(id: &str) -> Value {
    of_response("response.created", json!({ "id": id }))
}

fn ended(id: &str) -> Value {
    of_response("response.completed", json!({ "id": id }))
}

/// The end of a message with this text.
fn message(text: &str) -> Value {
    let content = json!([{ "type": "output_text", "text": text }]);
    let item = json!({ "type": "message", "id": "m", "role": "assistant", "content": content });
    json!({ "type": "response.output_item.done", "output_index": 0, "item": item })
}

fn call() -> Value {
    let item = json!({ "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" });
    json!({ "type": "response.output_item.done", "output_index": 0, "item": item })
}

fn texts(events: &[Event]) -> Vec<&str> {
    let text = |event| match event {
        &Event::ItemDone { item: Item::Message { ref text, .. }, .. } => Some(text.as_str()),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}

fn has_call(events: &[Event]) -> bool {
    let is_call =
        |event: &Event| matches!(event, Event::ItemDone { item: Item::FunctionCall { .. }, .. });
    events.iter().any(is_call)
}

/// The answers to the first request and to the second one on the same connection: the second request is
/// answered over another connection with `two` if something surplus arrived before, and never with it.
#[tokio::test]
async fn what_follows_a_response_answers_no_other_request() {
    let check = async |name: &str, after: Vec<Value>, before: Vec<Value>, upgrades: usize| {
        let first = [vec![began("a"), message("one"), ended("a")], after].concat();
        let second = vec![began("b"), message("two"), ended("b")];
        let (provider, seen) = match before.is_empty() {
            true => provider("", vec![first, second]).await,
            false => provider("", vec![first, [before, second.clone()].concat(), second]).await,
        };
        let (client, mut items) = (Client::new(), Vec::new());
        let one = continued(&client, &provider, &mut items).await;
        assert_eq!(texts(&one), ["one"], "{name}");
        let two = continued(&client, &provider, &mut items).await;
        assert_eq!(texts(&two), ["two"], "{name}: {two:?}");
        assert!(!has_call(&two), "{name}: {two:?}");
        assert!(matches!(two.last(), Some(Event::Completed { .. })), "{name}: {two:?}");
        assert_eq!(*seen.lock().unwrap(), vec!["GET "; upgrades], "{name}");
    };
    let surplus = || vec![began("z"), call(), ended("z")];
    check("nothing", vec![], vec![], 1).await;
    check("limits", vec![limits(17, 9.0)], vec![], 1).await;
    check("a response", surplus(), vec![], 2).await;
    check("the same end again", vec![ended("a")], vec![], 2).await;
    check("a call alone", vec![call()], vec![], 2).await;
    check("an unknown event", vec![json!({ "type": "response.new" })], vec![], 2).await;
    check("an error", vec![json!({ "type": "error", "error": {} })], vec![], 2).await;
    check("no event", vec![json!(7)], vec![], 2).await;
    // Only once the next request was sent.
    check("limits, late", vec![], vec![limits(17, 9.0)], 1).await;
    check("a call, late", vec![], vec![call()], 2).await;
    check("an end, late", vec![], vec![ended("a")], 2).await;
    let progress = of_response("response.in_progress", json!({ "id": "a" }));
    check("progress, late", vec![], vec![progress], 2).await;
    let other = json!({ "id": "z", "previous_response_id": "of another request" });
    let late = vec![of_response("response.created", other), call(), ended("z")];
    check("a response, late", vec![], late, 2).await;
    let other = json!({ "id": "z", "previous_response_id": null });
    let late = vec![of_response("response.created", other), call(), ended("z")];
    check("a response that continues none, late", vec![], late, 2).await;
}

/// A response that begins after the next request was sent is its answer only if it continues the last one.
#[tokio::test]
async fn a_response_that_continues_another_one_answers_no_request() {
    let began = |id: &str, previous: Value| {
        of_response("response.created", json!({ "id": id, "previous_response_id": previous }))
    };
    let check = async |name: &str, late: Value, upgrades: usize| {
        let whole = |begin: Value, id: &str, text: &str| vec![begin, message(text), ended(id)];
        let surplus = vec![late, call(), ended("z")];
        let answers = vec![
            whole(began("a", Value::Null), "a", "one"),
            match upgrades {
                1 => whole(began("b", json!("a")), "b", "two"),
                _ => surplus,
            },
            whole(began("b", Value::Null), "b", "two"),
        ];
        let (provider, seen) = provider("", answers).await;
        let (client, mut items) = (Client::new(), Vec::new());
        for text in ["one", "two"] {
            let events = continued(&client, &provider, &mut items).await;
            assert_eq!((texts(&events), has_call(&events)), (vec![text], false), "{name}");
        }
        assert_eq!(*seen.lock().unwrap(), vec!["GET "; upgrades], "{name}");
    };
    check("the answer", Value::Null, 1).await;
    check("of another", began("z", json!("y")), 2).await;
    check("of none", began("z", Value::Null), 2).await;
    // This provider has named it before.
    let unnamed = of_response("response.created", json!({ "id": "z" }));
    check("unnamed", unnamed, 2).await;
}

/// A request that continues nothing has a connection of its own: its answer names no request.
#[tokio::test]
async fn a_request_that_continues_nothing_has_a_connection_of_its_own() {
    let whole = |id: &str, text: &str| vec![began(id), message(text), ended(id)];
    let (provider, seen) = provider("", vec![whole("a", "one"), whole("b", "two")]).await;
    let client = Client::new();
    for text in ["one", "two"] {
        assert_eq!(texts(&events(&client, &provider).await), [text]);
    }
    assert_eq!(*seen.lock().unwrap(), ["GET ", "GET "]);
}

#[tokio::test]
async fn an_event_of_another_response_ends_the_stream() {
    let check = async |other: Value| {
        let mixed = vec![began("b"), other.clone(), call(), ended("b")];
        let fine = vec![began("c"), message("two"), ended("c")];
        let (provider, seen) = provider("", vec![mixed, fine]).await;
        let client = Client::new();
        let events = events(&client, &provider).await;
        let Some(Event::Failed(failure)) = events.last() else { panic!("{other}: {events:?}") };
        assert_eq!(failure.kind, FailureKind::ResponseStreamDisconnected);
        assert_eq!(failure.retry, Retry::Stream);
        assert!(failure.message.contains("`z` within the response `b`"), "{}", failure.message);
        assert!(!has_call(&events), "{other}: {events:?}");
        assert_eq!(*seen.lock().unwrap(), ["GET "]);
    };
    check(began("z")).await;
    check(ended("z")).await;
    check(of_response("response.in_progress", json!({ "id": "z" }))).await;
    let mut delta = json!({ "type": "response.output_text.delta", "delta": "x" });
    delta["response_id"] = "z".into();
    check(delta).await;
}

/// Tokens `1`, `2`, …: the next one after each that is refused.
#[derive(Debug, Default)]
struct Account(Mutex<u32>);

impl Credentials for Account {
    fn authorization(&self, rejected: Option<Secret>) -> AuthorizationFuture<'_> {
        Box::pin(async move {
            let mut refusals = self.0.lock().unwrap();
            *refusals += u32::from(rejected.is_some());
            let token = Secret::new(format!("token-{}", *refusals + 1));
            Ok(Authorization { token, headers: Default::default() })
        })
    }
}

/// The token of an open WebSocket expires: the request is sent again over HTTP, which refreshes it.
#[tokio::test]
async fn a_websocket_whose_credentials_expire_loses_no_request() {
    let refusal = json!({ "type": "error", "status": 401,
        "error": { "code": "token_expired", "message": "Expired." } });
    let fine = || vec![created(), completed()];
    let (provider, seen) = provider("", vec![fine(), vec![refusal], fine()]).await;
    let mut provider = Provider::clone(&provider);
    provider.api_key = KeySource::Account(Arc::new(Account::default()));
    let (client, provider, mut items) = (Client::new(), Arc::new(provider), Vec::new());
    for _ in 0..3 {
        let events = continued(&client, &provider, &mut items).await;
        assert!(matches!(events.last(), Some(Event::Completed { .. })), "{events:?}");
    }
    let tokens = ["GET Bearer token-1", "POST Bearer token-1", "POST Bearer token-2"];
    let seen = seen.lock().unwrap();
    assert_eq!(seen[..3], tokens);
    assert_eq!(seen[3..], ["GET Bearer token-2"]);
}
