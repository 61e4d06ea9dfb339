//! A server over HTTP that floods: raw sockets, because no well-behaved library writes such answers.

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
