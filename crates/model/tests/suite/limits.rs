//! Rate limits that a provider reports, against real loopback HTTP.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use model::{Client, Event, FailureKind, Prompt, Provider, RateLimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const STREAM: &str = "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\"}}\n\n";

/// A provider that answers each connection with the next of `answers`, and then with the last again.
async fn provider(answers: Vec<String>) -> Arc<Provider> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut answers = answers.into_iter().peekable();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
                let mut buffer = [0; 4096];
                let count = stream.read(&mut buffer).await.unwrap();
                request.extend_from_slice(&buffer[..count]);
            }
            let answer = answers.next().unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            if answers.peek().is_none() {
                return;
            }
        }
    });
    Arc::new(Provider::http("test", format!("http://{address}/v1")))
}

fn answer(status: &str, remaining: u64, reset: &str, more: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nx-ratelimit-limit-requests: 20\r\nx-ratelimit-remaining-requests: \
         {remaining}\r\nx-ratelimit-reset-requests: {reset}\r\n{more}content-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    )
}

async fn events(client: &Client, provider: &Arc<Provider>) -> Vec<Event> {
    let prompt = Prompt { model: "m".into(), ..Prompt::default() };
    let mut stream = client.stream_prompt(provider, &prompt);
    let mut events = Vec::new();
    while let Some(batch) = stream.next().await {
        events.extend(batch);
    }
    events
}

#[tokio::test]
async fn limits_are_reported_with_responses_and_refusals() {
    let refusal = r#"{"error":{"code":"rate_limit_exceeded","message":"Busy."}}"#;
    let provider = provider(vec![
        answer("200 OK", 19, "3s", "content-type: text/event-stream\r\n", STREAM),
        answer("429 Too Many Requests", 0, "1m0s", "retry-after-ms: 1\r\n", refusal),
    ])
    .await;
    let client = Client::new();
    let limit = |event: &Event| match event {
        Event::RateLimits(limits) => limits.requests.unwrap(),
        other => panic!("{other:?}"),
    };
    let seconds = Duration::from_secs;
    let first = events(&client, &provider).await;
    assert_eq!(limit(&first[0]), RateLimit { limit: 20, remaining: 19, reset: seconds(3) });
    assert!(matches!(first[1..], [Event::Completed { .. }]), "{first:?}");
    let second = events(&client, &provider).await;
    assert_eq!(limit(&second[0]), RateLimit { limit: 20, remaining: 0, reset: seconds(60) });
    let Event::Failed(failure) = &second[1] else { panic!("{second:?}") };
    assert_eq!(failure.kind, FailureKind::ResponseTooManyFailedAttempts);
}

/// The provider reports that half a second remains until a request is available again.
#[tokio::test]
async fn a_request_waits_for_the_limit() {
    let headers = "content-type: text/event-stream\r\n";
    let provider = provider(vec![
        answer("200 OK", 0, "57.5s", headers, STREAM),
        answer("200 OK", 0, "59s", headers, STREAM),
    ])
    .await;
    let client = Client::new();
    events(&client, &provider).await;
    let started = tokio::time::Instant::now();
    events(&client, &provider).await;
    assert!(started.elapsed() >= Duration::from_millis(450), "{:?}", started.elapsed());
}

/// The time without a `Date` header is that of this machine.
#[tokio::test]
async fn waits_until_a_moment_need_no_date() {
    let moment = SystemTime::now() + Duration::from_secs(4_000);
    let at = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let check = async |name: &str, more: &str, error: String| {
        let body = format!(r#"{{"error":{error}}}"#);
        let provider = provider(vec![answer("429 Too Many Requests", 0, "1s", more, &body)]).await;
        let events = events(&Client::new(), &provider).await;
        let Some(Event::Failed(failure)) = events.last() else { panic!("{name}: {events:?}") };
        let wait = failure.retry_after.unwrap_or_default().as_secs();
        assert!((3_970..=4_000).contains(&wait), "{name}: {:?}", failure.retry_after);
    };
    let busy = || r#"{"code":"rate_limit_exceeded"}"#.to_owned();
    let date = httpdate::fmt_http_date(moment);
    check("a date", &format!("retry-after: {date}\r\n"), busy()).await;
    check("no clock", &format!("date: ?\r\nretry-after: {date}\r\n"), busy()).await;
    let used = format!(r#"{{"type":"usage_limit_reached","resets_at":{at}}}"#);
    check("a reset", "", used).await;
}
