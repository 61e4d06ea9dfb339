//! A provider that sends over a WebSocket what it should not: the turn ends once, as it does over HTTP, and
//! the key is in nothing that a client receives or the server stores or logs.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use testkit::TestEnvironment;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Message, Role};

use crate::bad_provider::{KEY, environment, turn};

/// What the provider does after its messages.
#[derive(Clone)]
enum Then {
    Wait,
    Close,
    Repeat(Message),
}

/// What the provider answers to an upgrade.
#[derive(Clone)]
enum Upgrade {
    Messages(Vec<Message>, Then),
    Refusal(String),
}

type Requests = Arc<Mutex<Vec<(String, Instant)>>>;

/// A provider that answers upgrades alike, and requests over HTTP with the message "Over HTTP.". Returns
/// its address, and the methods and times of its requests.
async fn provider(upgrade: Upgrade) -> (String, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let requests = Requests::default();
    let log = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (upgrade, log) = (upgrade.clone(), Arc::clone(&log));
            // `None` means that the client went away.
            tokio::spawn(async move { serve(stream, upgrade, &log).await.unwrap_or(()) });
        }
    });
    (address, requests)
}

async fn serve(mut stream: TcpStream, upgrade: Upgrade, log: &Requests) -> Option<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let method = head.split(' ').next()?.to_owned();
    // Not the request that opens a connection ahead.
    if head.contains("/responses ") {
        log.lock().unwrap().push((method.clone(), Instant::now()));
    }
    if method != "GET" {
        let body: String = [message("Over HTTP."), completed("h")]
            .iter()
            .map(|event| format!("data: {event}\n\n"))
            .collect();
        let answer =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(format!("{answer}{body}").as_bytes()).await.ok()?;
        stream.shutdown().await.ok()?;
        return tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.ok().map(drop);
    }
    let (messages, then) = match upgrade {
        Upgrade::Messages(messages, then) => (messages, then),
        Upgrade::Refusal(answer) => {
            stream.write_all(answer.as_bytes()).await.ok()?;
            stream.shutdown().await.ok()?;
            return tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.ok().map(drop);
        }
    };
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let key = lines.find(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"))?.1;
    let accept = derive_accept_key(key.as_bytes());
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-accept: {accept}\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).await.ok()?;
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
    while let Some(Ok(request)) = socket.next().await {
        if !request.is_text() {
            continue;
        }
        for message in &messages {
            socket.feed(message.clone()).await.ok()?;
        }
        socket.flush().await.ok()?;
        while let Then::Repeat(message) = &then {
            socket.send(message.clone()).await.ok()?;
            tokio::task::yield_now().await;
        }
        if matches!(then, Then::Close) {
            return socket.close(None).await.ok();
        }
    }
    None
}

fn created(id: &str) -> Value {
    json!({ "type": "response.created", "response": { "id": id } })
}

fn message(text: &str) -> Value {
    let content = json!([{ "type": "output_text", "text": text }]);
    let item = json!({ "type": "message", "id": "m", "role": "assistant", "content": content });
    json!({ "type": "response.output_item.done", "output_index": 0, "item": item })
}

fn completed(id: &str) -> Value {
    json!({ "type": "response.completed", "response": { "id": id } })
}

fn texts(events: &[Value]) -> Vec<Message> {
    events.iter().map(|event| Message::text(event.to_string())).collect()
}

async fn websocket_environment(address: &str, more: &str) -> TestEnvironment {
    let env = environment(&format!("http://{address}/v1")).await;
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!("{config}supports_websockets = true\n{more}\n"));
    env
}

/// Runs a turn that ends without an error and with these messages, or with this error.
async fn check(name: &str, upgrade: Upgrade, expect: Result<&[&str], Value>) {
    let (address, requests) = provider(upgrade).await;
    let env = websocket_environment(&address, "").await;
    let (turn, peer) = turn(&env, name).await;
    let error = turn["error"].get("agentErrorInfo");
    assert_eq!(error, expect.as_ref().err(), "{name}: {}", turn["error"]);
    assert_eq!(turn["status"], if expect.is_ok() { "completed" } else { "failed" }, "{name}");
    let is_message = |item: &Value| {
        item["method"] == "item/completed" && item["params"]["item"]["type"] == "agentMessage"
    };
    let lines = peer.raw_lines().iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let said: Vec<Value> =
        lines.filter(is_message).map(|line| line["params"]["item"]["text"].clone()).collect();
    if let Ok(expect) = expect {
        assert_eq!(said, expect, "{name}");
    }
    assert_eq!(requests.lock().unwrap()[0].0, "GET", "{name}: the upgrade comes first");
}

#[tokio::test]
async fn bad_messages_end_the_turn_as_over_http() {
    let cut = || Err(json!("ResponseStreamDisconnected"));
    let answer = || texts(&[created("r"), message("Said once."), completed("r")]);
    let began = || texts(&[created("r"), message("Said once.")]);
    let said: Result<&[&str], Value> = Ok(&["Said once."]);
    let with = |mut messages: Vec<Message>, more: Vec<Message>, then: Then| {
        messages.extend(more);
        Upgrade::Messages(messages, then)
    };
    let text = |text: &str| vec![Message::text(text.to_owned())];
    let (none, wait) = (Vec::new, || Then::Wait);
    let unknown = || texts(&[json!({ "type": "response.new", "y": [1] })]);
    check("an answer", with(answer(), none(), wait()), said.clone()).await;
    check("half an event", with(began(), text("{\"type\":\"response.comp"), wait()), cut()).await;
    let quoted = text(&format!("{{\"type\":{KEY}}}"));
    check("wrong JSON", with(began(), quoted.clone(), wait()), cut()).await;
    let binary = vec![Message::binary(answer()[0].clone().into_data())];
    check("a binary message", with(began(), binary, wait()), cut()).await;
    check("an end", with(began(), none(), Then::Close), cut()).await;
    check("silence", with(began(), none(), wait()), cut()).await;
    let ping = Then::Repeat(Message::Ping(Default::default()));
    check("endless pings", with(began(), none(), ping), cut()).await;
    let repeated = Then::Repeat(unknown().remove(0));
    check("endless unknown events", with(began(), none(), repeated), cut()).await;
    check("unknown events", with(unknown(), answer(), wait()), said.clone()).await;
    let long = text(&format!("{{\"type\":\"response.new\",\"x\":\"{}\"}}", "x".repeat(10_000_000)));
    check("10 MB in a message", with(long, answer(), wait()), said.clone()).await;
    check("two ends", with(answer(), texts(&[completed("r")]), wait()), said.clone()).await;
    let late = with(answer(), [texts(&[message("Late.")]), quoted].concat(), wait());
    check("items after the end", late, said.clone()).await;
    let failed = json!({ "type": "response.failed",
        "response": { "error": { "code": "odd", "message": format!("key {KEY}") } } });
    check("a failure with the key", with(began(), texts(&[failed]), wait()), Err(json!("Other")))
        .await;
    let error = json!({ "type": "error", "status": 400,
        "error": { "code": "odd", "message": format!("key {KEY}") } });
    let refused = with(none(), texts(&[error]), wait());
    check("a refusal with the key", refused, Err(json!("BadRequest"))).await;
}

#[tokio::test]
async fn without_an_answer_over_the_websocket_the_turn_continues_over_http() {
    let over_http: Result<&[&str], Value> = Ok(&["Over HTTP."]);
    let refusal = |status: &str| {
        let page = format!("<html>You sent {KEY}</html>");
        let length = page.len();
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {length}");
        Upgrade::Refusal(format!("{head}\r\nconnection: close\r\n\r\n{page}"))
    };
    for status in ["200 OK", "401 Unauthorized", "404 Not Found", "502 Bad Gateway"] {
        check(status, refusal(status), over_http.clone()).await;
    }
    check("nothing", Upgrade::Refusal(String::new()), over_http.clone()).await;
    let closed = Upgrade::Messages(Vec::new(), Then::Close);
    check("an end at once", closed, over_http.clone()).await;
    let unauthorized = json!({ "type": "error", "status": 401,
        "error": { "code": "expired", "message": format!("key {KEY}") } });
    check("401", Upgrade::Messages(texts(&[unauthorized]), Then::Wait), over_http.clone()).await;
}

#[tokio::test]
async fn a_refused_upgrade_waits_as_long_as_it_asks() {
    let refusal = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n";
    let (address, requests) = provider(Upgrade::Refusal(refusal.into())).await;
    let env = websocket_environment(&address, "").await;
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&config.replace("request_max_retries = 0", "request_max_retries = 2"));
    let (turn, peer) = turn(&env, "429").await;
    assert_eq!(turn["status"], "completed", "{turn}");
    let retry = peer.raw_lines().iter().find(|line| line.contains("\"willRetry\":true")).unwrap();
    assert!(retry.contains("retry 1 of 2 in 1.0 s"), "{retry}");
    let requests = requests.lock().unwrap();
    let methods: Vec<&str> = requests.iter().map(|(method, _)| method.as_str()).collect();
    assert_eq!(methods, ["GET", "POST"]);
    let waited = requests[1].1 - requests[0].1;
    assert!(waited >= Duration::from_secs(1), "{waited:?}");
}
