//! Refused requests in the caller's wire: status, headers and body as its provider sends them.

use bytes::Bytes;
use serde_json::{Value, json};
use wire::{Failure, FailureKind, Wire};

use crate::script::engine::Refusal;

/// A refusal as it is sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InWire {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

/// A scripted refusal, or one of the script's own rules. A body that the script gives is sent as it is.
pub(crate) fn of_refusal(wire: Wire, refusal: &Refusal, now: u64) -> InWire {
    // Gemini has waits in the body alone, and no limits in headers.
    let is_sent = |name: &str| {
        let name = name.to_ascii_lowercase();
        wire != Wire::Gemini
            || !(name.starts_with("retry-after") || name.starts_with("x-ratelimit-"))
    };
    let headers = refusal.headers.iter().filter(|(name, _)| is_sent(name));
    let headers: Vec<_> = headers.map(|header| in_dialect(wire, header, now)).collect();
    if wire == Wire::Responses || refusal.is_verbatim {
        return InWire { status: refusal.status, headers, body: refusal.body.clone() };
    }
    let failure = in_words(wire, &Failure::read(refusal.status, &refusal.body));
    let mut body = failure.body(wire);
    if wire == Wire::Gemini
        && let Some(millis) = retry_after(&refusal.headers)
    {
        body = with_retry_info(&body, millis);
    }
    InWire { status: status_in(wire, failure.kind, refusal.status), headers, body: body.into() }
}

/// A failure in the words of its provider: Gemini's clients recognise a prompt that is too long by them alone.
pub(super) fn in_words(wire: Wire, failure: &Failure) -> Failure {
    let mut failure = failure.clone();
    if wire == Wire::Gemini && failure.kind == FailureKind::ContextWindow {
        const WORDS: &str = "The input token count exceeds the maximum number of tokens allowed";
        if !failure.message.contains("input token count") {
            failure.message = format!("{WORDS}: {}", failure.message);
        }
    }
    failure
}

/// A request that breaks a rule of its provider.
pub(crate) fn of_failure(wire: Wire, failure: &Failure) -> InWire {
    let (status, body) = (failure.kind.status(wire), in_words(wire, failure).body(wire));
    InWire { status, headers: Vec::new(), body: body.into() }
}

/// A status of another wire has its equal: 529 is that of Messages alone.
fn status_in(wire: Wire, kind: FailureKind, status: u16) -> u16 {
    match (kind, status) {
        (FailureKind::Overloaded, 503 | 529) | (FailureKind::Quota, 402 | 429) => kind.status(wire),
        _ => status,
    }
}

/// `x-ratelimit-remaining-tokens` is `anthropic-ratelimit-tokens-remaining` on Messages, and a reset there is a time.
fn in_dialect(wire: Wire, (name, value): &(String, String), now: u64) -> (String, String) {
    let kept = (name.clone(), value.clone());
    let lower = name.to_ascii_lowercase();
    let Some(rest) = lower.strip_prefix("x-ratelimit-").filter(|_| wire == Wire::Messages) else {
        return kept;
    };
    let Some((aspect, of)) = rest.split_once('-') else { return kept };
    let value = match aspect {
        "reset" => match seconds(value) {
            Some(seconds) => rfc3339(now.saturating_add(seconds)),
            None => return kept,
        },
        _ => value.clone(),
    };
    (format!("anthropic-ratelimit-{of}-{aspect}"), value)
}

/// A duration such as `6m0s`, `1.5s` or `20ms`, in seconds, rounded up.
fn seconds(duration: &str) -> Option<u64> {
    let (mut millis, mut rest) = (0.0, duration);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let (unit, length) = match rest {
            _ if rest.starts_with("ms") => (1.0, 2),
            _ if rest.starts_with('s') => (1000.0, 1),
            _ if rest.starts_with('m') => (60_000.0, 1),
            _ if rest.starts_with('h') => (3_600_000.0, 1),
            _ => return None,
        };
        millis += number * unit;
        rest = &rest[length..];
    }
    let seconds: f64 = f64::ceil(millis / 1000.0);
    // A number that large is no duration of a header.
    format!("{seconds:.0}").parse().ok()
}

/// A time in seconds since 1970 as `2026-11-30T02:00:14Z`.
fn rfc3339(time: u64) -> String {
    let (days, of_day) = (time / 86_400, time % 86_400);
    // Days since 0000-03-01, in eras of 400 years.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The wait that headers ask for, in milliseconds.
fn retry_after(headers: &[(String, String)]) -> Option<u64> {
    let value = |name: &str| {
        let header = headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name))?;
        header.1.parse::<u64>().ok()
    };
    value("retry-after-ms").or_else(|| value("retry-after")?.checked_mul(1000))
}

/// A body of the Gemini API with the wait that other wires have in a header.
fn with_retry_info(body: &str, millis: u64) -> String {
    let Ok(mut body) = serde_json::from_str::<Value>(body) else { return body.to_owned() };
    let (seconds, rest) = (millis / 1000, millis % 1000);
    let delay = if rest == 0 { format!("{seconds}s") } else { format!("{seconds}.{rest:03}s") };
    body["error"]["details"] =
        json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]);
    body.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, code: &str, headers: &[(&str, &str)]) -> Refusal {
        let mut refusal = Refusal::error(status, code, "Wait.");
        refusal.headers =
            headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        refusal
    }

    #[test]
    fn each_wire_has_its_own_form_of_a_refusal() {
        let check = |wire: Wire, given: &Refusal, status: u16, body: Value| {
            let sent = of_refusal(wire, given, 0);
            let found: Value = serde_json::from_slice(&sent.body).unwrap();
            assert_eq!((sent.status, found), (status, body), "{wire}");
        };
        let busy = refusal(503, "server_is_overloaded", &[("retry-after-ms", "1500")]);
        let error = json!({"type": "overloaded_error", "message": "Wait."});
        check(
            Wire::Messages,
            &busy,
            529,
            json!({"type": "error", "error": error, "request_id": null}),
        );
        let details =
            json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.500s"}]);
        let error =
            json!({"code": 503, "message": "Wait.", "status": "UNAVAILABLE", "details": details});
        check(Wire::Gemini, &busy, 503, json!({ "error": error }));
        let error = json!({"message": "Wait.", "type": "rate_limit_error", "param": null, "code": "rate_limit_exceeded"});
        let limit = refusal(429, "rate_limit_exceeded", &[]);
        check(Wire::Chat, &limit, 429, json!({ "error": error }));
        let error = json!({"code": "rate_limit_exceeded", "message": "Wait."});
        check(Wire::Responses, &limit, 429, json!({ "error": error }));
        let long = refusal(400, "context_length_exceeded", &[]);
        let error =
            json!({"type": "invalid_request_error", "message": "prompt is too long: Wait."});
        check(
            Wire::Messages,
            &long,
            400,
            json!({"type": "error", "error": error, "request_id": null}),
        );
        let mut verbatim = refusal(418, "", &[]);
        (verbatim.is_verbatim, verbatim.body) = (true, Bytes::from_static(b"{\"a\":1}"));
        check(Wire::Gemini, &verbatim, 418, json!({"a": 1}));
    }

    #[test]
    fn limits_are_named_as_the_wire_names_them() {
        let given = [
            ("x-ratelimit-remaining-tokens", "7"),
            ("X-RateLimit-Reset-Requests", "1m0.5s"),
            ("x-ratelimit-reset-tokens", "soon"),
            ("retry-after", "3"),
        ];
        let refusal = refusal(429, "rate_limit_exceeded", &given);
        let sent = |wire| of_refusal(wire, &refusal, 1_790_000_000).headers;
        let own =
            |list: [(&str, &str); 4]| list.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec();
        let messages = own([
            ("anthropic-ratelimit-tokens-remaining", "7"),
            ("anthropic-ratelimit-requests-reset", "2026-09-21T14:14:21Z"),
            ("x-ratelimit-reset-tokens", "soon"),
            ("retry-after", "3"),
        ]);
        assert_eq!((sent(Wire::Messages), sent(Wire::Chat)), (messages, own(given)));
        assert_eq!(sent(Wire::Gemini), []);
        for (time, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(time), text);
        }
    }
}
