//! The `x-ratelimit-*` headers of a response (specification: Response headers on API responses).

use std::fmt::Display;
use std::io::Write;

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use ratelimit::{Micros, State};

use super::dates;
use super::duration::InHeader;
use super::plan::{Demand, Dimension, Meter, Plan, Scope};

/// Names of the headers: limit, remaining, reset.
type Names = [HeaderName; 3];

static REQUESTS: Names = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];
static TOKENS: Names = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];
static PROJECT_TOKENS: Names = [
    HeaderName::from_static("x-ratelimit-limit-project-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-project-tokens"),
    HeaderName::from_static("x-ratelimit-reset-project-tokens"),
];
static PROJECT_REQUESTS: Names = [
    HeaderName::from_static("x-ratelimit-limit-project-requests"),
    HeaderName::from_static("x-ratelimit-remaining-project-requests"),
    HeaderName::from_static("x-ratelimit-reset-project-requests"),
];
/// Those that clients of Messages read.
static MESSAGE_REQUESTS: Names = [
    HeaderName::from_static("anthropic-ratelimit-requests-limit"),
    HeaderName::from_static("anthropic-ratelimit-requests-remaining"),
    HeaderName::from_static("anthropic-ratelimit-requests-reset"),
];
static MESSAGE_TOKENS: Names = [
    HeaderName::from_static("anthropic-ratelimit-tokens-limit"),
    HeaderName::from_static("anthropic-ratelimit-tokens-remaining"),
    HeaderName::from_static("anthropic-ratelimit-tokens-reset"),
];

/// The limits that the headers of a response show: those of the latest decision.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitHeaders {
    requests: Option<Left>,
    tokens: Option<Left>,
    project_requests: Option<Left>,
    project_tokens: Option<Left>,
}

/// The state of a limit.
#[derive(Clone, Copy, Debug)]
struct Left {
    limit: u64,
    state: State,
}

impl LimitHeaders {
    /// From the meters' states after a decision.
    #[must_use]
    pub fn new(plan: &Plan, demand: &Demand, states: &[State]) -> Self {
        use Dimension as D;
        let shown = |scope, first: &[D], second: &[D]| {
            let of = |dimensions: &[D]| {
                let all = plan.with_states(demand, states);
                let ours = all.filter(|(meter, _)| {
                    meter.scope == scope && dimensions.contains(&meter.dimension)
                });
                ours.min_by(scarcer)
            };
            let (meter, state) = of(first).or_else(|| of(second))?;
            Some(Left { limit: meter.limit, state: *state })
        };
        let per_minute = [D::TokensPerMinute, D::LongContextTokensPerMinute];
        let organization = Scope::Organization;
        Self {
            requests: shown(organization, &[D::RequestsPerMinute], &[D::RequestsPerDay]),
            tokens: shown(organization, &per_minute, &[D::TokensPerDay]),
            project_requests: shown(Scope::Project, &[D::RequestsPerMinute], &[D::RequestsPerDay]),
            project_tokens: shown(Scope::Project, &[D::TokensPerMinute], &[]),
        }
    }

    /// Adds the headers to `headers`.
    pub fn put(&self, headers: &mut HeaderMap) {
        put(headers, &REQUESTS, self.requests);
        put(headers, &TOKENS, self.tokens);
        put(headers, &PROJECT_REQUESTS, self.project_requests);
        put(headers, &PROJECT_TOKENS, self.project_tokens);
    }

    /// Adds the headers that clients of Messages read; `now` is the moment of the decision.
    pub fn put_for_messages(&self, headers: &mut HeaderMap, now: Micros) {
        for (names, shown) in [(&MESSAGE_REQUESTS, self.requests), (&MESSAGE_TOKENS, self.tokens)] {
            let Some(Left { limit, state }) = shown else { continue };
            headers.insert(&names[0], HeaderValue::from(limit));
            headers.insert(&names[1], HeaderValue::from(state.remaining));
            let full = now.saturating_add(state.until_full);
            headers.insert(&names[2], value(dates::rfc3339(full)));
        }
    }
}

/// Compares the ratios of remaining to limit.
fn scarcer(one: &(&Meter, &State), other: &(&Meter, &State)) -> std::cmp::Ordering {
    let left = |(of, _): &(&Meter, &State), (_, state): &(&Meter, &State)| {
        u128::from(state.remaining) * u128::from(of.limit)
    };
    left(other, one).cmp(&left(one, other))
}

fn put(headers: &mut HeaderMap, names: &Names, shown: Option<Left>) {
    let Some(Left { limit, state }) = shown else { return };
    headers.insert(&names[0], HeaderValue::from(limit));
    headers.insert(&names[1], HeaderValue::from(state.remaining));
    headers.insert(&names[2], value(InHeader(state.until_full)));
}

/// A header value from digits and letters.
#[must_use]
pub fn value(shown: impl Display) -> HeaderValue {
    let mut text = [0u8; 64];
    let mut rest = &mut text[..];
    if write!(rest, "{shown}").is_err() {
        return HeaderValue::from_static("");
    }
    let length = 64 - rest.len();
    HeaderValue::from_bytes(&text[..length]).unwrap_or(HeaderValue::from_static(""))
}
