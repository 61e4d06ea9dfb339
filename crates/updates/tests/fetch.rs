//! Feeds that answer in every way, on this machine.
#![allow(clippy::unwrap_used)]

use http_client::Network;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use updates::{MAX_BYTES, fetch};

/// Serves one connection with `answer` and then leaves it open; returns the address.
async fn feed(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let read = stream.read(&mut request).await.unwrap();
        assert!(request[..read].starts_with(b"GET /feed.json HTTP/1.1\r\n"));
        // A client that has seen enough closes the connection.
        let _ = stream.write_all(&answer).await;
        std::future::pending::<()>().await;
    });
    format!("http://{address}/feed.json")
}

fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}").into_bytes()
}

async fn outcome(answer: Vec<u8>) -> Result<String, String> {
    let address = feed(answer).await;
    let release = fetch(&address, Network::from_variables(|_| None), "agentd/1.0.0").await;
    release.map(|release| release.version()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_feed_is_read() {
    let body = r#"{"version":"1.4.0","notes":"https://a.example/"}"#;
    assert_eq!(outcome(answer("200 OK", "", body)).await, Ok("1.4.0".to_owned()));
}

#[tokio::test]
async fn hostile_answers_are_refused_with_the_reason() {
    let huge = "x".repeat(MAX_BYTES + 1);
    let mut endless = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n10000\r\n".to_vec();
    endless.extend(vec![b' '; 0x10000]);
    endless.extend(b"\r\n10000\r\n");
    endless.extend(vec![b' '; 0x10000]);
    let gone = "location: http://169.254.169.254/latest\r\n";
    for (answer, why) in [
        (answer("200 OK", "", &huge), "longer than 64 KiB"),
        (endless, "longer than 64 KiB"),
        (answer("302 Found", gone, ""), "302 Found; redirections are not followed"),
        (answer("404 Not Found", "", "{}"), "404 Not Found"),
        (answer("204 No Content", "", ""), "204 No Content"),
        (answer("200 OK", "", "<html>"), "not the JSON of a feed"),
        (answer("200 OK", "", "{\"version\":\"one\",\"notes\":\"https://a\"}"), "`version`"),
        (b"no HTTP\r\n\r\n".to_vec(), ""),
    ] {
        let error = outcome(answer).await.unwrap_err();
        assert!(error.contains(why), "{why}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_feed_that_hangs_is_left_in_time() {
    let started = tokio::time::Instant::now();
    for answer in [Vec::new(), b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{".to_vec()] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            // The client may have left by now.
            let _read = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(&answer).await;
            std::future::pending::<()>().await;
        });
        let address = format!("http://{address}/feed.json");
        let error = fetch(&address, Network::from_variables(|_| None), "agentd/1.0.0").await;
        assert_eq!(error.unwrap_err().to_string(), "no answer within 3 s");
    }
    assert!(started.elapsed() < 3 * updates::TIME_LIMIT);
}

#[tokio::test]
async fn a_machine_that_refuses_is_named_as_such() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/feed.json", listener.local_addr().unwrap());
    drop(listener);
    let error = fetch(&address, Network::from_variables(|_| None), "agentd/1.0.0").await;
    assert!(error.unwrap_err().to_string().contains("refused"));
}
