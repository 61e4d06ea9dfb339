//! The connection to the server: the handshake, the calls in progress, and what the server sends.

use std::pin::Pin;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use jsonrpc::{
    CallError, Client, Connection, ErrorObject, Event, Events, Limits, Position, RequestId,
};
use protocol::{ClientInfo, Empty, InitializeCapabilities, InitializeParams, InitializeResponse};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::runtime::Handle;

/// Opens a connection, again after one was lost.
pub trait Connector {
    /// Connects once.
    fn connect(&mut self) -> Connecting;

    /// Returns whether the server outlives a connection, so that another attempt makes sense.
    fn can_reconnect(&self) -> bool;
}

/// A connection in the making; the error is for people.
pub type Connecting = Pin<Box<dyn Future<Output = Result<Connection, String>> + Send>>;

/// Number of a call, by which its answer is recognised.
pub type Tag = u64;

/// An answer, and its place among the events.
type Answer = (Tag, Result<Value, ErrorObject>, Position);

/// An arrival from the server.
#[derive(Debug)]
pub enum Arrival {
    /// A notification.
    Notification {
        /// Its name.
        method: String,
        /// Its parameters.
        params: Box<RawValue>,
    },
    /// A question.
    Request {
        /// For the answer.
        id: RequestId,
        /// Its name.
        method: String,
        /// Its parameters.
        params: Box<RawValue>,
    },
    /// The answer to a call.
    Answer {
        /// That of the call.
        tag: Tag,
        /// Its result.
        result: Result<Value, ErrorObject>,
    },
    /// The connection has ended.
    Lost(String),
}

/// The connection to the server.
pub struct Link {
    client: Client,
    events: Events,
    calls: FuturesUnordered<Pin<Box<dyn Future<Output = Answer> + Send>>>,
    /// An answer that waits for the events before it.
    answer: Option<Answer>,
}

impl Link {
    /// Connects and completes the handshake. What reads and writes the connection runs in `background`.
    ///
    /// # Errors
    /// There is no server, or it refuses; in words for people.
    pub async fn open(
        connector: &mut impl Connector,
        background: &Handle,
        limits: &Limits,
        version: &str,
    ) -> Result<(Self, InitializeResponse), String> {
        let connecting = connector.connect();
        let connected = background.spawn(connecting).await;
        let connection = connected.map_err(|error| format!("cannot connect: {error}"))??;
        let (client, events) = {
            let _background = background.enter();
            Client::new(connection, limits)
        };
        let hello = InitializeParams {
            client_info: ClientInfo {
                name: "agentd_tui".to_owned(),
                title: Some("agentd".to_owned()),
                version: version.to_owned(),
            },
            capabilities: Some(InitializeCapabilities {
                experimental_api: true,
                ..InitializeCapabilities::default()
            }),
        };
        let opened = client
            .request::<protocol::Initialize>(&hello)
            .await
            .map_err(|error| format!("the server did not accept the connection: {error}"))?;
        client.notify::<protocol::Initialized>(&Empty {}).map_err(|error| error.to_string())?;
        Ok((Self { client, events, calls: FuturesUnordered::new(), answer: None }, opened))
    }

    /// Sends a call; its answer arrives with `tag`. Calls are sent in order.
    pub fn call(&mut self, tag: Tag, method: &'static str, params: Value) {
        let client = self.client.clone();
        self.calls.push(Box::pin(async move {
            let (result, position) = client.request_raw_with_position(method, &params).await;
            (tag, result.map_err(|error| refusal(method, error)), position)
        }));
    }

    /// Answers a question.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn respond(
        &self,
        id: &RequestId,
        outcome: &Result<Value, ErrorObject>,
    ) -> Result<(), CallError> {
        self.client.respond(id, outcome)
    }

    /// Returns whether an answer is still to come.
    #[must_use]
    pub fn is_calling(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Waits for what comes next, in the order in which the server sent it. Cancel safe.
    pub async fn next(&mut self) -> Arrival {
        loop {
            if let Some((tag, result, position)) = self.answer.take() {
                let Some(event) = self.events.try_next_before(position) else {
                    return Arrival::Answer { tag, result };
                };
                self.answer = Some((tag, result, position));
                return arrival(event);
            }
            tokio::select! {
                biased;
                Some(answer) = self.calls.next(), if !self.calls.is_empty() => {
                    self.answer = Some(answer);
                }
                event = self.events.next() => return match event {
                    Some(event) => arrival(event),
                    None => Arrival::Lost("the connection to the server ended".to_owned()),
                },
            }
        }
    }

    /// Returns the next message that has already arrived.
    pub fn try_next(&mut self) -> Option<Arrival> {
        self.next().now_or_never()
    }
}

fn arrival(event: Event) -> Arrival {
    match event {
        Event::Notification { method, params, .. } => Arrival::Notification { method, params },
        Event::Request { id, method, params } => Arrival::Request { id, method, params },
        Event::Fault(fault) => {
            Arrival::Lost(format!("the server sent an invalid message: {fault}"))
        }
    }
}

fn refusal(method: &str, error: CallError) -> ErrorObject {
    match error {
        CallError::Rpc(error) => error,
        other => ErrorObject::internal(format!("{method}: {other}")),
    }
}
