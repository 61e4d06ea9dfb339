//! Malicious requests, byte by byte: sizes, speeds, malformed HTTP, and abandoned connections.

use crate::common::gateway::{Tenant, TestGateway, chat_request, config};
use crate::common::upstream;
use crate::common::upstream::{Script, Upstream};
use hyper::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CHAT: &str = "/v1/chat/completions";
const BIG: &str = "[models.big]\n[tiers.free.limits.big]\nrpm = 100\n\
    [tiers.free.limits.\"*\"]\nrpm = 100\n";

async fn start(server: &str) -> (TestGateway, Upstream, Tenant) {
    let upstream = Upstream::start().await;
    let gateway = TestGateway::start(&config(&upstream, &format!("{BIG}{server}"))).await;
    let tenant = gateway.tenant("free").await;
    (gateway, upstream, tenant)
}

/// A request's head, without the final empty line.
fn head(tenant: &Tenant, method: &str, path: &str, more: &str) -> String {
    let key = &tenant.key;
    format!("{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n{more}")
}

/// The response to these bytes, until the gateway closes the connection.
async fn raw(gateway: &TestGateway, bytes: impl AsRef<[u8]>) -> String {
    let stream = TcpStream::connect(gateway.address).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let mut answer = Vec::new();
    // The gateway does not read the rest of a request that it refuses early.
    let writing = async {
        let _ = writer.write_all(bytes.as_ref()).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = reader.read_to_end(&mut answer) => {}
        () = writing => {}
    }
    String::from_utf8_lossy(&answer).into_owned()
}

async fn read(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// The status in the first line; 0 without one.
fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn malformed_json_bodies_are_refused() {
    let (gateway, upstream, tenant) = start("").await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let many: Vec<String> = (0..2000).map(|at| format!("\"k{at}\":1")).collect();
    let many = format!("{{{}}}", many.join(","));
    for body in [
        &b""[..],
        b"{",
        b"null",
        b"[]",
        b"\"big\"",
        b"{\"model\":\"big\",}",
        b"{\"model\":\"big\"}{}",
        b"{\"model\":\"big\",\"model\":\"big\"}",
        b"{\"model\":\"big\",\"mod\\u0065l\":\"big\"}",
        b"{\"model\":\"big\",\"max_tokens\":1,\"max_tokens\":9}",
        b"{\"model\":\"big\",\"x\":\"\xff\xfe\"}",
        b"\xef\xbb\xbf{\"model\":\"big\"}",
        b"{\"model\":\"big\",\"x\":NaN}",
        b"{\"model\":\"big\",\"x\":1e999}",
        b"{'model':'big'}",
        b"{\0\"\0m\0",
        deep.as_bytes(),
        many.as_bytes(),
    ] {
        let answer = gateway.post_text(&tenant, CHAT, body.to_vec()).await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        assert_eq!(answer.error(), (400, "invalid_json".into(), String::new()), "{shown}");
        assert_eq!(answer.header("content-type"), "application/json");
    }
    for (body, code, param) in [
        (json!({}), "missing_required_parameter", "model"),
        (json!({ "model": 5 }), "invalid_type", "model"),
        (json!({ "model": "big", "stream": "yes" }), "invalid_type", "stream"),
        (json!({ "model": "big", "n": 0 }), "invalid_value", "n"),
        (json!({ "model": "big", "n": 1_000_000 }), "invalid_value", "n"),
    ] {
        let answer = gateway.post(&tenant, CHAT, &body).await;
        assert_eq!(answer.error(), (400, code.into(), param.into()), "{body}");
    }
    let long = json!({ "model": "x".repeat(100_000) });
    let answer = gateway.post(&tenant, CHAT, &long).await;
    assert_eq!((answer.error().1.as_str(), answer.body.len() < 1000), ("model_not_found", true));
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn an_optional_body_may_be_empty_but_not_malformed() {
    let (gateway, upstream, tenant) = start("").await;
    upstream.script([Script::json(&json!({ "id": "resp_1" }))]);
    let response = json!({ "model": "big", "input": "x" });
    gateway.post(&tenant, "/v1/responses", &response).await;
    let answer = gateway.post_text(&tenant, "/v1/responses/resp_1/cancel", "").await;
    assert_eq!(answer.status, 200);
    let wrong = gateway.post_text(&tenant, "/v1/responses/resp_1/cancel", "{").await;
    assert_eq!(wrong.error().1, "invalid_json");
}

/// Sends a body that is too large while reading the response.
async fn flood(gateway: &TestGateway, head: &str, chunked: bool) -> String {
    let stream = TcpStream::connect(gateway.address).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let head = head.to_owned();
    let writing = tokio::spawn(async move {
        let megabyte = vec![b' '; 1 << 20];
        if writer.write_all(format!("{head}\r\n").as_bytes()).await.is_err() {
            return;
        }
        for _ in 0..200 {
            let size = if chunked { "100000\r\n" } else { "" };
            let end = if chunked { "\r\n" } else { "" };
            let pieces = [size.as_bytes(), &megabyte, end.as_bytes()].concat();
            if writer.write_all(&pieces).await.is_err() {
                return;
            }
        }
    });
    let mut answer = Vec::new();
    let _ = reader.read_to_end(&mut answer).await;
    writing.abort();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_body_of_two_hundred_megabytes_is_refused() {
    let (gateway, upstream, tenant) = start("").await;
    let form = "Content-Type: multipart/form-data; boundary=b\r\n";
    for (path, kind) in [
        (CHAT, "Content-Type: application/json\r\n"),
        ("/v1/evals", "Content-Type: application/json\r\n"),
        ("/v1/uploads", form),
        ("/v1/audio/transcriptions", form),
    ] {
        for chunked in [false, true] {
            let length = match chunked {
                true => "Transfer-Encoding: chunked\r\n",
                false => "Content-Length: 209715200\r\n",
            };
            let head = head(&tenant, "POST", path, &format!("{kind}{length}"));
            let answer = flood(&gateway, &head, chunked).await;
            assert_eq!(status(&answer), 413, "{path} {length} {answer}");
            assert!(answer.contains("request_too_large"), "{answer}");
        }
    }
    assert_eq!(gateway.metric("gateway_open_requests").await, 0);
    assert!(upstream.received().is_empty());
    // A body that announces an excessive length is refused before it is sent.
    let more = "Content-Length: 209715200\r\nExpect: 100-continue\r\n";
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let head = head(&tenant, "POST", CHAT, more);
    stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    assert_eq!(status(&read(&mut stream).await), 413);
}

#[tokio::test]
async fn a_slow_body_is_refused() {
    let (gateway, upstream, tenant) = start("[server]\nbody_timeout_ms = 150\n").await;
    let form = "Content-Type: multipart/form-data; boundary=b\r\n";
    for (path, kind) in [
        (CHAT, "Content-Type: application/json\r\n"),
        ("/v1/evals", "Content-Type: application/json\r\n"),
        ("/v1/files", form),
        ("/v1/audio/transcriptions", form),
    ] {
        for more in ["Content-Length: 100\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"]
        {
            let answer = raw(&gateway, head(&tenant, "POST", path, &format!("{kind}{more}"))).await;
            assert_eq!(status(&answer), 408, "{path} {answer}");
            assert!(answer.contains("request_timeout"), "{answer}");
        }
    }
    assert!(upstream.received().is_empty());
    assert_eq!(gateway.metric("gateway_open_requests").await, 0);
}

#[tokio::test]
async fn a_slow_head_is_refused() {
    let (gateway, _upstream, tenant) = start("[server]\nheader_timeout_ms = 150\n").await;
    for slow in ["", "POST", &head(&tenant, "POST", CHAT, "X-Y: z")] {
        let answer = raw(&gateway, slow).await;
        assert!(matches!(status(&answer), 0 | 408), "{answer}");
    }
    assert_eq!(gateway.chat(&tenant).await.status, 200);
}

#[tokio::test]
async fn heads_that_are_not_http_are_refused() {
    let (gateway, upstream, tenant) = start("").await;
    let body = chat_request().to_string();
    let many: String = (0..10_000).map(|at| format!("x-{at}: y\r\n")).collect();
    let huge = format!("x-huge: {}\r\n", "y".repeat(1 << 20));
    let path = format!("/v1/{}", "y".repeat(1 << 20));
    let post = |more: &str| format!("{}{more}\r\n{body}", head(&tenant, "POST", CHAT, ""));
    for (bytes, expected) in [
        (post(&many), 431),
        (post(&huge), 431),
        (head(&tenant, "GET", &path, "\r\n"), 414),
        (post("Content-Length: -5\r\n"), 400),
        (post("Content-Length: +5\r\n"), 400),
        (post("Content-Length: 5, 6\r\n"), 400),
        (post("Content-Length: 5\r\nContent-Length: 6\r\n"), 400),
        (post("Content-Length: 99999999999999999999999\r\n"), 400),
        (post("Transfer-Encoding: chunked, gzip\r\n"), 400),
        (post("Transfer-Encoding: xchunked\r\n"), 400),
        (post("Transfer-Encoding : chunked\r\n"), 400),
        (post("X: a\r\n folded\r\n"), 400),
        (post("X\0Y: a\r\n"), 400),
        (head(&tenant, "GET", "/v1/mo dels", "\r\n"), 400),
        (head(&tenant, "GET", "/v1/models", "\r\n").replace("1.1", "3.1"), 400),
        ("\x16\x03\x01\x02\x00\x01\x00".to_owned() + &"\0".repeat(600), 400),
        // HTTP/2 is not supported: the connection is closed.
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 0),
    ] {
        let shown: String = bytes.chars().skip(60).take(100).collect();
        let answer = raw(&gateway, bytes).await;
        let got = status(&answer);
        assert!(got == expected || (expected == 414 && got == 431), "{shown}: {answer}");
    }
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn request_smuggling_is_prevented() {
    let (gateway, upstream, tenant) = start("").await;
    let inner = head(&tenant, "GET", "/v1/smuggled", "\r\n");
    let body = chat_request().to_string();
    // With both lengths, the chunks count; what follows them is a new request or an error.
    let both = format!(
        "Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n{inner}",
        body.len() + inner.len(),
        body.len(),
    );
    for bytes in [
        head(&tenant, "POST", CHAT, &both),
        head(&tenant, "POST", CHAT, &both.replace("chunked\r\n", "Chunked\r\n")),
    ] {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        read(&mut stream).await;
        for received in upstream.received() {
            let sent = String::from_utf8_lossy(&received.body).into_owned();
            assert!(!sent.contains("smuggled"), "{sent}");
            let length = received.headers.get("content-length").map(|v| v.to_str().unwrap());
            assert_eq!(length.unwrap_or("0"), received.body.len().to_string());
            assert!(!received.headers.contains_key("transfer-encoding"));
        }
    }
    // Malformed chunks.
    for chunks in
        ["zz\r\n", "-1\r\n", "5\r\nabc\r\n0\r\n\r\n", "ffffffffffffffffff\r\n", "1\r\n{}\r\n"]
    {
        let before = upstream.count();
        let more = format!("Transfer-Encoding: chunked\r\n\r\n{chunks}");
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        stream.write_all(head(&tenant, "POST", CHAT, &more).as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let answer = read(&mut stream).await;
        assert!(matches!(status(&answer), 0 | 400), "{chunks}: {answer}");
        assert_eq!(upstream.count(), before);
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let (gateway, _upstream, tenant) = start("").await;
    let body = chat_request().to_string();
    let length =
        format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let mut bytes = String::new();
    for _ in 0..5 {
        bytes += &head(&tenant, "POST", CHAT, &length);
        bytes += &head(&tenant, "GET", "/v1/models/none", "\r\n");
    }
    bytes += &head(&tenant, "GET", "/v1/models", "Connection: close\r\n\r\n");
    let answer = raw(&gateway, bytes).await;
    let statuses: Vec<u16> =
        answer.match_indices("HTTP/1.1 ").map(|(at, _)| status(&answer[at..])).collect();
    assert_eq!(statuses, [200, 404, 200, 404, 200, 404, 200, 404, 200, 404, 200]);
}

#[tokio::test]
async fn a_response_does_not_wait_for_the_next_pipelined_request() {
    let (gateway, upstream, tenant) = start("").await;
    let hangs = Script::json(&json!({})).before(upstream::Step::Hang);
    upstream.script([Script::json(&json!({ "first": true })), hangs]);
    let body = chat_request().to_string();
    let more = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let twice = head(&tenant, "POST", CHAT, &more).repeat(2);
    stream.write_all(twice.as_bytes()).await.unwrap();
    let mut answer = String::new();
    while !answer.contains("first") {
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece).await.unwrap();
        assert!(length > 0, "{answer}");
        answer += &String::from_utf8_lossy(&piece[..length]);
    }
}

#[tokio::test]
async fn expect_100_continue_is_answered() {
    let (gateway, _upstream, tenant) = start("").await;
    let body = chat_request().to_string();
    let more = format!(
        "Content-Length: {}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    stream.write_all(head(&tenant, "POST", CHAT, &more).as_bytes()).await.unwrap();
    let mut first = [0; 25];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&first), "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body.as_bytes()).await.unwrap();
    assert_eq!(status(&read(&mut stream).await), 200);
}

#[tokio::test]
async fn a_half_closed_connection_leaves_no_request_open() {
    let (gateway, upstream, tenant) = start("").await;
    let body = chat_request().to_string();
    let more = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    for bytes in [
        head(&tenant, "POST", CHAT, &more),
        head(&tenant, "POST", CHAT, "Content-Length: 100\r\n\r\n{"),
    ] {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let answer = read(&mut stream).await;
        assert!(matches!(status(&answer), 0 | 200 | 400), "{answer}");
        gateway.is_idle().await;
    }
    assert!(upstream.count() <= 1);
    assert_eq!(gateway.metric("gateway_open_requests").await, 0);
}

#[tokio::test]
async fn unknown_methods_are_refused() {
    let (gateway, upstream, tenant) = start("").await;
    for method in ["BREW", "TRACE", "CONNECT", "PUT", "OPTIONS", "PATCH", "DELETE"] {
        let target = if method == "CONNECT" { "example.org:443" } else { CHAT };
        let answer =
            raw(&gateway, head(&tenant, method, target, "Connection: close\r\n\r\n")).await;
        assert!((400..500).contains(&status(&answer)), "{method}: {answer}");
    }
    let star = raw(&gateway, head(&tenant, "OPTIONS", "*", "Connection: close\r\n\r\n")).await;
    assert_eq!(status(&star), 404);
    assert_eq!(upstream.count(), 0);
    let far = head(&tenant, "GET", "http://example.org/v1/models", "Connection: close\r\n\r\n");
    assert_eq!(status(&raw(&gateway, far).await), 200);
    for path in ["/healthz", "/readyz", "/metrics"] {
        let head = gateway.send(Method::HEAD, path, &[], "").await;
        assert_eq!((head.status.as_u16(), head.body.len()), (200, 0), "{path}");
    }
}

#[tokio::test]
async fn headers_with_invalid_bytes_are_refused() {
    let (gateway, upstream, tenant) = start("").await;
    let body = chat_request().to_string();
    let length = format!("Content-Length: {}\r\nConnection: close\r\n", body.len());
    let request = |name: &str, value: &[u8]| {
        let mut bytes = head(&tenant, "POST", CHAT, &format!("{length}{name}: ")).into_bytes();
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(format!("\r\n\r\n{body}").as_bytes());
        bytes
    };
    // Accepted in an unused header; contradictory in a significant one.
    assert_eq!(status(&raw(&gateway, request("x-y", b"\xff\xfe")).await), 200);
    assert_eq!(upstream.last().headers["x-y"].as_bytes(), b"\xff\xfe");
    assert_eq!(status(&raw(&gateway, request("openai-organization", b"\xff\xfe")).await), 401);
    assert_eq!(status(&raw(&gateway, request("content-type", b"\xff\xfe")).await), 200);
    assert_eq!(status(&raw(&gateway, request("host", b"\xff\xfe")).await), 200);
}

#[tokio::test]
async fn malformed_forms_are_refused() {
    let (gateway, upstream, tenant) = start("").await;
    let path = "/v1/audio/transcriptions";
    let part = |name: &str, value: &str| {
        format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let form = "multipart/form-data; boundary=b";
    for (kind, body) in [
        ("application/json", json!({ "model": "big" }).to_string()),
        ("multipart/form-data", part("model", "big") + "--b--"),
        ("multipart/form-data; boundary=", part("model", "big") + "--b--"),
        (form, String::new()),
        (form, part("model", "big")),
        (form, part("model", "big") + &part("model", "bigger") + "--b--\r\n"),
        (form, part("file", "x") + "--b--\r\n"),
        (form, part("model", &"x".repeat(1 << 20)) + "--b--\r\n"),
        (form, part("x", "y").repeat(5000) + "--b--\r\n"),
    ] {
        let shown: String = body.chars().take(80).collect();
        let kind = [("content-type", kind)];
        let answer = gateway.with(&tenant, Method::POST, path, &kind, body).await;
        assert!(matches!(answer.status.as_u16(), 400 | 404), "{shown}: {}", answer.status);
        assert!(!answer.error().1.is_empty());
    }
    assert_eq!(upstream.count(), 0);
}
