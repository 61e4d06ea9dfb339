//! One connection: its handshake, the order in which its requests are handled, and its end
//! (specification: Lifecycle rules, Errors, Versioning).

use std::any::Any;
use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jsonrpc::{
    Answer, CloseReason, Connection, ErrorObject, Inbox, Incoming, Message, Method as _,
    Notification, Outbox, Outgoing, RequestId, encode_answer, encode_error, encode_notification,
};
use protocol::connection::InitializeCapabilities;
use protocol::{Initialize, Initialized, Load, MessageInfo, MethodInfo, Ordering, Stability};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::error::{Error, ErrorKind};
use crate::server::Server;

/// Numbers the connections of a server.
pub(crate) type ConnectionId = u64;

/// Requests of one connection that may be handled beside each other; at the bound the connection
/// is read no further until one of them is answered.
const CONCURRENT_REQUESTS: usize = 64;
/// A connection whose input has ended is given up when it takes nothing of the output for so long.
const LAST_READ: Duration = Duration::from_secs(30);
/// A connection is read no further while it has left so many bytes of answers unread.
const UNREAD_ANSWERS: usize = 1 << 20;

/// What the rest of the server knows of a connection.
pub(crate) struct Peer {
    pub(crate) id: ConnectionId,
    pub(crate) outbox: Outbox,
    /// Who has not yet come in, in the eyes of the transport: dropped by the handshake.
    newcomer: Mutex<Option<Box<dyn Any + Send>>>,
    session: OnceLock<Negotiated>,
    /// Hashes of the warnings that were told.
    heard: Mutex<HashSet<u64>>,
}

/// Different warnings that are remembered as told; beyond, they may be told twice.
const MAX_HEARD: usize = 4096;

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
        newcomer: Option<Box<dyn Any + Send>>,
    ) -> Self {
        let (session, heard) = (OnceLock::new(), Mutex::default());
        Self { id, outbox, newcomer: Mutex::new(newcomer), session, heard }
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
        let is_first = self.session.set(session).is_ok();
        drop(self.newcomer.lock().unwrap_or_else(PoisonError::into_inner).take());
        is_first
    }

    /// What is presented to model providers for this client.
    pub(crate) fn user_agent(&self) -> Option<&str> {
        self.session.get().map(|session| session.user_agent.as_str())
    }

    /// Whether the client may see and use what is experimental.
    pub(crate) fn is_experimental(&self) -> bool {
        self.session.get().is_some_and(|session| session.experimental)
    }

    /// Whether the client wants to know the places of a thread's events.
    pub(crate) fn wants_places(&self) -> bool {
        self.session.get().is_some_and(|session| session.event_cursor)
    }

    /// Whether a notification is to be sent to this client.
    pub(crate) fn wants(&self, info: &MessageInfo) -> bool {
        let Some(session) = self.session.get() else { return false };
        let open = info.stability == Stability::Stable || session.experimental;
        open && !session.opted_out.contains(info.name)
    }

    /// Whether this client has not heard a warning yet; from now on it has.
    pub(crate) fn hears_first(&self, warning: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        warning.hash(&mut hasher);
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if heard.len() >= MAX_HEARD {
            heard.clear();
        }
        heard.insert(hasher.finish())
    }

    /// Tells this client, if it wants to hear it.
    pub(crate) fn notify<N: Notification<Params: Serialize>>(&self, params: &N::Params) {
        let Some(info) = protocol::lookup_notification(N::NAME) else { return };
        if self.wants(info)
            && let Ok(message) = encode_notification(N::NAME, params)
        {
            self.send(message);
        }
    }

    /// Queues a notification, if this client wants to hear it.
    pub(crate) fn send_if_wanted(&self, info: &MessageInfo, message: impl Into<Outgoing>) {
        if self.wants(info) {
            self.send(message);
        }
    }

    /// Queues the answer to a request of this client. As [`Peer::send`].
    fn answer(&self, answer: impl Into<Answer>) {
        let _ = self.outbox.push_answer(answer);
    }

    /// Queues a message. A connection that takes none is ending; its end is seen elsewhere.
    pub(crate) fn send(&self, message: impl Into<Outgoing>) {
        let _ = self.outbox.push(message);
    }
}

/// The caller of a handler.
#[derive(Clone)]
pub(crate) struct Cx {
    pub(crate) peer: Arc<Peer>,
    gates: Arc<Mutex<Vec<oneshot::Sender<()>>>>,
    /// Dropped when the request has begun.
    begun: Arc<Mutex<Option<oneshot::Sender<()>>>>,
}

/// Opens when the response to a request is queued: what must be told after it waits here.
pub(crate) struct Gate(oneshot::Receiver<()>);

impl Gate {
    /// A gate that nobody waits at: what is told may come before the response.
    pub(crate) fn open() -> Self {
        Self(oneshot::channel().1)
    }

    pub(crate) async fn opened(self) {
        // The sender is dropped without a word, on every way out of the request.
        let _ = self.0.await;
    }
}

impl Cx {
    fn new(peer: Arc<Peer>) -> Self {
        Self { peer, gates: Arc::default(), begun: Arc::default() }
    }

    /// From now on the connection's next request may be looked at ([`Ordering::Begins`]).
    pub(crate) fn begun(&self) {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// A gate for this request's response.
    pub(crate) fn gate(&self) -> Gate {
        let (sender, receiver) = oneshot::channel();
        self.gates.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        Gate(receiver)
    }
}

/// What happens to the server when a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtEnd {
    /// It goes on.
    Detach,
    /// It was the only one: running turns are interrupted, told and stored.
    Shutdown,
}

impl Server {
    /// Serves a connection until it ends; the server goes on. `newcomer` is dropped when the client
    /// has initialized.
    pub async fn serve(&self, connection: Connection, newcomer: impl Any + Send) {
        self.run(connection, Some(Box::new(newcomer)), AtEnd::Detach).await;
    }

    /// Serves the only connection; when it ends, so does the server, with everything stored and
    /// the last notifications written.
    pub async fn serve_only(&self, connection: Connection) {
        self.run(connection, None, AtEnd::Shutdown).await;
    }

    async fn run(
        &self,
        connection: Connection,
        newcomer: Option<Box<dyn Any + Send>>,
        at_end: AtEnd,
    ) {
        let Connection { incoming, outbox } = connection;
        outbox.spool_to(self.core.spool.clone());
        let (mut requests, mut answers) = incoming.split();
        let peer = Arc::new(Peer::new(self.core.next_connection(), outbox.clone(), newcomer));
        self.core.attach(peer.clone());
        // Answers get through while a request is handled: it may be what waits for one.
        let answers = async {
            while let Some(answer) = answers.recv().await {
                let requests = &self.core.requests;
                match answer {
                    Incoming::Message(Message::Response { id, outcome }) => {
                        requests.answer(&peer, id, outcome).await;
                    }
                    Incoming::Malformed(malformed) => {
                        if let Some(refused) = requests.answer_unreadable(&peer, malformed).await {
                            peer.answer(encode_error(refused.id.as_ref(), &refused.error));
                        }
                    }
                    Incoming::Message(_) => {}
                }
            }
            std::future::pending::<()>().await;
        };
        let mut running = JoinSet::new();
        tokio::select! {
            () = self.handle(&peer, &mut requests, &mut running) => {}
            () = answers => {}
        }
        if at_end == AtEnd::Shutdown {
            // What was accepted is answered.
            self.shutdown().await;
        }
        running.abort_all();
        self.core.detach(peer.id).await;
        outbox.close(CloseReason::Finished);
        outbox.drained(LAST_READ).await;
        self.report_cut(peer.id, &outbox);
    }

    /// Writes into the log why a connection was cut, if it was.
    fn report_cut(&self, connection: ConnectionId, outbox: &Outbox) {
        if let Some(reason) = outbox.close_reason()
            && matches!(
                reason,
                CloseReason::SlowClient | CloseReason::Stalled | CloseReason::SpoolFailed(_)
            )
        {
            tracing::warn!(
                target: "server::connection",
                "connection {connection} was closed: {reason}"
            );
        }
    }

    /// Handles requests until the connection ends.
    async fn handle(&self, peer: &Arc<Peer>, requests: &mut Inbox, running: &mut JoinSet<()>) {
        let permits = Arc::new(Semaphore::new(CONCURRENT_REQUESTS));
        loop {
            let next = tokio::select! {
                next = next_request(peer, requests) => next,
                Some(_) = running.join_next(), if !running.is_empty() => continue,
                reason = peer.outbox.closed() => match reason {
                    // What came before the client left was accepted.
                    CloseReason::Left { .. } => requests.try_recv(),
                    _ => None,
                },
            };
            match next {
                None => break,
                Some(Incoming::Malformed(malformed)) => {
                    peer.answer(encode_error(malformed.id.as_ref(), &malformed.error));
                }
                Some(Incoming::Message(message)) => {
                    self.take(peer, message, &permits, running).await;
                }
            }
        }
    }

    async fn take(
        &self,
        peer: &Arc<Peer>,
        message: Message,
        permits: &Arc<Semaphore>,
        running: &mut JoinSet<()>,
    ) {
        match message {
            Message::Request { id, method, params } => {
                let info = protocol::lookup(&method);
                let ordering = info.map_or(Ordering::Ordered, |info| info.ordering);
                let request = Request { id, method, info, params };
                if matches!(ordering, Ordering::Ordered | Ordering::Unimplemented) {
                    return self.answer(Cx::new(peer.clone()), request).await;
                }
                let permit = tokio::select! {
                    permit = permits.clone().acquire_owned() => permit,
                    _ = peer.outbox.closed() => return,
                };
                let Ok(permit) = permit else { return };
                let (server, peer) = (self.clone(), peer.clone());
                let (begun, has_begun) = oneshot::channel();
                running.spawn(async move {
                    let cx = Cx { begun: Arc::new(Mutex::new(Some(begun))), ..Cx::new(peer) };
                    server.answer(cx, request).await;
                    drop(permit);
                });
                if ordering == Ordering::Begins {
                    // Also when it ends without having begun.
                    let _ = has_begun.await;
                }
            }
            Message::Notification { method, .. } => {
                if method == Initialized::NAME {
                    self.core.tell_warnings(peer).await;
                }
            }
            // They come by themselves: see `run`.
            Message::Response { .. } => {}
        }
    }

    async fn answer(&self, cx: Cx, request: Request) {
        let Request { id, method, info, params } = request;
        let load = info.map_or(Load::Light, |info| info.load);
        let peer = &cx.peer.clone();
        let connection = peer.id;
        let span = tracing::debug_span!("request", connection, %id, %method);
        let accepted = self.core.unanswered.accept();
        // Counted before this is asked, so that a server that begins to drain misses none.
        let _accepted = (!self.core.is_draining()).then_some(accepted);
        let _turn = self.core.turn_for_long_answer(load).await;
        let outcome = match admit(peer, &method, info, params.as_deref()) {
            Ok(()) if self.core.is_draining() && load == Load::StartsWork => {
                Err(shutting_down().into())
            }
            Ok(()) => {
                let handled = protocol::dispatch(self, cx.clone(), &method, params.as_deref());
                handled.instrument(span.clone()).await
            }
            Err(error) => Err(error.into()),
        };
        span.in_scope(|| tracing::debug!(accepted = outcome.is_ok(), "answered"));
        peer.answer(response(&id, outcome));
        // Dropping the gates opens them.
        cx.gates.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A request, with what the method table says about it; `None` for an unknown method.
struct Request {
    id: RequestId,
    method: String,
    info: Option<&'static MethodInfo>,
    params: Option<Box<RawValue>>,
}

/// The next message, once the client has read enough of the answers that it has.
async fn next_request(peer: &Peer, requests: &mut Inbox) -> Option<Incoming> {
    peer.outbox.answers_below(UNREAD_ANSWERS).await;
    requests.recv().await
}

/// Whether a request may be handled at all: the handshake and the experimental gate.
fn admit(
    peer: &Peer,
    method: &str,
    info: Option<&MethodInfo>,
    params: Option<&RawValue>,
) -> Result<(), Error> {
    match (method == Initialize::NAME, peer.session.get().is_some()) {
        (true, true) => return Err(Error::wrong_state("Already initialized")),
        (true, false) => return Ok(()),
        (false, false) => return Err(Error::wrong_state("Not initialized")),
        (false, true) => {}
    }
    if peer.is_experimental() {
        return Ok(());
    }
    let refused = info.and_then(|info| protocol::experimental_violation(info, params));
    refused.map_or(Ok(()), |message| Err(Error::wrong_state(message)))
}

fn shutting_down() -> Error {
    Error::new(ErrorKind::ShuttingDown, "the server is shutting down")
        .next_step("connect again and retry")
}

fn response(id: &RequestId, outcome: Result<Bytes, ErrorObject>) -> Answer {
    match outcome {
        Err(error) => encode_error(Some(id), &error).into(),
        Ok(result) => encode_answer(id, result),
    }
}
