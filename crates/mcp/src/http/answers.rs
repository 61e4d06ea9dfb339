//! Handling of server responses: demands of a login, errors of the protocol, failures, and bounded
//! bodies.

use std::borrow::Cow;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpError,
    StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::{Sse, SseStream};

use crate::error::{chain, quoted};
use crate::http::fields::{Fields, LONGEST_RETRY};
use crate::http::limit::{EventLimit, LimitError};
use crate::http::{Failure, HttpError, JSON};
use crate::intake::Intake;
use crate::results;

/// Longest text of an answer in a message.
const MAX_DIAGNOSTIC: usize = 4 << 10;

/// A login or a wider scope that the server demands.
pub(super) fn check_authorization(response: &Response<Incoming>) -> Result<(), Failure> {
    let Some(challenge) = text_header(response, WWW_AUTHENTICATE.as_str()) else { return Ok(()) };
    match response.status() {
        StatusCode::UNAUTHORIZED => {
            Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)))
        }
        StatusCode::FORBIDDEN => {
            let scope = scope(&challenge);
            Err(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(
                challenge, scope,
            )))
        }
        _ => Ok(()),
    }
}

/// The `scope` of a challenge.
fn scope(challenge: &str) -> Option<String> {
    let at = challenge.to_ascii_lowercase().find("scope=")? + "scope=".len();
    let rest = challenge.get(at..)?;
    let scope = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => rest.split([',', ';', ' ']).next()?,
    };
    (!scope.is_empty()).then(|| scope.to_owned())
}

/// An answer that is no success: an error of the protocol, the rejection of a probe for the era, or a
/// failure.
pub(super) async fn refused(
    response: Response<Incoming>,
    message: &ClientJsonRpcMessage,
    in_session: bool,
    limits: &StreamableHttpResponseLimits,
) -> Result<StreamableHttpPostResponse, Failure> {
    let status = response.status();
    let failure = status_error(&response);
    let is_json = media_type(&response).as_deref() == Some(JSON);
    let is_login = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let body = if is_json && !is_login && status != StatusCode::TOO_MANY_REQUESTS {
        whole_body(response, limits.max_json_response_size).await?
    } else {
        start_of_body(response).await
    };
    let error = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(JsonRpcMessage::Error(error)) if is_json && !is_login => Some(error),
        _ => None,
    };
    // A server of the earlier era refuses the probe in its own way, often without the id.
    if let JsonRpcMessage::Request(request) = message
        && let ClientRequest::DiscoverRequest(_) = &request.request
        && status.is_client_error()
        && !is_login
        && !in_session
    {
        let error = error.map_or_else(
            || ErrorData::invalid_request(format!("HTTP {status}: {}", excerpt(&body)), None),
            |error| error.error,
        );
        let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(answer, None));
    }
    match (error, failure) {
        (Some(error), _) => {
            Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), None))
        }
        (None, Some(failure)) => Err(failure.into()),
        (None, None) => Err(unexpected(format!("HTTP {status}: {}", excerpt(&body)))),
    }
}

/// A failure of the server itself, or a request to come later.
pub(super) fn status_error(response: &Response<Incoming>) -> Option<HttpStatusError> {
    let status = response.status();
    let is_failure = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    is_failure
        .then(|| HttpStatusError::new(status.as_u16(), text_header(response, RETRY_AFTER.as_str())))
}

pub(super) fn text_header(response: &Response<Incoming>, name: &str) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

/// The type of an answer in lower case, without its parameters.
pub(super) fn media_type(response: &Response<Incoming>) -> Option<String> {
    let value = text_header(response, CONTENT_TYPE.as_str())?;
    Some(value.split(';').next()?.trim().to_ascii_lowercase())
}

/// The events of an answer, each when there is room for what it may ask. `request` is the one that the
/// stream answers.
pub(super) fn events(
    response: Response<Incoming>,
    max_event: usize,
    intake: Intake,
    request: Option<RequestId>,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let mut fields = Fields::default();
    let body = EventLimit::new(response.into_body().into_data_stream(), max_event)
        .map_ok(move |bytes| Bytes::from(fields.push(&bytes)));
    let mut can_resume = false;
    let events = SseStream::from_bytes_stream(body).then(move |event| {
        let intake = intake.clone();
        if let Ok(event) = &event {
            can_resume |= event.id.is_some();
        }
        let request = request.clone().filter(|_| !can_resume || is_too_large(&event));
        async move {
            intake.room().await;
            Ok(match event {
                Ok(event) => readable(event),
                Err(error) => broken_off(&error, request),
            })
        }
    });
    events.boxed()
}

fn is_too_large(event: &Result<Sse, SseError>) -> bool {
    let Err(SseError::Body(error)) = event else { return false };
    matches!(error.downcast_ref::<LimitError<hyper::Error>>(), Some(LimitError::TooLarge { .. }))
}

/// The replacement of the rest of a stream. It is no error: the protocol's library would open the
/// stream again at once, and as often as it fails.
fn broken_off(error: &SseError, request: Option<RequestId>) -> Sse {
    let why = match error {
        SseError::Body(error) => quoted(&error.to_string()),
        error => chain(error),
    };
    tracing::debug!(target: "mcp::http", "a stream of events ends: {why}");
    let Some(id) = request else {
        return Sse::default().retry(LONGEST_RETRY);
    };
    let message = ServerJsonRpcMessage::error(ErrorData::internal_error(why, None), Some(id));
    // A message of the library has no part that JSON cannot express.
    Sse::default().data(serde_json::to_string(&message).unwrap_or_default())
}

/// An event whose message can be read.
fn readable(mut event: Sse) -> Sse {
    let mended = event.data.as_deref().and_then(|data| results::mended(data.as_bytes()));
    if let Some(data) = mended.and_then(|data| String::from_utf8(data).ok()) {
        event.data = Some(data);
    }
    event
}

/// A whole body of at most `max` bytes.
pub(super) async fn whole_body(
    response: Response<Incoming>,
    max: usize,
) -> Result<Vec<u8>, Failure> {
    let too_large = || StreamableHttpError::ResponseBodyTooLarge { max_size: max };
    let length = text_header(&response, CONTENT_LENGTH.as_str()).and_then(|text| text.parse().ok());
    if length.is_some_and(|length: usize| length > max) {
        return Err(too_large());
    }
    let mut stream = response.into_body().into_data_stream();
    let mut body = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| HttpError(format!("the answer broke off: {error}")))?;
        if body.len() + chunk.len() > max {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Enough of a body for a message; the rest is not read.
async fn start_of_body(response: Response<Incoming>) -> Vec<u8> {
    let mut stream = response.into_body().into_data_stream();
    let mut body = Vec::new();
    while let Some(Ok(chunk)) = stream.next().await {
        let room = MAX_DIAGNOSTIC - body.len();
        body.extend_from_slice(chunk.get(..room.min(chunk.len())).unwrap_or_default());
        if body.len() >= MAX_DIAGNOSTIC {
            break;
        }
    }
    body
}

pub(super) fn excerpt(body: &[u8]) -> String {
    quoted(&String::from_utf8_lossy(body.get(..MAX_DIAGNOSTIC).unwrap_or(body)))
}

pub(super) fn unexpected(text: String) -> Failure {
    StreamableHttpError::UnexpectedServerResponse(Cow::Owned(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scope_of_a_challenge() {
        let check = |challenge: &str, expect: Option<&str>| {
            assert_eq!(scope(challenge).as_deref(), expect, "{challenge}");
        };
        check("Bearer", None);
        check("Bearer error=\"x\", scope=\"a b\"", Some("a b"));
        check("Bearer Scope=a, realm=x", Some("a"));
        check("Bearer scope=\"\"", None);
    }
}
