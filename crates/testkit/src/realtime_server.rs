//! A scripted provider of the realtime API: it answers the messages of a session by their type, accepts calls
//! over WebRTC, and answers turns with one message. It records what it is sent, and can misbehave in each
//! step.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::{CloseFrame, coding::CloseCode};
use tokio_tungstenite::tungstenite::protocol::{Message, Role};

/// Longest wait for a message before the test fails; far more than is needed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The behaviour of the server. The default takes every session and says nothing.
#[derive(Clone, Default)]
pub struct RealtimeScript {
    /// The answer to an upgrade, as HTTP, in place of a session.
    pub refusal: Option<String>,
    /// The upgrade is not answered.
    pub is_silent: bool,
    /// The messages at the beginning of a session.
    pub opening: Vec<RealtimeReply>,
    /// The replies to a message of this type.
    pub replies: BTreeMap<&'static str, Vec<RealtimeReply>>,
    /// The answer to an offer of a call, as HTTP.
    pub call: String,
}

/// A message of the server.
#[derive(Clone, Debug)]
pub enum RealtimeReply {
    /// An event.
    Event(Value),
    /// A text that may be no event.
    Text(String),
    /// A binary message.
    Binary(Vec<u8>),
    /// Bytes that may be no message.
    Bytes(Vec<u8>),
    /// A close with this reason.
    Close(&'static str),
    /// The connection is dropped.
    Cut,
}

/// A running server; it ends with the test's runtime.
pub struct RealtimeServer {
    address: SocketAddr,
    log: watch::Receiver<Vec<Value>>,
}

type Log = watch::Sender<Vec<Value>>;

impl RealtimeScript {
    /// A server that starts sessions with the id `sess_1`.
    #[must_use]
    pub fn starting() -> Self {
        let created = json!({ "type": "session.created", "session": { "id": "sess_1" } });
        Self { opening: vec![RealtimeReply::Event(created)], ..Self::default() }
    }

    /// The same server, which answers messages of the type `to` so.
    #[must_use]
    pub fn reply(mut self, to: &'static str, replies: Vec<RealtimeReply>) -> Self {
        self.replies.insert(to, replies);
        self
    }
}

impl RealtimeServer {
    /// Serves `script` to any number of connections.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn serve(script: RealtimeScript) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (sender, log) = watch::channel(Vec::new());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, log) = (script.clone(), sender.clone());
                tokio::spawn(async move {
                    // An error means that the client went away.
                    let _ = serve(stream, script, &log).await;
                });
            }
        });
        Self { address, log }
    }

    /// The `base_url` of a provider.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the messages that it was sent so far: requests as `{"request", "head", "body"}`,
    /// messages as `{"message"}`, the end of a session as `{"end": true}`.
    #[must_use]
    pub fn log(&self) -> Vec<Value> {
        self.log.borrow().clone()
    }

    /// Waits for an entry of the log, and returns it.
    ///
    /// # Panics
    /// If it does not come.
    pub async fn logged(&self, fits: impl Fn(&Value) -> bool) -> Value {
        let mut log = self.log.clone();
        let found = log.wait_for(|log| log.iter().any(&fits));
        let found = tokio::time::timeout(PATIENCE, found).await;
        let found = found.unwrap_or_else(|_| panic!("it does not come: {:#?}", self.log()));
        let found = found.expect("the server runs").iter().find(|entry| fits(entry)).cloned();
        found.expect("it was there")
    }

    /// Waits for a message of this type, and returns it.
    pub async fn message(&self, kind: &str) -> Value {
        let entry = self.logged(|entry| entry["message"]["type"] == kind).await;
        entry["message"].clone()
    }
}

async fn serve(mut stream: TcpStream, script: RealtimeScript, log: &Log) -> std::io::Result<()> {
    let mut head = Vec::new();
    let end = loop {
        if let Some(at) = head.windows(4).position(|end| end == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    };
    let mut body = head.split_off(end);
    let head = String::from_utf8_lossy(&head).into_owned();
    let header = |wanted: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.to_owned())
    };
    let length: usize = header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    while body.len() < length {
        stream.read_buf(&mut body).await?;
    }
    let request = head.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned();
    let body = String::from_utf8_lossy(&body).into_owned();
    let entry = json!({ "request": request, "head": head, "body": body });
    log.send_modify(|log| log.push(entry));
    let answer = match &*request {
        "GET /v1/models" => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "POST /v1/responses" => answer_to_turn(),
        "POST /v1/realtime/calls" => script.call.clone(),
        request if request.ends_with("/hangup") => {
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned()
        }
        _ if script.is_silent => return std::future::pending().await,
        _ => match (&script.refusal, header("sec-websocket-key")) {
            (Some(refusal), _) => refusal.clone(),
            (None, None) => "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_owned(),
            (None, Some(key)) => return session(stream, &key, script, log).await,
        },
    };
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.map(drop)
}

fn answer_to_turn() -> String {
    let content = json!([{ "type": "output_text", "text": "I know." }]);
    let item = json!({ "type": "message", "id": "m", "role": "assistant", "content": content });
    let events = [
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": { "id": "r" } }),
    ];
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    format!("{head}{body}")
}

async fn session(
    mut stream: TcpStream,
    key: &str,
    script: RealtimeScript,
    log: &Log,
) -> std::io::Result<()> {
    let accept = derive_accept_key(key.as_bytes());
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-accept: {accept}\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).await?;
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
    let mut goes_on = send(&mut socket, &script.opening).await;
    while goes_on {
        let Some(Ok(message)) = socket.next().await else { break };
        let Message::Text(text) = message else { continue };
        let message: Value = serde_json::from_str(&text).unwrap_or_default();
        let kind = message["type"].as_str().unwrap_or_default().to_owned();
        log.send_modify(|log| log.push(json!({ "message": message })));
        if let Some(replies) = script.replies.get(&*kind) {
            goes_on = send(&mut socket, replies).await;
        }
    }
    log.send_modify(|log| log.push(json!({ "end": true })));
    Ok(())
}

/// Returns whether the session goes on.
async fn send(socket: &mut WebSocketStream<TcpStream>, replies: &[RealtimeReply]) -> bool {
    for reply in replies {
        let message = match reply {
            RealtimeReply::Event(event) => Message::text(event.to_string()),
            RealtimeReply::Text(text) => Message::text(text.clone()),
            RealtimeReply::Binary(bytes) => Message::binary(bytes.clone()),
            RealtimeReply::Bytes(bytes) => {
                if socket.get_mut().write_all(bytes).await.is_err() {
                    return false;
                }
                continue;
            }
            RealtimeReply::Close(reason) => Message::Close(Some(CloseFrame {
                code: CloseCode::Normal,
                reason: (*reason).into(),
            })),
            RealtimeReply::Cut => return false,
        };
        if socket.send(message).await.is_err() {
            return false;
        }
    }
    true
}
