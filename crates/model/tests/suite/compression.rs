//! Compressed requests and answers, against real loopback HTTP.

use std::sync::{Arc, Mutex};

use model::{Client, Event, Prompt, Provider};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const STREAM: &str = "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"status\":\"completed\",\"output\":[],\"usage\":null}}\n\n";

/// Requests received by a server: whether they were compressed, and their size in bytes.
type Seen = Arc<Mutex<Vec<(bool, usize)>>>;

/// A server that accepts compressed requests, or responds to them with this status.
async fn server(refusal: Option<&'static str>) -> (Provider, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Seen::default();
    let log = seen.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, refusal, log.clone()));
        }
    });
    let mut provider = Provider::http("test", format!("http://{address}/v1"));
    provider.compress_requests = true;
    (provider, seen)
}

async fn answer(mut stream: TcpStream, refusal: Option<&str>, seen: Seen) {
    let mut request = Vec::new();
    let (head, length) = loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.unwrap();
        request.extend_from_slice(&buffer[..count]);
        let Some(end) = request.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        break (head, end + 4 + length.unwrap_or(0));
    };
    while request.len() < length {
        let mut buffer = [0; 65_536];
        let count = stream.read(&mut buffer).await.unwrap();
        request.extend_from_slice(&buffer[..count]);
    }
    let compressed = head.contains("content-encoding: zstd");
    seen.lock().unwrap().push((compressed, length));
    let answer = match refusal.filter(|_| compressed) {
        Some(status) => {
            format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        }
        None => format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{STREAM}",
            STREAM.len()
        ),
    };
    stream.write_all(answer.as_bytes()).await.unwrap();
}

async fn completes(client: &Client, provider: &Provider, bytes: usize) -> bool {
    let text = "all work and no play ".repeat(bytes / 21);
    let item = format!("{{\"role\":\"user\",\"content\":\"{text}\"}}");
    let prompt = Prompt { model: "m".into(), input: vec![item.into()], ..Prompt::default() };
    let mut stream = client.stream_prompt(&Arc::new(provider.clone()), &prompt);
    let mut completed = false;
    while let Some(events) = stream.next().await {
        completed |= events.iter().any(|event| matches!(event, Event::Completed { .. }));
    }
    completed
}

// Effect of `features.enable_request_compression`.
#[tokio::test]
async fn large_bodies_are_compressed() {
    let (provider, seen) = server(None).await;
    let client = Client::new();
    assert!(completes(&client, &provider, 300_000).await);
    assert!(completes(&client, &provider, 1_000).await);
    let mut off = provider.clone();
    off.compress_requests = false;
    assert!(completes(&client, &off, 300_000).await);
    let seen = seen.lock().unwrap().clone();
    assert!(seen[0].0 && seen[0].1 < 10_000, "{seen:?}");
    assert!(!seen[1].0, "a small body is not worth it: {seen:?}");
    assert!(!seen[2].0 && seen[2].1 > 290_000, "{seen:?}");
}

#[tokio::test]
async fn a_provider_that_refuses_compression_gets_plain_bodies() {
    for status in ["415 Unsupported Media Type", "400 Bad Request"] {
        let (provider, seen) = server(Some(status)).await;
        let client = Client::new();
        assert!(completes(&client, &provider, 50_000).await, "{status}");
        assert!(completes(&client, &provider, 50_000).await, "{status}");
        let compressed: Vec<bool> = seen.lock().unwrap().iter().map(|(zstd, _)| *zstd).collect();
        assert_eq!(compressed, [true, false, false], "learned with the first answer");
    }
}

/// A server that answers once with this head and body.
async fn answers(status: &str, headers: &str, body: Vec<u8>) -> Provider {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 65_536];
        let _ = stream.read(&mut buffer).await.unwrap();
        stream.write_all(&[head.as_bytes(), &body].concat()).await.unwrap();
    });
    Provider::http("test", format!("http://{address}/v1"))
}

async fn last_event(provider: Provider) -> Event {
    let prompt = Prompt { model: "m".into(), ..Prompt::default() };
    let mut stream = Client::new().stream_prompt(&Arc::new(provider), &prompt);
    let mut last = None;
    while let Some(events) = stream.next().await {
        last = events.into_iter().next_back().or(last);
    }
    last.unwrap()
}

/// No request asks for a coding, but some proxies compress nevertheless.
#[tokio::test]
async fn compressed_answers_are_decoded() {
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 0).unwrap();
    let headers = "content-type: text/event-stream\r\ncontent-encoding: ZSTD\r\n";
    let provider = answers("200 OK", headers, zstd(STREAM)).await;
    let last = last_event(provider).await;
    assert!(matches!(last, Event::Completed { .. }), "{last:?}");

    let headers = "content-type: application/json\r\ncontent-encoding: zstd\r\n";
    let error = r#"{"error":{"message":"no such model"}}"#;
    let provider = answers("404 Not Found", headers, zstd(error)).await;
    let Event::Failed(failure) = last_event(provider).await else { panic!("it failed") };
    assert!(failure.message.contains("no such model"), "{failure:?}");

    let headers = "content-type: text/event-stream\r\ncontent-encoding: lzma\r\n";
    let provider = answers("200 OK", headers, STREAM.into()).await;
    let Event::Failed(failure) = last_event(provider).await else { panic!("it failed") };
    assert!(failure.message.contains("content-encoding \"lzma\" is unknown"), "{failure:?}");
}
