//! Who calls a handler, and the gates that hold notifications back until its response is queued.

use std::sync::{Arc, Mutex, PoisonError};

use jsonrpc::RequestId;
use telemetry::TraceContext;
use tokio::sync::oneshot;

use crate::peer::Peer;

/// The caller of a handler.
#[derive(Clone)]
pub struct Caller {
    pub peer: Arc<Peer>,
    gates: Arc<Mutex<Vec<oneshot::Sender<()>>>>,
    /// Dropped when the request has begun.
    begun: Arc<Mutex<Option<oneshot::Sender<()>>>>,
    /// The position of the request in a trace.
    trace: Option<TraceContext>,
    /// The id that the client gave the request.
    request: Option<RequestId>,
}

/// Opens when the response to a request is queued: notifications that follow the response wait here.
pub struct Gate(oneshot::Receiver<()>);

/// Keeps a gate closed; dropped, it opens the gate.
pub struct GateHold(#[expect(dead_code)] oneshot::Sender<()>);

/// A gate that opens when its hold is dropped.
pub fn held_gate() -> (GateHold, Gate) {
    let (sender, receiver) = oneshot::channel();
    (GateHold(sender), Gate(receiver))
}

impl Gate {
    /// A gate that is open: notifications may precede the response.
    pub fn open() -> Self {
        Self(oneshot::channel().1)
    }

    pub async fn opened(self) {
        // The sender is dropped without a word, on every way out of the request.
        let _ = self.0.await;
    }
}

impl Caller {
    pub fn new(peer: Arc<Peer>) -> Self {
        Self { peer, gates: Arc::default(), begun: Arc::default(), trace: None, request: None }
    }

    /// As [`Caller::new`]; `begun` is dropped when the request has begun.
    pub fn beginning(peer: Arc<Peer>, begun: oneshot::Sender<()>) -> Self {
        Self { begun: Arc::new(Mutex::new(Some(begun))), ..Self::new(peer) }
    }

    /// The caller of the request with this id.
    pub fn with_request(self, id: RequestId) -> Self {
        Self { request: Some(id), ..self }
    }

    /// The id that the client gave the request.
    pub fn request(&self) -> Option<&RequestId> {
        self.request.as_ref()
    }

    /// The caller of a request that is part of a trace.
    pub fn with_trace(self, trace: Option<TraceContext>) -> Self {
        Self { trace, ..self }
    }

    /// The position of the request in a trace, if its client sent one.
    pub fn trace(&self) -> Option<TraceContext> {
        self.trace
    }

    /// Opens the gates: the response is queued.
    pub fn open_gates(&self) {
        // Dropping a gate's sender opens it.
        self.gates.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// From now on the connection's next request may be handled ([`protocol::Ordering::Begins`]).
    pub fn begun(&self) {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// The caller alone, as the audience of what its request leads to.
    pub fn clients(&self) -> &[Arc<Peer>] {
        std::slice::from_ref(&self.peer)
    }

    /// A gate for this request's response.
    pub fn gate(&self) -> Gate {
        let (sender, receiver) = oneshot::channel();
        self.gates.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        Gate(receiver)
    }
}
