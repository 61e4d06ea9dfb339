//! One client, as the rest of the server knows it: where its messages go, and what its handshake
//! settled.

mod caller;

use std::any::Any;
use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use jsonrpc::{
    Answer, ErrorObject, Notification, Outbox, Outgoing, RequestId, encode_answer, encode_error,
    encode_notification,
};
use protocol::connection::{ClientInfo, InitializeCapabilities, InitializeParams};
use protocol::{MessageInfo, Stability, Translator};
use serde::Serialize;
use serde_json::value::RawValue;

pub use caller::{Caller, Gate, held_gate};

/// Numbers the connections of a server.
pub type ConnectionId = u64;

/// A connection as the rest of the server knows it.
pub struct Peer {
    pub id: ConnectionId,
    pub outbox: Outbox,
    /// It came through the [door](crate::door): another server forwards the requests of a client of its own.
    pub is_server: bool,
    /// The client in whose place another server asks has a dialect that returns turns with a thread.
    turns_with_thread: AtomicBool,
    dialect: Option<Arc<Translator>>,
    /// The transport's state of a pending connection: dropped by the handshake.
    pending: Mutex<Option<Box<dyn Any + Send>>>,
    negotiated: OnceLock<Negotiated>,
    /// Hashes of the warnings that the client was sent.
    warned: Mutex<HashSet<u64>>,
}

/// Bytes of answers that a client may leave unread before its next request is handled.
const UNREAD_ANSWERS: usize = 1 << 20;

/// Different warnings that are remembered as sent; beyond this, one may be sent twice.
const MAX_WARNED: usize = 4096;

/// The result of `initialize`.
struct Negotiated {
    user_agent: String,
    /// The parameters of its handshake.
    asked: InitializeParams,
    experimental: bool,
    event_cursor: bool,
    token_cost: bool,
    opted_out: BTreeSet<String>,
}

impl Peer {
    pub fn new(
        id: ConnectionId,
        outbox: Outbox,
        dialect: Option<Arc<Translator>>,
        pending: Option<Box<dyn Any + Send>>,
    ) -> Self {
        let (negotiated, warned) = (OnceLock::new(), Mutex::default());
        let pending = Mutex::new(pending);
        let turns_with_thread = AtomicBool::new(false);
        Self {
            id,
            outbox,
            is_server: false,
            turns_with_thread,
            dialect,
            pending,
            negotiated,
            warned,
        }
    }

    /// Completes the handshake; `false` when it was complete already.
    pub fn negotiate(
        &self,
        user_agent: String,
        client_info: ClientInfo,
        asked: InitializeCapabilities,
    ) -> bool {
        let opted_out = asked.opt_out_notification_methods.clone().unwrap_or_default();
        let session = Negotiated {
            user_agent,
            experimental: asked.experimental_api,
            event_cursor: asked.event_cursor,
            token_cost: asked.token_cost,
            opted_out: opted_out.into_iter().collect(),
            asked: InitializeParams { client_info, capabilities: Some(asked) },
        };
        let is_first = self.negotiated.set(session).is_ok();
        drop(self.pending.lock().unwrap_or_else(PoisonError::into_inner).take());
        is_first
    }

    /// Returns whether the handshake is complete.
    pub fn is_initialized(&self) -> bool {
        self.negotiated.get().is_some()
    }

    /// Returns the user agent that model providers get for this client.
    pub fn user_agent(&self) -> Option<&str> {
        self.negotiated.get().map(|session| session.user_agent.as_str())
    }

    /// The parameters of the handshake, for one with another server in this client's place.
    pub fn handshake(&self) -> Option<&InitializeParams> {
        self.negotiated.get().map(|session| &session.asked)
    }

    /// Returns whether the client may use experimental features.
    pub fn is_experimental(&self) -> bool {
        self.negotiated.get().is_some_and(|session| session.experimental)
    }

    /// Returns whether the client asked for the cursors of a thread's events.
    pub fn wants_cursors(&self) -> bool {
        self.negotiated.get().is_some_and(|session| session.event_cursor)
    }

    /// Returns whether the client asked for the cost of tokens.
    pub fn wants_token_cost(&self) -> bool {
        self.negotiated.get().is_some_and(|session| session.token_cost)
    }

    /// Returns whether a notification must be sent to this client.
    pub fn wants(&self, info: &MessageInfo) -> bool {
        let Some(session) = self.negotiated.get() else { return false };
        let open = info.stability == Stability::Stable || session.experimental;
        open && !session.opted_out.contains(info.name)
    }

    /// Returns whether this is the first time that the client is sent this warning; remembers it.
    pub(crate) fn is_first_warning(&self, warning: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        warning.hash(&mut hasher);
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.len() >= MAX_WARNED {
            warned.clear();
        }
        warned.insert(hasher.finish())
    }

    /// Notifies this client, if it accepts the notification.
    pub fn notify<N: Notification<Params: Serialize>>(&self, params: &N::Params) {
        let Some(info) = protocol::lookup_notification(N::NAME) else { return };
        if self.wants(info)
            && let Ok(message) = encode_notification(N::NAME, params)
        {
            self.send(message);
        }
    }

    /// Queues a notification, if this client accepts it.
    pub fn send_if_wanted(&self, info: &MessageInfo, message: impl Into<Outgoing>) {
        if self.wants(info) {
            self.send(message);
        }
    }

    /// A request of this client with the names of the specification.
    pub fn read_request(
        &self,
        method: String,
        params: Option<Box<RawValue>>,
    ) -> (String, Option<Box<RawValue>>) {
        let Some(dialect) = &self.dialect else { return (method, params) };
        let method = dialect.method(&method).to_owned();
        let params = params.map(|params| match dialect.params(&method, &params) {
            Some(translated) => {
                self.log_left_out(&method, &translated.left_out);
                translated.params
            }
            None => params,
        });
        (method, params)
    }

    /// Names each member of a newer client once in the log.
    fn log_left_out(&self, method: &str, names: &[String]) {
        for name in names {
            let member = format!("{method}.{name}");
            if self.is_first_warning(&member) {
                tracing::info!(%member, "left out: this server does not have this member of a newer client");
            }
        }
    }

    /// This client's result of a request of the server, with the names of the specification.
    pub fn read_answer(&self, method: &str, result: Box<RawValue>) -> Box<RawValue> {
        let Some(dialect) = &self.dialect else { return result };
        dialect.answer(method, &result).unwrap_or(result)
    }

    /// Queues the outcome of a request of this client. As [`Peer::send`].
    pub fn respond(&self, id: &RequestId, method: &str, outcome: Result<Bytes, ErrorObject>) {
        let outcome = match &self.dialect {
            None => outcome,
            Some(dialect) => outcome
                .map(|result| dialect.result(method, result))
                .map_err(|error| dialect.error(error)),
        };
        match outcome {
            Ok(result) => self.answer(encode_answer(id, result)),
            Err(error) => self.answer(encode_error(Some(id), &error)),
        }
    }

    /// Queues the answer to a request of this client. As [`Peer::send`].
    pub fn answer(&self, answer: impl Into<Answer>) {
        let _ = self.outbox.push_answer(answer);
    }

    /// Waits until the client has read enough of the answers that it has for another one.
    pub async fn answers_read(&self) {
        self.outbox.answers_below(UNREAD_ANSWERS).await;
    }

    /// Queues a message. A connection that accepts none is ending, which its own task handles.
    pub fn send(&self, message: impl Into<Outgoing>) {
        let message = message.into();
        let message = match &self.dialect {
            None => message,
            Some(dialect) => dialect.message(message),
        };
        let _ = self.outbox.push(message);
    }

    /// Version of the protocol in the user agent that this client reads; `None` for the program's.
    pub fn protocol_version(&self) -> Option<&'static str> {
        Some(self.dialect.as_ref()?.protocol_version())
    }

    /// Returns whether `thread/resume` and `thread/fork` return turns to this client.
    pub fn wants_turns_with_thread(&self) -> bool {
        self.turns_with_thread.load(Ordering::Relaxed)
            || self.dialect.as_ref().is_some_and(|dialect| dialect.returns_turns_with_thread())
    }

    /// From now on `thread/resume` and `thread/fork` return turns to this client.
    pub fn return_turns_with_thread(&self) {
        self.turns_with_thread.store(true, Ordering::Relaxed);
    }
}
