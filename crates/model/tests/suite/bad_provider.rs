//! What becomes of a request when the provider, or the network before it, does what it should not: the right
//! kind of failure within its time, and no message with the key.

#[path = "bad_provider/network.rs"]
mod network;
#[path = "bad_provider/server.rs"]
mod server;

use std::sync::Arc;
use std::time::Duration;

use model::{Client, Event, Failure, FailureKind, KeySource, Prompt, Provider, Retry, Secret};
use server::{Server, Step};

const KEY: &str = "sk-key-that-stays-secret";
const COMPLETED: &[u8] = b"data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\"}}\n\n";
/// Bounds every case: none of them waits for more than some idle timeouts.
const LIMIT: Duration = Duration::from_secs(20);

fn provider(base_url: &str) -> Provider {
    let mut provider = Provider::http("bad", base_url);
    provider.api_key = KeySource::Value(Secret::new(KEY));
    provider.stream_idle_timeout = Duration::from_millis(400);
    provider
}

/// All events of a request. Exactly the last one is terminal, and none quotes the key.
async fn events(client: &Client, provider: &Provider) -> Vec<Event> {
    let prompt = Prompt { model: "m".into(), ..Prompt::default() };
    let mut stream = client.stream_prompt(&Arc::new(provider.clone()), &prompt);
    let all = async {
        let mut events = Vec::new();
        while let Some(batch) = stream.next().await {
            events.extend(batch);
        }
        events
    };
    let events = tokio::time::timeout(LIMIT, all).await.expect("the request ends");
    let (last, others) = events.split_last().expect("at least the terminal event");
    assert!(last.is_terminal() && !others.iter().any(Event::is_terminal));
    assert!(!format!("{last:?}").contains(KEY), "{last:?}");
    events
}

async fn failure(client: &Client, provider: &Provider) -> Failure {
    match events(client, provider).await.pop() {
        Some(Event::Failed(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

fn stream_head() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_vec()
}

/// The answer `200 OK` with an event stream of these bytes, then the end of the connection.
fn streamed(body: impl AsRef<[u8]>) -> Vec<Step> {
    vec![Step::Request, Step::Send([stream_head().as_slice(), body.as_ref()].concat())]
}

fn answered(status: &str, kind: &str, body: &str) -> Vec<Step> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}");
    vec![Step::Request, Step::Send(format!("{head}\r\nconnection: close\r\n\r\n{body}").into())]
}

async fn run(steps: Vec<Step>) -> Vec<Event> {
    let server = Server::start(steps, None).await;
    events(&Client::new(), &provider(&format!("http://{}/v1", server.address))).await
}

/// The request fails in this way, with this part of a message.
async fn fails(name: &str, steps: Vec<Step>, kind: FailureKind, retry: Retry, part: &str) {
    let events = run(steps).await;
    let Some(Event::Failed(failure)) = events.last() else { panic!("{name}: {events:?}") };
    assert_eq!((failure.kind, failure.retry), (kind, retry), "{name}: {}", failure.message);
    assert!(failure.message.contains(part), "{name}: {}", failure.message);
    assert!(failure.message.len() < 2000, "{name}: a message of {} bytes", failure.message.len());
}

use FailureKind::{
    HttpConnectionFailed, ResponseStreamConnectionFailed, ResponseStreamDisconnected,
};

#[tokio::test]
async fn answers_that_are_no_event_stream() {
    let page = format!("<html>You sent {KEY}</html>");
    let failed = ResponseStreamConnectionFailed;
    let html = answered("200 OK", "text/html", &page);
    fails("a page", html, failed, Retry::Never, "base_url").await;
    let json = answered("200 OK", "application/json", r#"{"id":"resp_1"}"#);
    fails("a document", json, failed, Retry::Never, "base_url").await;
    let page = answered("502 Bad Gateway", "text/html", &page);
    fails("a page of a gateway", page, HttpConnectionFailed, Retry::Request, "502").await;
    let no_type = vec![
        Step::Request,
        Step::Send(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n<html>".to_vec()),
    ];
    fails("no type", no_type, ResponseStreamDisconnected, Retry::Stream, "closed the stream").await;
    let not_http = vec![Step::Request, Step::Send(b"SSH-2.0-server\r\n".to_vec())];
    fails("another protocol", not_http, failed, Retry::Request, "cannot reach").await;
    let mut head = b"HTTP/1.1 200 OK\r\nx-long: ".to_vec();
    head.resize(1 << 20, b'x');
    let long = vec![Step::Request, Step::Send(head), Step::Silence];
    fails("a header of 1 MB", long, failed, Retry::Request, "cannot reach").await;
}

#[tokio::test]
async fn broken_events() {
    let kind = ResponseStreamDisconnected;
    let check = async |name: &str, body: &[u8], part: &str| {
        fails(name, streamed(body), kind, Retry::Stream, part).await;
    };
    check("nothing", b"", "closed the stream").await;
    check("half an event", b"data: {\"type\":\"response.comp", "closed the stream").await;
    let quoted = format!("data: {{\"type\":{KEY}}}\n\n");
    check("wrong JSON", quoted.as_bytes(), "cannot be read").await;
    for data in ["[]", "5", "null", "\"text\"", "true"] {
        let data = format!("data: {data}\n\n");
        check("no object alone", data.as_bytes(), "closed the stream").await;
    }
    check("a wrong type", b"data: {\"type\":7}\n\n", "closed the stream").await;
    check("unknown events alone", b"data: {\"type\":\"response.new\"}\n\n", "closed the stream")
        .await;
    let mut long = b"data: ".to_vec();
    long.resize(17 << 20, b'x');
    check("an event of 17 MiB", &long, "16 MiB").await;
}

#[tokio::test]
async fn the_last_event_needs_no_blank_line() {
    for cut in [1, 2] {
        let events = run(streamed(&COMPLETED[..COMPLETED.len() - cut])).await;
        assert!(matches!(events[..], [Event::Completed { .. }]), "{events:?}");
    }
}

#[tokio::test]
async fn an_event_of_10_mb_is_read() {
    let text = "x".repeat(10_000_000);
    let delta =
        format!("data: {{\"type\":\"response.output_text.delta\",\"delta\":\"{text}\"}}\n\n");
    let events = run(streamed([delta.as_bytes(), COMPLETED].concat())).await;
    let [Event::TextDelta { text: read, .. }, Event::ItemDone { .. }, Event::Completed { .. }] =
        &events[..]
    else {
        panic!("{} events", events.len())
    };
    assert_eq!(read.len(), text.len());
}

#[tokio::test]
async fn nothing_counts_after_the_end() {
    let failed = b"data: {\"type\":\"response.failed\",\"response\":{\"error\":{}}}\n\n";
    let check = async |rest: &[u8]| {
        let events = run(streamed([COMPLETED, rest].concat())).await;
        assert!(matches!(events[..], [Event::Completed { .. }]), "{events:?}");
    };
    check(COMPLETED).await;
    check(failed).await;
    check(b"\0\xff no events at all").await;
    // The rest never ends, and arrives at any pace.
    let head = [stream_head().as_slice(), COMPLETED].concat();
    for forever in [Step::SendForever(b": more\n"), Step::Silence] {
        let events = run(vec![Step::Request, Step::Send(head.clone()), forever]).await;
        assert!(matches!(events[..], [Event::Completed { .. }]), "{events:?}");
    }
}

#[tokio::test]
async fn refusals_that_pass_and_those_that_are_final() {
    let check = async |status: &str, body: &str, kind: FailureKind, retry: Retry| {
        let steps = answered(status, "application/json", body);
        fails(&format!("{status} {body}"), steps, kind, retry, &status[..3]).await;
    };
    for status in ["408 Request Timeout", "409 Conflict", "425 Too Early"] {
        check(status, "", HttpConnectionFailed, Retry::Request).await;
    }
    check("404 Not Found", "", HttpConnectionFailed, Retry::Never).await;
    check("413 Content Too Large", "", FailureKind::ContextWindowExceeded, Retry::Never).await;
    let limited = "429 Too Many Requests";
    for error in [
        r#"{"type":"usage_not_included"}"#,
        r#"{"code":"new","message":"hard monthly spend limit reached"}"#,
    ] {
        let body = format!(r#"{{"error":{error}}}"#);
        check(limited, &body, FailureKind::UsageLimitExceeded, Retry::Never).await;
    }
}

/// Requests over HTTP are answered the same as the upgrade.
#[tokio::test]
async fn a_refused_upgrade_waits_when_the_provider_asks_for_it() {
    let check = async |status: &str, more: &str, wait: Option<u64>, methods: &[&str]| {
        let head = format!("HTTP/1.1 {status}\r\n{more}content-length: 0\r\nconnection: close");
        let steps = vec![Step::Request, Step::Send(format!("{head}\r\n\r\n").into())];
        let server = Server::start(steps, None).await;
        let mut provider = provider(&format!("http://{}/v1", server.address));
        provider.supports_websockets = true;
        let client = Client::new();
        let failed = failure(&client, &provider).await;
        let name = format!("{status} {more}");
        assert_eq!(failed.retry_after, wait.map(Duration::from_secs), "{name}");
        failure(&client, &provider).await;
        let heads = server.heads();
        let seen: Vec<_> = heads.iter().filter_map(|head| head.split(' ').next()).collect();
        assert_eq!(seen, methods, "{name}");
    };
    let asked = "retry-after: 7\r\n";
    check("429 Too Many Requests", asked, Some(7), &["GET", "POST"]).await;
    check("503 Service Unavailable", asked, Some(7), &["GET", "POST"]).await;
    check("429 Too Many Requests", "", None, &["GET", "POST", "POST"]).await;
    check("404 Not Found", asked, Some(7), &["GET", "POST", "POST"]).await;
}

#[tokio::test]
async fn waits_that_never_end() {
    let (cut, none) = (ResponseStreamDisconnected, ResponseStreamConnectionFailed);
    let head = Step::Send(stream_head());
    let silent = vec![Step::Request, Step::Silence];
    fails("no answer", silent, none, Retry::Request, "did not answer").await;
    let slow = vec![Step::Request, Step::Send(b"HTTP/1.1 200 OK\r\n".to_vec()), Step::Silence];
    fails("half a head", slow, none, Retry::Request, "did not answer").await;
    let silent = vec![Step::Request, head.clone(), Step::Silence];
    fails("no event", silent, cut, Retry::Stream, "sent nothing").await;
    let alive = vec![Step::Request, head.clone(), Step::SendForever(b": keep-alive\n\n")];
    fails("endless comments", alive, cut, Retry::Never, "kept the connection alive").await;
    let unknown = Step::SendForever(b"data: {\"type\":\"response.in_progress\"}\n\n");
    let alive = vec![Step::Request, head.clone(), unknown];
    fails("endless unknown events", alive, cut, Retry::Never, "kept the connection alive").await;
    let line = vec![Step::Request, head, Step::SendForever(&[b'x'; 65_536])];
    fails("an endless line", line, cut, Retry::Stream, "16 MiB").await;
    let refusal = b"HTTP/1.1 500 Oops\r\ncontent-length: 99\r\n\r\nhalf".to_vec();
    let half = vec![Step::Request, Step::Send(refusal), Step::Silence];
    fails("half a refusal", half, HttpConnectionFailed, Retry::Request, "500").await;
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = Server::start(streamed(COMPLETED), None).await;
    for status in
        ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"]
    {
        let at = other.address;
        let check = async |location: &str, to: &str| {
            let head = format!("HTTP/1.1 {status}\r\n{location}content-length: 0\r\n\r\n");
            let steps = vec![Step::Request, Step::Send(head.into())];
            let part = format!("{to}: redirects are not followed");
            let name = format!("{status} {location}");
            fails(&name, steps, HttpConnectionFailed, Retry::Never, &part).await;
        };
        let to = format!("a redirect to `{at}`");
        check(&format!("location: http://{at}/v1/responses\r\n"), &to).await;
        check(&format!("location: http://user:{KEY}@{at}/?key={KEY}\r\n"), &to).await;
        check("location: //other.test/v1\r\n", "a redirect to `other.test`").await;
        check("location: /v2/responses\r\n", "a redirect to the same host").await;
        check("location: http://[\r\n", "an address that cannot be read").await;
        check("", "a redirect to no address").await;
    }
    assert_eq!(other.accepted(), 0, "the key does not follow");
}

#[tokio::test]
async fn a_connection_that_is_reset_at_any_stage() {
    let (cut, none) = (ResponseStreamDisconnected, ResponseStreamConnectionFailed);
    fails("at once", vec![Step::Reset], none, Retry::Request, "cannot reach").await;
    let request = vec![Step::Request, Step::Reset];
    fails("after the request", request, none, Retry::Request, "cannot reach").await;
    let send = |bytes: &[u8]| vec![Step::Request, Step::Send(bytes.to_vec()), Step::Reset];
    fails("in the head", send(b"HTTP/1.1 200"), none, Retry::Request, "cannot reach").await;
    // A reset may overtake what was sent before it: then there is no answer.
    let body = [stream_head().as_slice(), b"data: {\"type\":"].concat();
    let events = run(send(&body)).await;
    let Some(Event::Failed(failure)) = events.last() else { panic!("{events:?}") };
    assert!([cut, none].contains(&failure.kind), "{}", failure.message);
    assert_ne!(failure.retry, Retry::Never);
}
