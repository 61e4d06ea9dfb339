//! Sends requests and delivers their events. Each request is sent once; a failure states whether a
//! retry may help, and the caller decides about it.

mod models;

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use http_client::{HttpClient, PoolOptions, error_chain, retry};
use hyper::{HeaderMap, Method, Response, StatusCode, body::Incoming, header};
use tokio::{sync::mpsc, task::AbortHandle, time};

use crate::pacing::{Pacer, Permit, Queue};
use crate::{
    Decoder, Endpoint, Event, Failure, FailureKind, Prompt, Provider, RateLimits, Retry, Transport,
    compression::{self, Compression, Encoded},
    decode::{MODEL_HEADERS, printable},
    failure::{failure_from_status, request_id},
};

pub use models::ModelsAnswer;

/// Most batches of events that wait for a slow reader; beyond it the network is not read. A batch
/// holds the events of one read.
const MAX_BATCHES: usize = 64;
/// Most bytes of an error response that are read.
const MAX_ERROR_BODY: usize = 64 << 10;
/// Longest time for reading the rest of a finished response, so that its connection can be reused.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Longest delay of the last event for that purpose, so that the connection is available to the
/// next request.
const DRAIN_GRACE: Duration = Duration::from_millis(1);

/// Most multiples of the idle timeout that a stream of comments and unknown events may last. Providers
/// send keep-alives while a model thinks, so that they count longer than silence, but not forever.
const MAX_KEEP_ALIVE: u32 = 6;

/// Bytes of a request for each of its tokens, to compare it with a limit.
const BYTES_PER_TOKEN: u64 = 4;
/// A longer wait for the rate limit is reported.
const REPORT_WAIT_AFTER: Duration = Duration::from_secs(3);

const POOL: PoolOptions = PoolOptions {
    connect_timeout: Duration::from_secs(15),
    idle_timeout: Duration::from_secs(90),
    max_idle_per_host: 16,
    http2: true,
};

/// A client's options beyond its providers.
#[derive(Clone, Default)]
pub struct Options {
    /// Additional trusted root certificates, as PEM: for networks with their own authority.
    pub extra_roots_pem: Option<Vec<u8>>,
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

/// Builds the pooled HTTP client for requests to providers, which takes about a millisecond.
///
/// # Errors
/// An additional root certificate is invalid.
pub fn connect(options: &Options) -> Result<HttpClient<Full<Bytes>>, Failure> {
    let tls = http_client::tls_config(options.extra_roots_pem.as_deref())
        .map_err(|error| Failure::new(FailureKind::Other, format!("cannot set up TLS: {error}")))?;
    Ok(http_client::http_client(tls, &POOL))
}

/// Sends requests to any provider and reuses connections. Cheap to create and to clone: the HTTP
/// client is built at the first request that needs it.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    http: OnceLock<Result<HttpClient<Full<Bytes>>, Failure>>,
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
            options,
            http: OnceLock::new(),
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
        let (sender, batches) = mpsc::channel(MAX_BATCHES);
        let (inner, provider) = (Arc::clone(&self.inner), Arc::clone(provider));
        let (model, body) = (Arc::clone(&prompt.model), prompt.encode());
        let task = tokio::spawn(async move {
            match provider.transport {
                Transport::Http => respond(&inner, &provider, &model, body, &sender).await,
                Transport::Offline => respond_offline(&inner, provider, body, sender).await,
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
        let Ok(provider) = provider.authorized().await else { return };
        let Ok(endpoint) = Endpoint::new(&provider, &method, "/models") else { return };
        let Ok(http) = self.inner.http() else { return };
        let answer = http.request(endpoint.request(&method, Bytes::new()));
        if let Ok(Ok(answer)) = time::timeout(DRAIN_TIMEOUT * 10, answer).await {
            drain(answer.into_body()).await;
        }
    }
}

impl Inner {
    fn http(&self) -> Result<&HttpClient<Full<Bytes>>, Failure> {
        self.http.get_or_init(|| connect(&self.options)).as_ref().map_err(Clone::clone)
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
    model: &str,
    body: Bytes,
    sender: &mpsc::Sender<Vec<Event>>,
) {
    let permit = admitted(&inner.pacer.queue(provider, model), &body, sender).await;
    match open(inner, provider, &body).await {
        Ok((provider, endpoint, opened)) => {
            permit.report(opened.limits.as_ref(), None);
            if let Some(limits) = opened.limits {
                // Ignored: the reader is gone.
                let _ = sender.send(vec![Event::RateLimits(limits)]).await;
            }
            pump(&provider, &endpoint, opened, sender).await;
        }
        Err(Refused { failure, limits }) => {
            let is_limited = failure.kind == FailureKind::ResponseTooManyFailedAttempts;
            if failure.http_status.is_some() {
                let wait = failure.retry_after.filter(|_| is_limited);
                permit.report(limits.as_ref(), wait);
            }
            let events = limits.map(Event::RateLimits).into_iter().chain([Event::Failed(failure)]);
            // Ignored: the reader is gone.
            let _ = sender.send(events.collect()).await;
        }
    }
}

/// Waits for the request's turn; a long wait is reported.
async fn admitted(queue: &Arc<Queue>, body: &Bytes, sender: &mpsc::Sender<Vec<Event>>) -> Permit {
    let admitted = queue.admit(body.len() as u64 / BYTES_PER_TOKEN);
    tokio::pin!(admitted);
    if let Ok(permit) = time::timeout(REPORT_WAIT_AFTER, &mut admitted).await {
        return permit;
    }
    let queued = Event::Queued { limits: queue.limits(), requests: queue.waiting() };
    // Ignored: the reader is gone.
    let _ = sender.send(vec![queued]).await;
    admitted.await
}

async fn respond_offline(
    inner: &Inner,
    provider: Arc<Provider>,
    body: Bytes,
    sender: mpsc::Sender<Vec<Event>>,
) {
    if let Some(offline) = &inner.options.offline {
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

/// A response whose stream has begun.
struct Opened {
    body: Incoming,
    /// The provider's name for the request.
    request_id: Option<String>,
    /// The model that answers, where a header names it.
    served_by: Option<String>,
    limits: Option<RateLimits>,
}

/// A request that got no stream.
struct Refused {
    failure: Failure,
    /// The limits that the refusal reports.
    limits: Option<RateLimits>,
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self { failure, limits: None }
    }
}

/// Opens a response, with the credentials that the provider's account has now. If the provider refuses
/// them, the same request is sent once more with fresh ones.
async fn open(
    inner: &Inner,
    provider: &Arc<Provider>,
    body: &Bytes,
) -> Result<(Arc<Provider>, Endpoint, Opened), Refused> {
    let authorized = provider.authorized().await?;
    let refused = match open_authorized(inner, &authorized, body).await {
        Ok((endpoint, opened)) => return Ok((authorized, endpoint, opened)),
        Err(refused) => refused,
    };
    if refused.failure.http_status != Some(StatusCode::UNAUTHORIZED.as_u16()) {
        return Err(refused);
    }
    let Some(renewed) = provider.reauthorized(&authorized).await? else { return Err(refused) };
    let (endpoint, opened) = open_authorized(inner, &renewed, body).await?;
    Ok((renewed, endpoint, opened))
}

async fn open_authorized(
    inner: &Inner,
    provider: &Provider,
    body: &Bytes,
) -> Result<(Endpoint, Opened), Refused> {
    let endpoint = Endpoint::new(provider, &Method::POST, "/responses")?;
    let http = inner.http()?;
    let sent = inner.compression.encoded(provider, body);
    let refused = match attempt(http, provider, &endpoint, &sent).await {
        Ok(opened) => return Ok((endpoint, opened)),
        Err(refused) => refused,
    };
    if !sent.compressed || !compression::may_be_refused(refused.failure.http_status) {
        return Err(refused);
    }
    // The same request is sent again immediately without compression: not a retry of the provider's
    // work.
    let opened = attempt(http, provider, &endpoint, &Encoded::plain(body)).await?;
    inner.compression.refused_by(provider);
    Ok((endpoint, opened))
}

async fn attempt(
    http: &HttpClient<Full<Bytes>>,
    provider: &Provider,
    endpoint: &Endpoint,
    body: &Encoded,
) -> Result<Opened, Refused> {
    let idle = provider.stream_idle_timeout;
    let mut request = endpoint.request(&Method::POST, body.bytes.clone());
    if body.compressed {
        let zstd = header::HeaderValue::from_static("zstd");
        request.headers_mut().insert(header::CONTENT_ENCODING, zstd);
    }
    let response = match time::timeout(idle, http.request(request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            let message = format!("cannot reach {}: {}", endpoint.host(), error_chain(&error));
            let kind = FailureKind::ResponseStreamConnectionFailed;
            return Err(Failure { retry: Retry::Request, ..Failure::new(kind, message) }.into());
        }
        Err(_) => {
            let message = format!(
                "{} took the request and did not answer for {} s (`stream_idle_timeout_ms`)",
                endpoint.host(),
                idle.as_secs_f64()
            );
            let kind = FailureKind::ResponseStreamConnectionFailed;
            return Err(Failure { retry: Retry::Request, ..Failure::new(kind, message) }.into());
        }
    };
    let limits = RateLimits::read(response.headers());
    if response.status() == StatusCode::OK && !is_document(response.headers()) {
        let request_id = request_id(response.headers());
        let served_by = served_by(response.headers());
        return Ok(Opened { body: response.into_body(), request_id, served_by, limits });
    }
    Err(Refused { failure: refused(provider, endpoint, response).await, limits })
}

/// Whether a response is a page or a JSON document instead of an event stream.
fn is_document(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    kind.starts_with(b"text/html") || kind.starts_with(b"application/json")
}

async fn refused(
    provider: &Provider,
    endpoint: &Endpoint,
    response: Response<Incoming>,
) -> Failure {
    let (head, body) = response.into_parts();
    let text = Limited::new(body, MAX_ERROR_BODY).collect();
    let text = match time::timeout(provider.stream_idle_timeout, text).await {
        Ok(Ok(text)) => text.to_bytes(),
        // Only the status is reported.
        Ok(Err(_)) | Err(_) => Bytes::new(),
    };
    let mut failure =
        failure_from_status(provider, &endpoint.label, head.status, &head.headers, &text);
    if head.status.is_success() {
        failure.kind = FailureKind::ResponseStreamConnectionFailed;
        failure.message.push_str("; this is no event stream, check the provider's `base_url`");
    }
    let transient = match failure.kind {
        FailureKind::UsageLimitExceeded
        | FailureKind::ContextWindowExceeded
        | FailureKind::CyberPolicy => false,
        _ => retry::is_transient(head.status.as_u16()),
    };
    let advised = head.headers.get("x-should-retry").map(|value| value.as_bytes());
    let again = match advised {
        Some(b"true") => true,
        Some(b"false") => false,
        _ => transient,
    };
    failure.retry = if again { Retry::Request } else { Retry::Never };
    failure
}

/// The model that answers, where a header names it.
fn served_by(headers: &HeaderMap) -> Option<String> {
    let named = MODEL_HEADERS.iter().find_map(|name| headers.get(*name))?;
    named.to_str().ok().and_then(printable)
}

fn silent(endpoint: &Endpoint, idle: Duration) -> Failure {
    let host = endpoint.host();
    let seconds = idle.as_secs_f64();
    Failure::disconnected(format!("{host} sent nothing for {seconds} s (`stream_idle_timeout_ms`)"))
}

fn only_keep_alives(endpoint: &Endpoint, idle: Duration) -> Failure {
    let host = endpoint.host();
    let seconds = (idle * MAX_KEEP_ALIVE).as_secs_f64();
    Failure::disconnected(format!(
        "{host} kept the connection alive for {seconds} s without an event of the response \
         ({MAX_KEEP_ALIVE} times `stream_idle_timeout_ms`)"
    ))
}

async fn pump(
    provider: &Provider,
    endpoint: &Endpoint,
    opened: Opened,
    sender: &mpsc::Sender<Vec<Event>>,
) {
    let idle = provider.stream_idle_timeout;
    let Opened { mut body, request_id, served_by, .. } = opened;
    if let Some(model) = served_by
        && sender.send(vec![Event::ServedBy { model }]).await.is_err()
    {
        return;
    }
    let mut decoder = Decoder::new();
    let mut progress = time::Instant::now();
    while !decoder.ended() {
        let mut batch = Vec::new();
        let no_progress = progress + idle * MAX_KEEP_ALIVE;
        let deadline = no_progress.min(time::Instant::now() + idle);
        match time::timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    decoder.feed(data, &mut batch);
                }
            }
            Ok(None) => decoder.finish(&mut batch),
            Ok(Some(Err(error))) => {
                let message =
                    format!("the stream from {} broke: {}", endpoint.host(), error_chain(&error));
                decoder.fail(Failure::disconnected(message), &mut batch);
            }
            Err(_) if deadline == no_progress => {
                decoder.fail(only_keep_alives(endpoint, idle), &mut batch);
            }
            Err(_) => decoder.fail(silent(endpoint, idle), &mut batch),
        }
        if !batch.is_empty() {
            progress = time::Instant::now();
        }
        if let Some(Event::Failed(failure)) = batch.last_mut() {
            // It may quote the provider's text, which may quote the key.
            failure.message = provider.redact(&failure.message);
            failure.details = request_id.clone().map(Into::into);
        }
        if matches!(batch.last(), Some(Event::Completed { .. })) {
            free_connection(body).await;
            // Ignored: the reader is gone.
            let _ = sender.send(batch).await;
            return;
        }
        if !batch.is_empty() && sender.send(batch).await.is_err() {
            return;
        }
    }
}

/// Returns the connection of a finished response to the pool. Usually the end has arrived with the
/// last event, and the next request finds the connection available; otherwise a task of its own
/// awaits the end, because the reader drops the stream after the last event.
async fn free_connection(body: Incoming) {
    let drain = tokio::spawn(drain(body));
    // On a timeout the task continues.
    let _ = time::timeout(DRAIN_GRACE, drain).await;
}

/// Reads the end of a body, so that an HTTP/1.1 connection goes back to the pool.
async fn drain(mut body: Incoming) {
    let rest = async { while let Some(Ok(_)) = body.frame().await {} };
    // A server that keeps sending after the end loses the connection.
    let _ = time::timeout(DRAIN_TIMEOUT, rest).await;
}
