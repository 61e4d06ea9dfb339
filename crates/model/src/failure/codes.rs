//! The meaning of the codes of errors, and the words that stand for one in a text.

use http_client::FailureKind;

/// Error codes with a kind of their own, and whether a retry may succeed.
pub(super) fn classify(code: &str) -> Option<(FailureKind, bool)> {
    Some(match code.to_ascii_lowercase().as_str() {
        "context_length_exceeded"
        | "exceed_context_size_error"
        | "context_window_exceeded"
        | "contextwindowexceedederror"
        | "context_too_long"
        | "string_above_max_length"
        | "request_too_large"
        | "model_context_window_exceeded" => (FailureKind::ContextWindowExceeded, false),
        "insufficient_quota"
        | "usage_limit_reached"
        | "usage_not_included"
        | "billing_hard_limit_reached"
        | "billing_error"
        | "insufficient_credits"
        | "insufficient_balance"
        | "insufficient_funds"
        | "quota_exceeded"
        | "budget_exceeded"
        | "billing_not_active"
        | "credits_exhausted"
        | "payment_required"
        | "402" => (FailureKind::UsageLimitExceeded, false),
        "rate_limit_exceeded"
        | "rate_limit_error"
        | "rate_limit_reached"
        | "rate_limited"
        | "ratelimiterror"
        | "too_many_requests"
        | "resource_exhausted"
        | "throttlingexception"
        | "toomanyrequestsexception"
        | "429" => (FailureKind::ResponseTooManyFailedAttempts, true),
        "server_is_overloaded"
        | "slow_down"
        | "overloaded_error"
        | "engine_overloaded"
        | "service_unavailable"
        | "serviceunavailableexception"
        | "unavailable"
        | "503"
        | "529" => (FailureKind::ServerOverloaded, true),
        "server_error"
        | "internal_error"
        | "internal_server_error"
        | "internalservererror"
        | "internalserverexception"
        | "modelstreamerrorexception"
        | "api_error"
        | "deadline_exceeded"
        | "500"
        | "502"
        | "504" => (FailureKind::InternalServerError, true),
        "invalid_prompt"
        | "invalid_request_error"
        | "invalid_request"
        | "invalid_argument"
        | "failed_precondition"
        | "validationexception"
        | "badrequesterror"
        | "400"
        | "413"
        | "422" => (FailureKind::BadRequest, false),
        // Of the reading of a stream: another try gets the same.
        "wrong_protocol" => (FailureKind::Other, false),
        "cyber_policy" => (FailureKind::CyberPolicy, false),
        "invalid_api_key"
        | "authentication_error"
        | "authenticationerror"
        | "invalid_authentication"
        | "unauthenticated"
        | "unauthorized"
        | "token_expired"
        | "expired_token"
        | "invalid_token"
        | "account_deactivated"
        | "api_key_invalid"
        | "api_key_expired"
        | "401" => (FailureKind::Unauthorized, false),
        "permission_denied"
        | "permission_error"
        | "accessdeniedexception"
        | "model_not_found"
        | "not_found_error"
        | "403"
        | "404" => (FailureKind::HttpConnectionFailed, false),
        _ => return None,
    })
}

/// Words by which a message of an unknown code names a limit on spending, in lower case.
pub(super) const SPEND_LIMITS: [&str; 6] = [
    "spend limit",
    "spending limit",
    "billing hard limit",
    "credit balance is too low",
    "insufficient credits",
    "insufficient balance",
];

/// Codes that a text may quote. Others are words of English, too, or parts of longer ones.
const QUOTED: [&str; 19] = [
    "insufficient_quota",
    "usage_limit_reached",
    "usage_not_included",
    "billing_hard_limit_reached",
    "insufficient_credits",
    "insufficient_balance",
    "insufficient_funds",
    "quota_exceeded",
    "payment_required",
    "context_length_exceeded",
    "context_window_exceeded",
    "invalid_api_key",
    "authentication_error",
    "token_expired",
    "rate_limit_exceeded",
    "rate_limit_error",
    "too_many_requests",
    "server_is_overloaded",
    "overloaded_error",
];

/// Words before the status of an answer that a text quotes.
const BEFORE_STATUS: [&str; 8] = [
    "error code: ",
    "error code ",
    "status code: ",
    "status code ",
    "status: ",
    "http status ",
    "http error ",
    "http ",
];

/// The code that a text in lower case quotes: one of an error, or else a status.
pub(super) fn quoted_code(text: &str) -> Option<&str> {
    let code = QUOTED.into_iter().find(|code| {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        text.match_indices(code).any(|(at, _)| {
            !text[..at].ends_with(is_part) && !text[at + code.len()..].starts_with(is_part)
        })
    });
    code.or_else(|| {
        BEFORE_STATUS.iter().find_map(|words| {
            let rest = text.split_once(words)?.1;
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            (digits == 3).then(|| &rest[..digits])
        })
    })
}

/// Words by which a message says that the input is too long for the model, in lower case.
pub(super) const TOO_LONG: [&str; 10] = [
    "exceeds maximum context",
    "exceed context limit",
    "reduce the length of the messages",
    "maximum context length",
    "context window",
    "context length exceeded",
    "exceeds the context",
    "exceeds the available context size",
    "prompt is too long",
    "input is too long",
];
