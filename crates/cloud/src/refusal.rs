//! Refusals of clouds, in the form of the Messages wire.

use std::time::SystemTime;

use hyper::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};

/// Difference of clocks beyond which Amazon and Google refuse a signature, in seconds.
const MAX_SKEW: u64 = 300;

/// Names of Amazon's errors, and the type of the Messages wire that each is.
const KINDS: [(&str, &str); 18] = [
    ("throttling", "rate_limit_error"),
    ("toomanyrequests", "rate_limit_error"),
    ("servicequotaexceeded", "rate_limit_error"),
    ("serviceunavailable", "overloaded_error"),
    ("modelnotready", "overloaded_error"),
    ("modeltimeout", "timeout_error"),
    ("modelstreamerror", "api_error"),
    ("modelerror", "api_error"),
    ("internal", "api_error"),
    ("expiredtoken", "authentication_error"),
    ("invalidsignature", "authentication_error"),
    ("signaturedoesnotmatch", "authentication_error"),
    ("unrecognizedclient", "authentication_error"),
    ("missingauthenticationtoken", "authentication_error"),
    ("incompletesignature", "authentication_error"),
    ("accessdenied", "permission_error"),
    ("resourcenotfound", "not_found_error"),
    ("validation", "invalid_request_error"),
];

/// An error of Amazon's as an event and a body of the Messages wire. `name` is as in `ThrottlingException`.
pub(crate) fn error_of(name: &str, body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let message =
        ["message", "Message", "originalMessage"].iter().find_map(|it| value[*it].as_str());
    let plain = name.to_ascii_lowercase();
    let known = KINDS.iter().find(|(known, _)| plain.starts_with(known));
    let kind = known.map_or("api_error", |(_, kind)| *kind);
    let message = match (message, name) {
        (Some(message), "") => message.to_owned(),
        (Some(message), name) => format!("{name}: {message}"),
        (None, "") => "no reason was given".to_owned(),
        (None, name) => name.to_owned(),
    };
    json!({ "type": "error", "error": { "type": kind, "message": message } }).to_string()
}

/// The body of a refusal as the Messages wire has it, where it is one of Amazon's.
#[must_use]
pub fn refusal(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    Some(error_of(&name_of(headers, body)?, body))
}

/// Names of Amazon's errors that are about the key or the signature, and not about what the account may do.
const OF_KEYS: [&str; 5] = [
    "expiredtoken",
    "invalidclienttokenid",
    "invalidsignature",
    "signaturedoesnotmatch",
    "unrecognizedclient",
];

/// Returns whether a refusal is about the key of the account, so that another key may help: a status of 401, or one of
/// Amazon's errors of tokens and signatures, which have 403.
#[must_use]
pub fn is_of_key(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> bool {
    let is_named = || {
        let name = name_of(headers, body).unwrap_or_default().to_ascii_lowercase();
        OF_KEYS.iter().any(|known| name.starts_with(known))
    };
    match status {
        StatusCode::UNAUTHORIZED => true,
        StatusCode::FORBIDDEN => is_named(),
        _ => false,
    }
}

/// The name of one of Amazon's errors.
fn name_of(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let header = headers.get("x-amzn-errortype").and_then(|name| name.to_str().ok());
    let name = header.or_else(|| value["__type"].as_str())?;
    // As in `com.amazon.coral.service#ExpiredTokenException:http://…`.
    let name = name.split(':').next().unwrap_or_default();
    Some(name.rsplit('#').next().unwrap_or_default().to_owned())
}

/// A sentence about this machine's clock, if the server's differs by more than is tolerated.
#[must_use]
pub fn clock(headers: &HeaderMap, now: SystemTime) -> Option<String> {
    let date = headers.get(header::DATE)?.to_str().ok()?;
    let theirs = http_client::retry::server_time(now, Some(date));
    let (difference, side) = match now.duration_since(theirs) {
        Ok(ahead) => (ahead.as_secs(), "fast"),
        Err(late) => (late.duration().as_secs(), "slow"),
    };
    (difference > MAX_SKEW).then(|| {
        format!("; the clock of this machine is {difference} s {side}, by the server's: correct it")
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn names_of_errors() {
        for (name, kind) in [
            ("ThrottlingException", "rate_limit_error"),
            ("throttlingException", "rate_limit_error"),
            ("ExpiredTokenException", "authentication_error"),
            ("AccessDeniedException", "permission_error"),
            ("ModelTimeoutException", "timeout_error"),
            ("ValidationException", "invalid_request_error"),
            ("NewException", "api_error"),
        ] {
            let error: Value =
                serde_json::from_str(&error_of(name, b"{\"message\":\"why\"}")).unwrap();
            assert_eq!(error["error"]["type"], kind, "{name}");
            assert_eq!(error["error"]["message"], format!("{name}: why"));
        }
        assert!(error_of("", b"no json").contains("no reason was given"));
    }

    #[test]
    fn errors_of_keys() {
        for (status, name, expected) in [
            (401, "", true),
            (403, "ExpiredTokenException", true),
            (403, "com.amazon.coral.service#UnrecognizedClientException:http://x", true),
            (403, "InvalidSignatureException", true),
            (403, "AccessDeniedException", false),
            (403, "", false),
            (500, "ExpiredTokenException", false),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let body = format!("{{\"__type\":\"{name}\"}}");
            let in_body = is_of_key(status, &HeaderMap::new(), body.as_bytes());
            assert_eq!(in_body, expected, "{status} {name}");
        }
    }

    #[test]
    fn a_wrong_clock_is_named() {
        let mut headers = HeaderMap::new();
        let now = SystemTime::now();
        assert_eq!(clock(&headers, now), None);
        headers.insert(header::DATE, httpdate::fmt_http_date(now).parse().unwrap());
        assert_eq!(clock(&headers, now), None);
        let slow = clock(&headers, now - Duration::from_secs(900)).unwrap();
        assert!(slow.contains("s slow, by the server's"), "{slow}");
        assert!(clock(&headers, now + Duration::from_secs(900)).unwrap().contains("s fast"));
    }
}
