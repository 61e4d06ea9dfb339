//! Sends a request to its upstream and relays the response: which parts clients see, and how the
//! account is settled after an error (decisions: an upstream's errors pass, its 401 and 403 are
//! about our key and do not).

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::response;
use hyper::{HeaderMap, Response, StatusCode};
use serde_json::Value;

use super::Exchange;
use crate::account::{Account, request_id};
use crate::answer::{AnswerBody, ForwardedAnswer, OnObjectId, Watch};
use crate::bill::End;
use crate::traces::Span;
use crate::upstream::{DecodedBody, Failure, Outgoing, SecretMask, for_client};
use gateway_body::{Outcome, Reader};
use gateway_policy::error::ApiError;
use gateway_policy::settings::Upstream;

/// Most bytes of an error's body that are read; longer ones are not errors of this API.
const MAX_ERROR: usize = 256 << 10;
/// Largest list, in bytes.
const MAX_LIST: usize = 16 << 20;
/// Largest response that is buffered, in bytes.
const MAX_WHOLE: usize = 32 << 20;
const ERROR_PATIENCE: Duration = Duration::from_secs(10);

/// A successful response that has started.
pub(super) struct Relayed {
    head: response::Parts,
    body: DecodedBody,
    first: Option<Bytes>,
    account: Account,
    patience: Duration,
}

/// A successful response that is complete.
pub(crate) struct Whole {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
    pub(crate) outcome: Outcome,
}

/// Forwards a request.
///
/// # Errors
/// Any unsuccessful response, converted for the client; the account is settled.
pub(super) async fn send(
    exchange: &Exchange,
    mut outgoing: Outgoing<'_>,
    account: Account,
) -> Result<Relayed, ApiError> {
    let gateway = &exchange.gateway;
    let upstream = outgoing.upstream;
    let began = gateway.clock.now();
    let traced = account.facts().trace.as_ref();
    let context = traced.map(|traced| traced.context.child(&*gateway.random));
    if let Some(context) = &context {
        context.inject(&mut outgoing.headers);
    }
    let sent = gateway.upstreams.send(outgoing).await;
    let ended = gateway.clock.now();
    let took = ended.saturating_sub(began);
    if let Some(context) = context {
        gateway.traces.record(Span {
            context,
            name: format!("upstream {}", upstream.name),
            is_upstream: true,
            began,
            ended,
            status: sent.as_ref().map_or(0, |(response, _)| response.status().as_u16()),
            attributes: vec![("upstream", upstream.name.to_string())],
        });
    }
    gateway.metrics.upstream_seconds.observe(Duration::from_micros(took).as_secs_f64());
    let sent = sent.and_then(|(response, first)| usable(response, first));
    let (response, first) = match sent {
        Ok(sent) => sent,
        Err(failure) => return Err(failed(upstream, &failure, account)),
    };
    let (head, body) = response.into_parts();
    if head.status.is_success() {
        return Ok(Relayed { head, body, first, account, patience: upstream.idle_timeout });
    }
    let error = match whole(first, body, MAX_ERROR).await {
        Some(body) => error_of(upstream, &head, &body),
        None => Failure::Strange(head.status, "too long an error".to_owned()).for_client(),
    };
    let cause = format!("it answered {}", head.status);
    account.close(End::failed(error.status().as_u16(), Some(cause)));
    Err(error)
}

/// Fetches a body for internal use, without counting the request.
///
/// # Errors
/// Any unsuccessful response, converted for the client.
pub(super) async fn fetch(exchange: &Exchange, outgoing: Outgoing<'_>) -> Result<Bytes, ApiError> {
    let gateway = &exchange.gateway;
    let upstream = outgoing.upstream;
    let sent = gateway.upstreams.send(outgoing).await;
    let (response, first) =
        sent.and_then(|(response, first)| usable(response, first)).map_err(|failure| {
            let shown = SecretMask::new(upstream).replace(failure.to_string().as_bytes());
            let shown = String::from_utf8_lossy(&shown);
            let request = request_id(exchange.request);
            tracing::warn!(%request, "upstream {}: {shown}", upstream.name);
            failure.for_client()
        })?;
    let (head, body) = response.into_parts();
    let most = if head.status.is_success() { MAX_LIST } else { MAX_ERROR };
    let Some(body) = whole(first, body, most).await else {
        return Err(bad_gateway("The model server's answer is incomplete or too long."));
    };
    match head.status.is_success() {
        true => Ok(body),
        false => Err(error_of(upstream, &head, &body)),
    }
}

/// Rejects pages and redirections, which upstreams do not send.
fn usable(
    response: Response<DecodedBody>,
    first: Option<Bytes>,
) -> Result<(Response<DecodedBody>, Option<Bytes>), Failure> {
    let status = response.status();
    let content_type = response.headers().get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_page = matches!(&*kind, "text/html" | "application/xhtml+xml");
    let is_other_error = !status.is_success() && !kind.ends_with("json");
    if is_page || is_other_error || status.is_redirection() || status.is_informational() {
        return Err(Failure::Strange(status, kind));
    }
    Ok((response, first))
}

fn failed(upstream: &Upstream, failure: &Failure, account: Account) -> ApiError {
    let shown = SecretMask::new(upstream).replace(failure.to_string().as_bytes());
    let cause = String::from_utf8_lossy(&shown).into_owned();
    let error = failure.for_client();
    account.close(End::failed(error.status().as_u16(), Some(cause)));
    error
}

async fn whole(first: Option<Bytes>, mut body: DecodedBody, most: usize) -> Option<Bytes> {
    let mut whole = BytesMut::from(first.as_deref().unwrap_or_default());
    let collect = async {
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return None };
            if let Ok(data) = frame.into_data() {
                if whole.len() + data.len() > most {
                    return None;
                }
                whole.extend_from_slice(&data);
            }
        }
        Some(whole.freeze())
    };
    tokio::time::timeout(ERROR_PATIENCE, collect).await.ok().flatten()
}

fn error_of(upstream: &Upstream, head: &response::Parts, body: &Bytes) -> ApiError {
    let status = head.status;
    let strange = || Failure::Strange(status, "no JSON".to_owned()).for_client();
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return bad_gateway(
            "The model server rejects the gateway's credentials. Please report this to the gateway's operator.",
        );
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(body) else { return strange() };
    let is_changed = SecretMask::new(upstream).replace_json(&mut value);
    if status == StatusCode::TOO_MANY_REQUESTS {
        return rate_limited(&value, &head.headers);
    }
    let text = if is_changed { value.to_string().into() } else { body.to_vec() };
    with_waits(ApiError::passed(status, text), &head.headers)
}

fn rate_limited(value: &Value, headers: &HeaderMap) -> ApiError {
    let message = value.pointer("/error/message").and_then(Value::as_str);
    let message = message.unwrap_or("The model server is busy. Please try again later.").to_owned();
    let status = StatusCode::TOO_MANY_REQUESTS;
    let error = ApiError::new(status, "upstream_rate_limited", message).kind("requests");
    with_waits(error, headers)
}

/// The error with the waits that the model server asks for.
fn with_waits(error: ApiError, headers: &HeaderMap) -> ApiError {
    let waits = [header::RETRY_AFTER, HeaderName::from_static("retry-after-ms")];
    waits.into_iter().fold(error, |error, name| {
        match headers.get(&name).filter(|value| is_wait(value)) {
            Some(value) => error.header(name, value.clone()),
            None => error,
        }
    })
}

/// Returns whether it is a number or a date; other values do not pass.
fn is_wait(value: &HeaderValue) -> bool {
    let text = value.to_str().unwrap_or_default();
    let is_number =
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_number || httpdate::parse_http_date(text).is_ok()
}

/// 502 `upstream_error`.
pub(super) fn bad_gateway(message: &'static str) -> ApiError {
    ApiError::new(StatusCode::BAD_GATEWAY, "upstream_error", message)
}

impl Relayed {
    /// Returns whether the response is a stream of events.
    pub(super) fn is_events(&self) -> bool {
        self.content_type().to_ascii_lowercase().starts_with("text/event-stream")
    }

    /// The reader of the response's usage; `None` for a response that is no text.
    pub(super) fn reader(&self) -> Option<Reader> {
        Reader::for_content_type(self.content_type())
    }

    /// Returns whether the response is JSON.
    pub(super) fn is_json(&self) -> bool {
        let kind = self.content_type().split(';').next().unwrap_or_default().trim();
        let kind = kind.to_ascii_lowercase();
        kind == "application/json" || kind.ends_with("+json")
    }

    /// The whole response, for internal use. Settles the account.
    ///
    /// # Errors
    /// 502 when it is cut off, too long, or not JSON.
    pub(super) async fn whole(self, on_object_id: Option<OnObjectId>) -> Result<Whole, ApiError> {
        let strange = "The model server's answer is not valid.";
        let watch = match self.reader() {
            Some(reader) if self.is_json() => Watch::Usage(reader),
            _ => return Err(bad_gateway(strange)),
        };
        let (head, mut body) = self.into_response(watch, on_object_id).into_parts();
        let mut whole = BytesMut::new();
        let mut reader = Reader::json();
        while let Some(frame) = body.frame().await {
            let cut = || bad_gateway("The model server's answer is incomplete.");
            let Ok(data) = frame.map_err(|_| cut())?.into_data() else { continue };
            if whole.len() + data.len() > MAX_WHOLE {
                return Err(bad_gateway("The model server's answer is too long for a batch."));
            }
            reader.feed(&data);
            whole.extend_from_slice(&data);
        }
        let outcome = reader.finish();
        if !outcome.complete {
            return Err(bad_gateway("The model server's answer is incomplete."));
        }
        Ok(Whole { status: head.status, body: whole.freeze(), outcome })
    }

    fn content_type(&self) -> &str {
        let value = self.head.headers.get(header::CONTENT_TYPE);
        value.and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The response for the client.
    pub(super) fn into_response(
        self,
        watch: Watch,
        on_object_id: Option<OnObjectId>,
    ) -> Response<AnswerBody> {
        let mut headers = for_client(&self.head.headers);
        if matches!(watch, Watch::Removing(_)) {
            headers.remove(header::CONTENT_LENGTH);
        }
        if self.is_events() {
            // Keeps proxies from buffering events.
            headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
        }
        let status = self.head.status;
        let number = status.as_u16();
        let body = (self.body, self.first);
        let passing =
            ForwardedAnswer::new(body, watch, self.account, number, self.patience, on_object_id);
        let mut response = Response::new(AnswerBody::Forwarded(Box::new(passing)));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}
