//! A provider that answers what it should not: the turn ends once, with the right `agentErrorInfo`, and the key
//! is in nothing that a client receives or the server stores or logs.

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(crate) const KEY: &str = "sk-key-that-stays-secret";
const PROXY_PASSWORD: &str = "proxy-password-that-stays-secret";
const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
const MESSAGE: &str = concat!(
    r#"data: {"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m","#,
    r#""role":"assistant","content":[{"type":"output_text","text":"Said once."}]}}"#,
    "\n\n"
);
const COMPLETED: &str = "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\"}}\n\n";

/// What the provider does after its bytes.
#[derive(Clone, Copy)]
enum Then {
    Close,
    Silence,
    Repeat(&'static str),
}

/// An answer, and how the turn ends: without an error, or with this one.
struct Row {
    name: &'static str,
    bytes: String,
    then: Then,
    info: Option<Value>,
}

fn row(name: &'static str, bytes: impl Into<String>, then: Then, info: Value) -> Row {
    Row { name, bytes: bytes.into(), then, info: Some(info).filter(|info| !info.is_null()) }
}

/// An event stream of these bytes.
fn streamed(name: &'static str, body: &str, then: Then, info: Value) -> Row {
    row(name, format!("{HEAD}{body}"), then, info)
}

fn answered(name: &'static str, status: &str, kind: &str, body: &str, info: Value) -> Row {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}");
    row(name, format!("{head}\r\nconnection: close\r\n\r\n{body}"), Then::Close, info)
}

fn rows() -> Vec<Row> {
    use Then::{Close, Repeat, Silence};
    let cut = || json!("ResponseStreamDisconnected");
    let http = |status: u16| json!({ "HttpConnectionFailed": { "httpStatusCode": status } });
    let no_stream = || json!({ "ResponseStreamConnectionFailed": { "httpStatusCode": 200 } });
    let used_up = || json!("UsageLimitExceeded");
    let quota = format!(
        r#"{{"error":{{"code":"insufficient_quota","message":"no credit left for {KEY}"}}}}"#
    );
    let page = format!("<html>You sent {KEY}</html>");
    let quoted = format!("data: {{\"type\":{KEY}}}\n\n");
    let failed = format!(
        "data: {{\"type\":\"response.failed\",\"response\":{{\"error\":{{\"code\":\"odd\",\
         \"message\":\"key {KEY}\"}}}}}}\n\n"
    );
    let long =
        format!("data: {{\"type\":\"response.new\",\"x\":\"{}\"}}\n\n", "x".repeat(10_000_000));
    let unknown = "data: {\"type\":\"response.new\",\"y\":[1]}\n\n";
    let keep_alive = Repeat(": keep-alive\n\n");
    vec![
        answered("HTML", "200 OK", "text/html", &page, no_stream()),
        answered("HTML of a gateway", "502 Bad Gateway", "text/html", &page, http(502)),
        answered("an error as a success", "200 OK", "application/json", &quota, used_up()),
        streamed("an error without a type", &format!("data: {quota}\n\n"), Close, used_up()),
        streamed("half an event", "data: {\"type\":\"response.comp", Close, cut()),
        streamed("wrong JSON", &quoted, Close, cut()),
        streamed("unknown events alone", unknown, Close, cut()),
        streamed("a failure that quotes the key", &failed, Close, json!("Other")),
        streamed("unknown events", &[unknown, MESSAGE, COMPLETED].concat(), Close, Value::Null),
        streamed("10 MB in an event", &[&*long, MESSAGE, COMPLETED].concat(), Close, Value::Null),
        row("nothing", "", Silence, json!("ResponseStreamConnectionFailed")),
        streamed("an endless stream of nothing", MESSAGE, Silence, cut()),
        streamed("endless keep-alives", "", keep_alive, cut()),
        streamed("two ends", &[MESSAGE, COMPLETED, COMPLETED].concat(), Close, Value::Null),
        streamed(
            "items after the end",
            &[MESSAGE, COMPLETED, MESSAGE, &quoted].concat(),
            Close,
            Value::Null,
        ),
        streamed("no end of the end", &[MESSAGE, COMPLETED].concat(), keep_alive, Value::Null),
    ]
}

/// A server that answers every connection alike. Returns its address and the heads of the requests.
async fn provider(bytes: String, then: Then) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let heads = Arc::<Mutex<Vec<String>>>::default();
    let log = Arc::clone(&heads);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (bytes, log) = (bytes.clone(), Arc::clone(&log));
            // An error means that the client went away.
            tokio::spawn(async move { answer(stream, &bytes, then, &log).await.unwrap_or(()) });
        }
    });
    (address, heads)
}

async fn answer(
    mut stream: TcpStream,
    bytes: &str,
    then: Then,
    heads: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    heads.lock().unwrap().push(String::from_utf8_lossy(&request).into_owned());
    stream.write_all(bytes.as_bytes()).await?;
    while let Then::Repeat(more) = then {
        stream.write_all(more.as_bytes()).await?;
        tokio::task::yield_now().await;
    }
    if matches!(then, Then::Close) {
        stream.shutdown().await?;
    }
    // Unread bytes would turn the end into a reset.
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.map(drop)
}

pub(crate) async fn environment(base_url: &str) -> TestEnvironment {
    let mut env = TestEnvironment::with_responses(json!([{ "steps": [] }])).await;
    env.write_config(&format!(
        "model = \"m\"\nmodel_provider = \"bad\"\n[model_providers.bad]\nname = \"Bad\"\n\
         base_url = \"{base_url}\"\nenv_key = \"BAD_KEY\"\nrequest_max_retries = 0\n\
         stream_max_retries = 0\nstream_idle_timeout_ms = 300\n"
    ));
    env.variables.push(("BAD_KEY".into(), KEY.into()));
    env
}

/// Runs a turn, and checks that it ends once and that no secret is left anywhere.
pub(crate) async fn turn(env: &TestEnvironment, name: &str) -> (Value, Peer) {
    let (server, guard) = env.start_logged();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.run_turn(&thread, "Go.").await;
    peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    let ends = peer.raw_lines().iter().filter(|line| line.contains("\"turn/completed\"")).count();
    assert_eq!(ends, 1, "{name}");
    server.stop().await;
    drop(guard);
    for secret in [KEY, PROXY_PASSWORD] {
        let received = peer.raw_lines().iter().find(|line| line.contains(secret));
        assert_eq!(received, None, "{name}");
        check_files(env.home(), secret, name);
    }
    (turn, peer)
}

/// That no file of the home holds `secret`.
fn check_files(folder: &Path, secret: &str, name: &str) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            check_files(&path, secret, name);
        } else if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let leaks = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!leaks, "{name}: {} holds a secret", path.display());
        }
    }
}

#[tokio::test]
async fn a_bad_answer_ends_the_turn_with_its_kind_and_without_the_key() {
    for Row { name, bytes, then, info } in rows() {
        let (address, heads) = provider(bytes, then).await;
        let env = environment(&format!("http://{address}/v1")).await;
        let (turn, peer) = turn(&env, name).await;
        let found = turn["error"].get("agentErrorInfo");
        assert_eq!(found, info.as_ref(), "{name}: {}", turn["error"]);
        let status = if info.is_some() { "failed" } else { "completed" };
        assert_eq!(turn["status"], status, "{name}");
        if info.is_none() {
            let is_message = |line: &&String| {
                line.contains("\"item/completed\"") && line.contains("\"agentMessage\"")
            };
            assert_eq!(peer.raw_lines().iter().filter(is_message).count(), 1, "{name}");
        }
        let heads = heads.lock().unwrap();
        assert!(heads.iter().any(|head| head.contains(KEY)), "{name}: the provider gets the key");
    }
}

#[tokio::test]
async fn a_contradiction_is_one_warning_of_the_turn() {
    let delta = "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"item_id\":\"m\",\"delta\":\"Said otherwise.\"}\n\n";
    let body = [delta, MESSAGE, COMPLETED].concat();
    let (address, _) = provider(format!("{HEAD}{body}"), Then::Close).await;
    let env = environment(&format!("http://{address}/v1")).await;
    let (turn, peer) = turn(&env, "a contradiction").await;
    assert_eq!(turn["status"], "completed", "{turn}");
    let warns =
        |line: &&String| line.contains("\"method\":\"warning\"") && line.contains("differs");
    let warnings: Vec<&String> = peer.raw_lines().iter().filter(warns).collect();
    assert_eq!(warnings.len(), 1, "{:?}", peer.raw_lines());
}

#[tokio::test]
async fn a_redirect_takes_no_key_to_another_host() {
    let (other, others) = provider(format!("{HEAD}{MESSAGE}{COMPLETED}"), Then::Close).await;
    for status in [
        "301 Moved Permanently",
        "302 Found",
        "303 See Other",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        let location = format!("http://{other}/v1/responses");
        let answer = format!(
            "HTTP/1.1 {status}\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        let (address, _) = provider(answer, Then::Close).await;
        let env = environment(&format!("http://{address}/v1")).await;
        let (turn, _) = turn(&env, status).await;
        let code: u16 = status[..3].parse().unwrap();
        let info = json!({ "HttpConnectionFailed": { "httpStatusCode": code } });
        assert_eq!(turn["error"]["agentErrorInfo"], info, "{}", turn["error"]);
    }
    assert!(others.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_proxy_that_wants_another_password_gets_no_key() {
    let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n";
    let (address, heads) = provider(refusal.to_owned(), Then::Close).await;
    let mut env = environment("http://provider.test/v1").await;
    let proxy = format!("http://user:{PROXY_PASSWORD}@{address}");
    env.variables.push(("ALL_PROXY".into(), proxy.into()));
    let (turn, _) = turn(&env, "407").await;
    assert_eq!(turn["error"]["agentErrorInfo"], "ResponseStreamConnectionFailed");
    let message = turn["error"]["message"].as_str().unwrap();
    assert!(message.contains("407"), "{message}");
    let heads = heads.lock().unwrap();
    assert!(heads.iter().all(|head| !head.contains(KEY)) && !heads.is_empty());
}

#[tokio::test]
async fn a_provider_without_tls_gets_no_key() {
    let (address, heads) =
        provider("HTTP/1.1 400 Bad Request\r\n\r\n".to_owned(), Then::Close).await;
    let env = environment(&format!("https://{address}/v1")).await;
    let (turn, _) = turn(&env, "no TLS").await;
    assert_eq!(turn["error"]["agentErrorInfo"], "ResponseStreamConnectionFailed");
    assert!(heads.lock().unwrap().iter().all(|head| !head.contains(KEY)));
}
