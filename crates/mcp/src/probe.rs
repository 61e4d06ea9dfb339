//! The probe for the era of a server: a `server/discover` that a server of the earlier era does not
//! answer is answered here after a short time, so that the handshake of that era follows.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::time::Instant;

/// Time for the server to answer.
pub(crate) const LIMIT: Duration = Duration::from_secs(3);

/// A transport that bounds the probe.
pub(crate) struct Probed<T> {
    inner: T,
    limit: Option<Duration>,
    probe: Probe,
    late: FailedStart,
}

enum Probe {
    None,
    Waiting {
        id: RequestId,
        deadline: Instant,
    },
    /// It was answered here; the server's own answer is dropped.
    Expired {
        id: RequestId,
    },
}

/// The information gained about a server whose start failed.
#[derive(Clone, Default)]
pub(crate) struct FailedStart(Arc<Learned>);

#[derive(Default)]
struct Learned {
    is_late: AtomicBool,
    has_ended: AtomicBool,
}

impl FailedStart {
    /// Returns whether it answered the probe after its time, or may do so: it is of the new era,
    /// and starts slowly.
    pub(crate) fn is_set(&self) -> bool {
        self.0.is_late.load(Ordering::Relaxed)
    }

    pub(crate) fn set_late(&self) {
        self.0.is_late.store(true, Ordering::Relaxed);
    }

    /// Returns whether its program ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.has_ended.load(Ordering::Relaxed)
    }

    pub(crate) fn set_ended(&self) {
        self.0.has_ended.store(true, Ordering::Relaxed);
    }
}

impl<T: Transport<RoleClient>> Probed<T> {
    /// Without a `limit`, nothing is bounded.
    pub(crate) fn new(inner: T, limit: Option<Duration>, late: FailedStart) -> Self {
        Self { inner, limit, probe: Probe::None, late }
    }

    async fn next(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = match &self.probe {
                Probe::Waiting { id, deadline } => {
                    tokio::select! {
                        message = self.inner.receive() => message?,
                        () = tokio::time::sleep_until(*deadline) => {
                            let id = id.clone();
                            self.probe = Probe::Expired { id: id.clone() };
                            return Some(unanswered(id));
                        }
                    }
                }
                Probe::None | Probe::Expired { .. } => self.inner.receive().await?,
            };
            let (answered, is_success) = match &message {
                JsonRpcMessage::Response(response) => (Some(&response.id), true),
                JsonRpcMessage::Error(error) => (error.id.as_ref(), false),
                _ => (None, false),
            };
            match (&self.probe, answered) {
                (Probe::Waiting { id, .. }, Some(answered)) if id == answered => {
                    let id = id.clone();
                    self.probe = Probe::None;
                    // Some servers of the earlier era answer every method with an empty result.
                    if is_success && !is_discovery(&message) {
                        let why = "`server/discover` was answered with another result";
                        return Some(refused(why.to_owned(), id));
                    }
                }
                (Probe::Expired { id }, Some(answered)) if id == answered => {
                    self.probe = Probe::None;
                    if is_success {
                        self.late.set_late();
                    }
                    continue;
                }
                _ => {}
            }
            return Some(message);
        }
    }
}

/// The id of a message that is a probe.
pub(crate) fn request_id(message: &TxJsonRpcMessage<RoleClient>) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => match &request.request {
            ClientRequest::DiscoverRequest(_) => Some(request.id.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The substitute for the answer of a server that gives none in time.
pub(crate) fn unanswered(id: RequestId) -> ServerJsonRpcMessage {
    let seconds = LIMIT.as_secs();
    refused(format!("`server/discover` was not answered within {seconds} s"), id)
}

/// The substitute for an answer that does not belong to the new era.
pub(crate) fn refused(why: String, id: RequestId) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(ErrorData::invalid_request(why, None), Some(id))
}

fn is_discovery(message: &ServerJsonRpcMessage) -> bool {
    match message {
        JsonRpcMessage::Response(response) => {
            matches!(response.result, ServerResult::DiscoverResult(_))
        }
        _ => false,
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Probed<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        if let Some(limit) = self.limit
            && let Some(id) = request_id(&message)
        {
            self.probe = Probe::Waiting { id, deadline: Instant::now() + limit };
        }
        self.inner.send(message)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.next()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.inner.close()
    }
}
