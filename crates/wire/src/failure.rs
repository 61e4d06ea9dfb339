//! Failures that providers report, on any wire: their kind, and their bodies in each wire. A server reports one with
//! a status, or inside a stream that began with 200.

use std::borrow::Cow;

use crate::error::{Code, Error};
use crate::json::{At, Members, Object, object};
use crate::kind::Wire;

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The prompt is longer than the model's context window.
    ContextWindow,
    RateLimit,
    /// The account's money or quota is used up: waiting does not help.
    Quota,
    Overloaded,
    Server,
    Timeout,
    Invalid,
    TooLarge,
    Unauthorized,
    Forbidden,
    NotFound,
    /// The stream ended before the response did.
    Disconnected,
    /// The stream holds what its wire does not allow, or more than a bound of this crate.
    Malformed,
    /// The server speaks another wire than it is configured for.
    OtherWire,
}

/// The names of a kind on the wires.
struct KindNames {
    kind: FailureKind,
    status: u16,
    /// `code` of Responses and Chat Completions.
    code: &'static str,
    /// `type` of Responses and Chat Completions.
    openai_type: &'static str,
    messages_type: &'static str,
    gemini_status: &'static str,
}

const fn names(
    kind: FailureKind,
    status: u16,
    code: &'static str,
    openai_type: &'static str,
    messages_type: &'static str,
    gemini_status: &'static str,
) -> KindNames {
    KindNames { kind, status, code, openai_type, messages_type, gemini_status }
}

#[rustfmt::skip]
const KINDS: [KindNames; 14] = [
    names(FailureKind::ContextWindow, 400, "context_length_exceeded", "invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"),
    names(FailureKind::RateLimit, 429, "rate_limit_exceeded", "rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED"),
    names(FailureKind::Quota, 429, "insufficient_quota", "insufficient_quota", "billing_error", "RESOURCE_EXHAUSTED"),
    names(FailureKind::Overloaded, 503, "server_is_overloaded", "server_error", "overloaded_error", "UNAVAILABLE"),
    names(FailureKind::Server, 500, "server_error", "server_error", "api_error", "INTERNAL"),
    names(FailureKind::Timeout, 504, "server_error", "server_error", "timeout_error", "DEADLINE_EXCEEDED"),
    names(FailureKind::Invalid, 400, "invalid_prompt", "invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"),
    names(FailureKind::TooLarge, 413, "request_too_large", "invalid_request_error", "request_too_large", "INVALID_ARGUMENT"),
    names(FailureKind::Unauthorized, 401, "invalid_api_key", "invalid_request_error", "authentication_error", "UNAUTHENTICATED"),
    names(FailureKind::Forbidden, 403, "permission_denied", "permission_error", "permission_error", "PERMISSION_DENIED"),
    names(FailureKind::NotFound, 404, "model_not_found", "invalid_request_error", "not_found_error", "NOT_FOUND"),
    names(FailureKind::Disconnected, 502, "server_error", "server_error", "api_error", "UNAVAILABLE"),
    names(FailureKind::Malformed, 502, "server_error", "server_error", "api_error", "INTERNAL"),
    names(FailureKind::OtherWire, 502, "wrong_protocol", "server_error", "api_error", "INTERNAL"),
];

impl FailureKind {
    fn names(self) -> &'static KindNames {
        // The table has a row for each kind, in any order.
        KINDS.iter().find(|names| names.kind == self).unwrap_or(&KINDS[4])
    }

    /// True if the same request may succeed later.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::RateLimit
                | Self::Overloaded
                | Self::Server
                | Self::Timeout
                | Self::Disconnected
                | Self::Malformed
        )
    }

    /// HTTP status in a wire. Only Messages has one of its own for overload.
    #[must_use]
    pub fn status(self, wire: Wire) -> u16 {
        match (self, wire) {
            (Self::Overloaded, Wire::Messages) => 529,
            (Self::Quota, Wire::Messages) => 402,
            _ => self.names().status,
        }
    }
}

/// A failure as a provider reported it, or as the reading of its stream found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    /// The provider's code or type; that of the kind where it has none.
    pub code: String,
    pub message: String,
    /// The member of the request that is to blame.
    pub param: Option<String>,
    /// The wait that the body asks for, in milliseconds. Headers are the caller's to read.
    pub retry_after_ms: Option<u64>,
}

/// Longest message of a failure that is kept, in bytes; the rest is cut.
const MAX_MESSAGE: usize = 4096;

impl Failure {
    /// A failure of a kind, with the kind's code.
    #[must_use]
    pub fn new(kind: FailureKind, message: &str) -> Self {
        let end =
            (0..=message.len().min(MAX_MESSAGE)).rev().find(|at| message.is_char_boundary(*at));
        let message = message[..end.unwrap_or_default()].to_owned();
        Self { kind, code: kind.names().code.into(), message, param: None, retry_after_ms: None }
    }

    /// Reads the body of an answer with an error's status. Bodies that are no JSON are the message.
    #[must_use]
    pub fn read(status: u16, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let object = Object::read_str(first_element(&text), &At::Root).unwrap_or_default();
        Self::from_object(Some(status), object).unwrap_or_else(|| {
            let text = text.trim();
            let message = if text.is_empty() { "The provider gave no reason." } else { text };
            let kind = kind_of("", Some(status), message);
            Self::new(kind, message)
        })
    }

    /// The failure in an object that has a member `error`, or is one itself.
    pub(crate) fn from_object(status: Option<u16>, mut outer: Object<'_>) -> Option<Self> {
        let at = At::Root;
        let raw = outer.take("error");
        let mut error = match raw {
            Some(raw) if raw.get().starts_with('{') => Object::read(raw, &at).ok()?,
            Some(raw) => {
                let message = crate::json::text(raw, &at).ok()?;
                return Some(Self::new(kind_of("", status, &message), &message));
            }
            None => outer,
        };
        let lenient = |error: &mut Object<'_>, name| {
            let raw = error.take(name)?;
            let text: Option<Cow<'_, str>> = crate::json::text(raw, &at).ok();
            Some(text.map_or_else(|| raw.get().to_owned(), Cow::into_owned))
        };
        let message = lenient(&mut error, "message")?;
        let code = lenient(&mut error, "code").filter(|code| !code.is_empty());
        let kind_name = lenient(&mut error, "type").filter(|name| name != "error");
        let kind_name = kind_name.or_else(|| lenient(&mut error, "status"));
        let number = code.as_deref().and_then(|code| code.parse().ok());
        let status = status.or_else(|| number.filter(|code| (400..600).contains(code)));
        let details =
            error.take("details").map(serde_json::value::RawValue::get).unwrap_or_default();
        let words = match (&code, &kind_name) {
            // A type says less than a code, but more than a number.
            (Some(code), _) if number.is_none() && kind_of_code(code).is_some() => code.clone(),
            (_, Some(kind)) => kind.clone(),
            (Some(code), None) => code.clone(),
            (None, None) => String::new(),
        };
        let spent = ["enforced_spend_limit_reached", "contract_spend_limit_reached"];
        let is_refused_key = details.contains("\"API_KEY_INVALID\"");
        let kind = if is_refused_key {
            FailureKind::Unauthorized
        } else if spent.iter().any(|word| details.contains(word)) {
            FailureKind::Quota
        } else {
            kind_of(&words, status, &message)
        };
        let mut failure = Self::new(kind, &message);
        if !words.is_empty() && kind != FailureKind::ContextWindow {
            failure.code = code.filter(|_| number.is_none()).unwrap_or(words);
            failure.code.truncate(failure.code.floor_char_boundary(64));
        }
        failure.param = lenient(&mut error, "param");
        failure.retry_after_ms = retry_delay(details);
        Some(failure)
    }

    /// The body of a response in a wire.
    #[must_use]
    pub fn body(&self, wire: Wire) -> String {
        let mut out = String::with_capacity(self.message.len() + 128);
        object(&mut out, |body| {
            if wire == Wire::Messages {
                body.text("type", "error");
            }
            body.object("error", |error| self.write(wire, error));
            if wire == Wire::Messages {
                body.raw("request_id", "null");
            }
        });
        out
    }

    /// The members of the error object.
    pub(crate) fn write(&self, wire: Wire, error: &mut Members<'_>) {
        let names = self.kind.names();
        match wire {
            Wire::Responses | Wire::Chat => {
                error.text("message", &self.message);
                error.text("type", names.openai_type);
                match &self.param {
                    Some(param) => error.text("param", param),
                    None => error.raw("param", "null"),
                }
                error.text("code", self.responses_code());
            }
            Wire::Messages => {
                error.text("type", names.messages_type);
                error.text("message", &self.messages_message());
            }
            Wire::Gemini => {
                error.number("code", self.kind.status(wire).into());
                error.text("message", &self.message);
                error.text("status", names.gemini_status);
            }
        }
    }

    /// The code that a client of the Responses wire knows.
    pub(crate) fn responses_code(&self) -> &str {
        match self.kind {
            FailureKind::Invalid | FailureKind::TooLarge if !is_type(&self.code) => &self.code,
            kind => kind.names().code,
        }
    }

    /// Clients of Messages recognise a prompt that is too long by its words alone.
    fn messages_message(&self) -> Cow<'_, str> {
        let says_so = self.message.to_ascii_lowercase().contains("prompt is too long");
        if self.kind == FailureKind::ContextWindow && !says_so {
            return Cow::Owned(format!("prompt is too long: {}", self.message));
        }
        Cow::Borrowed(&self.message)
    }
}

/// True if a code is the type or the status that other wires have in its place.
fn is_type(code: &str) -> bool {
    let is_status = code.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    is_status || KINDS.iter().any(|names| names.messages_type == code || names.openai_type == code)
}

impl Error {
    /// The body of the response in the caller's wire.
    #[must_use]
    pub fn body(&self, wire: Wire) -> String {
        let kind = match self.code {
            Code::TooLarge => FailureKind::TooLarge,
            _ => FailureKind::Invalid,
        };
        let mut failure = Failure::new(kind, &self.message);
        self.code.as_str().clone_into(&mut failure.code);
        failure.param = Some(self.member.clone()).filter(|member| !member.is_empty());
        failure.body(wire)
    }
}

/// Vertex answers with an array of one error.
fn first_element(text: &str) -> &str {
    let text = text.trim_ascii();
    text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text)
}

/// `retryDelay` of `google.rpc.RetryInfo`, such as `"17s"` or `"0.5s"`, in milliseconds.
fn retry_delay(details: &str) -> Option<u64> {
    let rest = details.split_once("\"retryDelay\"")?.1.trim_start_matches([':', ' ', '"']);
    let (number, _) = rest.split_once('s')?;
    let (seconds, fraction) = number.split_once('.').unwrap_or((number, ""));
    let millis: String = fraction.chars().chain("000".chars()).take(3).collect();
    let seconds: u64 = seconds.parse().ok()?;
    seconds.checked_mul(1000)?.checked_add(millis.parse().ok()?)
}

fn kind_of(code: &str, status: Option<u16>, message: &str) -> FailureKind {
    let lower = message.to_ascii_lowercase();
    let is_bad_request = matches!(status, None | Some(400 | 413 | 422 | 500));
    if is_bad_request && TOO_LONG.iter().any(|words| lower.contains(words)) {
        return FailureKind::ContextWindow;
    }
    if SPENT.iter().any(|words| lower.contains(words)) {
        return FailureKind::Quota;
    }
    let kind = match (kind_of_code(code), status.map(kind_of_status)) {
        // A code for any fault of the server says less than its status.
        (Some(FailureKind::Server) | None, Some(kind)) => kind,
        (Some(kind), _) => kind,
        (None, None) => FailureKind::Server,
    };
    match (status, kind) {
        // Some have a general code next to the status.
        (Some(401), FailureKind::Invalid | FailureKind::Server) => FailureKind::Unauthorized,
        (Some(404), FailureKind::Invalid) => FailureKind::NotFound,
        // More than a limit's tokens in one request: waiting does not help.
        (Some(413), FailureKind::Invalid | FailureKind::RateLimit) => FailureKind::TooLarge,
        (_, kind) => kind,
    }
}

/// Words by which a message says that the prompt is too long, in lower case.
const TOO_LONG: [&str; 13] = [
    "prompt is too long",
    "input is too long",
    "exceeds the maximum number of tokens",
    "exceeds maximum context",
    "exceed context limit",
    "exceeds the context",
    "exceeds the available context size",
    "maximum context length",
    "context length exceeded",
    "context window",
    "reduce the length of the messages",
    "input token count",
    "range of input length should be",
];

/// Words by which a message says that the account's money is used up, in lower case. Gemini's "exceeded your current
/// quota" is also that of a minute.
const SPENT: [&str; 5] = [
    "credit balance is too low",
    "insufficient balance",
    "insufficient credits",
    "spend limit",
    "spending limit",
];

fn kind_of_code(code: &str) -> Option<FailureKind> {
    Some(match code.to_ascii_lowercase().as_str() {
        "context_length_exceeded"
        | "exceed_context_size_error"
        | "context_window_exceeded"
        | "model_context_window_exceeded"
        | "context_too_long" => FailureKind::ContextWindow,
        "rate_limit_error"
        | "rate_limit_exceeded"
        | "resource_exhausted"
        | "too_many_requests"
        | "rate_limit_reached_error"
        | "throttlingexception"
        | "1302"
        | "1305" => FailureKind::RateLimit,
        "insufficient_quota"
        | "billing_error"
        | "insufficient_balance"
        | "insufficient_credits"
        | "exceeded_current_quota_error"
        | "enforced_spend_limit_reached"
        | "1113" => FailureKind::Quota,
        "overloaded_error"
        | "server_is_overloaded"
        | "unavailable"
        | "engine_overloaded_error"
        | "slow_down"
        | "insufficient_system_resource" => FailureKind::Overloaded,
        "api_error"
        | "server_error"
        | "internal"
        | "internal_error"
        | "internal_server_error"
        | "unknown" => FailureKind::Server,
        "timeout_error" | "deadline_exceeded" => FailureKind::Timeout,
        "invalid_request_error"
        | "invalid_argument"
        | "failed_precondition"
        | "tool_use_failed"
        | "invalid_prompt"
        | "bad_request"
        | "1214" => FailureKind::Invalid,
        "request_too_large" => FailureKind::TooLarge,
        "authentication_error"
        | "unauthenticated"
        | "invalid_api_key"
        | "invalid_authentication_error" => FailureKind::Unauthorized,
        "permission_error" | "permission_denied" => FailureKind::Forbidden,
        "not_found_error" | "not_found" | "model_not_found" => FailureKind::NotFound,
        _ => return None,
    })
}

fn kind_of_status(status: u16) -> FailureKind {
    match status {
        401 => FailureKind::Unauthorized,
        402 => FailureKind::Quota,
        403 => FailureKind::Forbidden,
        404 => FailureKind::NotFound,
        408 | 504 => FailureKind::Timeout,
        413 => FailureKind::TooLarge,
        429 => FailureKind::RateLimit,
        503 | 529 => FailureKind::Overloaded,
        400..=499 => FailureKind::Invalid,
        _ => FailureKind::Server,
    }
}
