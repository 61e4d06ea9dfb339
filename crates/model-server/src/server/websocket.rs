//! The scripted model over a WebSocket, `GET {any prefix}/responses`: each `response.create` gets the
//! script's next response, one event a frame. The server keeps the last response of a connection, so that a
//! request can continue it with `previous_response_id`.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http_client::sse::Reader;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Message, Role, WebSocketConfig};

use super::reply::{AnswerBody, plain};
use super::{MAX_REQUEST_BYTES, State};
use crate::script::engine::{Answer, Refusal};
use crate::script::player::{Action, Player};
use crate::wires::segments;

/// Longest time for the rest of the handshake.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns whether the request asks for a WebSocket to the scripted model.
pub(super) fn is_upgrade(request: &Request<Incoming>) -> bool {
    let asks = request.headers().get(header::UPGRADE);
    request.method() == Method::GET
        && segments(request.uri().path()) == ["responses"]
        && asks.is_some_and(|protocol| protocol.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// The WebSockets that are open.
pub(super) type OpenSockets = Weak<Mutex<JoinSet<()>>>;

/// Accepts the upgrade; a task of `open` serves the connection.
pub(super) fn accept(
    state: Arc<State>,
    mut request: Request<Incoming>,
    open: &OpenSockets,
) -> Response<AnswerBody> {
    let mut response = plain(StatusCode::SWITCHING_PROTOCOLS, Bytes::new());
    let Some(key) = request.headers().get(header::SEC_WEBSOCKET_KEY) else {
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return response;
    };
    let accept = derive_accept_key(key.as_bytes());
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_TYPE);
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    let (path, headers) = (request.uri().path().to_owned(), request.headers().clone());
    let upgrade = hyper::upgrade::on(&mut request);
    if let Some(open) = open.upgrade() {
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        while open.try_join_next().is_some() {}
        open.spawn(serve(state, path, headers, upgrade));
    }
    response
}

/// The last response of a connection.
struct Last {
    id: String,
    /// The input of its request and its output.
    items: Vec<Value>,
}

type Socket = WebSocketStream<TokioIo<Upgraded>>;

async fn serve(state: Arc<State>, path: String, headers: HeaderMap, upgrade: OnUpgrade) {
    let Ok(Ok(upgraded)) = time::timeout(UPGRADE_TIMEOUT, upgrade).await else { return };
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_REQUEST_BYTES))
        .max_frame_size(Some(MAX_REQUEST_BYTES));
    let io = TokioIo::new(upgraded);
    let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
    let mut last = None;
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else { continue };
        let answered = answer(&state, &text, &headers, last.take());
        let status = match &answered {
            Ok(_) => StatusCode::OK,
            Err(refusal) => StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST),
        };
        state.write_log((&Method::GET, None), &path, status, text.as_bytes());
        let played = match answered {
            Ok((player, items)) => play(&mut socket, *player, items).await.map(Some),
            Err(refusal) => refuse(&mut socket, refusal).await.map(|()| None),
        };
        match played {
            Some(played) => last = played,
            None => return,
        }
    }
}

/// The player of a request, and all of its input.
fn answer(
    state: &State,
    text: &str,
    headers: &HeaderMap,
    last: Option<Last>,
) -> Result<(Box<Player>, Vec<Value>), Refusal> {
    let invalid = |message: &str| Refusal::error(400, "invalid_request", message);
    let mut request: Value = serde_json::from_str(text)
        .map_err(|error| invalid(&format!("the frame is not JSON: {error}")))?;
    if request["type"] != "response.create" {
        return Err(invalid("the frame is no `response.create`"));
    }
    let members = request.as_object_mut().ok_or_else(|| invalid("the frame is not an object"))?;
    members.shift_remove("type");
    let mut items = Vec::new();
    let previous = members.shift_remove("previous_response_id").filter(|id| !id.is_null());
    if let Some(id) = &previous {
        let Some(last) = last.filter(|last| *id == *last.id) else {
            let message = format!("this connection has no last response {id}");
            return Err(Refusal::error(400, "previous_response_not_found", &message));
        };
        items = last.items;
    }
    match members.shift_remove("input") {
        Some(Value::Array(new)) => items.extend(new),
        Some(Value::String(text)) => items.push(json!({"role": "user", "content": text})),
        _ => return Err(invalid("`input` is missing")),
    }
    members.insert("input".to_owned(), items.clone().into());
    let Some(engine) = &state.engine else { return Err(invalid("there is no script")) };
    match engine.answer(request.to_string().as_bytes(), headers) {
        Answer::Refusal(refusal) => Err(refusal),
        Answer::Stream(player) => {
            let previous = ("previous_response_id", previous.unwrap_or_default());
            Ok((Box::new(player.about([previous])), items))
        }
    }
}

/// Sends the events of a response. `None` when the connection ends with it.
async fn play(socket: &mut Socket, player: Player, mut items: Vec<Value>) -> Option<Last> {
    let (mut reader, mut id) = (Reader::new(), String::new());
    for action in player {
        let mut events = Vec::new();
        match action {
            Action::Bytes(bytes) | Action::Raw(bytes) => {
                let read =
                    |_: &[u8], data: &[u8]| events.push(String::from_utf8_lossy(data).into_owned());
                reader.feed(&bytes, read).ok()?;
            }
            Action::Pause(pause) => time::sleep(pause).await,
            Action::Cut => return None,
            Action::Idle => {
                // Until the client goes away.
                while let Some(Ok(_)) = socket.next().await {}
                return None;
            }
        }
        for event in events {
            if let Ok(mut event) = serde_json::from_str::<Value>(&event) {
                match event["type"].as_str() {
                    Some("response.output_item.done") => items.push(event["item"].take()),
                    Some("response.created") => {
                        id = event["response"]["id"].as_str().unwrap_or_default().to_owned();
                    }
                    _ => {}
                }
            }
            socket.send(Message::text(event)).await.ok()?;
        }
    }
    Some(Last { id, items })
}

/// Sends a refusal as an event. `None` when the connection ends with it.
async fn refuse(socket: &mut Socket, refusal: Refusal) -> Option<()> {
    time::sleep(refusal.delay).await;
    let mut event: Value = serde_json::from_slice(&refusal.body).unwrap_or_else(|_| json!({}));
    event["type"] = "error".into();
    event["status"] = refusal.status.into();
    let headers = refusal.headers.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
    event["headers"] = Value::Object(headers.collect());
    socket.send(Message::text(event.to_string())).await.ok()
}
