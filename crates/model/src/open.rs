//! Sends a request over HTTP, up to the head of its answer.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use http_client::{DecodedBody, HttpClient, error_chain, permanent_problem, retry};
use hyper::http::response::Parts;
use hyper::{HeaderMap, Method, Response, StatusCode, body::Incoming, header};
use tokio::time;

use crate::clients::Clients;
use crate::cloud;
use crate::compression::{self, Compression, Encoded};
use crate::decode::{self, MODEL_HEADERS};
use crate::failure::{self, failure_from_status, request_id};
use crate::printable::printable;
use crate::prompt::Hints;
use crate::reported_limits::ReportedLimits;
use crate::wires::{self, Outgoing, Translation};
use crate::{Endpoint, Failure, FailureKind, KeySource, Provider, Retry};

/// Most bytes of an error response that are read.
pub(crate) const MAX_ERROR_BODY: usize = 64 << 10;

/// Most bytes of a response that arrives as a whole in place of a stream.
const MAX_DOCUMENT: usize = 32 << 20;

/// The body of an answer.
pub(crate) enum Answer {
    /// Its events arrive as they happen.
    Stream(DecodedBody),
    /// The provider answered with JSON in place of events.
    Document(Bytes),
}

/// A response that has begun.
pub(crate) struct Opened {
    pub(crate) body: Answer,
    /// For a stream in another wire than Responses.
    pub(crate) translation: Option<Translation>,
    /// The parts that translations left out: of the request, and of an answer that is no stream.
    pub(crate) left_out: Vec<String>,
    /// The provider's name for the request.
    pub(crate) request_id: Option<String>,
    /// The model that answers, where a header names it.
    pub(crate) served_by: Option<String>,
    pub(crate) limits: ReportedLimits,
}

impl Opened {
    /// The answer to a request, with what its translation left out.
    fn of(mut self, outgoing: &Outgoing) -> Self {
        self.left_out.splice(0..0, outgoing.left_out.iter().cloned());
        self
    }
}

/// A request that got no stream.
pub(crate) struct Refused {
    pub(crate) failure: Failure,
    /// The limits that the refusal reports.
    pub(crate) limits: ReportedLimits,
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self { failure, limits: ReportedLimits::default() }
    }
}

/// Opens a response, with the credentials that the provider's account has now. If the provider refuses
/// them, the same request is sent once more with fresh ones.
pub(crate) async fn open(
    clients: &Clients,
    compression: &Compression,
    provider: &Arc<Provider>,
    (body, hints): (&Bytes, Hints),
) -> Result<(Arc<Provider>, Endpoint, Opened), Refused> {
    let body = &Outgoing::new(provider, body, hints)?;
    let authorized = clients.authorized(provider).await?;
    let refused = match open_authorized(clients, compression, &authorized, body).await {
        Ok((endpoint, opened)) => return Ok((authorized, endpoint, opened)),
        Err(refused) => refused,
    };
    // Amazon has another status for credentials that ended.
    let is_refused_key = refused.failure.http_status == Some(StatusCode::UNAUTHORIZED.as_u16())
        || matches!(authorized.api_key, KeySource::Signed(_))
            && refused.failure.kind == FailureKind::Unauthorized;
    if !is_refused_key {
        return Err(refused);
    }
    let Some(renewed) = clients.reauthorized(provider, &authorized).await? else {
        return Err(refused);
    };
    let (endpoint, opened) = open_authorized(clients, compression, &renewed, body).await?;
    Ok((renewed, endpoint, opened))
}

async fn open_authorized(
    clients: &Clients,
    compression: &Compression,
    provider: &Provider,
    outgoing: &Outgoing,
) -> Result<(Endpoint, Opened), Refused> {
    let endpoint = outgoing.endpoint(provider)?;
    let http = &clients.http.of(provider).await?;
    let sent = compression.encoded(provider, &outgoing.body);
    let translation = || outgoing.translation(provider);
    let refused = match attempt(http, provider, &endpoint, &sent, translation()).await {
        Ok(opened) => return Ok((endpoint, opened.of(outgoing))),
        Err(refused) => refused,
    };
    if !sent.compressed || !compression::may_be_refused(refused.failure.http_status) {
        return Err(refused);
    }
    // The same request is sent again immediately without compression: not a retry of the provider's
    // work.
    let plain = Encoded::plain(&outgoing.body);
    let opened = attempt(http, provider, &endpoint, &plain, translation()).await?;
    compression.refused_by(provider);
    Ok((endpoint, opened.of(outgoing)))
}

async fn attempt(
    http: &HttpClient,
    provider: &Provider,
    endpoint: &Endpoint,
    body: &Encoded,
    translation: Option<Translation>,
) -> Result<Opened, Refused> {
    let idle = provider.stream_idle_timeout;
    let mut left_out = Vec::new();
    let mut request = endpoint.request(&Method::POST, body.bytes.clone());
    if let Some(Ok(value)) = provider.traceparent.as_deref().map(str::parse) {
        request.headers_mut().entry("traceparent").or_insert(value);
    }
    if body.compressed {
        let zstd = header::HeaderValue::from_static("zstd");
        request.headers_mut().insert(header::CONTENT_ENCODING, zstd);
    }
    cloud::sign(provider, &mut request, &body.bytes)?;
    let response = match time::timeout(idle, http.request(request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            return Err(unreachable(provider, &endpoint.host(), &error).into());
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
    let limits = ReportedLimits::read(response.headers());
    let kind = response.headers().get(header::CONTENT_TYPE).map_or(&b""[..], |it| it.as_bytes());
    let (is_page, is_json) =
        (kind.starts_with(b"text/html"), memchr::memmem::find(kind, b"json").is_some());
    if response.status() != StatusCode::OK || is_page {
        return Err(Refused { failure: refused(provider, endpoint, response).await, limits });
    }
    let response = http_client::decoded(response)
        .map_err(|error| unreadable(provider, endpoint, &error.to_string()))?;
    let translation = match (wires::is_binary(response.headers()), translation) {
        (false, translation) => translation,
        (true, translation) => Some(
            Translation::binary(translation).map_err(|why| unreadable(provider, endpoint, why))?,
        ),
    };
    let (head, body) = response.into_parts();
    let (request_id, served_by) = (request_id(&head.headers), served_by(&head.headers));
    if !is_json {
        let body = Answer::Stream(body);
        return Ok(Opened { body, translation, left_out, request_id, served_by, limits });
    }
    let document = document(provider, body, MAX_DOCUMENT).await;
    let document = match translation {
        Some(translation) => translation.document(&document, &mut left_out).into(),
        None => document,
    };
    if !decode::is_response(&document) {
        return Err(Refused { failure: refusal(provider, endpoint, &head, &document), limits });
    }
    let (body, translation) = (Answer::Document(document), None);
    Ok(Opened { body, translation, left_out, request_id, served_by, limits })
}

/// The whole of a body; empty if it is larger, breaks, or does not arrive in time.
async fn document(provider: &Provider, body: DecodedBody, max: usize) -> Bytes {
    let text = Limited::new(body, max).collect();
    match time::timeout(provider.stream_idle_timeout, text).await {
        Ok(Ok(text)) => text.to_bytes(),
        Ok(Err(_)) | Err(_) => Bytes::new(),
    }
}

pub(crate) async fn refused(
    provider: &Provider,
    endpoint: &Endpoint,
    response: Response<Incoming>,
) -> Failure {
    let response = match http_client::decoded(response) {
        Ok(response) => response,
        Err(error) => return unreadable(provider, endpoint, &error.to_string()),
    };
    let (head, body) = response.into_parts();
    // Without a body only the status is reported.
    let text = document(provider, body, MAX_ERROR_BODY).await;
    let text = wires::refusal(provider, &head, text);
    refusal(provider, endpoint, &head, &text)
}

/// The answer is in a form that cannot be read.
fn unreadable(provider: &Provider, endpoint: &Endpoint, why: &str) -> Failure {
    let message = format!("the answer to {} cannot be read: {why}", endpoint.label);
    let kind = FailureKind::ResponseStreamConnectionFailed;
    Failure { retry: Retry::Never, ..Failure::new(kind, provider.redact(&message)) }
}

fn refusal(provider: &Provider, endpoint: &Endpoint, head: &Parts, text: &[u8]) -> Failure {
    let mut failure =
        failure_from_status(provider, &endpoint.label, head.status, &head.headers, text);
    cloud::advise(provider, &head.headers, &mut failure);
    failure.retry = retry_of(&failure, head.status, &head.headers);
    if !head.status.is_success() {
        return failure;
    }
    // Such a server says in the answer that it failed.
    match failure::of_document(text) {
        Some((kind, passes)) => {
            failure.kind = kind;
            failure.retry = if passes { Retry::Request } else { Retry::Never };
        }
        None => {
            failure.kind = FailureKind::ResponseStreamConnectionFailed;
            failure
                .message
                .push_str("; this is not an event stream; check the provider's `base_url`");
        }
    }
    failure
}

/// Returns whether the same request may succeed later, by the kind of its refusal and the
/// provider's word.
pub(crate) fn retry_of(failure: &Failure, status: StatusCode, headers: &HeaderMap) -> Retry {
    let transient = match failure.kind {
        // The same request fails again, even if a proxy says otherwise of its status.
        FailureKind::UsageLimitExceeded | FailureKind::ContextWindowExceeded => {
            return Retry::Never;
        }
        FailureKind::Unauthorized | FailureKind::CyberPolicy => false,
        _ => retry::is_transient(status.as_u16()),
    };
    let again = match headers.get("x-should-retry").map(|value| value.as_bytes()) {
        Some(b"true") => true,
        Some(b"false") => false,
        _ => transient,
    };
    if again { Retry::Request } else { Retry::Never }
}

/// There is no connection, or it ended before an answer began.
pub(crate) fn unreachable(
    provider: &Provider,
    host: &str,
    error: &(dyn Error + 'static),
) -> Failure {
    let permanent = permanent_problem(error);
    let advice = permanent.unwrap_or_default();
    let mut message = format!("cannot reach {host}: {}{advice}", error_chain(error));
    let mut retry = if permanent.is_some() { Retry::Never } else { Retry::Request };
    let is_connect =
        error.downcast_ref().is_some_and(hyper_util::client::legacy::Error::is_connect);
    if let Some(server) = provider.local.filter(|_| is_connect) {
        message =
            format!("{} is not running at {host}: {} ({message})", provider.name, server.start());
        // Only the user can start it.
        retry = Retry::Never;
    }
    let kind = FailureKind::ResponseStreamConnectionFailed;
    Failure { retry, ..Failure::new(kind, provider.redact(&message)) }
}

/// The model that answers, where a header names it.
fn served_by(headers: &HeaderMap) -> Option<String> {
    let named = MODEL_HEADERS.iter().find_map(|name| headers.get(*name))?;
    named.to_str().ok().and_then(printable)
}
