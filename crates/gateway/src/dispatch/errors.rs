//! The answers of backends that are no success, as clients see them (decisions: an upstream's errors pass, its 401 and
//! 403 are about our key and do not). The waits that a backend asks for stay, whatever the status.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode};
use serde_json::Value;
use wire::Wire;

use crate::backends::LiveBackend;
use crate::translation;
use crate::upstream::{Failure, UpstreamBody, waits};
use gateway_policy::error::ApiError;

/// Most bytes of an error's body that are read; longer ones are not errors of this API.
const MAX_ERROR: usize = 256 << 10;
const PATIENCE: Duration = Duration::from_secs(10);
/// The member that the gateway adds and some servers refuse.
const RETENTION: &str = "prompt_cache_retention";

/// An answer that is no success.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// The error for the client.
    pub(super) error: ApiError,
    /// The cause, for the log.
    pub(super) cause: String,
    /// True if it refuses the key of a cloud's account, so that another key may help.
    pub(super) is_of_key: bool,
    /// True if it is an error of this API, not the page of another server.
    pub(super) is_error: bool,
    body: Bytes,
}

impl Answer {
    /// Returns whether it refuses the member `prompt_cache_retention`.
    pub(super) fn names_retention(&self) -> bool {
        let refuses =
            matches!(self.status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY);
        refuses && memchr::memmem::find(&self.body, RETENTION.as_bytes()).is_some()
    }
}

/// Returns whether it may be an answer of an upstream, which sends neither pages nor redirections, and errors as JSON.
pub(super) fn is_usable(response: &Response<UpstreamBody>) -> bool {
    let (status, kind) = (response.status(), content_type(response.headers()));
    let is_page = matches!(&*kind, "text/html" | "application/xhtml+xml");
    let is_other_error = !status.is_success() && !kind.ends_with("json");
    !(is_page || is_other_error || status.is_redirection() || status.is_informational())
}

/// The type of a body, without its parameters.
pub(super) fn content_type(headers: &HeaderMap) -> String {
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Reads an answer that is no success. It becomes an error of the wire `caller`, if that is another one than the
/// backend's.
pub(super) async fn read(
    live: &LiveBackend,
    response: Response<UpstreamBody>,
    first: Option<Bytes>,
    caller: Option<Wire>,
) -> Answer {
    let usable = is_usable(&response);
    let (head, body) = response.into_parts();
    let status = head.status;
    let answered = |headers: &HeaderMap, error: ApiError, cause: String, body: Option<Bytes>| {
        let error = waits(headers).fold(error, |error, (name, value)| error.header(name, value));
        let is_error = body.is_some();
        let body = body.unwrap_or_default();
        let (status, headers) = (head.status, headers.clone());
        Answer { status, headers, error, cause, is_of_key: false, is_error, body }
    };
    let strange = |headers: &HeaderMap, what: String| {
        let failure = Failure::Strange(status, what);
        answered(headers, failure.for_client(), failure.to_string(), None)
    };
    if !usable {
        return strange(&head.headers, content_type(&head.headers));
    }
    let Some(body) = whole(first, body, MAX_ERROR).await else {
        return strange(&head.headers, "too long an error".to_owned());
    };
    let is_of_key = cloud::is_of_key(status, &head.headers, &body);
    // Amazon has errors of its own form.
    let body = cloud::refusal(&head.headers, &body).map_or(body, Bytes::from);
    // Servers of Gemini refuse a key in this way.
    let is_bad_key = status == StatusCode::BAD_REQUEST
        && live.backend().wires.contains(Wire::Gemini)
        && memchr::memmem::find(&body, b"API_KEY_INVALID").is_some();
    let status = if is_bad_key { StatusCode::UNAUTHORIZED } else { status };
    let cause = format!("it answered {status}");
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        let message = "The model server rejects the gateway's credentials. Please report this to the gateway's operator.";
        let error = ApiError::new(StatusCode::BAD_GATEWAY, "upstream_error", message);
        return Answer { status, is_of_key, ..answered(&head.headers, error, cause, Some(body)) };
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(&body) else {
        return strange(&head.headers, "no JSON".to_owned());
    };
    let is_changed = live.mask().replace_json(&mut value);
    let text = if is_changed { value.to_string().into() } else { body.to_vec() };
    let failure = wire::Failure::read(status.as_u16(), &text);
    // Servers of Gemini say it in the body alone.
    let wait = failure.retry_after_ms;
    let mut headers = head.headers.clone();
    if let Some(wait) = wait.filter(|_| !headers.contains_key(header::RETRY_AFTER)) {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(wait.div_ceil(1000)));
    }
    let error = match caller {
        _ if status == StatusCode::TOO_MANY_REQUESTS => rate_limited(&value),
        Some(caller) => {
            let failure = wire::Failure { retry_after_ms: None, ..failure };
            translation::failed(&failure, caller)
        }
        None => ApiError::passed(status, text),
    };
    answered(&headers, error, cause, Some(body))
}

fn rate_limited(value: &Value) -> ApiError {
    // Some servers answer with an array of one error.
    let value = value.get(0).unwrap_or(value);
    let message = value.pointer("/error/message").and_then(Value::as_str);
    let message = message.unwrap_or("The model server is busy. Please try again later.").to_owned();
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, "upstream_rate_limited", message).kind("requests")
}

/// A body of at most that many bytes; `None` for a longer one, or one that does not end properly or in time.
pub(crate) async fn whole(
    first: Option<Bytes>,
    mut body: UpstreamBody,
    most: usize,
) -> Option<Bytes> {
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
    tokio::time::timeout(PATIENCE, collect).await.ok().flatten()
}
