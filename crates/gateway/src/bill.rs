//! The charge for a request: what it used, and what that costs. The only place that decides it; the limits, the
//! ledger, the metrics and the spans get it and nothing else (specification: What the service does).
//!
//! A usage that the upstream reports counts, and the text that came after it. Without one, the estimated input counts
//! and the text that was received, however the answer ended and whatever was reserved.

use gateway_body::{Outcome, Usage};
use gateway_policy::plan::{Consumed, Demand};
use gateway_policy::settings::{Price, Quantities};
use gateway_store::ledger::Ended;

use crate::calibration::Ratio;

/// The end of a request.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) ended: Ended,
    /// The status of the response, as the ledger has it.
    pub(crate) status: u16,
    /// Observations of the response; `None`: nothing is charged.
    outcome: Option<Outcome>,
    /// The cause of a bad end, for the log.
    pub(crate) cause: Option<String>,
}

impl End {
    /// The upstream failed the request, or refused it.
    pub(crate) fn failed(status: u16, cause: Option<String>) -> Self {
        Self { ended: Ended::Failed, status, outcome: None, cause }
    }

    /// The gateway answered it itself: only the request counts.
    pub(crate) fn served() -> Self {
        Self { ended: Ended::Complete, status: 200, outcome: None, cause: None }
    }

    /// The upstream's answer has ended, as it said; `None` for one that was not observed.
    pub(crate) fn answered(status: u16, outcome: Option<Outcome>) -> Self {
        let (ended, cause) = match &outcome {
            Some(outcome) if outcome.failed => {
                (Ended::ErrorReported, "it reported an error within its answer")
            }
            // A stream without its last event was cut off, even if the connection ended properly.
            Some(outcome) if !outcome.complete => {
                (Ended::Cut, "its answer ended without its last part")
            }
            _ => {
                let outcome = Some(outcome.unwrap_or_default());
                return Self { ended: Ended::Complete, status, outcome, cause: None };
            }
        };
        let outcome = outcome.filter(|outcome| {
            let has_text = outcome.output_eighths > 0 || outcome.data_entries > Some(0);
            ended != Ended::ErrorReported || has_text || outcome.usage.is_some()
        });
        Self { ended, status: status_of(ended), outcome, cause: Some(cause.to_owned()) }
    }

    /// The answer did not reach its end.
    pub(crate) fn broken(ended: Ended, cause: String, outcome: Outcome) -> Self {
        Self { ended, status: status_of(ended), outcome: Some(outcome), cause: Some(cause) }
    }

    /// The end of an answer of which this much was seen, if this process is killed now.
    pub(crate) fn killed(seen: Outcome) -> Self {
        Self::broken(Ended::Killed, String::new(), seen)
    }

    /// Returns whether text that no usage counts is charged.
    pub(crate) fn counts_text(&self) -> bool {
        self.outcome.as_ref().is_some_and(|outcome| {
            outcome.usage.is_none() || outcome.usage_invalid || outcome.eighths_after_usage > 0
        })
    }

    /// The observations of a complete answer.
    pub(crate) fn whole(&self) -> Option<&Outcome> {
        self.outcome.as_ref().filter(|_| self.ended == Ended::Complete)
    }
}

/// The status that the ledger has of an answer that ended badly, whatever it began with.
fn status_of(ended: Ended) -> u16 {
    match ended {
        Ended::Complete => 200,
        Ended::ClientGone => 499,
        Ended::Cut | Ended::ErrorReported | Ended::Failed => 502,
        Ended::Drained | Ended::Killed => 503,
        Ended::Stalled => 504,
    }
}

/// The terms by which a request is charged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The reservation: its images and audio of an answer that does not report them.
    pub(crate) demand: Demand,
    /// Estimated input tokens.
    pub(crate) input_estimate: u64,
    /// Output tokens that are charged, without a usage, for output that does not show in the answer's text.
    pub(crate) unseen_output: u64,
    pub(crate) price: Option<Price>,
    /// Larger numbers of tokens in a usage are not believed.
    pub(crate) most_reported: u64,
    /// Tokens of the model's text.
    pub(crate) ratio: Ratio,
}

impl Terms {
    /// The most that the request may still cost, once its `usage` so far is known: the real input replaces the
    /// estimate, and its output counts as reserved.
    pub(crate) fn bound(&self, usage: &Usage) -> u64 {
        let reserved = self.demand.cost;
        let is_believed =
            u64::from(usage.input_tokens.max(usage.output_tokens)) <= self.most_reported;
        let is_known = is_believed && !usage.lacks_input;
        let Some(price) = self.price.filter(|_| is_known) else { return reserved };
        let estimated = price.cost_of(&Quantities::of_tokens(self.input_estimate, 0));
        let input = price.cost_of(&Quantities { output: 0, ..quantities(usage) });
        // Each of the three is rounded up.
        reserved.saturating_sub(estimated).saturating_add(input).saturating_add(1).min(reserved)
    }
}

fn quantities(usage: &Usage) -> Quantities {
    Quantities {
        input: usage.input_tokens.into(),
        cached: usage.cached_input_tokens.into(),
        cache_write: usage.cache_write_tokens.into(),
        cache_write_1h: usage.cache_write_1h_tokens.into(),
        output: usage.output_tokens.into(),
        web_searches: usage.web_searches.into(),
    }
}

/// The charge for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bill {
    pub(crate) used: Quantities,
    pub(crate) images: u64,
    pub(crate) audio_milliseconds: u64,
    pub(crate) cost: u64,
    /// True if the upstream reported a usage that cannot be believed.
    pub(crate) usage_invalid: bool,
}

impl Bill {
    pub(crate) fn new(terms: &Terms, end: &End) -> Self {
        let Some(outcome) = &end.outcome else { return Self::default() };
        let is_whole = end.ended == Ended::Complete;
        let reported = outcome.usage.filter(|usage| {
            u64::from(usage.input_tokens.max(usage.output_tokens)) <= terms.most_reported
        });
        let used = match reported {
            Some(usage) => Quantities {
                input: match usage.lacks_input {
                    true => terms.input_estimate.max(usage.input_tokens.into()),
                    false => usage.input_tokens.into(),
                },
                // Some servers report the usage so far with each event, or first the input alone.
                output: u64::from(usage.output_tokens)
                    + terms.ratio.tokens(outcome.eighths_after_usage),
                ..quantities(&usage)
            },
            None => {
                let received = terms.ratio.tokens(outcome.output_eighths);
                Quantities::of_tokens(terms.input_estimate, received.max(terms.unseen_output))
            }
        };
        let seen = |count: Option<u64>, reserved: u64| match count {
            Some(count) if reserved > 0 && is_whole => count,
            _ => reserved,
        };
        Self {
            used,
            images: seen(outcome.data_entries, terms.demand.images),
            audio_milliseconds: seen(outcome.duration_ms, terms.demand.audio_milliseconds),
            cost: terms.price.map_or(0, |price| price.cost_of(&used)),
            usage_invalid: outcome.usage_invalid || reported != outcome.usage,
        }
    }

    /// The draws on the limits.
    pub(crate) fn consumed(&self) -> Consumed {
        Consumed {
            tokens: self.used.tokens(),
            images: self.images,
            audio_milliseconds: self.audio_milliseconds,
            cost: self.cost,
        }
    }
}

#[cfg(test)]
#[path = "bill_tests.rs"]
mod tests;
