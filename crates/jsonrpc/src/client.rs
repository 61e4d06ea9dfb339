//! The calling side of a connection: typed requests, and a stream of events for the messages that
//! the peer initiates. It does not retry, and has no knowledge of particular methods.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use crate::encode::{EncodeError, encode_error, encode_notification, encode_request};
use crate::outbox::WeakOutbox;
use crate::{
    Connection, DecodeError, ErrorObject, Inbox, Incoming, Limits, Message, Method, Notification,
    Outbox, RequestId, encode_response, read_result,
};

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The peer responded with an error.
    #[error("{0}")]
    Rpc(ErrorObject),
    /// The connection ended before the response arrived, or before the message was sent.
    #[error("the connection was closed")]
    Closed,
    /// The result does not fit the type that the method declares.
    #[error("the result of `{method}` cannot be decoded: {error}")]
    Decode {
        /// Name of the method.
        method: String,
        /// The member that does not fit, and what was expected there.
        error: DecodeError,
    },
    /// The parameters have no JSON form.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// A message that the peer initiates.
#[derive(Clone, Debug)]
pub enum Event {
    /// A notification from the peer.
    Notification {
        /// Name of the notification.
        method: String,
        /// `null` when the message had none.
        params: Box<RawValue>,
        /// The position of the notification, if it has one (the member `eventCursor`).
        cursor: Option<String>,
    },
    /// A request from the peer; respond with [`Client::respond`].
    Request {
        /// Pass this to [`Client::respond`].
        id: RequestId,
        /// Name of the requested method.
        method: String,
        /// `null` when the message had none.
        params: Box<RawValue>,
    },
    /// The peer sent a line that is not a message, or reports that it could not read one of ours.
    /// One side has a defect; the connection stays open.
    Fault(ErrorObject),
}

/// Sees the messages of a [`Client`], in their order, in the task that sends or reads them.
pub trait Observer: Send + Sync {
    /// A message that is sent next.
    fn sent(&self, message: &[u8]);

    /// A message that was received, before it is handed out.
    fn received(&self, message: &Message);
}

/// Calls over a connection. Cheap to clone; dropping the last clone closes the connection in good
/// order.
///
/// Memory grows only with the number of calls in progress.
#[derive(Clone)]
pub struct Client {
    outbox: Outbox,
    next_id: Arc<AtomicI64>,
    calls: Calls,
    observer: Option<Arc<dyn Observer>>,
}

/// The stream of [`Event`]s, at most [`Limits::events`] of them unread. At that bound the
/// connection is not read any further, **responses included**: a caller whose response follows many
/// events must read the events concurrently. After it is dropped, notifications are discarded and
/// requests are answered with -32601.
pub struct Events {
    queue: mpsc::Receiver<Event>,
    /// Events that were read.
    read: u64,
}

/// A place in the stream of [`Event`]s: how many came before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position(u64);

impl Events {
    /// Returns the next event; `None` once the connection has ended and all events are read. Cancel
    /// safe: no event is lost.
    pub async fn next(&mut self) -> Option<Event> {
        let event = self.queue.recv().await?;
        self.read += 1;
        Some(event)
    }

    /// Returns the next event if one is already queued.
    pub fn try_next(&mut self) -> Option<Event> {
        let event = self.queue.try_recv().ok()?;
        self.read += 1;
        Some(event)
    }

    /// Returns the next event if it came before `position`.
    pub fn try_next_before(&mut self, position: Position) -> Option<Event> {
        if self.read < position.0 { self.try_next() } else { None }
    }
}

impl Client {
    /// Creates a client that takes over `connection`. Must be called within a tokio runtime.
    #[must_use]
    pub fn new(connection: Connection, limits: &Limits) -> (Self, Events) {
        let (sender, queue) = mpsc::channel(limits.events.max(1));
        let outbox = connection.outbox.downgrade();
        let (client, reader) = Self::over(connection);
        tokio::spawn(forward(reader, sender, outbox));
        (client, Events { queue, read: 0 })
    }

    /// As [`Client::new`], but the caller reads: nothing arrives, responses included, except by [`Reader::next`].
    #[must_use]
    pub fn over(connection: Connection) -> (Self, Reader) {
        Self::observed(connection, None)
    }

    /// As [`Client::over`], with something that sees every message.
    #[must_use]
    pub fn observed(connection: Connection, observer: Option<Arc<dyn Observer>>) -> (Self, Reader) {
        let Connection { incoming, outbox } = connection;
        let calls = Calls::default();
        let ending = EndCalls(calls.clone());
        let reader = Reader { incoming, returned: 0, calls: ending, observer: observer.clone() };
        (Self { outbox, next_id: Arc::default(), calls, observer }, reader)
    }

    /// Calls a method and waits for its result.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn request<M: Method>(&self, params: &M::Params) -> Result<M::Result, CallError> {
        self.request_with_position::<M>(params).await.0
    }

    /// As [`Client::request`], with the place of the response among the events.
    pub async fn request_with_position<M: Method>(
        &self,
        params: &M::Params,
    ) -> (Result<M::Result, CallError>, Position) {
        match self.call(M::NAME, params, None).await {
            Ok(Response { outcome, position }) => {
                let result = outcome.map_err(CallError::Rpc).and_then(|result| {
                    read_result(&result)
                        .map_err(|error| CallError::Decode { method: M::NAME.to_owned(), error })
                });
                (result, position)
            }
            // Everything came before the end of the connection.
            Err(error) => (Err(error), Position(u64::MAX)),
        }
    }

    /// Calls a method by name; `Value::Null` sends no parameters.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn request_raw(&self, method: &str, params: &Value) -> Result<Value, CallError> {
        self.request_raw_with_position(method, params).await.0
    }

    /// As [`Client::request_raw`], with the place of the response among the events.
    pub async fn request_raw_with_position(
        &self,
        method: &str,
        params: &Value,
    ) -> (Result<Value, CallError>, Position) {
        match self.call(method, params, None).await {
            Ok(Response { outcome, position }) => {
                let result = outcome.map_err(CallError::Rpc).and_then(|result| {
                    read_result(&result)
                        .map_err(|error| CallError::Decode { method: method.to_owned(), error })
                });
                (result, position)
            }
            // Everything came before the end of the connection.
            Err(error) => (Err(error), Position(u64::MAX)),
        }
    }

    /// Calls a method by name, and returns the text of its result. `taken` gets a result in the task that reads,
    /// before any later message is read, even when the future of this call was dropped after the request was sent.
    ///
    /// # Errors
    /// [`CallError::Rpc`], [`CallError::Closed`] and [`CallError::Encode`].
    pub async fn request_taken<P: Serialize>(
        &self,
        method: &str,
        params: &P,
        taken: Option<Taken>,
    ) -> Result<Box<RawValue>, CallError> {
        self.call(method, params, taken).await?.outcome.map_err(CallError::Rpc)
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// [`CallError::Closed`] and [`CallError::Encode`].
    pub fn notify<N: Notification>(&self, params: &N::Params) -> Result<(), CallError> {
        self.send(encode_notification(N::NAME, params)?)
    }

    /// Sends a notification by name; `Value::Null` sends no parameters.
    ///
    /// # Errors
    /// [`CallError::Closed`] and [`CallError::Encode`].
    pub fn notify_raw(&self, method: &str, params: &Value) -> Result<(), CallError> {
        self.send(encode_notification(method, params)?)
    }

    /// Responds to an [`Event::Request`].
    ///
    /// # Errors
    /// [`CallError::Closed`].
    pub fn respond(
        &self,
        id: &RequestId,
        outcome: &Result<Value, ErrorObject>,
    ) -> Result<(), CallError> {
        self.send(match outcome {
            Ok(result) => encode_response(id, result),
            Err(error) => encode_error(Some(id), error),
        })
    }

    /// As [`Client::respond`], with the text of a result.
    ///
    /// # Errors
    /// [`CallError::Closed`].
    pub fn respond_with(
        &self,
        id: &RequestId,
        outcome: &Result<Box<RawValue>, ErrorObject>,
    ) -> Result<(), CallError> {
        self.send(match outcome {
            Ok(result) => encode_response(id, result),
            Err(error) => encode_error(Some(id), error),
        })
    }

    /// The outgoing queue, for closing it with a reason or waiting until it is written.
    #[must_use]
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    async fn call<P: Serialize>(
        &self,
        method: &str,
        params: &P,
        taken: Option<Taken>,
    ) -> Result<Response, CallError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let message = encode_request(&RequestId::Integer(id), method, params)?;
        // Registered before the request is sent, so that the response always finds its call.
        let (registration, answer) = self.calls.register(id, taken).ok_or(CallError::Closed)?;
        if let Err(error) = self.send(message) {
            registration.calls.take(id);
            return Err(error);
        }
        answer.await.map_err(|_| CallError::Closed)
    }

    fn send(&self, message: bytes::Bytes) -> Result<(), CallError> {
        if let Some(observer) = &self.observer {
            observer.sent(&message);
        }
        self.outbox.push(message).map_err(|_| CallError::Closed)
    }
}

/// The response to a call.
struct Response {
    outcome: Result<Box<RawValue>, ErrorObject>,
    position: Position,
}

/// Gets the result of a call in the task that reads: [`Client::request_taken`].
pub type Taken = Box<dyn FnOnce(&RawValue) + Send>;

/// A call in progress.
struct Call {
    caller: oneshot::Sender<Response>,
    taken: Option<Taken>,
}

/// The calls in progress; `None` once the connection has ended.
type Waiting = Option<HashMap<i64, Call>>;

#[derive(Clone)]
struct Calls(Arc<Mutex<Waiting>>);

impl Default for Calls {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Some(HashMap::new()))))
    }
}

impl Calls {
    fn register(
        &self,
        id: i64,
        taken: Option<Taken>,
    ) -> Option<(Registration, oneshot::Receiver<Response>)> {
        let (caller, answer) = oneshot::channel();
        self.lock().as_mut()?.insert(id, Call { caller, taken });
        Some((Registration { calls: self.clone(), id }, answer))
    }

    fn take(&self, id: i64) -> Option<Call> {
        self.lock().as_mut()?.remove(&id)
    }

    /// Removes a call whose result is of use to its caller alone.
    fn abandon(&self, id: i64) {
        let mut calls = self.lock();
        let Some(calls) = calls.as_mut() else { return };
        if calls.get(&id).is_some_and(|call| call.taken.is_none()) {
            calls.remove(&id);
        }
    }

    /// Ends every call in progress, and every later one, with [`CallError::Closed`].
    fn end(&self) {
        let waiting = self.lock().take();
        drop(waiting);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing under this lock leaves the table half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a call from the table when its caller stops waiting.
struct Registration {
    calls: Calls,
    id: i64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.calls.abandon(self.id);
    }
}

/// The reading side of a [`Client`]: responses go to their callers, everything else is returned. When it is dropped,
/// or at the end of the connection, every call ends with [`CallError::Closed`].
pub struct Reader {
    incoming: Inbox,
    /// Events that were returned.
    returned: u64,
    calls: EndCalls,
    observer: Option<Arc<dyn Observer>>,
}

impl Reader {
    /// Returns the next event, after the responses before it were handed out; `None` once the connection has ended.
    /// While it is not called nothing is read, and the peer has to wait. Cancel safe: no event is lost.
    pub async fn next(&mut self) -> Option<Event> {
        while let Some(incoming) = self.incoming.recv().await {
            if let (Some(observer), Incoming::Message(message)) = (&self.observer, &incoming) {
                observer.received(message);
            }
            let event = match incoming {
                Incoming::Message(message) => self.sort(message),
                Incoming::Malformed(malformed) => Some(Event::Fault(malformed.error)),
            };
            if event.is_some() {
                self.returned += 1;
                return event;
            }
        }
        self.calls.0.end();
        None
    }

    fn sort(&self, message: Message) -> Option<Event> {
        match message {
            Message::Notification { method, params, cursor } => {
                Some(Event::Notification { method, params: params.unwrap_or_else(null), cursor })
            }
            Message::Request { id, method, params, .. } => {
                Some(Event::Request { id, method, params: params.unwrap_or_else(null) })
            }
            Message::Response { id: Some(id), outcome } => {
                // The caller may have been cancelled; an id that we never used matches no call.
                if let RequestId::Integer(id) = id
                    && let Some(call) = self.calls.0.take(id)
                {
                    if let (Some(taken), Ok(result)) = (call.taken, &outcome) {
                        taken(result);
                    }
                    let position = Position(self.returned);
                    let _ = call.caller.send(Response { outcome, position });
                }
                None
            }
            Message::Response { id: None, outcome } => outcome.err().map(Event::Fault),
        }
    }
}

/// Moves events into the queue of [`Events`].
async fn forward(mut reader: Reader, events: mpsc::Sender<Event>, outbox: WeakOutbox) {
    while let Some(event) = reader.next().await {
        if let Err(unread) = events.send(event).await
            && let Event::Request { id, method, .. } = unread.0
            && let Some(outbox) = outbox.upgrade()
        {
            // No handler takes it: the peer must not wait forever. A closed outbox needs no response: the peer
            // sees the connection close.
            let _ = outbox.push(encode_error(Some(&id), &ErrorObject::method_not_found(&method)));
        }
    }
}

/// Ends the calls even when the task that reads is dropped with its runtime.
struct EndCalls(Calls);

impl Drop for EndCalls {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn null() -> Box<RawValue> {
    RawValue::NULL.to_owned()
}
