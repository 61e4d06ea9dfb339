//! The `x-ratelimit-*` headers of an answer (specification: Response headers on API responses).

use std::fmt::Display;
use std::io::Write;

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use ratelimit::State;

use super::duration::InHeader;
use super::plan::{Demand, Dimension, Meter, Plan, Scope};

/// Limit, remaining, reset.
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

/// Adds the headers for the meters' states after a decision.
pub fn add(headers: &mut HeaderMap, plan: &Plan, demand: &Demand, states: &[State]) {
    use Dimension as D;
    let shown = |scope, first: &[D], second: &[D]| {
        let of = |dimensions: &[D]| {
            let all = plan.with_states(demand, states);
            let ours = all
                .filter(|(meter, _)| meter.scope == scope && dimensions.contains(&meter.dimension));
            ours.min_by(scarcer)
        };
        of(first).or_else(|| of(second))
    };
    let per_minute = [D::TokensPerMinute, D::LongContextTokensPerMinute];
    let of_organization = Scope::Organization;
    put(headers, &REQUESTS, shown(of_organization, &[D::RequestsPerMinute], &[D::RequestsPerDay]));
    put(headers, &TOKENS, shown(of_organization, &per_minute, &[D::TokensPerDay]));
    put(headers, &PROJECT_TOKENS, shown(Scope::Project, &[D::TokensPerMinute], &[]));
}

/// Compares remaining/limit.
fn scarcer(one: &(&Meter, &State), other: &(&Meter, &State)) -> std::cmp::Ordering {
    let left = |(of, _): &(&Meter, &State), (_, state): &(&Meter, &State)| {
        u128::from(state.remaining) * u128::from(of.limit)
    };
    left(other, one).cmp(&left(one, other))
}

fn put(headers: &mut HeaderMap, names: &Names, shown: Option<(&Meter, &State)>) {
    let Some((meter, state)) = shown else { return };
    headers.insert(&names[0], HeaderValue::from(meter.limit));
    headers.insert(&names[1], HeaderValue::from(state.remaining));
    headers.insert(&names[2], value(InHeader(state.until_full)));
}

/// A short text of digits and letters as a header's value.
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
