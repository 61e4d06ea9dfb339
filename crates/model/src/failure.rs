//! Maps HTTP responses and error events to failures. It states what can be retried; the caller decides
//! whether and when.

use std::{borrow::Cow, time::Duration};

use http_client::{FailureKind, Retry, retry};
use hyper::{HeaderMap, StatusCode};
use serde::Deserialize;

use crate::{Provider, Usage};

/// A failed response.
pub type Failure = http_client::Failure<Usage>;

/// Most characters of an external text that a message quotes.
const EXCERPT_CHARS: usize = 400;

/// An `error` or `response.failed` event, from its code and message.
pub(crate) fn from_code(code: &str, message: &str) -> Failure {
    let text = if message.is_empty() { "no message was given" } else { message };
    let (kind, passes) = classify(code).unwrap_or((FailureKind::Other, true));
    let message = match code {
        "" => format!("the model provider reported an error: {}", excerpt(text)),
        _ => format!("the model provider reported {}: {}", excerpt(code), excerpt(text)),
    };
    let retry_after = retry::wait_in_message(text);
    let retry = if passes { Retry::Stream } else { Retry::Never };
    Failure { retry, retry_after, ..Failure::new(kind, message) }
}

/// A response with an error status. `target` names the request (`POST https://host/path`).
pub fn failure_from_status(
    provider: &Provider,
    target: &str,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Failure {
    let error = ErrorBody::read(body);
    let coded = error.code().and_then(classify).map(|(kind, _)| kind);
    let kind = match (coded, status.as_u16()) {
        // A rate-limit code is equivalent to status 429.
        (Some(kind), _) if kind != FailureKind::ResponseTooManyFailedAttempts => kind,
        (_, 400) => FailureKind::BadRequest,
        (_, 401) => FailureKind::Unauthorized,
        (_, 429) => FailureKind::ResponseTooManyFailedAttempts,
        _ => FailureKind::HttpConnectionFailed,
    };
    let code = error.code().map(|code| provider.redact(&format!("error code `{}`", excerpt(code))));
    let details: Vec<String> = code.into_iter().chain(request_id(headers)).collect();
    let text = error.message.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    let text = provider.redact(&excerpt(&text));
    let text = if text.is_empty() { "(empty body)" } else { &text };
    let mut message = format!("{target} answered {}: {text}", named(status));
    message.push_str(&advice(provider, kind));
    Failure {
        http_status: Some(status.as_u16()),
        details: (!details.is_empty()).then(|| details.join(", ")),
        retry_after: requested_wait(headers).or_else(|| retry::wait_in_message(text)),
        ..Failure::new(kind, message)
    }
}

/// The delay in a provider's headers.
fn requested_wait(headers: &HeaderMap) -> Option<Duration> {
    retry::requested_wait(|name| headers.get(name)?.to_str().ok())
}

/// The status with its name, if it has one.
fn named(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

/// The provider's id of a request, as in [`Failure::details`].
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get("x-request-id")?.to_str().ok()?;
    Some(format!("request id `{}`", excerpt(id)))
}

/// The start of `text` on one line, bounded, for quoting in a message.
#[must_use]
pub fn excerpt(text: &str) -> String {
    let mut out = String::new();
    let flat = text.split_whitespace().flat_map(|word| [" ", word]).skip(1);
    for (count, c) in flat.flat_map(str::chars).enumerate() {
        if count == EXCERPT_CHARS {
            out.push('…');
            break;
        }
        out.push(if c.is_control() { '\u{fffd}' } else { c });
    }
    out
}

/// Error codes with a kind of their own, and whether a retry may succeed.
fn classify(code: &str) -> Option<(FailureKind, bool)> {
    Some(match code {
        "context_length_exceeded" => (FailureKind::ContextWindowExceeded, false),
        "insufficient_quota" | "usage_limit_reached" | "billing_hard_limit_reached" => {
            (FailureKind::UsageLimitExceeded, false)
        }
        "rate_limit_exceeded" => (FailureKind::ResponseTooManyFailedAttempts, true),
        "server_is_overloaded" | "slow_down" => (FailureKind::ServerOverloaded, true),
        "server_error" | "internal_error" => (FailureKind::InternalServerError, true),
        "invalid_prompt" | "invalid_request_error" => (FailureKind::BadRequest, false),
        "cyber_policy" => (FailureKind::CyberPolicy, false),
        "invalid_api_key" => (FailureKind::Unauthorized, false),
        _ => return None,
    })
}

/// A sentence to append about what the user can do.
fn advice(provider: &Provider, kind: FailureKind) -> String {
    match kind {
        FailureKind::Unauthorized => format!(
            "; check the key of model provider `{}` (its `env_key`, or AGENT_API_KEY for the \
             default provider)",
            provider.id
        ),
        FailureKind::UsageLimitExceeded => {
            "; check the plan and the spend limit of the account this key belongs to".to_owned()
        }
        _ => String::new(),
    }
}

/// The error object of a response: `{"error": {"code", "type", "message"}}`, or the same members at
/// the top level; unreadable members stay empty.
#[derive(Debug, Default)]
struct ErrorBody {
    code: Option<String>,
    message: Option<String>,
}

impl ErrorBody {
    fn read(body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Outer<'a> {
            #[serde(borrow)]
            error: Option<&'a serde_json::value::RawValue>,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Inner<'a> {
            code: Option<serde_json::Value>,
            #[serde(borrow, rename = "type")]
            kind: Option<Cow<'a, str>>,
            #[serde(borrow)]
            message: Option<Cow<'a, str>>,
        }
        let outer: Option<Outer<'_>> = serde_json::from_slice(body).ok();
        let nested = outer.and_then(|outer| outer.error).map(|error| error.get().as_bytes());
        let inner: Inner<'_> = serde_json::from_slice(nested.unwrap_or(body)).unwrap_or_default();
        let code = inner.code.and_then(|code| code.as_str().map(str::to_owned));
        Self {
            code: code.or(inner.kind.map(Cow::into_owned)),
            message: inner.message.map(Cow::into_owned),
        }
    }

    fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FailureKind::*;

    #[test]
    fn statuses_and_error_codes_map_to_kinds() {
        let provider = Provider::http("p", "http://host/v1");
        let check = |status: u16, body: &str, kind: FailureKind| {
            let status = StatusCode::from_u16(status).unwrap();
            let failure = failure_from_status(
                &provider,
                "POST http://host/v1/r",
                status,
                &HeaderMap::new(),
                body.as_bytes(),
            );
            assert_eq!(failure.kind, kind, "{status} {body}");
            assert_eq!(failure.http_status, Some(status.as_u16()));
            assert!(failure.message.contains("host"), "{}", failure.message);
            assert!(!failure.message.contains("unknown status"), "{}", failure.message);
        };
        check(400, "", BadRequest);
        check(400, r#"{"error":{"code":"context_length_exceeded"}}"#, ContextWindowExceeded);
        check(401, r#"{"error":{"message":"no","type":"x"}}"#, Unauthorized);
        check(403, "<html>", HttpConnectionFailed);
        check(404, r#"{"error":"text"}"#, HttpConnectionFailed);
        check(429, r#"{"error":{"code":"rate_limit_exceeded"}}"#, ResponseTooManyFailedAttempts);
        check(429, r#"{"error":{"type":"insufficient_quota"}}"#, UsageLimitExceeded);
        check(500, "oops", HttpConnectionFailed);
        check(529, "busy", HttpConnectionFailed);
        check(503, r#"{"code":"server_is_overloaded"}"#, ServerOverloaded);
        check(400, r#"{"error":{"code":"cyber_policy"}}"#, CyberPolicy);
    }

    #[test]
    fn events_map_to_kinds() {
        let check = |code: &str, message: &str, kind, passes, wait: Option<u64>| {
            let failure = from_code(code, message);
            let wait = wait.map(Duration::from_millis);
            let retry = if passes { Retry::Stream } else { Retry::Never };
            assert_eq!((failure.kind, failure.retry), (kind, retry), "{code}");
            assert_eq!(failure.retry_after, wait, "{code}");
        };
        check("context_length_exceeded", "too long", ContextWindowExceeded, false, None);
        check("insufficient_quota", "", UsageLimitExceeded, false, None);
        let limited = "Please try again in 11.5s.";
        check("rate_limit_exceeded", limited, ResponseTooManyFailedAttempts, true, Some(11_500));
        check("server_is_overloaded", "", ServerOverloaded, true, None);
        check("server_error", "", InternalServerError, true, None);
        check("invalid_prompt", "", BadRequest, false, None);
        check("cyber_policy", "", CyberPolicy, false, None);
        check("something_new", "", Other, true, None);
        check("", "", Other, true, None);
    }

    #[test]
    fn messages_are_bounded_single_lines_without_the_key() {
        let key = crate::Secret::new("sk-very-secret");
        let provider = Provider::built_in(Some(key), None);
        let body = format!("bad key sk-very-secret\n\n{}", "x".repeat(10_000));
        let status = StatusCode::UNAUTHORIZED;
        let mut headers = HeaderMap::new();
        headers.insert("x-request-id", "req_1".parse().unwrap());
        let failure = failure_from_status(&provider, "POST u", status, &headers, body.as_bytes());
        assert_eq!(failure.details.as_deref(), Some("request id `req_1`"));
        assert!(!failure.message.contains("sk-very-secret"), "{}", failure.message);
        assert!(!failure.message.contains('\n'));
        assert!(failure.message.len() < 1000);
        assert!(failure.message.contains("AGENT_API_KEY"));
    }
}
