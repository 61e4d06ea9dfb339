//! Errors for refused requests (specification: Errors; the reported wait suffices).

use hyper::StatusCode;
use hyper::header::{self, HeaderName, HeaderValue};
use ratelimit::{Micros, RESERVED_WAIT, Remedy, State};

use super::duration::InMessage;
use super::headers::value;
use super::plan::{Demand, Dimension, Meter, Plan, Scope};
use crate::dates;
use crate::error::ApiError;
use crate::settings::Settings;
use crate::tenants::Caller;

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// The code of a refusal because of other requests' reservations of money.
pub const SPEND_RESERVED: &str = "spend_reserved";

/// The error for a request that was refused because of draw number `which`. `model` is the name
/// that the client used.
#[must_use]
pub fn error(
    caller: &Caller,
    settings: &Settings,
    model: &str,
    plan: &Plan,
    demand: &Demand,
    (which, remedy, states): (usize, Remedy, &[State]),
    now: Micros,
) -> ApiError {
    let Some((meter, state)) = plan.with_states(demand, states).nth(which) else {
        return rate_limit("Rate limit reached.".to_owned(), "requests");
    };
    if meter.dimension == Dimension::Spend {
        return match remedy {
            Remedy::Reserved => reserved(caller, settings, meter, demand),
            _ => spend(caller, settings, meter, demand, now),
        };
    }
    match remedy {
        Remedy::Wait(wait) => reached(caller, model, meter, state, demand, wait),
        _ => too_large(caller, model, meter, demand),
    }
}

fn reached(
    caller: &Caller,
    model: &str,
    meter: &Meter,
    state: &State,
    demand: &Demand,
    wait: Micros,
) -> ApiError {
    let Facts { whose, words, kind, unit } = Facts::of_meter(caller, meter);
    let message = format!(
        "Rate limit reached for {model} in {whose} on {words}: Limit {}, Used {}, Requested {}. \
         Please try again in {}.",
        meter.limit / unit,
        state.used.div_ceil(unit),
        asked(meter, demand).div_ceil(unit),
        InMessage(wait.max(1)),
    );
    retry_after(rate_limit(message, kind), wait)
}

fn retry_after(error: ApiError, wait: Micros) -> ApiError {
    error
        .header(header::RETRY_AFTER, value(wait.div_ceil(1_000_000).max(1)))
        .header(RETRY_AFTER_MS, value(wait.div_ceil(1000).max(1)))
}

fn too_large(caller: &Caller, model: &str, meter: &Meter, demand: &Demand) -> ApiError {
    let Facts { whose, words, kind, unit } = Facts::of_meter(caller, meter);
    let message = format!(
        "Request too large for {model} in {whose} on {words}: Limit {}, Requested {}.",
        meter.limit / unit,
        asked(meter, demand).div_ceil(unit),
    );
    never_retry(rate_limit(message, kind))
}

/// The error for a batch whose tokens do not fit into the queue.
#[must_use]
pub fn queue_full(model: &str, organization: &str, limit: u64) -> String {
    format!(
        "Enqueued token limit reached for {model} in organization {organization}. Limit: {limit} \
         enqueued tokens."
    )
}

/// The same for a project's limit of tokens per day.
#[must_use]
pub fn queue_full_today(model: &str, project: &str, limit: u64) -> String {
    format!(
        "Daily batch token limit reached for {model} in project {project}. Limit: {limit} input \
         tokens within 24 hours."
    )
}

/// The error for a request that exceeds a spend limit of an administrator or of the tier.
fn spend(
    caller: &Caller,
    settings: &Settings,
    meter: &Meter,
    demand: &Demand,
    now: Micros,
) -> ApiError {
    let (code, whose) = spend_limit(caller, settings, meter);
    let message = format!(
        "You exceeded your current quota: the monthly limit of {} of this {whose} leaves no room \
         for this request, which may cost up to {}. Please ask an administrator to raise it, or \
         wait for the next month.",
        dollars(meter.limit),
        dollars(demand.cost),
    );
    let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, code, message);
    // No `retry-after`: a client that honours it alone would wait for weeks.
    never_retry(error.kind("insufficient_quota").resets_at(dates::next_month(now)))
}

/// The error for a request that settled spend leaves room for, but not the reservations of requests in progress.
/// Clients retry it, because these usually cost less than they reserve.
fn reserved(caller: &Caller, settings: &Settings, meter: &Meter, demand: &Demand) -> ApiError {
    let (_, whose) = spend_limit(caller, settings, meter);
    let message = format!(
        "The monthly limit of {} of this {whose} has room for this request, which may cost up to {}, \
         but requests in progress have reserved that room. They release what they do not use when they \
         end. Please try again in {}, send fewer requests at a time, or set a smaller maximum of output \
         tokens.",
        dollars(meter.limit),
        dollars(demand.cost),
        InMessage(RESERVED_WAIT),
    );
    let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, SPEND_RESERVED, message);
    retry_after(error.kind("tokens"), RESERVED_WAIT)
}

/// The code of a used-up spend limit, and its owner in words.
fn spend_limit(
    caller: &Caller,
    settings: &Settings,
    meter: &Meter,
) -> (&'static str, &'static str) {
    let tier = settings.tier(caller.organization.tier).monthly_limit;
    let hard = caller.organization.spend.hard;
    match meter.scope {
        Scope::Project => ("project_spend_limit_exceeded", "project"),
        Scope::Organization if hard.is_some_and(|hard| hard <= tier) => {
            ("organization_spend_limit_exceeded", "organization")
        }
        Scope::Organization => ("organization_usage_limit_exceeded", "organization's tier"),
    }
}

/// An amount in cents, rounded up; exact below a cent.
fn dollars(amount: u64) -> String {
    let cents = amount.div_ceil(10_000);
    match amount {
        1..10_000 => format!("$0.{amount:06}"),
        _ => format!("${}.{:02}", cents / 100, cents % 100),
    }
}

fn rate_limit(message: String, kind: &'static str) -> ApiError {
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", message).kind(kind)
}

fn never_retry(error: ApiError) -> ApiError {
    error.header(SHOULD_RETRY, HeaderValue::from_static("false"))
}

fn asked(meter: &Meter, demand: &Demand) -> u64 {
    match meter.dimension {
        Dimension::RequestsPerMinute
        | Dimension::RequestsPerDay
        | Dimension::IngestionPerMinute => 1,
        Dimension::ImagesPerMinute => demand.images,
        Dimension::AudioPerMinute => demand.audio_milliseconds,
        Dimension::Spend => demand.cost,
        _ => demand.tokens,
    }
}

struct Facts {
    whose: String,
    words: &'static str,
    kind: &'static str,
    /// Units of the meter in one displayed unit.
    unit: u64,
}

impl Facts {
    fn of_meter(caller: &Caller, meter: &Meter) -> Self {
        use Dimension as D;
        let whose = match meter.scope {
            Scope::Organization => format!("organization {}", caller.organization.id),
            Scope::Project => format!("project {}", caller.project.id),
        };
        let (words, kind, unit) = match meter.dimension {
            D::RequestsPerMinute => ("requests per min (RPM)", "requests", 1),
            D::RequestsPerDay => ("requests per day (RPD)", "requests", 1),
            D::TokensPerMinute => ("tokens per min (TPM)", "tokens", 1),
            D::LongContextTokensPerMinute => ("long-context tokens per min (TPM)", "tokens", 1),
            D::TokensPerDay => ("tokens per day (TPD)", "tokens", 1),
            D::ImagesPerMinute => ("images per min (IPM)", "tokens", 1),
            D::AudioPerMinute => ("audio minutes per min (AMPM)", "tokens", 60_000),
            D::IngestionPerMinute => ("vector store ingestion requests per min", "requests", 1),
            D::Spend => ("spend", "tokens", 1),
        };
        Self { whose, words, kind, unit }
    }
}

#[cfg(test)]
mod tests {
    use super::dollars;

    #[test]
    fn amounts_have_two_decimals_unless_they_are_below_a_cent() {
        for (amount, expected) in [
            (0, "$0.00"),
            (1, "$0.000001"),
            (9_999, "$0.009999"),
            (10_000, "$0.01"),
            (10_001, "$0.02"),
            (9_886_543, "$9.89"),
            (100_000_000, "$100.00"),
            (u64::MAX, "$18446744073709.56"),
        ] {
            assert_eq!(dollars(amount), expected);
        }
    }
}
