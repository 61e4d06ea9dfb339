//! Serves one connection: its handshake, the order in which its requests are handled, and its end
//! (specification: Lifecycle rules, Errors, Versioning).

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use jsonrpc::{
    CloseReason, Connection, Inbox, Incoming, Message, Method as _, Notification as _, Outbox,
    RequestId, encode_error,
};
use protocol::{Initialize, Initialized, Load, MethodInfo, Ordering};
use serde_json::value::RawValue;
use telemetry::TraceContext;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::elsewhere::Forwarded;
use crate::elsewhere::link::TURNS_WITH_THREAD;
use crate::in_flight::Accepted;
use crate::server::Server;
use services::error::Error;
use services::peer::{Caller, ConnectionId, Peer};
use services::thread_order::ThreadOrder;
use services::thread_port::Command;
use services::{salvage_report, warnings};

/// Requests of one connection that may be handled concurrently. At the bound the connection is not
/// read until one of them is answered.
const CONCURRENT_REQUESTS: usize = 64;
/// A connection whose input has ended is dropped when it reads no output for this long.
const LAST_READ: Duration = Duration::from_secs(30);

/// The effect of a connection's end on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtEnd {
    /// It continues.
    Detach,
    /// It was the only one: running turns are interrupted and stored.
    Shutdown,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Client,
    /// Another server of the same home, in the place of a client.
    Server,
}

impl Server {
    /// Serves a connection until it ends; the server continues. `pending` is dropped when the client
    /// has initialized.
    pub async fn serve(&self, connection: Connection, pending: impl Any + Send) {
        self.run(connection, Some(Box::new(pending)), Of::Client, AtEnd::Detach).await;
    }

    /// Serves a connection through which another server forwards the requests of a client.
    pub(crate) async fn serve_other(&self, connection: Connection) {
        self.run(connection, None, Of::Server, AtEnd::Detach).await;
    }

    /// Serves the only connection; when it ends, so does the server, with everything stored and
    /// the last notifications written.
    pub async fn serve_only(&self, connection: Connection) {
        self.run(connection, None, Of::Client, AtEnd::Shutdown).await;
    }

    async fn run(
        &self,
        connection: Connection,
        pending: Option<Box<dyn Any + Send>>,
        of: Of,
        at_end: AtEnd,
    ) {
        let Connection { incoming, outbox } = connection;
        outbox.spool_to(self.services.spool.clone());
        let (mut requests, mut answers) = incoming.split();
        let id = self.services.connections.next_id();
        let dialect = self.services.options.dialect.clone();
        let mut peer = match of {
            Of::Client => Peer::new(id, outbox.clone(), dialect, pending),
            // The names of a client's dialect stay between it and its server.
            Of::Server => Peer::new(id, outbox.clone(), None, pending),
        };
        peer.is_server = of == Of::Server;
        let peer = Arc::new(peer);
        self.services.connections.add(peer.clone());
        // Answers are taken while a request is handled, because the request may wait for one.
        let answers = async {
            while let Some(answer) = answers.recv().await {
                let requests = &self.services.requests;
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
        let mut running = RunningRequests::new();
        tokio::select! {
            () = self.handle(&peer, &mut requests, &mut running) => {}
            () = answers => {}
        }
        running.complete().await;
        if at_end == AtEnd::Shutdown {
            // What was accepted is answered.
            self.shutdown().await;
        }
        drop(running);
        self.detach(peer.id).await;
        outbox.close(CloseReason::Finished);
        outbox.drained(LAST_READ).await;
        self.report_cut(peer.id, &outbox);
    }

    /// Sends a new client what is wrong with the configuration, the command rules and the store.
    async fn send_warnings(&self, peer: &Peer) {
        self.services.configurations.send_warnings(peer).await;
        let notices = self.services.store.opened().map_or(&[][..], store::Store::notices);
        for (thread, message) in salvage_report::messages(notices) {
            match thread {
                Some(thread) => warnings::send_about_thread(peer, &thread, message),
                None => warnings::send_warning(peer, message),
            }
        }
    }

    /// Forgets a connection that ended.
    pub(crate) async fn detach(&self, connection: ConnectionId) {
        self.services.connections.remove(connection);
        self.services.elsewhere.detach(connection);
        self.services.processes.end_all(connection);
        self.services.searches.end_all(connection);
        self.services.watches.end_all(connection);
        self.services.realtime.end_all_of(connection);
        self.services.accounts.detach(connection);
        for handle in self.services.threads.all() {
            handle.send(Command::Detach { connection }).await;
        }
    }

    /// Waits until a long answer may be made; `None` for any other.
    pub(crate) async fn turn_for_long_answer(&self, load: Load) -> Option<SemaphorePermit<'_>> {
        if load != Load::LongAnswer {
            return None;
        }
        // It is never closed.
        self.services.long_answers.acquire().await.ok()
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
    async fn handle(&self, peer: &Arc<Peer>, requests: &mut Inbox, running: &mut RunningRequests) {
        loop {
            let next = tokio::select! {
                next = next_request(peer, requests) => next,
                () = running.next_end() => continue,
                reason = peer.outbox.closed() => match reason {
                    // Requests that arrived before the client left are accepted.
                    CloseReason::Left { .. } => requests.try_recv(),
                    _ => None,
                },
            };
            match next {
                None => break,
                Some(Incoming::Malformed(malformed)) => {
                    self.services.telemetry.figures().count_refused(malformed.error.code);
                    peer.answer(encode_error(malformed.id.as_ref(), &malformed.error));
                }
                Some(Incoming::Message(message)) => {
                    self.take(peer, message, running).await;
                }
            }
        }
    }

    async fn take(&self, peer: &Arc<Peer>, message: Message, running: &mut RunningRequests) {
        match message {
            Message::Request { id, method, params, trace } => {
                let trace = trace.as_deref().and_then(TraceContext::parse);
                let (method, params) = peer.read_request(method, params);
                let info = protocol::lookup(&method);
                let ordering = match info.map_or(Ordering::Ordered, |info| info.ordering) {
                    // Another server carries it out: nothing else of this client waits for that.
                    Ordering::Ordered
                        if self.services.elsewhere.has(peer.id, params.as_deref()) =>
                    {
                        Ordering::InThread
                    }
                    ordering => ordering,
                };
                let accepted = self.services.unanswered.accept();
                let request = Request { id, method, info, params, accepted };
                if matches!(ordering, Ordering::Ordered | Ordering::Unimplemented) {
                    return self.answer(Caller::new(peer.clone()).with_trace(trace), request).await;
                }
                let permit = tokio::select! {
                    permit = running.permits.clone().acquire_owned() => permit,
                    () = cut(peer) => return,
                };
                let Ok(permit) = permit else { return };
                let place = match ordering {
                    Ordering::InThread => running.order.place(request.params.as_deref()),
                    _ => None,
                };
                let (server, peer) = (self.clone(), peer.clone());
                let (begun, has_begun) = oneshot::channel();
                let handled = async move {
                    let mut place = place;
                    if let Some(place) = &mut place {
                        place.reached().await;
                    }
                    let caller = Caller::beginning(peer, begun).with_trace(trace);
                    server.answer(caller, request).await;
                    drop((place, permit));
                };
                match ordering {
                    Ordering::InThread | Ordering::Independent => running.completed.spawn(handled),
                    _ => running.dropped.spawn(handled),
                };
                if ordering == Ordering::Begins {
                    // Even when it ends without having begun.
                    let _ = has_begun.await;
                }
            }
            Message::Notification { method, .. } => {
                if method == Initialized::NAME {
                    self.send_warnings(peer).await;
                }
                if peer.is_server && method == TURNS_WITH_THREAD {
                    peer.return_turns_with_thread();
                }
            }
            // They come by themselves: see `run`.
            Message::Response { .. } => {}
        }
    }

    async fn answer(&self, caller: Caller, request: Request) {
        let Request { id, method, info, params, accepted } = request;
        let load = info.map_or(Load::Light, |info| info.load);
        let caller = caller.with_request(id.clone());
        let peer = &caller.peer.clone();
        let connection = peer.id;
        let span = tracing::debug_span!("request", connection, %id, %method);
        // Counted before this is asked, so that a server that begins to drain misses none.
        let _accepted = (!self.services.draining.is_set()).then_some(accepted);
        let outcome = match admit(peer, &method, info, params.as_deref()) {
            Ok(()) if self.services.draining.is_set() && load == Load::StartsWork => {
                Some(Err(Error::shutting_down().into()))
            }
            Ok(()) => {
                let (id, method, params) = (Some(&id), &method, params.as_deref());
                let request = Forwarded { id, method, params, load };
                self.carry_out(&caller, request).instrument(span.clone()).await
            }
            Err(error) => Some(Err(error.into())),
        };
        // Without one, another server has answered.
        let Some(outcome) = outcome else { return caller.open_gates() };
        span.in_scope(|| tracing::debug!(accepted = outcome.is_ok(), "answered"));
        if let Err(error) = &outcome {
            self.services.telemetry.figures().count_refused(error.code);
        }
        peer.respond(&id, &method, outcome);
        caller.open_gates();
    }
}

/// A request, with what the method table says about it; `None` for an unknown method.
struct Request {
    id: RequestId,
    method: String,
    info: Option<&'static MethodInfo>,
    params: Option<Box<RawValue>>,
    /// The end of the server waits for it from its arrival on.
    accepted: Accepted,
}

/// The requests of a connection that are handled in tasks of their own.
struct RunningRequests {
    permits: Arc<Semaphore>,
    order: ThreadOrder,
    /// Those that take effect even when the connection ends.
    completed: JoinSet<()>,
    /// Those that end with the connection.
    dropped: JoinSet<()>,
}

impl RunningRequests {
    fn new() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(CONCURRENT_REQUESTS)),
            order: ThreadOrder::default(),
            completed: JoinSet::new(),
            dropped: JoinSet::new(),
        }
    }

    /// Waits for the end of one of them, or forever when there is none.
    async fn next_end(&mut self) {
        tokio::select! {
            Some(_) = self.completed.join_next() => {}
            Some(_) = self.dropped.join_next() => {}
            else => std::future::pending().await,
        }
    }

    /// Waits for those that take effect even when the connection ends. The others end when this value
    /// is dropped.
    async fn complete(&mut self) {
        while self.completed.join_next().await.is_some() {}
    }
}

/// Resolves when the connection was closed and its client did not just leave: what arrived before a
/// client left is accepted.
async fn cut(peer: &Peer) {
    if matches!(peer.outbox.closed().await, CloseReason::Left { .. }) {
        std::future::pending::<()>().await;
    }
}

/// The next message, once the client has read enough of the answers that it has.
async fn next_request(peer: &Peer, requests: &mut Inbox) -> Option<Incoming> {
    peer.answers_read().await;
    requests.recv().await
}

/// Checks that a request may be handled at all: the handshake and the experimental gate.
fn admit(
    peer: &Peer,
    method: &str,
    info: Option<&MethodInfo>,
    params: Option<&RawValue>,
) -> Result<(), Error> {
    match (method == Initialize::NAME, peer.is_initialized()) {
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
