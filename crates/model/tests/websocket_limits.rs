//! Rate limits and refused credentials over a WebSocket, against a server that the tests script.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use model::{
    Authorization, AuthorizationFuture, Client, Credentials, Event, KeySource, Prompt, Provider,
    RateLimit, Secret,
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
            socket.send(Message::text(event.to_string())).await.unwrap();
        }
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
    let prompt = Prompt { model: "m".into(), cache_key: Some("a".into()), ..Prompt::default() };
    let mut stream = client.stream_prompt(provider, &prompt);
    let mut events = Vec::new();
    while let Some(batch) = stream.next().await {
        events.extend(batch);
    }
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
    let client = Client::new();
    let first = events(&client, &provider).await;
    assert_eq!(requests(&first[0]).remaining, 19, "of the upgrade");
    assert!(matches!(first[1], Event::Created { .. }), "{first:?}");
    assert_eq!(requests(&first[2]).remaining, 18);
    let Event::PlanUsage(usage) = &first[3] else { panic!("{first:?}") };
    assert_eq!(usage.primary.unwrap().minutes, Some(300));
    assert!(matches!(first[4..], [Event::Completed { .. }]), "{first:?}");
    let second = events(&client, &provider).await;
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
    let (client, provider) = (Client::new(), Arc::new(provider));
    for _ in 0..3 {
        let events = events(&client, &provider).await;
        assert!(matches!(events.last(), Some(Event::Completed { .. })), "{events:?}");
    }
    let tokens = ["GET Bearer token-1", "POST Bearer token-1", "POST Bearer token-2"];
    let seen = seen.lock().unwrap();
    assert_eq!(seen[..3], tokens);
    assert_eq!(seen[3..], ["GET Bearer token-2"]);
}
