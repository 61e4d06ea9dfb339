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

/// Calls over a connection. Cheap to clone; dropping the last clone closes the connection in good
/// order.
///
/// Memory grows only with the number of calls in progress.
#[derive(Clone)]
pub struct Client {
    outbox: Outbox,
    next_id: Arc<AtomicI64>,
    calls: Calls,
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
        let Connection { incoming, outbox } = connection;
        let (sender, queue) = mpsc::channel(limits.events.max(1));
        let calls = Calls::default();
        let dispatch =
            Dispatch { calls: calls.clone(), events: sender, sent: 0, outbox: outbox.downgrade() };
        tokio::spawn(dispatch.run(incoming));
        (Self { outbox, next_id: Arc::default(), calls }, Events { queue, read: 0 })
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
        match self.call(M::NAME, params).await {
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
        match self.call(method, params).await {
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

    /// The outgoing queue, for closing it with a reason or waiting until it is written.
    #[must_use]
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    async fn call<P: Serialize>(&self, method: &str, params: &P) -> Result<Response, CallError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let message = encode_request(&RequestId::Integer(id), method, params)?;
        // Registered before the request is sent, so that the response always finds its call.
        let (_registration, answer) = self.calls.register(id).ok_or(CallError::Closed)?;
        self.send(message)?;
        answer.await.map_err(|_| CallError::Closed)
    }

    fn send(&self, message: bytes::Bytes) -> Result<(), CallError> {
        self.outbox.push(message).map_err(|_| CallError::Closed)
    }
}

/// The response to a call.
struct Response {
    outcome: Result<Box<RawValue>, ErrorObject>,
    position: Position,
}

/// The calls in progress; `None` once the connection has ended.
type Waiting = Option<HashMap<i64, oneshot::Sender<Response>>>;

#[derive(Clone)]
struct Calls(Arc<Mutex<Waiting>>);

impl Default for Calls {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Some(HashMap::new()))))
    }
}

impl Calls {
    fn register(&self, id: i64) -> Option<(Registration, oneshot::Receiver<Response>)> {
        let (sender, answer) = oneshot::channel();
        self.lock().as_mut()?.insert(id, sender);
        Some((Registration { calls: self.clone(), id }, answer))
    }

    fn take(&self, id: i64) -> Option<oneshot::Sender<Response>> {
        self.lock().as_mut()?.remove(&id)
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
        self.calls.take(self.id);
    }
}

/// The task that distributes incoming messages.
struct Dispatch {
    calls: Calls,
    events: mpsc::Sender<Event>,
    /// Events that were sent.
    sent: u64,
    outbox: WeakOutbox,
}

impl Dispatch {
    async fn run(mut self, mut incoming: Inbox) {
        // Runs even when this task is dropped with its runtime.
        let _end = EndCalls(self.calls.clone());
        while let Some(incoming) = incoming.recv().await {
            let event = match incoming {
                Incoming::Message(message) => self.sort(message),
                Incoming::Malformed(malformed) => Some(Event::Fault(malformed.error)),
            };
            if let Some(event) = event {
                match self.events.send(event).await {
                    Ok(()) => self.sent += 1,
                    Err(unread) => self.decline(unread.0),
                }
            }
        }
    }

    fn sort(&self, message: Message) -> Option<Event> {
        match message {
            Message::Notification { method, params } => {
                Some(Event::Notification { method, params: params.unwrap_or_else(null) })
            }
            Message::Request { id, method, params, .. } => {
                Some(Event::Request { id, method, params: params.unwrap_or_else(null) })
            }
            Message::Response { id: Some(id), outcome } => {
                // The caller may have been cancelled; an id that we never used matches no call.
                if let RequestId::Integer(id) = id
                    && let Some(caller) = self.calls.take(id)
                {
                    let _ = caller.send(Response { outcome, position: Position(self.sent) });
                }
                None
            }
            Message::Response { id: None, outcome } => outcome.err().map(Event::Fault),
        }
    }

    /// Rejects a request that no handler takes, so that the peer does not wait forever.
    fn decline(&self, event: Event) {
        if let (Event::Request { id, method, .. }, Some(outbox)) = (event, self.outbox.upgrade()) {
            // A closed outbox needs no response: the peer sees the connection close.
            let _ = outbox.push(encode_error(Some(&id), &ErrorObject::method_not_found(&method)));
        }
    }
}

struct EndCalls(Calls);

impl Drop for EndCalls {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn null() -> Box<RawValue> {
    RawValue::NULL.to_owned()
}
