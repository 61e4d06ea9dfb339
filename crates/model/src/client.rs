//! Sends requests and delivers their events. Each request is sent once; a failure states whether a
//! retry may help, and the caller decides about it.

mod models;
mod realtime;

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_client::Network;
use hyper::Method;
use tokio::{sync::mpsc, task::AbortHandle, time};

use crate::clients::Clients;
use crate::local;
use crate::open::{Refused, open};
use crate::pacing::{Arrival, Pacer, Permit};
use crate::prompt::Hints;
use crate::read::{DRAIN_TIMEOUT, drain, pump};
use crate::websocket::{self, Outcome, Sockets};
use crate::wire_listing;
use crate::{
    Endpoint, Event, Failure, FailureKind, Prompt, Provider, Transport, Wire,
    compression::Compression,
};

pub use models::ModelsAnswer;

/// Most batches of events that wait for a slow reader; beyond it the network is not read. A batch
/// holds the events of one read.
const MAX_BATCHES: usize = 64;
/// Bytes of a request for each of its tokens, to compare it with a limit.
const BYTES_PER_TOKEN: u64 = 4;

/// A client's options beyond its providers.
#[derive(Clone, Default)]
pub struct Options {
    /// Trusted roots and proxies.
    pub network: Network,
    /// Answers requests to providers whose transport is [`Transport::Offline`].
    pub offline: Option<Arc<dyn OfflineTransport>>,
}

/// A transport inside this process, which needs no network.
pub trait OfflineTransport: Send + Sync {
    /// Answers the request in `body`: sends the events of its response to `events`, the terminal
    /// one last. Ends early when the receiver is dropped.
    fn respond(
        self: Arc<Self>,
        provider: Arc<Provider>,
        body: Bytes,
        events: mpsc::Sender<Vec<Event>>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Sends requests to any provider and reuses connections. Cheap to create and to clone: the HTTP
/// client is built at the first request that needs it.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    offline: Option<Arc<dyn OfflineTransport>>,
    clients: Clients,
    sockets: Sockets,
    compression: Compression,
    pacer: Pacer,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

impl Client {
    #[must_use]
    pub fn new() -> Self {
        Self::with_options(Options::default())
    }

    #[must_use]
    pub fn with_options(options: Options) -> Self {
        let inner = Inner {
            offline: options.offline,
            clients: Clients::new(options.network),
            sockets: Sockets::default(),
            compression: Compression::default(),
            pacer: Pacer::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Sends a prompt and streams the response. A request whose key is at the provider's rate limit
    /// waits for its turn first. Every error arrives as the stream's terminal event. Must be called
    /// within a Tokio runtime.
    #[must_use]
    pub fn stream_prompt(&self, provider: &Arc<Provider>, prompt: &Prompt) -> ResponseStream {
        self.stream_prompt_of(&self.arrival(), provider, prompt)
    }

    /// The arrival of a request, for all of its tries.
    #[must_use]
    pub fn arrival(&self) -> Arrival {
        self.inner.pacer.arrival()
    }

    /// As [`Self::stream_prompt`], for a try of the request that arrived at `arrival`. Its place is kept
    /// after a refusal, for as long as the wait that the provider asks for, until `arrival` is dropped.
    #[must_use]
    pub fn stream_prompt_of(
        &self,
        arrival: &Arrival,
        provider: &Arc<Provider>,
        prompt: &Prompt,
    ) -> ResponseStream {
        let (sender, batches) = mpsc::channel(MAX_BATCHES);
        let (inner, provider) = (Arc::clone(&self.inner), Arc::clone(provider));
        let (model, body) = (Arc::clone(&prompt.model), (prompt.encode(), prompt.hints()));
        let arrival = arrival.clone();
        let task = tokio::spawn(async move {
            match provider.transport {
                Transport::Http => {
                    respond(&inner, &provider, (&model, &arrival), body, &sender).await;
                }
                Transport::Offline => respond_offline(&inner, provider, body.0, sender).await,
            }
        });
        ResponseStream { batches, ended: false, task: task.abort_handle() }
    }

    /// Opens a connection to `provider` ahead of the first request, with a request that any server
    /// answers at no cost. Failures are ignored: the first real request reports them.
    pub async fn warm_up(&self, provider: &Arc<Provider>) {
        if provider.transport == Transport::Offline {
            return;
        }
        let method = Method::GET;
        let Ok(provider) = self.inner.clients.authorized(provider).await else { return };
        let path = wire_listing::path(provider.wire);
        let Ok(endpoint) = Endpoint::new(&provider, &method, path) else { return };
        let Ok(http) = self.inner.clients.http.of(&provider).await else { return };
        let answer = http.request(endpoint.request(&method, Bytes::new()));
        if let Ok(Ok(answer)) = time::timeout(DRAIN_TIMEOUT * 10, answer).await {
            drain(answer.into_body()).await;
        }
    }
}

/// The events of one response, in batches of what arrived together. Dropping it cancels the
/// request: its connection is closed (HTTP/1.1) or its stream reset (HTTP/2), unless the response
/// was complete.
#[derive(Debug)]
pub struct ResponseStream {
    batches: mpsc::Receiver<Vec<Event>>,
    ended: bool,
    task: AbortHandle,
}

impl ResponseStream {
    /// The next batch, never empty; the last one ends with the terminal event, then comes `None`.
    /// May be cancelled and called again without losing events.
    pub async fn next(&mut self) -> Option<Vec<Event>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// [`Self::next`] for hand-written futures.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<Event>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        self.batches.poll_recv(cx).map(|batch| {
            let batch = batch.unwrap_or_else(|| {
                // Only a panic or the runtime's shutdown leaves a response without its terminal
                // event.
                let message = "reading the response ended unexpectedly; this is a defect";
                vec![Event::Failed(Failure::new(FailureKind::InternalServerError, message))]
            });
            self.ended = batch.last().is_some_and(Event::is_terminal);
            Some(batch)
        })
    }
}

impl Drop for ResponseStream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn respond(
    inner: &Inner,
    provider: &Arc<Provider>,
    (model, arrival): (&str, &Arrival),
    (body, hints): (Bytes, Hints),
    sender: &mpsc::Sender<Vec<Event>>,
) {
    let queue = inner.pacer.queue(provider, model);
    let permit =
        &mut queue.admit_announced(body.len() as u64 / BYTES_PER_TOKEN, arrival, sender).await;
    let outcome = over_websocket(inner, provider, &body, permit, sender).await;
    if let Outcome::Delivered { limited } = outcome {
        match limited {
            Some(wait) => permit.refused(Some(wait)),
            None => permit.report(None),
        }
        return;
    }
    match open(&inner.clients, &inner.compression, provider, (&body, hints)).await {
        Ok((provider, endpoint, opened)) => {
            permit.report(opened.limits.rates.as_ref());
            let limits = opened.limits.clone().into_events();
            if !limits.is_empty() {
                // Ignored: the reader is gone.
                let _ = sender.send(limits).await;
            }
            pump(&provider, &endpoint, opened, permit, sender).await;
        }
        Err(Refused { mut failure, limits }) => {
            if local::may_lack_model(provider, &failure) {
                let listed = models::list(&inner.clients, provider, None).await;
                if let Ok(ModelsAnswer::Listed { models, .. }) = listed {
                    local::explain(provider, model, &mut failure, &models);
                }
            }
            let is_limited = failure.kind == FailureKind::ResponseTooManyFailedAttempts;
            if failure.http_status.is_some() {
                permit.report(limits.rates.as_ref());
            }
            if is_limited {
                permit.refused(failure.retry_after);
            }
            let mut events = limits.into_events();
            events.push(Event::Failed(failure));
            // Ignored: the reader is gone.
            let _ = sender.send(events).await;
        }
    }
}

async fn respond_offline(
    inner: &Inner,
    provider: Arc<Provider>,
    body: Bytes,
    sender: mpsc::Sender<Vec<Event>>,
) {
    if let Some(offline) = &inner.offline {
        return Arc::clone(offline).respond(provider, body, sender).await;
    }
    let message = format!(
        "model provider `{}` is offline, and this program has no offline model; choose another \
         `model_provider`",
        provider.id
    );
    // Ignored: the reader is gone.
    let _ = sender.send(vec![Event::Failed(Failure::new(FailureKind::BadRequest, message))]).await;
}

/// Sends the request over a WebSocket, if that is configured and its credentials are there.
async fn over_websocket(
    inner: &Inner,
    provider: &Arc<Provider>,
    body: &Bytes,
    permit: &mut Permit,
    sender: &mpsc::Sender<Vec<Event>>,
) -> Outcome {
    let is_offered = provider.supports_websockets && !provider.api_key.is_cloud();
    if !is_offered || provider.wire != Wire::Responses {
        return Outcome::UseHttp;
    }
    let Ok(provider) = provider.authorized().await else { return Outcome::UseHttp };
    let clients = (&inner.clients.http, &inner.sockets);
    websocket::respond(clients, &provider, body, permit, sender).await
}
