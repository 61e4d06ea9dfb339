//! One client, as the rest of the server knows it: where its messages go, and what its handshake
//! settled.

use std::any::Any;
use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, OnceLock, PoisonError};

use jsonrpc::{Answer, Notification, Outbox, Outgoing, encode_notification};
use protocol::connection::InitializeCapabilities;
use protocol::{MessageInfo, Stability};
use serde::Serialize;

/// Numbers the connections of a server.
pub(crate) type ConnectionId = u64;

/// What the rest of the server knows of a connection.
pub(crate) struct Peer {
    pub(crate) id: ConnectionId,
    pub(crate) outbox: Outbox,
    /// What the transport holds for a pending connection: dropped by the handshake.
    pending: Mutex<Option<Box<dyn Any + Send>>>,
    negotiated: OnceLock<Negotiated>,
    /// Hashes of the warnings that the client was sent.
    warned: Mutex<HashSet<u64>>,
}

/// Different warnings that are remembered as sent; beyond this, one may be sent twice.
const MAX_WARNED: usize = 4096;

/// What `initialize` settled.
struct Negotiated {
    user_agent: String,
    experimental: bool,
    event_cursor: bool,
    opted_out: BTreeSet<String>,
}

impl Peer {
    pub(crate) fn new(
        id: ConnectionId,
        outbox: Outbox,
        pending: Option<Box<dyn Any + Send>>,
    ) -> Self {
        let (negotiated, warned) = (OnceLock::new(), Mutex::default());
        Self { id, outbox, pending: Mutex::new(pending), negotiated, warned }
    }

    /// Completes the handshake; `false` when it was complete already.
    pub(crate) fn negotiate(&self, user_agent: String, asked: InitializeCapabilities) -> bool {
        let opted_out = asked.opt_out_notification_methods.unwrap_or_default();
        let session = Negotiated {
            user_agent,
            experimental: asked.experimental_api,
            event_cursor: asked.event_cursor,
            opted_out: opted_out.into_iter().collect(),
        };
        let is_first = self.negotiated.set(session).is_ok();
        drop(self.pending.lock().unwrap_or_else(PoisonError::into_inner).take());
        is_first
    }

    /// Whether the handshake is complete.
    pub(crate) fn is_initialized(&self) -> bool {
        self.negotiated.get().is_some()
    }

    /// What is presented to model providers for this client.
    pub(crate) fn user_agent(&self) -> Option<&str> {
        self.negotiated.get().map(|session| session.user_agent.as_str())
    }

    /// Whether the client may use experimental features.
    pub(crate) fn is_experimental(&self) -> bool {
        self.negotiated.get().is_some_and(|session| session.experimental)
    }

    /// Whether the client asked for the cursors of a thread's events.
    pub(crate) fn wants_cursors(&self) -> bool {
        self.negotiated.get().is_some_and(|session| session.event_cursor)
    }

    /// Whether a notification is to be sent to this client.
    pub(crate) fn wants(&self, info: &MessageInfo) -> bool {
        let Some(session) = self.negotiated.get() else { return false };
        let open = info.stability == Stability::Stable || session.experimental;
        open && !session.opted_out.contains(info.name)
    }

    /// Whether this is the first time that the client is sent this warning; remembers it.
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
    pub(crate) fn notify<N: Notification<Params: Serialize>>(&self, params: &N::Params) {
        let Some(info) = protocol::lookup_notification(N::NAME) else { return };
        if self.wants(info)
            && let Ok(message) = encode_notification(N::NAME, params)
        {
            self.send(message);
        }
    }

    /// Queues a notification, if this client accepts it.
    pub(crate) fn send_if_wanted(&self, info: &MessageInfo, message: impl Into<Outgoing>) {
        if self.wants(info) {
            self.send(message);
        }
    }

    /// Queues the answer to a request of this client. As [`Peer::send`].
    pub(super) fn answer(&self, answer: impl Into<Answer>) {
        let _ = self.outbox.push_answer(answer);
    }

    /// Queues a message. A connection that accepts none is ending, which its own task handles.
    pub(crate) fn send(&self, message: impl Into<Outgoing>) {
        let _ = self.outbox.push(message);
    }
}
