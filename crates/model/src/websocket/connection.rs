//! One WebSocket to a provider: its upgrade, and one response at a time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, SinkExt, StreamExt};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time;
use tokio_tungstenite::tungstenite::protocol::Message;

use crate::http_clients::HttpClients;
use crate::open::{self, retry_of};
use crate::pacing::Permit;
use crate::read::{deadline, only_keep_alives, silent};
use crate::reported_limits::{self, ReportedLimits};
use crate::upgrade::{NotUpgraded, WebSocket, upgrade};
use crate::{
    Decoder, Endpoint, Event, Failure, FailureKind, Provider, Retry, excerpt, failure_from_status,
};

/// Longest event, as over HTTP.
const MAX_MESSAGE: usize = http_client::sse::MAX_EVENT_BYTES;
/// Most messages between two responses.
const MAX_IDLE_MESSAGES: usize = 256;

pub(super) struct Connection {
    socket: WebSocket,
    endpoint: Endpoint,
    /// True if the provider names the response that a response continues.
    names_previous: bool,
}

/// Why there is no connection.
pub(super) enum Refusal {
    /// No answer.
    Unreachable,
    /// The answer to the upgrade.
    Status(u16),
    /// The answer to the upgrade asks for a wait before the next request, over HTTP too.
    Wait(u16, Box<open::Refused>),
    /// The server switched to something else.
    NoWebSocket,
}

/// The end of a response.
pub(super) enum End {
    Completed {
        batch: Vec<Event>,
        response_id: String,
        outputs: Vec<Arc<str>>,
    },
    /// The provider reports a failure; the connection can be used again.
    Failed {
        batch: Vec<Event>,
        limited: Option<Duration>,
    },
    /// The provider does not know the response that the request continues. Nothing was delivered.
    StateLost,
    /// The provider no longer accepts the credentials of the connection. Nothing was delivered.
    Unauthorized,
    /// The connection ended before the response began. Nothing was delivered.
    Lost,
    /// The connection ended within the response.
    Cut(Vec<Event>),
    ReaderGone,
}

impl Connection {
    /// Opens a connection. Returns the limits that the answer to the upgrade reports, too.
    pub(super) async fn open(
        clients: &HttpClients,
        provider: &Provider,
    ) -> Result<(Self, ReportedLimits), Refusal> {
        let endpoint = Endpoint::new(provider, &Method::GET, "/responses")
            .map_err(|_| Refusal::Unreachable)?;
        let (socket, headers) = match upgrade(clients, provider, &endpoint, MAX_MESSAGE).await {
            Ok(upgraded) => upgraded,
            Err(NotUpgraded::Unreachable(_)) => return Err(Refusal::Unreachable),
            Err(NotUpgraded::Silent(_)) => return Err(Refusal::Status(504)),
            Err(NotUpgraded::NoWebSocket) => return Err(Refusal::NoWebSocket),
            Err(NotUpgraded::Refused(response)) => {
                return Err(Refusal::read(provider, &endpoint, *response).await);
            }
        };
        let limits = ReportedLimits::read(&headers);
        Ok((Self { socket, endpoint, names_previous: false }, limits))
    }

    /// The limits that were reported since the last response. `None` when the connection cannot be used
    /// again: it was closed, or a message arrived that answers no request.
    pub(super) async fn idle_reports(&mut self) -> Option<Vec<Event>> {
        // So that the runtime has noticed what arrived.
        tokio::task::yield_now().await;
        let mut reports = Vec::new();
        for _ in 0..MAX_IDLE_MESSAGES {
            let Some(message) = self.socket.next().now_or_never() else { return Some(reports) };
            match message {
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Text(text))) => {
                    let before = reports.len();
                    Decoder::new().feed_event(text.as_bytes(), &mut reports);
                    if reports.len() == before || reports.iter().any(Event::is_response) {
                        tracing::warn!(
                            target: "model::websocket",
                            host = self.endpoint.host(),
                            "a message arrived after the end of a response; the connection is \
                             replaced"
                        );
                        return None;
                    }
                }
                Some(Ok(Message::Binary(_) | Message::Close(_)) | Err(_)) | None => return None,
            }
        }
        None
    }

    /// Sends a request and delivers the events of its response, but for the last batch. `previous` is
    /// the response that the request continues, if the connection had one before.
    pub(super) async fn exchange(
        &mut self,
        provider: &Provider,
        (frame, previous): (String, Option<String>),
        permit: &mut Permit,
        sender: &mpsc::Sender<Vec<Event>>,
    ) -> End {
        let idle = provider.stream_idle_timeout;
        let sent = time::timeout(idle, self.socket.send(Message::text(frame))).await;
        if !matches!(sent, Ok(Ok(()))) {
            return End::Lost;
        }
        let mut response = Response {
            awaits_beginning: previous.is_some(),
            previous,
            names_previous: self.names_previous,
            ..Response::default()
        };
        let mut progress = time::Instant::now();
        loop {
            let (deadline, is_last) = deadline(progress, idle);
            let message = match time::timeout_at(deadline, self.socket.next()).await {
                Ok(Some(Ok(Message::Text(text)))) => text,
                Ok(Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)))) => continue,
                Ok(Some(Ok(Message::Binary(_)))) => {
                    return Response::cut(Failure::disconnected(format!(
                        "{} sent a binary message, which is not an event",
                        self.endpoint.host()
                    )));
                }
                Ok(None | Some(Ok(Message::Close(_)))) => {
                    return response.lost(&self.endpoint, "it was closed");
                }
                Ok(Some(Err(error))) => {
                    let problem = provider.redact(&error.to_string());
                    return response.lost(&self.endpoint, &problem);
                }
                Err(_) if is_last => return Response::cut(only_keep_alives(&self.endpoint, idle)),
                Err(_) => return Response::cut(silent(&self.endpoint, idle)),
            };
            let batch = match response.read(&message, provider, &self.endpoint) {
                Ok(batch) => batch,
                Err(End::Failed { batch, limited }) => {
                    reported_limits::note(&batch, permit);
                    return End::Failed { batch, limited };
                }
                Err(end) => return end,
            };
            self.names_previous = response.names_previous;
            reported_limits::note(&batch, permit);
            if batch.iter().any(Event::is_response) {
                progress = time::Instant::now();
            }
            if batch.is_empty() {
                continue;
            }
            if sender.send(batch).await.is_err() {
                return End::ReaderGone;
            }
        }
    }
}

impl Refusal {
    async fn read(
        provider: &Provider,
        endpoint: &Endpoint,
        response: hyper::Response<Incoming>,
    ) -> Self {
        let status = response.status().as_u16();
        let limits = ReportedLimits::read(response.headers());
        let failure = open::refused(provider, endpoint, response).await;
        if failure.retry != Retry::Request || failure.retry_after.is_none() {
            return Self::Status(status);
        }
        Self::Wait(status, Box::new(open::Refused { failure, limits }))
    }
}

/// A response that is being read.
#[derive(Default)]
struct Response {
    decoder: Decoder,
    /// Events count from the beginning of a response on.
    awaits_beginning: bool,
    has_delivered: bool,
    /// The response that the request continues.
    previous: Option<String>,
    /// True if the provider names the response that a response continues.
    names_previous: bool,
    /// As the response's beginning names it.
    id: String,
    outputs: Vec<Arc<str>>,
}

impl Response {
    /// The events of a message, or the end of the response.
    fn read(
        &mut self,
        message: &str,
        provider: &Provider,
        endpoint: &Endpoint,
    ) -> Result<Vec<Event>, End> {
        let mut batch = Vec::new();
        let named = NamedResponse::read(message);
        if let Some(other) = named.id.as_deref().filter(|id| !self.id.is_empty() && *id != self.id)
        {
            return Err(Self::cut(Failure::disconnected(format!(
                "{} sent an event of the response `{}` within the response `{}`",
                endpoint.host(),
                provider.redact(&excerpt(other)),
                provider.redact(&excerpt(&self.id)),
            ))));
        }
        self.decoder.feed_event(message.as_bytes(), &mut batch);
        let refusal = refusal(message, provider, endpoint);
        let begins = matches!(batch.first(), Some(Event::Created { .. }));
        // The limits concern every response.
        if batch.iter().any(|event| !event.is_response()) {
            return Ok(batch);
        }
        if self.awaits_beginning && refusal.is_none() {
            let is_surplus = match begins {
                true => named
                    .previous
                    .as_ref()
                    .map_or(self.names_previous, |named| *named != self.previous),
                false => named.id.is_some() || !batch.is_empty(),
            };
            if is_surplus {
                return Err(End::Lost);
            }
            if !begins {
                return Ok(Vec::new());
            }
        }
        self.awaits_beginning = false;
        self.names_previous |= begins && named.previous.is_some();
        for event in &batch {
            match event {
                Event::Created { response_id, .. } => self.id.clone_from(response_id),
                Event::ItemDone { raw, .. } => self.outputs.push(Arc::clone(raw)),
                _ => {}
            }
        }
        match batch.last_mut() {
            Some(Event::Completed { .. }) => {
                let (response_id, outputs) =
                    (std::mem::take(&mut self.id), std::mem::take(&mut self.outputs));
                Err(End::Completed { batch, response_id, outputs })
            }
            Some(Event::Failed(failure)) => {
                let mut limits = ReportedLimits::default();
                if let Some(refused) = refusal {
                    *failure = refused.failure;
                    limits = refused.limits;
                    let code = refused.code.as_deref();
                    let is_unauthorized =
                        failure.http_status == Some(StatusCode::UNAUTHORIZED.as_u16());
                    match code.filter(|_| !self.has_delivered) {
                        Some("previous_response_not_found") => return Err(End::StateLost),
                        Some("websocket_connection_limit_reached") => return Err(End::Lost),
                        _ if is_unauthorized && !self.has_delivered => {
                            return Err(End::Unauthorized);
                        }
                        _ => {}
                    }
                }
                failure.message = provider.redact(&failure.message);
                let is_limited = failure.kind == FailureKind::ResponseTooManyFailedAttempts;
                let limited = failure.retry_after.filter(|_| is_limited);
                batch.splice(0..0, limits.into_events());
                Err(End::Failed { batch, limited })
            }
            Some(_) => {
                self.has_delivered = true;
                Ok(batch)
            }
            None => Ok(batch),
        }
    }

    fn lost(self, endpoint: &Endpoint, problem: &str) -> End {
        if !self.has_delivered {
            return End::Lost;
        }
        let host = endpoint.host();
        Self::cut(Failure::disconnected(format!("the WebSocket to {host} broke: {problem}")))
    }

    fn cut(failure: Failure) -> End {
        End::Cut(vec![Event::Failed(failure)])
    }
}

/// The response that an event belongs to, and the one that this continues. Most events name none.
#[derive(Default)]
struct NamedResponse {
    id: Option<String>,
    /// `None`: it is not stated; `Some(None)`: it continues none.
    previous: Option<Option<String>>,
}

impl NamedResponse {
    fn read(message: &str) -> Self {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Event {
            response_id: Value,
            response: Response,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Response {
            id: Value,
            #[serde(deserialize_with = "stated")]
            previous_response_id: Option<Value>,
        }
        /// Also `null`.
        fn stated<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
            Value::deserialize(from).map(Some)
        }
        // Spares the frequent deltas: within their texts, the quotes are escaped.
        if !message.contains("\"response\"") && !message.contains("\"response_id\"") {
            return Self::default();
        }
        // The decoder reports what cannot be read.
        let Event { response_id, response } = serde_json::from_str(message).unwrap_or_default();
        let text =
            |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        Self {
            id: text(&response.id).or_else(|| text(&response_id)),
            previous: response.previous_response_id.as_ref().map(text),
        }
    }
}

/// An `error` event that has the status and headers of a refusal over HTTP.
struct Refused {
    failure: Failure,
    code: Option<String>,
    limits: ReportedLimits,
}

fn refusal(message: &str, provider: &Provider, endpoint: &Endpoint) -> Option<Refused> {
    if !message.contains("\"error\"") {
        return None;
    }
    let event: Value = serde_json::from_str(message).ok()?;
    if event["type"] != "error" {
        return None;
    }
    let status = event.get("status").or_else(|| event.get("status_code"));
    let code = event["error"]["code"].as_str().or_else(|| event["code"].as_str());
    let status = u16::try_from(status.and_then(Value::as_u64).unwrap_or(400)).ok()?;
    let status = StatusCode::from_u16(status).ok()?;
    let mut headers = HeaderMap::new();
    for (name, value) in event["headers"].as_object().into_iter().flatten() {
        let name = HeaderName::from_bytes(name.as_bytes());
        let value = value.as_str().and_then(|value| HeaderValue::from_str(value).ok());
        if let (Ok(name), Some(value)) = (name, value) {
            headers.insert(name, value);
        }
    }
    let body = message.as_bytes();
    let mut failure = failure_from_status(provider, &endpoint.label, status, &headers, body);
    failure.retry = retry_of(&failure, status, &headers);
    let limits = ReportedLimits::read(&headers);
    Some(Refused { failure, code: code.map(str::to_owned), limits })
}
