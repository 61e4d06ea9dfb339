//! The connection to the server: calls, and what the server sends, in the order in which it was sent.

use std::pin::Pin;

use futures_util::stream::{FuturesUnordered, StreamExt};
use jsonrpc::{
    CallError, Client, Connection, ErrorObject, Event, Events, Limits, Method, Notification,
    Position, RequestId,
};
use protocol::{ClientInfo, Empty, InitializeCapabilities, InitializeParams};
use serde_json::Value;

use crate::editor::Then;

/// Notifications that nothing here reads.
const UNREAD: [&str; 6] = [
    protocol::ItemFileChangePatchUpdated::NAME,
    protocol::ItemReasoningTextDelta::NAME,
    protocol::ThreadStatusChanged::NAME,
    protocol::TurnDiffUpdated::NAME,
    protocol::ThreadCompacted::NAME,
    protocol::AccountRateLimitsUpdated::NAME,
];

/// An arrival on the connection.
pub(crate) enum Arrival<S> {
    Event(Event),
    /// The answer to a call, and what takes it.
    Answer(Then<S>, Result<Value, ErrorObject>),
    /// The connection has ended.
    Lost,
}

struct Answer<S> {
    then: Then<S>,
    result: Result<Value, ErrorObject>,
    position: Position,
}

/// The connection to the server.
pub(crate) struct Link<S> {
    client: Client,
    events: Events,
    calls: FuturesUnordered<Pin<Box<dyn Future<Output = Answer<S>> + Send>>>,
    /// An answer that waits for the events before it.
    answer: Option<Answer<S>>,
}

impl<S: 'static> Link<S> {
    /// Completes the handshake.
    ///
    /// # Errors
    /// The server refuses, in words for people.
    pub(crate) async fn open(
        connection: Connection,
        limits: &Limits,
        version: &str,
    ) -> Result<Self, String> {
        let (client, events) = Client::new(connection, limits);
        let hello = InitializeParams {
            client_info: ClientInfo {
                name: "agentd_acp".to_owned(),
                title: None,
                version: version.to_owned(),
            },
            capabilities: Some(InitializeCapabilities {
                // Questions of the agent, deleting threads, and costs.
                experimental_api: true,
                token_cost: true,
                opt_out_notification_methods: Some(UNREAD.map(str::to_owned).into()),
                ..InitializeCapabilities::default()
            }),
        };
        client
            .request::<protocol::Initialize>(&hello)
            .await
            .map_err(|error| format!("the server did not accept the connection: {error}"))?;
        client.notify::<protocol::Initialized>(&Empty {}).map_err(|error| error.to_string())?;
        Ok(Self { client, events, calls: FuturesUnordered::new(), answer: None })
    }

    /// Calls a method; `then` takes the answer, after what the server sent before it.
    pub(crate) fn call<M: Method>(&self, params: &M::Params, then: Then<S>) {
        let client = self.client.clone();
        let params = serde_json::to_value(params).expect("parameters are JSON");
        self.calls.push(Box::pin(async move {
            let (result, position) = client.request_raw_with_position(M::NAME, &params).await;
            let result = result.map_err(|error| match error {
                CallError::Rpc(error) => error,
                other => ErrorObject::internal(format!("{}: {other}", M::NAME)),
            });
            Answer { then, result, position }
        }));
    }

    /// Answers a request of the server.
    pub(crate) fn respond(&self, id: &RequestId, outcome: &Result<Value, ErrorObject>) {
        // A closed connection ends the adapter.
        let _ = self.client.respond(id, outcome);
    }

    /// Waits for what comes next. Cancel safe.
    pub(crate) async fn next(&mut self) -> Arrival<S> {
        loop {
            if let Some(answer) = self.answer.take() {
                let Some(event) = self.events.try_next_before(answer.position) else {
                    return Arrival::Answer(answer.then, answer.result);
                };
                self.answer = Some(answer);
                return Arrival::Event(event);
            }
            tokio::select! {
                biased;
                Some(answer) = self.calls.next(), if !self.calls.is_empty() => {
                    self.answer = Some(answer);
                }
                event = self.events.next() => {
                    return event.map_or(Arrival::Lost, Arrival::Event);
                }
            }
        }
    }
}
