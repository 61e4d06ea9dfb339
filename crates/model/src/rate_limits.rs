//! The limits that a provider reports with a response (specification of the hosted API: response
//! headers).

use std::time::{Duration, SystemTime};

use http_client::retry;
use hyper::HeaderMap;
use serde_json::Value;

/// The windows in which providers count, in seconds.
const WINDOWS: [f64; 4] = [60.0, 86_400.0, 1.0, 3_600.0];

/// Longest reset that a date can name: limits of providers are of a day at most.
const LONGEST_RESET: Duration = Duration::from_secs(86_400);

/// The limits of a key, as far as the provider reports them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimits {
    pub requests: Option<RateLimit>,
    pub tokens: Option<RateLimit>,
    pub project_tokens: Option<RateLimit>,
}

/// The state of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    pub limit: u64,
    pub remaining: u64,
    /// Time until all of it is available again.
    pub reset: Duration,
}

impl RateLimits {
    /// Reads `x-ratelimit-*` and `anthropic-ratelimit-*` headers. A limit without all of its three headers counts
    /// as absent, and so does a limit of zero. `None` without any limit.
    #[must_use]
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        Self::read_at(SystemTime::now(), headers)
    }

    /// As [`Self::read`], with the time for resets that are dates.
    fn read_at(now: SystemTime, headers: &HeaderMap) -> Option<Self> {
        let now = retry::server_time(now, text(headers, "date"));
        let of_messages = |what: &str| read_messages_limit(now, headers, what);
        let limits = Self {
            requests: read_limit(headers, "requests").or_else(|| of_messages("requests")),
            // Those of input come first: they are what a request is charged before its answer begins.
            tokens: read_limit(headers, "tokens")
                .or_else(|| of_messages("input-tokens"))
                .or_else(|| of_messages("tokens")),
            project_tokens: read_limit(headers, "project-tokens"),
        };
        limits.known()
    }

    /// Reads a `rate_limits.updated` of a stream: limits by their names.
    pub(crate) fn of_event(event: &Value) -> Option<Self> {
        let all = event["rate_limits"].as_array()?;
        let limit = |name: &str| {
            let limit = all.iter().find(|limit| limit["name"] == name)?;
            RateLimit::checked(
                limit["limit"].as_u64()?,
                limit["remaining"].as_u64()?,
                Duration::try_from_secs_f64(limit["reset_seconds"].as_f64()?).ok()?,
            )
        };
        let limits = Self {
            requests: limit("requests"),
            tokens: limit("tokens"),
            project_tokens: limit("project_tokens"),
        };
        limits.known()
    }

    fn known(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

impl RateLimit {
    /// The used share of the limit, in percent, rounded up.
    #[must_use]
    pub fn used_percent(&self) -> u8 {
        let used = self.limit.saturating_sub(self.remaining);
        let percent = (u128::from(used) * 100).div_ceil(u128::from(self.limit.max(1)));
        u8::try_from(percent).unwrap_or(100)
    }

    /// The windows, in seconds, with which the report agrees: then the reset is more precise than the
    /// whole number that remains. A provider that counts in fixed windows agrees with none.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(crate) fn agreeing_windows(&self) -> impl Iterator<Item = f64> {
        let (limit, remaining) = (self.limit as f64, self.remaining as f64);
        let reset = self.reset.as_secs_f64();
        // The number is rounded down; the reset may be rounded too.
        WINDOWS.into_iter().filter(move |window| {
            let level = limit - limit * reset / window;
            let tolerance = limit * 0.001 / window;
            level >= remaining - tolerance && level <= remaining + 1.0 + tolerance
        })
    }

    fn checked(limit: u64, remaining: u64, reset: Duration) -> Option<Self> {
        (limit > 0).then_some(Self { limit, remaining, reset })
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    Some(headers.get(name)?.to_str().ok()?.trim())
}

/// A limit of a server with the Messages wire, whose reset is a date and which names its parts in another order.
fn read_messages_limit(now: SystemTime, headers: &HeaderMap, what: &str) -> Option<RateLimit> {
    let header = |part: &str| text(headers, &format!("anthropic-ratelimit-{what}-{part}"));
    let reset: SystemTime = header("reset")?.parse::<jiff::Timestamp>().ok()?.into();
    let reset = reset.duration_since(now).unwrap_or_default().min(LONGEST_RESET);
    RateLimit::checked(header("limit")?.parse().ok()?, header("remaining")?.parse().ok()?, reset)
}

fn read_limit(headers: &HeaderMap, what: &str) -> Option<RateLimit> {
    let header = |part: &str| text(headers, &format!("x-ratelimit-{part}-{what}"));
    let reset = header("reset")?;
    // Some providers send plain seconds.
    let seconds = || Duration::try_from_secs_f64(reset.parse().ok()?).ok();
    let reset = retry::duration(reset).or_else(seconds)?;
    RateLimit::checked(header("limit")?.parse().ok()?, header("remaining")?.parse().ok()?, reset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn headers_become_limits() {
        let check = |reset: &str, expected: Option<Duration>| {
            let headers = headers(&[
                ("x-ratelimit-limit-requests", "20"),
                ("x-ratelimit-remaining-requests", "3"),
                ("x-ratelimit-reset-requests", reset),
            ]);
            let found = RateLimits::read(&headers).map(|limits| {
                assert_eq!((limits.tokens, limits.project_tokens), (None, None));
                limits.requests.unwrap()
            });
            let limit = |reset| RateLimit { limit: 20, remaining: 3, reset };
            assert_eq!(found, expected.map(limit), "{reset}");
        };
        check("51s", Some(Duration::from_secs(51)));
        check("6m0s", Some(Duration::from_secs(360)));
        check("8.64ms", Some(Duration::from_micros(8_640)));
        check("0s", Some(Duration::ZERO));
        check("2.5", Some(Duration::from_millis(2_500)));
        check("soon", None);
        check("-1", None);
        check("", None);
    }

    #[test]
    fn limits_with_dates() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_764_460_800);
        let check = |more: &[(&'static str, &str)], expected: Option<(u64, u64)>| {
            let mut pairs = vec![
                ("anthropic-ratelimit-requests-limit", "50"),
                ("anthropic-ratelimit-requests-remaining", "7"),
            ];
            pairs.extend(more);
            let found = RateLimits::read_at(now, &headers(&pairs));
            let found = found.and_then(|limits| limits.requests);
            let found = found.map(|limit| (limit.remaining, limit.reset.as_secs()));
            assert_eq!(found, expected, "{more:?}");
        };
        let reset = "anthropic-ratelimit-requests-reset";
        check(&[(reset, "2025-11-30T00:00:30Z")], Some((7, 30)));
        check(&[(reset, "2025-11-30T01:00:30+01:00")], Some((7, 30)));
        check(&[(reset, "2025-11-29T23:59:00Z")], Some((7, 0)));
        check(&[(reset, "2030-01-01T00:00:00Z")], Some((7, 86_400)));
        // By the server's clock.
        let date = ("date", "Sun, 30 Nov 2025 00:00:20 GMT");
        check(&[(reset, "2025-11-30T00:00:30Z"), date], Some((7, 10)));
        for wrong in ["soon", "30", "", "2025-11-30"] {
            check(&[(reset, wrong)], None);
        }
        check(&[], None);
        let tokens = |what: &str| {
            let name = |part: &str| format!("anthropic-ratelimit-{what}-{part}").parse().unwrap();
            let value = |value: &str| value.parse().unwrap();
            let parts = [("limit", "9"), ("remaining", "4"), ("reset", "2025-11-30T00:00:01Z")];
            let headers = parts.map(|(part, of)| (name(part), value(of))).into_iter().collect();
            RateLimits::read_at(now, &headers)
                .and_then(|limits| limits.tokens)
                .map(|it| it.remaining)
        };
        assert_eq!(tokens("tokens"), Some(4));
        assert_eq!(tokens("input-tokens"), Some(4));
        assert_eq!(tokens("output-tokens"), None);
    }

    #[test]
    fn incomplete_and_senseless_limits_are_absent() {
        let check = |limit: &str, remaining: &str| {
            let headers = headers(&[
                ("x-ratelimit-limit-tokens", limit),
                ("x-ratelimit-remaining-tokens", remaining),
                ("x-ratelimit-reset-tokens", "1s"),
            ]);
            assert_eq!(RateLimits::read(&headers), None, "{limit} {remaining}");
        };
        check("0", "0");
        check("many", "1");
        check("10", "-1");
        check("1e3", "1");
        assert_eq!(RateLimits::read(&HeaderMap::new()), None);
        assert_eq!(RateLimits::read(&headers(&[("x-ratelimit-limit-requests", "20")])), None);
    }

    #[test]
    fn events_of_a_stream_are_read_like_headers() {
        let event = |limit: Value| serde_json::json!({ "rate_limits": [limit, { "name": 5 }] });
        let full = serde_json::json!({ "name": "tokens", "limit": 60_000, "remaining": 59_000,
            "reset_seconds": 1.0 });
        let limits = RateLimits::of_event(&event(full.clone())).unwrap();
        let tokens = limits.tokens.unwrap();
        assert_eq!((tokens.limit, tokens.remaining, tokens.reset.as_secs()), (60_000, 59_000, 1));
        assert_eq!((limits.requests, limits.project_tokens), (None, None));
        for (member, value) in [
            ("limit", Value::from(0)),
            ("limit", Value::from(-1)),
            ("remaining", Value::from("many")),
            ("reset_seconds", Value::from(-1)),
            ("reset_seconds", Value::Null),
            ("name", Value::from("other")),
        ] {
            let mut bad = full.clone();
            bad[member] = value;
            assert_eq!(RateLimits::of_event(&event(bad.clone())), None, "{bad}");
        }
        assert_eq!(RateLimits::of_event(&Value::Null), None);
    }

    #[test]
    fn used_shares_are_rounded_up() {
        let used =
            |limit, remaining| RateLimit { limit, remaining, reset: Duration::ZERO }.used_percent();
        assert_eq!([used(20, 20), used(20, 19), used(1_000, 999), used(3, 0)], [0, 5, 1, 100]);
        assert_eq!(used(5, 9), 0);
        assert_eq!(used(u64::MAX, 0), 100);
    }

    proptest! {
        #[test]
        fn any_header_is_read_without_a_panic(
            limit in "[ -~]{0,24}", remaining in "[ -~]{0,24}", reset in "[ -~]{0,24}",
        ) {
            let headers = headers(&[
                ("x-ratelimit-limit-requests", &limit),
                ("x-ratelimit-remaining-requests", &remaining),
                ("x-ratelimit-reset-requests", &reset),
            ]);
            if let Some(limits) = RateLimits::read(&headers) {
                prop_assert!(limits.requests.unwrap().used_percent() <= 100);
            }
        }
    }
}
