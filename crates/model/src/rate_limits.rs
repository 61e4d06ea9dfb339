//! The limits that a provider reports with a response (specification of the hosted API: response
//! headers).

use std::time::Duration;

use http_client::retry;
use hyper::HeaderMap;

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
    /// Reads `x-ratelimit-*` headers. A limit without all of its three headers counts as absent, and
    /// so does a limit of zero. `None` without any limit.
    #[must_use]
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        let limits = Self {
            requests: read_limit(headers, "requests"),
            tokens: read_limit(headers, "tokens"),
            project_tokens: read_limit(headers, "project-tokens"),
        };
        (limits != Self::default()).then_some(limits)
    }
}

impl RateLimit {
    /// How much of the limit is used, in percent, rounded up.
    #[must_use]
    pub fn used_percent(&self) -> u8 {
        let used = self.limit.saturating_sub(self.remaining);
        let percent = (u128::from(used) * 100).div_ceil(u128::from(self.limit.max(1)));
        u8::try_from(percent).unwrap_or(100)
    }
}

fn read_limit(headers: &HeaderMap, what: &str) -> Option<RateLimit> {
    let header = |part: &str| {
        let value = headers.get(format!("x-ratelimit-{part}-{what}"))?.to_str().ok()?;
        Some(value.trim())
    };
    let reset = header("reset")?;
    let limit: u64 = header("limit")?.parse().ok()?;
    Some(RateLimit {
        limit: (limit > 0).then_some(limit)?,
        remaining: header("remaining")?.parse().ok()?,
        // Some providers send plain seconds.
        reset: retry::duration(reset).or_else(|| {
            let seconds = reset.parse().ok()?;
            Duration::try_from_secs_f64(seconds).ok()
        })?,
    })
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
