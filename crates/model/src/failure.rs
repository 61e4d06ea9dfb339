//! Maps HTTP responses and error events to failures. It states what can be retried; the caller decides
//! whether and when.

use std::time::{Duration, SystemTime};

use http_client::sse::Reader;
use http_client::{FailureKind, Retry, retry};
use hyper::{HeaderMap, StatusCode, Uri};
use serde_json::Value;

use crate::stream_text::{is_stream, without_mark};
use crate::{KeySource, Provider, Usage};
use codes::{SPEND_LIMITS, TOO_LONG, classify, quoted_code};
use reason::{Reason, page_title};

mod codes;
mod reason;

/// A failed response.
pub type Failure = http_client::Failure<Usage>;

const BAD_REQUEST: FailureKind = FailureKind::BadRequest;
const SERVER_ERROR: FailureKind = FailureKind::InternalServerError;
const CONNECTION: FailureKind = FailureKind::HttpConnectionFailed;
const TOO_MANY: FailureKind = FailureKind::ResponseTooManyFailedAttempts;

/// Most characters of an external text that a message quotes.
const EXCERPT_CHARS: usize = 400;

/// An `error` or `response.failed` event.
pub(crate) fn from_event(error: &ProviderError) -> Failure {
    let text = error.message.as_deref().filter(|text| !text.is_empty());
    let text = text.unwrap_or("no message was given");
    let (kind, passes) = error.classify().unwrap_or((FailureKind::Other, true));
    let message = match error.name() {
        None | Some("") => format!("the model provider reported an error: {}", excerpt(text)),
        Some(name) => format!("the model provider reported {}: {}", excerpt(name), excerpt(text)),
    };
    let retry_after = error.resets_in.or_else(|| retry::wait_in_message(text));
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
    let mut error = ProviderError::read(body);
    // A code that repeats the status adds nothing.
    error.code.take_if(|code| *code == status.as_str());
    let coded = error.classify().map(|(kind, _)| kind);
    let kind = match (coded, status.as_u16()) {
        // Some have a general code next to it.
        (None, 401) | (Some(BAD_REQUEST | SERVER_ERROR | CONNECTION), 401) => {
            FailureKind::Unauthorized
        }
        // Also for more than a limit's tokens in one request: waiting does not help, and a shorter history may.
        (None | Some(BAD_REQUEST | TOO_MANY | SERVER_ERROR | CONNECTION), 413) => {
            FailureKind::ContextWindowExceeded
        }
        // A rate-limit code is equivalent to status 429.
        (Some(kind), _) if kind != FailureKind::ResponseTooManyFailedAttempts => kind,
        (_, 400) => FailureKind::BadRequest,
        (_, 429) => FailureKind::ResponseTooManyFailedAttempts,
        _ => FailureKind::HttpConnectionFailed,
    };
    let code = error.name().map(|code| provider.redact(&format!("error code `{}`", excerpt(code))));
    let details: Vec<String> = code.into_iter().chain(request_id(headers)).collect();
    let text = error.message.clone().unwrap_or_else(|| {
        let text = String::from_utf8_lossy(body);
        page_title(&text).unwrap_or_else(|| text.into_owned())
    });
    let text = provider.redact(&excerpt(&text));
    let text = if text.is_empty() { "(empty body)" } else { &text };
    let mut message = format!("{target} answered {}: {text}", named(status));
    message.push_str(&advice(provider, kind));
    if status == StatusCode::PAYLOAD_TOO_LARGE && kind == FailureKind::ContextWindowExceeded {
        message.push_str(
            "; the request is too large for it: compact the thread (`/compact`), or choose another model",
        );
    }
    let header = |name: &str| headers.get(name)?.to_str().ok();
    if status.is_redirection() {
        message.push_str(&redirect(provider, header("location")));
    }
    let now = SystemTime::now();
    Failure {
        http_status: Some(status.as_u16()),
        details: (!details.is_empty()).then(|| details.join(", ").into()),
        retry_after: retry::requested_wait(now, header)
            .or_else(|| error.resets_after(retry::server_time(now, header("date"))))
            .or_else(|| retry::wait_in_message(text)),
        ..Failure::new(kind, message)
    }
}

/// The status with its name, if it has one.
fn named(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

/// Headers with the provider's id of a request: OpenAI's, Anthropic's, Amazon's.
const REQUEST_IDS: [&str; 3] = ["x-request-id", "request-id", "x-amzn-requestid"];

/// The provider's id of a request, as in [`Failure::details`].
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    let id = REQUEST_IDS.iter().find_map(|name| headers.get(*name))?.to_str().ok()?;
    Some(format!("request id `{}`", excerpt(id)))
}

/// The start of `text` on one line, bounded, for quoting in a message. Hidden characters are numbers.
#[must_use]
pub fn excerpt(text: &str) -> String {
    let mut out = String::new();
    let flat = text.split_whitespace().flat_map(|word| [" ", word]).skip(1);
    for (count, c) in flat.flat_map(str::chars).enumerate() {
        if count == EXCERPT_CHARS {
            out.push('…');
            break;
        }
        match visible::is_hidden(c) {
            true => out.extend(c.escape_unicode()),
            false => out.push(c),
        }
    }
    out
}

/// Where a redirect leads, and that it is not followed: another host would get the key.
fn redirect(provider: &Provider, location: Option<&str>) -> String {
    // A location may leave out the scheme.
    let absolute = |location: &str| match location.starts_with("//") {
        true => format!("http:{location}").parse::<Uri>(),
        false => location.parse(),
    };
    let to = match location.map(absolute) {
        Some(Ok(uri)) => match uri.authority() {
            // Without a user name and password.
            Some(authority) => {
                let (host, port) = (authority.host(), authority.port());
                let port = port.map(|port| format!(":{port}")).unwrap_or_default();
                format!("a redirect to `{}`", provider.redact(&excerpt(&format!("{host}{port}"))))
            }
            None => "a redirect to the same host".to_owned(),
        },
        Some(Err(_)) => "a redirect to an address that cannot be read".to_owned(),
        None => "a redirect to no address".to_owned(),
    };
    let id = &provider.id;
    format!("; {to}: redirects are not followed, check the `base_url` of model provider `{id}`")
}

/// The kind of the failure that a document reports in place of a response, and whether a retry may succeed;
/// `None` if it has no error.
pub(crate) fn of_document(document: &[u8]) -> Option<(FailureKind, bool)> {
    let value = read_value(document)?;
    let has_error = value.get("error").is_some_and(|error| match error {
        Value::Object(members) => !members.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => false,
    });
    let known = ProviderError::of_value(&value).classify();
    known.or(has_error.then_some((FailureKind::Other, true)))
}

/// The JSON of a body, or of an event where the body is a stream.
fn read_value(body: &[u8]) -> Option<Value> {
    let body = without_mark(body);
    if !is_stream(body) {
        return serde_json::from_slice(body).ok();
    }
    let mut found = None;
    let mut take = |data: &[u8]| {
        let value: Option<Value> = serde_json::from_slice(data).ok();
        found = found.take().or(value.filter(|value| {
            let error = ProviderError::of_value(value);
            error.has_message() || error.classify().is_some()
        }));
    };
    let mut reader = Reader::new();
    // What is too long has its reason at the beginning.
    let _ = reader.feed(body, |_, data| take(data));
    take(reader.rest().unwrap_or_default());
    found
}

/// A sentence to append about what the user can do.
fn advice(provider: &Provider, kind: FailureKind) -> String {
    match kind {
        // Its own advice follows.
        FailureKind::Unauthorized if provider.api_key.is_cloud() => String::new(),
        FailureKind::Unauthorized if matches!(provider.api_key, KeySource::Issued(_)) => {
            "; log in again (`agentd login`, or `account/login/start`)".to_owned()
        }
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

/// Members with the status of an answer.
const STATUSES: [&str; 5] = ["status", "status_code", "statusCode", "http_status", "httpStatus"];

/// A member that is a name, or a number in place of one: some providers write the status as the code.
fn text_or_number(value: &Value, name: &str) -> Option<String> {
    match value.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The error object of a response or an event. Members of other types than expected count as absent.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ProviderError {
    code: Option<String>,
    kind: Option<String>,
    /// Codes and types of errors inside this one.
    inner: Vec<String>,
    message: Option<String>,
    /// Time until a used-up limit is available again.
    resets_in: Option<Duration>,
    /// The moment at which it is, in seconds since the Unix epoch.
    resets_at: Option<u64>,
}

impl ProviderError {
    pub(crate) fn has_message(&self) -> bool {
        self.message.is_some()
    }

    /// Reads a body `{"error": {"code", "type", "message", …}}`, or one with the same members at the
    /// top level, wherever it has its reason.
    fn read(body: &[u8]) -> Self {
        Self::of_value(&read_value(body).unwrap_or_default())
    }

    /// Reads an error, or what is around one.
    pub(crate) fn of_value(value: &Value) -> Self {
        let mut read = match value.get("error") {
            Some(error @ Value::Object(_)) => {
                let mut read = Self::from_value(error);
                if read.message.is_none() {
                    read.message = Reason::of(value).text;
                }
                read
            }
            // What a text lacks can stand next to it.
            Some(error @ Value::String(_)) => {
                Self { message: Reason::of(value).text, ..Self::from_value(error) }
            }
            // A list with one error.
            None if value.get(0).is_some() => return Self::of_value(&value[0]),
            _ => return Self::from_value(value),
        };
        read.inner.extend(
            ["code", "type"].iter().chain(&STATUSES).filter_map(|name| text_or_number(value, name)),
        );
        read
    }

    /// Reads the error object itself. An error that is a text is its message.
    pub(crate) fn from_value(value: &Value) -> Self {
        let seconds = value.get("resets_in_seconds").and_then(Value::as_f64);
        let Reason { text, codes } = Reason::of(value);
        let statuses = STATUSES.iter().filter_map(|name| text_or_number(value, name));
        Self {
            code: text_or_number(value, "code"),
            kind: text_or_number(value, "type"),
            inner: statuses.chain(codes).collect(),
            message: text,
            resets_in: seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            resets_at: value.get("resets_at").and_then(Value::as_u64),
        }
    }

    /// The code, else the type: the codes of some providers are finer than their types.
    fn name(&self) -> Option<&str> {
        self.code.as_deref().or(self.kind.as_deref())
    }

    /// The kind of the failure, and whether a retry may succeed, where a code or type is known, or else the
    /// message names a limit on spending or the length of the input. A bad request may be any of the others, too.
    fn classify(&self) -> Option<(FailureKind, bool)> {
        let names = [&self.code, &self.kind].into_iter().flatten().chain(&self.inner);
        let known: Vec<(FailureKind, bool)> = names.filter_map(|name| classify(name)).collect();
        // A router has these for errors of the provider, whose codes are in the text.
        let is_exact = |found: &&(FailureKind, bool)| {
            !matches!(
                found.0,
                FailureKind::BadRequest
                    | FailureKind::InternalServerError
                    | FailureKind::ServerOverloaded
                    | FailureKind::HttpConnectionFailed
            )
        };
        if let Some(exact) = known.iter().find(is_exact) {
            return Some(*exact);
        }
        let message = self.message.as_deref().unwrap_or_default().to_lowercase();
        let has = |words: &[&str]| words.iter().any(|words| message.contains(words));
        if has(&SPEND_LIMITS) {
            return Some((FailureKind::UsageLimitExceeded, false));
        }
        if has(&TOO_LONG) {
            return Some((FailureKind::ContextWindowExceeded, false));
        }
        let quoted = quoted_code(&message).and_then(classify);
        quoted.filter(|it| is_exact(&it)).or_else(|| known.first().copied()).or(quoted)
    }

    /// When the limit resets, relative to `now` by the provider's clock, which may differ from ours.
    fn resets_after(&self, now: SystemTime) -> Option<Duration> {
        let at = || {
            let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(self.resets_at?))?;
            at.duration_since(now).ok()
        };
        self.resets_in.or_else(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FailureKind::*;
    use serde_json::json;

    #[test]
    fn hidden_characters_of_an_excerpt_are_visible() {
        let text = "no\u{1b}[2J\n\u{7} \u{202e}way";
        assert_eq!(excerpt(text), "no\\u{1b}[2J \\u{7} \\u{202e}way");
    }

    #[test]
    fn the_reason_stands_next_to_a_text_too() {
        for (body, expect) in [
            (r#"{"error":"bad","details":"too many images"}"#, "bad: too many images"),
            (
                r#"{"error":"invalid_request","error_description":"no scope"}"#,
                "invalid_request: no scope",
            ),
            (r#"{"fault":{"faultstring":"no quota","detail":{"errorcode":"q"}}}"#, "no quota"),
            ("\u{feff}{\"error\":{\"message\":\"marked\"}}", "marked"),
            ("\u{feff}{\"detail\":\"marked\"}", "marked"),
            (r#"{"error":"alone"}"#, "alone"),
            (r#"[{"error":{"message":"of a list","code":400}}]"#, "of a list"),
            ("data: {\"error\":{\"message\":\"in a stream\"}}\n\n", "in a stream"),
            ("event: error\ndata: {\"type\":\"error\",\"message\":\"named\"}", "named"),
            (": hi\n\ndata: {\"type\":\"ping\"}\n\ndata: {\"detail\":\"second\"}\n\n", "second"),
        ] {
            let read = ProviderError::read(body.as_bytes());
            assert!(
                read.message.as_deref().is_some_and(|text| text.starts_with(expect)),
                "{:?}",
                read.message
            );
        }
    }

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
        check(401, r#"{"error":{"message":"no","code":"invalid_request_error"}}"#, Unauthorized);
        check(401, r#"{"error":{"message":"no","code":"server_error"}}"#, Unauthorized);
        let key = r#"{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"API key not valid.",
            "details":[{"reason":"API_KEY_INVALID"}]}}"#;
        check(400, key, Unauthorized);
        check(403, "<html>", HttpConnectionFailed);
        check(413, "<html>", ContextWindowExceeded);
        let tokens =
            r#"{"error":{"code":"rate_limit_exceeded","message":"Request too large: Limit 6000"}}"#;
        check(413, tokens, ContextWindowExceeded);
        check(413, r#"{"error":{"code":"insufficient_quota"}}"#, UsageLimitExceeded);
        check(404, r#"{"error":"text"}"#, HttpConnectionFailed);
        check(429, r#"{"error":{"code":429,"type":"insufficient_quota"}}"#, UsageLimitExceeded);
        check(429, r#"{"error":{"code":"rate_limit_exceeded"}}"#, ResponseTooManyFailedAttempts);
        check(429, r#"{"error":{"type":"insufficient_quota"}}"#, UsageLimitExceeded);
        check(429, r#"{"error":{"type":"usage_not_included"}}"#, UsageLimitExceeded);
        let spent = r#"{"error":{"code":"new","message":"Hard monthly spend limit reached."}}"#;
        check(429, spent, UsageLimitExceeded);
        check(403, r#"{"error":"Your spending limit is used up."}"#, UsageLimitExceeded);
        let known =
            r#"{"error":{"code":"rate_limit_exceeded","message":"spend limit per minute"}}"#;
        check(429, known, ResponseTooManyFailedAttempts);
        check(500, "oops", HttpConnectionFailed);
        check(400, "data: {\"error\":{\"code\":\"insufficient_quota\"}}\n\n", UsageLimitExceeded);
        check(400, r#"{"error":"x","code":"context_length_exceeded"}"#, ContextWindowExceeded);
        check(500, r#"{"error":"Error code: 401 - no"}"#, Unauthorized);
        check(502, r#"{"error":{"code":502,"message":"insufficient_quota"}}"#, UsageLimitExceeded);
        check(400, r#"{"error":{"message":"my_insufficient_quota_file"}}"#, BadRequest);
        check(529, "busy", HttpConnectionFailed);
        check(503, r#"{"code":"server_is_overloaded"}"#, ServerOverloaded);
        check(400, r#"{"error":{"code":"cyber_policy"}}"#, CyberPolicy);
    }

    #[test]
    fn events_map_to_kinds() {
        let check = |code: &str, message: &str, kind, passes, wait: Option<u64>| {
            let error = json!({ "code": code, "message": message });
            let failure = from_event(&ProviderError::from_value(&error));
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
        check("usage_not_included", "", UsageLimitExceeded, false, None);
        check("new", "Hard monthly spend limit reached.", UsageLimitExceeded, false, None);
        check("something_new", "", Other, true, None);
        check("", "", Other, true, None);
    }

    #[test]
    fn a_known_type_classifies_an_unknown_code() {
        let error = json!({ "code": "project_spend_limit_exceeded", "type": "insufficient_quota" });
        assert_eq!(ProviderError::from_value(&error).classify(), Some((UsageLimitExceeded, false)));
    }

    #[test]
    fn a_used_up_limit_names_its_reset() {
        let provider = Provider::http("p", "http://host/v1");
        let check = |error: Value, date: Option<&str>, seconds: Option<u64>| {
            let mut headers = HeaderMap::new();
            headers.extend(date.map(|date| (hyper::header::DATE, date.parse().unwrap())));
            let body = json!({ "error": error }).to_string();
            let status = StatusCode::TOO_MANY_REQUESTS;
            let failure =
                failure_from_status(&provider, "POST u", status, &headers, body.as_bytes());
            assert_eq!(failure.kind, UsageLimitExceeded);
            assert_eq!(failure.retry_after, seconds.map(Duration::from_secs), "{error}");
        };
        let error =
            |member: &str, value: Value| json!({ "type": "usage_limit_reached", member: value });
        let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        check(error("resets_in_seconds", json!(90)), None, Some(90));
        check(error("resets_at", json!(784_111_877)), date, Some(100));
        check(error("resets_at", json!(784_111_877)), None, None);
        check(error("resets_at", json!(1)), date, None);
        for wrong in
            [json!(null), json!("soon"), json!(-1), json!(1e300), json!(u64::MAX), json!({})]
        {
            check(error("resets_in_seconds", wrong.clone()), date, None);
            check(error("resets_at", wrong), None, None);
        }
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
