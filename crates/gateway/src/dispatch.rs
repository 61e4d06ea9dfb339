//! Sends a request to a backend of its upstream, and to further ones as long as that is safe: nothing has reached the
//! client, and no backend can have begun what must not happen twice. It knows neither limits nor callers.
//!
//! Always safe: the backend could not be reached, or the connection ended before the request was sent; it answered 429,
//! 503 or 529, which say that it did not begin; it refused our key. Safe for requests that only read and for those that a
//! model answers ([`Repeat::Unanswered`]): the connection ended without an answer, or a server in between answered 502 or
//! 504, or the backend stayed silent for its
//! `first_byte_timeout_ms`. Silence until the end of the time is never repeated.

mod beginning;
mod errors;

pub(crate) use beginning::Expected;
pub(crate) use errors::whole;

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http_client::retry;
use hyper::http::response;
use hyper::{HeaderMap, Method, Response, StatusCode};
use ratelimit::RequestId;
use tokio::time::Instant;
use wire::Platform;

use crate::account::request_id;
use crate::backends::{Lease, LiveBackend, PickedKey, Query};
use crate::metrics::{FailedAt, OfBackend};
use crate::state::Gateway;
use crate::traces::{Span, TraceContext};
use crate::translation::Translation;
use crate::upstream::{self, Failure, OutBody, OutKey, Outgoing, UpstreamBody};
use gateway_policy::error::ApiError;
use gateway_policy::settings::Backend;

/// The code of the error when all backends are full.
pub(crate) const BUSY: &str = "upstream_busy";

/// A request to an upstream.
pub(crate) struct Forward<'a> {
    /// Where it may go.
    pub(crate) query: Query<'a>,
    /// The method.
    pub(crate) method: Method,
    /// The client's path and query, `/v1/…`, unless the body has its own.
    pub(crate) path: &'a str,
    /// The client's headers, filtered by [`upstream::for_upstream`].
    pub(crate) headers: HeaderMap,
    /// The body.
    pub(crate) body: Content<'a>,
    /// The attempts that are repeated.
    pub(crate) repeat: Repeat,
    /// The wait for a first byte after which another backend gets the request, in place of that of the backend.
    pub(crate) first_byte_timeout: Option<Duration>,
}

/// The body of a request to an upstream.
pub(crate) enum Content<'a> {
    /// The same for all backends.
    Fixed(OutBody),
    /// Written for each backend.
    Written {
        /// Writes it, with the member `prompt_cache_retention`, which the gateway adds, or without it. The error is for
        /// the client: this backend cannot serve it.
        write: &'a (dyn Fn(&Backend, bool) -> Result<Prepared, ApiError> + Send + Sync),
        /// True if the member is added for backends that take it.
        adds_retention: bool,
    },
}

/// A request for one backend.
pub(crate) struct Prepared {
    /// In place of that of [`Forward`].
    pub(crate) path: Option<String>,
    /// In place of those of [`Forward`].
    pub(crate) headers: Option<HeaderMap>,
    pub(crate) body: OutBody,
    /// The way back for its answer, if it is in another wire than the client's.
    pub(crate) translation: Option<Box<Translation>>,
    /// The answer of a model in the client's wire.
    pub(crate) expected: Option<Expected>,
}

impl Prepared {
    /// A body with the path and the headers of the client.
    pub(crate) fn as_sent(body: OutBody) -> Self {
        Self { path: None, headers: None, body, translation: None, expected: None }
    }
}

/// The attempts that are repeated at another backend, by how far they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// The backend has not begun with it.
    Unsent,
    /// It has not answered.
    Unanswered,
}

/// A successful response that has started.
pub(crate) struct Arrived {
    pub(crate) head: response::Parts,
    pub(crate) body: UpstreamBody,
    /// The first piece of the body.
    pub(crate) first: Option<Bytes>,
    /// The place at the backend that answers.
    pub(crate) lease: Lease,
    /// The translation of its answer.
    pub(crate) translation: Option<Box<Translation>>,
}

/// No backend served the request.
pub(crate) struct Refused {
    /// The error for the client.
    pub(crate) error: ApiError,
    /// The cause, for the log.
    pub(crate) cause: String,
    /// True if a backend answered.
    is_answer: bool,
}

/// The answer to an attempt, or its failure.
pub(crate) type Sent = Result<(Response<UpstreamBody>, Option<Bytes>), Failure>;

/// Sends a request. `trace` is the context of the request; `noted` learns of each backend before it gets the request.
///
/// # Errors
/// No backend served it: the error is that of the last one that answered, else of the last one that was tried.
pub(crate) async fn dispatch(
    gateway: &Gateway,
    forward: &Forward<'_>,
    (request, trace): (RequestId, Option<&TraceContext>),
    noted: &mut (dyn FnMut(&Arc<LiveBackend>) + Send),
) -> Result<Arrived, Refused> {
    let mut run = Run {
        gateway,
        forward,
        request,
        trace,
        deadline: Instant::now() + forward.query.upstream.timeout,
        forbidden: Vec::new(),
        tried: Vec::new(),
    };
    let mut last: Option<Refused> = None;
    loop {
        let Ok(lease) = gateway.backends.lease(forward.query, &run.tried).await else {
            return Err(last.unwrap_or_else(|| busy(forward)));
        };
        let live = Arc::clone(lease.live());
        let prepared = match forward.body.next(live.backend(), live.takes_retention()) {
            Ok(Some(prepared)) => prepared,
            Ok(None) => return Err(last.unwrap_or_else(|| busy(forward))),
            Err(error) => {
                run.tried.push(live.id());
                let cause = format!("the request is not sent: {}", error.message());
                last = Some(last.unwrap_or(Refused { error, cause, is_answer: false }));
                continue;
            }
        };
        if let Some(last) = &last {
            let request = request_id(request);
            tracing::info!(%request, "sent to backend {} instead: {}", live.label(), last.cause);
        }
        run.tried.push(live.id());
        noted(&live);
        match run.at_backend(lease, prepared).await {
            Ok(arrived) => {
                run.pause_forbidden(&arrived);
                return Ok(arrived);
            }
            Err((refused, next)) => {
                let is_better = |last: &Refused| last.is_answer && !refused.is_answer;
                last = Some(last.filter(is_better).unwrap_or(refused));
                if next == Next::Stop || Instant::now() >= run.deadline {
                    return Err(last.unwrap_or_else(|| busy(forward)));
                }
            }
        }
    }
}

/// One attempt at a backend, which is measured and traced.
pub(crate) async fn attempt(
    gateway: &Gateway,
    live: &LiveBackend,
    mut outgoing: Outgoing<'_>,
    patience: Duration,
    trace: Option<&TraceContext>,
) -> Sent {
    let context = trace.map(|trace| trace.child(&*gateway.random));
    if let Some(context) = &context {
        context.inject(&mut outgoing.headers);
    }
    let (began, since) = (gateway.clock.now(), gateway.clock.steady());
    let sent = upstream::send(live.http(), outgoing, patience).await;
    let took = gateway.clock.steady().since(since);
    if let Some(context) = context {
        gateway.traces.record(Span {
            context,
            name: format!("upstream {}", live.label()),
            is_upstream: true,
            began,
            ended: began.saturating_add(took),
            status: sent.as_ref().map_or(0, |(response, _)| response.status().as_u16()),
            attributes: vec![("upstream", live.label().to_owned())],
        });
    }
    let took = Duration::from_micros(took).as_secs_f64();
    let backend = live.label().to_owned();
    gateway.metrics.upstream_seconds.get_or_create(&OfBackend { backend }).observe(took);
    sent
}

/// Counts a failure of a backend.
pub(crate) fn count_failure(gateway: &Gateway, live: &LiveBackend, reason: &'static str) {
    let label = FailedAt { backend: live.label().to_owned(), reason };
    gateway.metrics.upstream_failures.get_or_create(&label).inc();
}

/// The request after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Another backend may serve it.
    Another,
    /// It has failed.
    Stop,
}

/// Returns whether an answer has the status of a success, and may be one of an upstream.
fn is_success(response: &Response<UpstreamBody>) -> bool {
    response.status().is_success() && errors::is_usable(response)
}

struct Run<'a> {
    gateway: &'a Gateway,
    forward: &'a Forward<'a>,
    request: RequestId,
    trace: Option<&'a TraceContext>,
    /// No attempt begins after it, nor lasts longer.
    deadline: Instant,
    /// Backends that answered 403, which is about their account if another one serves the request.
    forbidden: Vec<Arc<LiveBackend>>,
    /// The backends that got the request.
    tried: Vec<u64>,
}

impl Run<'_> {
    /// Sends the request to one backend: again with another key if one is refused, and once more without
    /// `prompt_cache_retention` if that is refused.
    async fn at_backend(
        &mut self,
        mut lease: Lease,
        mut prepared: Prepared,
    ) -> Result<Arrived, (Refused, Next)> {
        let live = Arc::clone(lease.live());
        let mut retention = live.takes_retention();
        let mut refused: Vec<PickedKey> = Vec::new();
        let mut key = live.keys().pick(&refused, self.gateway.clock.steady());
        let of_cloud = self.in_time(live.cloud_key()).await;
        let mut of_cloud = of_cloud.map_err(|failure| self.failed(&mut lease, &failure))?;
        let mut has_renewed = false;
        loop {
            let Prepared { path, headers, body, translation, expected } = prepared;
            let out_key = match (&of_cloud, &key) {
                (Some(key), _) => OutKey::OfCloud(key),
                (None, key) => {
                    let key = key.as_ref().map(PickedKey::reveal);
                    OutKey::Text(key, live.backend().key_header)
                }
            };
            let sent = self.attempt(&live, out_key, (path, headers, body)).await;
            let sent = match (sent, expected) {
                (Ok(sent), Some(expected)) if is_success(&sent.0) => {
                    beginning::checked(expected, sent).await
                }
                (sent, _) => sent,
            };
            let (response, first) = match sent {
                Ok(sent) => sent,
                Err(failure) => return Err(self.failed(&mut lease, &failure)),
            };
            if is_success(&response) {
                lease.began();
                self.put_aside(&live, &refused);
                let (head, body) = response.into_parts();
                return Ok(Arrived { head, body, first, lease, translation });
            }
            let caller = translation.as_ref().map(|translation| translation.caller());
            let answer = errors::read(&live, response, first, caller).await;
            let status = answer.status;
            let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
            if answer.is_of_key
                && !has_renewed
                && let Some(tried) = of_cloud.take()
            {
                has_renewed = true;
                let renewed = self.in_time(live.renewed_cloud_key(&tried)).await;
                let again = self.forward.body.next(live.backend(), retention);
                if let (Ok(Some(renewed)), Ok(Some(again))) = (renewed, again) {
                    (of_cloud, prepared) = (Some(renewed), again);
                    continue;
                }
            }
            if is_refused && let Some(tried) = key.take() {
                if status == StatusCode::UNAUTHORIZED {
                    self.refuse_key(&live, &tried).await;
                }
                refused.push(tried);
                let next = live.keys().pick(&refused, self.gateway.clock.steady());
                let again = self.forward.body.next(live.backend(), retention);
                if let (Some(next), Ok(Some(again))) = (next, again) {
                    (key, prepared) = (Some(next), again);
                    continue;
                }
            }
            if retention && self.forward.body.adds_retention() && answer.names_retention() {
                live.refuses_retention();
                retention = false;
                if let Ok(Some(again)) = self.forward.body.next(live.backend(), retention) {
                    prepared = again;
                    continue;
                }
            }
            return Err(self.answered(&mut lease, answer));
        }
    }

    /// A key of a cloud, for which no request waits beyond its own time.
    async fn in_time(
        &self,
        key: impl Future<Output = Result<Option<cloud::Key>, Failure>>,
    ) -> Result<Option<cloud::Key>, Failure> {
        tokio::time::timeout_at(self.deadline, key).await.unwrap_or_else(|_| {
            let message = "its account did not give any within the request's time";
            Err(Failure::NoCredentials(message.to_owned()))
        })
    }

    async fn attempt(
        &self,
        live: &LiveBackend,
        key: OutKey<'_>,
        (path, headers, body): (Option<String>, Option<HeaderMap>, OutBody),
    ) -> Sent {
        let backend = live.backend();
        let Some(base) = backend.base_in(self.forward.query.region) else {
            return Err(Failure::Unreachable("it has no address in the region".to_owned()));
        };
        let body = match key {
            OutKey::OfCloud(cloud::Key::Signed(_)) => body.held().await?,
            _ => body,
        };
        let headers = headers.unwrap_or_else(|| self.forward.headers.clone());
        let is_cloud = backend.account.is_some() || backend.platform != Platform::Direct;
        let outgoing = Outgoing {
            base,
            key,
            method: self.forward.method.clone(),
            path: path.as_deref().unwrap_or(self.forward.path),
            headers: if is_cloud { upstream::for_cloud(&headers) } else { headers },
            body,
        };
        let patience = self.patience(live);
        attempt(self.gateway, live, outgoing, patience, self.trace).await
    }

    /// The wait for the first byte of an answer: until all attempts must have ended, or less if another backend can get
    /// the request then.
    fn patience(&self, live: &LiveBackend) -> Duration {
        let whole = self.deadline.saturating_duration_since(Instant::now());
        let first_byte = self.forward.first_byte_timeout.or(live.backend().first_byte_timeout);
        let Some(first_byte) = first_byte.filter(|first_byte| *first_byte < whole) else {
            return whole;
        };
        let is_repeated = self.forward.repeat == Repeat::Unanswered
            && self.forward.body.is_repeatable()
            && self.gateway.backends.has_other(self.forward.query, &self.tried);
        if is_repeated { first_byte } else { whole }
    }

    /// No answer came.
    fn failed(&self, lease: &mut Lease, failure: &Failure) -> (Refused, Next) {
        let live = Arc::clone(lease.live());
        let shown = live.mask().replace(failure.to_string().as_bytes());
        let cause = String::from_utf8_lossy(&shown).into_owned();
        let (reason, next) = match failure {
            Failure::Unreachable(_) => (Some("unreachable"), Next::Another),
            Failure::Unsent(_) => (Some("cut"), Next::Another),
            Failure::Cut(_) => (Some("cut"), self.if_unanswered()),
            Failure::BrokeOff(_) => (Some("cut"), Next::Stop),
            // At the end of the time for all attempts there is no other one.
            Failure::Silent => (Some("timeout"), self.if_unanswered()),
            Failure::NoCredentials(_) => (Some("key_refused"), Next::Another),
            Failure::Strange(..) | Failure::Coding(_) => {
                count_failure(self.gateway, &live, "invalid");
                (None, Next::Stop)
            }
            // The fault of the client.
            Failure::Unsendable(_)
            | Failure::Unsignable
            | Failure::Client(_)
            | Failure::ClientTooSlow
            | Failure::ClientTooLarge => (None, Next::Stop),
        };
        if let Some(reason) = reason {
            count_failure(self.gateway, &live, reason);
            lease.failed(&cause);
        }
        (Refused { error: failure.for_client(), cause, is_answer: false }, next)
    }

    /// An answer came that is none for the client, or an error.
    fn answered(&mut self, lease: &mut Lease, answer: errors::Answer) -> (Refused, Next) {
        let live = Arc::clone(lease.live());
        let (status, model) = (answer.status, self.forward.query.model);
        let asked = || {
            let now = UNIX_EPOCH + Duration::from_micros(self.gateway.clock.now());
            retry::requested_wait(now, |name| answer.headers.get(name)?.to_str().ok())
        };
        let (reason, next) = match status.as_u16() {
            429 => {
                lease.succeeded();
                live.pause(model, asked());
                (Some("rate_limited"), Next::Another)
            }
            503 | 529 => {
                match asked() {
                    Some(wait) => {
                        lease.succeeded();
                        live.pause(model, Some(wait));
                    }
                    None => lease.failed(&answer.cause),
                }
                (Some("overloaded"), Next::Another)
            }
            502 | 504 => {
                lease.failed(&answer.cause);
                (Some("server_error"), self.if_unanswered())
            }
            500.. => {
                lease.failed(&answer.cause);
                (Some("server_error"), Next::Stop)
            }
            401 => {
                lease.succeeded();
                (Some("key_refused"), Next::Another)
            }
            403 => {
                lease.succeeded();
                self.forbidden.push(Arc::clone(&live));
                (Some("key_refused"), Next::Another)
            }
            _ => {
                lease.succeeded();
                ((!answer.is_error).then_some("invalid"), Next::Stop)
            }
        };
        if let Some(reason) = reason {
            count_failure(self.gateway, &live, reason);
        }
        (Refused { error: answer.error, cause: answer.cause, is_answer: answer.is_error }, next)
    }

    fn if_unanswered(&self) -> Next {
        match self.forward.repeat {
            Repeat::Unanswered => Next::Another,
            Repeat::Unsent => Next::Stop,
        }
    }

    /// Puts keys aside that a backend refused, when it has accepted another one for the same request.
    fn put_aside(&self, live: &LiveBackend, refused: &[PickedKey]) {
        for key in refused {
            if let Some(name) = live.keys().put_aside(key, self.gateway.clock.steady()) {
                let request = request_id(self.request);
                tracing::warn!(%request, "backend {} refuses the key {name}: it is put aside", live.label());
            }
        }
    }

    /// Puts an invalid key aside, and reads files again: it may have been replaced.
    async fn refuse_key(&self, live: &LiveBackend, key: &PickedKey) {
        self.put_aside(live, std::slice::from_ref(key));
        live.read_keys_again().await;
    }

    /// Backends that forbid a model to our account get no requests for it for a while, since another one serves it.
    fn pause_forbidden(&self, arrived: &Arrived) {
        for live in self.forbidden.iter().filter(|live| live.id() != arrived.lease.live().id()) {
            live.pause(self.forward.query.model, Some(Duration::MAX));
        }
    }
}

impl Content<'_> {
    /// The body for the next attempt; `None` if it cannot be sent again.
    ///
    /// # Errors
    /// The backend cannot serve it.
    fn next(&self, backend: &Backend, retention: bool) -> Result<Option<Prepared>, ApiError> {
        match self {
            Self::Fixed(body) => Ok(body.again().map(Prepared::as_sent)),
            Self::Written { write, adds_retention } => {
                write(backend, retention && *adds_retention).map(Some)
            }
        }
    }

    /// Returns whether it can be sent again after an attempt that has read it.
    fn is_repeatable(&self) -> bool {
        !matches!(self, Self::Fixed(OutBody::Stream(_)))
    }

    fn adds_retention(&self) -> bool {
        matches!(self, Self::Written { adds_retention: true, .. })
    }
}

/// 503 `upstream_busy`.
fn busy(forward: &Forward<'_>) -> Refused {
    let message = "All model servers are busy with as many requests as they take. Please try again in a moment.";
    let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, BUSY, message)
        .header(hyper::header::RETRY_AFTER, hyper::header::HeaderValue::from_static("1"));
    let cause = format!("no backend of {} has room", forward.query.upstream.name);
    Refused { error, cause, is_answer: false }
}
