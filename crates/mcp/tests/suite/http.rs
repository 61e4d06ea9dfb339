//! Servers over HTTP that flood, or whose streams break off: raw sockets, because no well-behaved library writes such answers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp::{Definition, HttpServer, Transport};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::fake::*;

/// Requests in the flood, each of 64 KiB: more than sockets and channels hold.
const FLOOD: usize = 2000;

/// Reads a request; its method and its body.
async fn request(stream: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let (mut start, mut length) = (String::new(), 0);
    stream.read_line(&mut start).await.ok().filter(|read| *read > 0)?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let method = start.split(' ').next().unwrap().to_owned();
    Some((method, serde_json::from_slice(&body).unwrap_or_default()))
}

async fn serve(stream: TcpStream, flooded: Arc<AtomicUsize>) {
    let mut stream = BufReader::new(stream);
    while let Some((method, message)) = request(&mut stream).await {
        let head = |status: &str, rest: &str| format!("HTTP/1.1 {status}\r\n{rest}\r\n");
        let answered = match (method.as_str(), earlier_era(&message)) {
            ("GET", _) => {
                let events = "content-type: text/event-stream\r\nconnection: close\r\n";
                if stream.write_all(head("200 OK", events).as_bytes()).await.is_err() {
                    return;
                }
                for number in 0..FLOOD {
                    let params = json!({"_meta": {"x": "x".repeat(1 << 16)}});
                    let ping =
                        json!({"jsonrpc": "2.0", "id": number, "method": "ping", "params": params});
                    if stream.write_all(format!("data: {ping}\n\n").as_bytes()).await.is_err() {
                        return;
                    }
                    flooded.fetch_add(1, Ordering::Relaxed);
                }
                std::future::pending().await
            }
            // The answer to a request of the flood is never taken.
            (_, _) if message.get("method").is_none() => std::future::pending().await,
            (_, Some(lines)) if !lines.is_empty() => {
                let length = lines[0].len();
                let rest = format!(
                    "content-type: application/json\r\nmcp-session-id: s\r\ncontent-length: {length}\r\n"
                );
                head("200 OK", &rest) + &lines[0]
            }
            _ => head("202 Accepted", "content-length: 0\r\n"),
        };
        if stream.write_all(answered.as_bytes()).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn a_server_over_http_that_takes_no_answers_is_not_read_either() {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let flooded = Arc::new(AtomicUsize::new(0));
    let counted = flooded.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, counted.clone()));
        }
    });
    let http = HttpServer {
        url: url.parse().unwrap(),
        headers: Default::default(),
        bearer: None,
        oauth: Default::default(),
    };
    let definition = Definition { transport: Transport::Http(http), ..definition("http") };
    let held = bench.pool.hold("t", Path::new("/"), vec![definition]);
    held.servers()[0].ready().await.unwrap();
    // Until nothing more is written. A slow machine can only make the flood look shorter.
    let mut before = None;
    while before != Some(flooded.load(Ordering::Relaxed)) || before == Some(0) {
        before = Some(flooded.load(Ordering::Relaxed));
        // tidy: sleep until the sockets are full; a flood that is read makes the test fail
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(before.unwrap() < FLOOD / 2, "{before:?} requests were read");
}

/// How a stream of events answers a call.
#[derive(Clone, Copy)]
enum Stream {
    /// More than an event may have.
    TooLong,
    /// The connection ends within the answer.
    BrokenOff,
    /// It names a pause that is not a number, and answers.
    OddPause,
    /// It ends without an answer and names no pause; so do those that follow.
    NoPause,
}

async fn serve_stream(stream: TcpStream, kind: Stream, opened: Arc<AtomicUsize>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let events = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
    while let Some((method, message)) = request(&mut stream).await {
        if method == "GET" || message["method"] == "tools/call" {
            opened.fetch_add(1, Ordering::Relaxed);
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}});
            let text = match kind {
                Stream::TooLong => format!("\r\ndata: {}", "x".repeat(9 << 20)),
                Stream::BrokenOff => "content-length: 100\r\n\r\ndata: {".to_owned(),
                Stream::OddPause => {
                    format!("\r\nretry: 99999999999999999999\ndata: {answer}\n\n")
                }
                Stream::NoPause => "\r\nid: 1\nretry: 0\ndata:\n\n".to_owned(),
            };
            stream.write_all(events.as_bytes()).await.ok()?;
            // A client that has read enough closes the connection.
            let _ = stream.write_all(text.as_bytes()).await;
            return None;
        }
        let answered = match earlier_era(&message) {
            Some(lines) if !lines.is_empty() => {
                let length = lines[0].len();
                format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{}",
                    lines[0]
                )
            }
            _ => "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned(),
        };
        stream.write_all(answered.as_bytes()).await.ok()?;
    }
    None
}

/// What a call that is answered in this way returns, and how many streams were opened.
async fn streamed(kind: Stream) -> (Result<Value, String>, usize) {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let opened = Arc::new(AtomicUsize::new(0));
    let counted = opened.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_stream(stream, kind, counted.clone()));
        }
    });
    let http =
        HttpServer { url, headers: Default::default(), bearer: None, oauth: Default::default() };
    let tool_timeout = Duration::from_secs(3);
    let definition =
        Definition { transport: Transport::Http(http), tool_timeout, ..definition("http") };
    let held = bench.pool.hold("t", Path::new("/"), vec![definition]);
    let server = held.servers().remove(0);
    server.ready().await.unwrap();
    let called = server.call(crate::calls::call()).await.map_err(|error| error.to_string());
    (called, opened.load(Ordering::Relaxed))
}

#[tokio::test]
async fn a_stream_that_cannot_be_read_fails_its_call_with_the_reason() {
    let (called, _) = streamed(Stream::TooLong).await;
    let error = called.unwrap_err();
    assert!(error.contains("the server's answer is longer than 8 MiB"), "{error}");
    let (called, _) = streamed(Stream::BrokenOff).await;
    let error = called.unwrap_err();
    assert!(error.contains("-32603"), "{error}");
}

#[tokio::test]
async fn a_pause_that_a_server_names_has_bounds() {
    let (called, _) = streamed(Stream::OddPause).await;
    assert!(called.is_ok(), "{called:?}");
    let (called, opened) = streamed(Stream::NoPause).await;
    assert!(called.is_err() && opened <= 5, "{called:?}, {opened} streams");
}

/// What an endpoint of the earlier era writes in answer to the probe; `None` for nothing at all.
const ANSWERS_TO_THE_PROBE: [Option<&str>; 15] = [
    Some("500 Internal Server Error\r\ncontent-length: 0\r\n\r\n"),
    Some("503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy"),
    Some(
        "500 Error\r\ncontent-type: application/json\r\ncontent-length: 74\r\n\r\n\
        {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32000,\"message\":\"no session\"}}",
    ),
    Some("429 Too Many Requests\r\ncontent-length: 0\r\n\r\n"),
    Some("403 Forbidden\r\ncontent-length: 0\r\n\r\n"),
    Some("404 Not Found\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>"),
    Some("202 Accepted\r\ncontent-length: 0\r\n\r\n"),
    Some("204 No Content\r\n\r\n"),
    Some("200 OK\r\ncontent-length: 0\r\n\r\n"),
    Some("200 OK\r\ncontent-type: application/json\r\ncontent-length: 0\r\n\r\n"),
    Some("200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"),
    Some("200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>"),
    Some("200 OK\r\ncontent-type: text/event-stream\r\n\r\n"),
    Some("200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 7\r\n\r\n: hm\n\n\n"),
    None,
];

async fn serve_probe(stream: TcpStream, answer: Option<&str>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    while let Some((_, message)) = request(&mut stream).await {
        let answered = match (message["method"] == "server/discover", answer) {
            (true, Some(answer)) => format!("HTTP/1.1 {answer}"),
            (true, None) => std::future::pending().await,
            (false, _) => match earlier_era(&message) {
                Some(lines) if !lines.is_empty() => {
                    let json = "200 OK\r\ncontent-type: application/json\r\ncontent-length:";
                    format!("HTTP/1.1 {json} {}\r\n\r\n{}", lines[0].len(), lines[0])
                }
                _ => "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned(),
            },
        };
        stream.write_all(answered.as_bytes()).await.ok()?;
    }
    None
}

#[tokio::test]
async fn whatever_an_endpoint_answers_to_the_probe_it_is_offered_the_handshake() {
    let started = ANSWERS_TO_THE_PROBE.map(|answer| async move {
        let bench = Bench::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve_probe(stream, answer));
            }
        });
        let (headers, oauth) = Default::default();
        let http = HttpServer { url, headers, bearer: None, oauth };
        let startup_timeout = Duration::from_secs(60);
        let definition =
            Definition { transport: Transport::Http(http), startup_timeout, ..definition("http") };
        let held = bench.pool.hold("t", Path::new("/"), vec![definition]);
        let catalog = held.servers()[0].ready().await;
        let catalog = catalog.unwrap_or_else(|error| panic!("{answer:?}: {error}"));
        assert_eq!(catalog.tools.len(), 1, "{answer:?}");
    });
    futures_util::future::join_all(started).await;
}
