//! Relays the response of an upstream: which parts clients see, and how the account is settled after an error.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::header::{self, HeaderValue};
use hyper::http::response;
use hyper::{HeaderMap, Response, StatusCode};

use super::Exchange;
use crate::account::{Account, request_id};
use crate::answer::{AnswerBody, ForwardedAnswer, OnObjectId, Watch};
use crate::backends::{Lease, LiveBackend};
use crate::bill::End;
use crate::dispatch::{self, Arrived, Forward};
use crate::translation::{Translation, WarningLog, WholeAnswer};
use crate::upstream::{UpstreamBody, for_client};
use gateway_body::{Outcome, Reader};
use gateway_policy::error::ApiError;
use gateway_policy::settings::Backend;

/// Largest list, in bytes.
const MAX_LIST: usize = 16 << 20;
/// Largest response that is buffered, in bytes.
const MAX_WHOLE: usize = 32 << 20;

/// A successful response that has started.
pub(super) struct Relayed {
    head: response::Parts,
    body: UpstreamBody,
    first: Option<Bytes>,
    account: Account,
    lease: Lease,
    patience: Duration,
    /// The translation of its body to the caller's wire.
    translation: Option<Box<Translation>>,
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
    forward: &Forward<'_>,
    mut account: Account,
) -> Result<Relayed, ApiError> {
    let gateway = &exchange.gateway;
    let trace = account.facts().trace.as_ref().map(|traced| traced.context);
    let mut noted = |live: &Arc<LiveBackend>| account.is_sent_to(live.backend());
    let sent =
        dispatch::dispatch(gateway, forward, (exchange.request, trace.as_ref()), &mut noted).await;
    match sent {
        Ok(Arrived { head, body, first, lease, translation }) => {
            let patience = forward.query.upstream.idle_timeout;
            Ok(Relayed { head, body, first, account, lease, patience, translation })
        }
        Err(refused) => {
            let end = End::failed(refused.error.status().as_u16(), Some(refused.cause));
            account.close(end);
            Err(refused.error)
        }
    }
}

/// Fetches a body for internal use, without counting the request.
///
/// # Errors
/// Any unsuccessful response, converted for the client.
pub(super) async fn fetch(exchange: &Exchange, forward: &Forward<'_>) -> Result<Bytes, ApiError> {
    let name = &forward.query.upstream.name;
    let sent =
        dispatch::dispatch(&exchange.gateway, forward, (exchange.request, None), &mut |_| {}).await;
    let arrived = sent.map_err(|refused| {
        let request = request_id(exchange.request);
        tracing::warn!(%request, "upstream {name}: {}", refused.cause);
        refused.error
    })?;
    let Arrived { body, first, mut lease, .. } = arrived;
    match dispatch::whole(first, body, MAX_LIST).await {
        Some(body) => {
            lease.succeeded();
            Ok(body)
        }
        None => Err(bad_gateway("The model server's answer is incomplete or too long.")),
    }
}

const STRANGE: &str = "The model server's answer is not valid.";

/// The headers of a translated response, of which those of the backend say nothing.
fn translated_headers(is_events: bool) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let kind = if is_events { "text/event-stream" } else { "application/json" };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if is_events {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    headers
}

/// Has a response kept before its client learns its id. Returns the body for the client.
async fn keep(WholeAnswer { body, kept }: WholeAnswer) -> Bytes {
    if let Some((keeper, response)) = kept {
        keeper.keep(response).await;
    }
    body
}

/// 502 `upstream_error`.
pub(super) fn bad_gateway(message: &'static str) -> ApiError {
    ApiError::new(StatusCode::BAD_GATEWAY, "upstream_error", message)
}

impl Relayed {
    /// The backend that answers.
    pub(super) fn backend(&self) -> &Backend {
        self.lease.live().backend()
    }

    /// The model's name for the caller.
    pub(super) fn model(&self) -> &str {
        &self.account.facts().model.name
    }

    /// The translation of its body to the caller's wire.
    pub(super) fn translation(&self) -> Option<&Translation> {
        self.translation.as_deref()
    }

    /// Returns whether the response is a stream of events.
    pub(super) fn is_events(&self) -> bool {
        self.content_type().to_ascii_lowercase().starts_with("text/event-stream")
    }

    /// The reader of the response's usage; `None` for a response that is not text.
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
    pub(super) async fn whole(
        mut self,
        log: &WarningLog,
        on_object_id: Option<OnObjectId>,
    ) -> Result<Whole, ApiError> {
        let translation = self.translation.take();
        let is_events = self.is_events();
        let (status, body) = self.collect(translation.is_some(), on_object_id).await?;
        let body = match translation {
            Some(translation) => keep(translation.whole(&body, is_events, false, log)?).await,
            None => body,
        };
        let mut reader = Reader::json();
        reader.feed(&body);
        let outcome = reader.finish();
        if !outcome.complete {
            return Err(bad_gateway("The model server's answer is incomplete."));
        }
        Ok(Whole { status, body, outcome })
    }

    /// The response in the caller's wire: a stream while it arrives, anything else once it is complete. Settles the
    /// account.
    ///
    /// # Errors
    /// 502 when it is cut off, too long, or not valid; the error that it is.
    pub(super) async fn translated(
        mut self,
        log: &Arc<WarningLog>,
        to_events: bool,
    ) -> Result<Response<AnswerBody>, ApiError> {
        let Some(translation) = self.translation.take() else { return Err(bad_gateway(STRANGE)) };
        let is_events = self.is_events();
        if let Some(reader) = self.reader().filter(|_| is_events && to_events) {
            let stream = Box::new(translation.stream(log));
            return Ok(self.into_response(Watch::Translating(reader, stream), None));
        }
        let (status, body) = self.collect(true, None).await?;
        let body = keep(translation.whole(&body, is_events, to_events, log)?).await;
        let mut response = Response::new(AnswerBody::from(body));
        *response.status_mut() = status;
        *response.headers_mut() = translated_headers(to_events);
        Ok(response)
    }

    async fn collect(
        self,
        is_translated: bool,
        on_object_id: Option<OnObjectId>,
    ) -> Result<(StatusCode, Bytes), ApiError> {
        let watch = match self.reader() {
            Some(reader) if is_translated || self.is_json() => Watch::Usage(reader),
            _ => return Err(bad_gateway(STRANGE)),
        };
        let (head, mut body) = self.into_response(watch, on_object_id).into_parts();
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let cut = || bad_gateway("The model server's answer is incomplete.");
            let Ok(data) = frame.map_err(|_| cut())?.into_data() else { continue };
            if whole.len() + data.len() > MAX_WHOLE {
                return Err(bad_gateway("The model server's answer is too long to be buffered."));
            }
            whole.extend_from_slice(&data);
        }
        Ok((head.status, whole.freeze()))
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
        let mut headers = match watch {
            Watch::Translating(..) => translated_headers(true),
            _ => for_client(&self.head.headers),
        };
        if matches!(watch, Watch::Events(..)) {
            headers.remove(header::CONTENT_LENGTH);
        }
        if self.is_events() {
            // Keeps proxies from buffering events.
            headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
        }
        let status = self.head.status;
        let number = status.as_u16();
        let body = (self.body, self.first);
        let passing = ForwardedAnswer::new(
            body,
            watch,
            (self.account, self.lease),
            number,
            self.patience,
            on_object_id,
        );
        let mut response = Response::new(AnswerBody::Forwarded(Box::new(passing)));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}
