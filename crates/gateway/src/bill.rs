//! The charge for a request: what it used, and what that costs. The only place that decides it; the limits, the
//! ledger, the metrics and the spans get it and nothing else (specification: What the service does).
//!
//! A usage that the upstream reports counts, and the text that came after it. Without one, the estimated input counts
//! and the text that was received, however the answer ended and whatever was reserved.

use std::sync::Arc;

use gateway_body::{Outcome, Progress, Usage};
use gateway_policy::plan::{Consumed, Demand};
use gateway_policy::price::{Asked, Price, Quantities, Reported, Sells, TOOLS};
use gateway_store::ledger::Ended;

use crate::calibration::Ratio;

/// Times by which audio may be longer than its bytes suggest: beyond, what an answer tells is not believed.
const LONGEST_AUDIO: u64 = 32;
/// Most calls of a tool of the server that an answer is believed, if it was not allowed more.
const MOST_CALLS: u64 = 1000;

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
            let is_told = outcome.usage.is_some() || outcome.trained_tokens > Some(0);
            ended != Ended::ErrorReported || has_text || is_told
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

    /// Returns whether text that no usage counts is charged, where larger numbers than `most_reported` are not believed.
    pub(crate) fn counts_text(&self, most_reported: u64) -> bool {
        let believed = |usage: &Usage| is_believed(usage, most_reported);
        self.outcome.as_ref().is_some_and(|outcome| {
            !outcome.usage.as_ref().is_some_and(believed) || uncounted_eighths(outcome) > 0
        })
    }

    /// The observations of a complete answer.
    pub(crate) fn whole(&self) -> Option<&Outcome> {
        self.outcome.as_ref().filter(|_| self.ended == Ended::Complete)
    }
}

fn is_believed(usage: &Usage, most: u64) -> bool {
    u64::from(usage.input_tokens.max(usage.output_tokens)) <= most
}

/// Estimated output that the usage does not count, in eighths of a token: what came after it, or all where it says that
/// there was none.
fn uncounted_eighths(outcome: &Outcome) -> u64 {
    match outcome.usage {
        Some(usage) if usage.output_tokens == 0 => outcome.output_eighths,
        _ => outcome.eighths_after_usage,
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
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// The reservation: its images and audio of an answer that does not report them.
    pub(crate) demand: Demand,
    /// The parts of the request that its price depends on.
    pub(crate) asked: Asked,
    /// The most that it may use, for which money is reserved.
    pub(crate) bound: Quantities,
    /// Estimated input tokens.
    pub(crate) input_estimate: u64,
    /// Output tokens that are charged, without a usage, for output that does not show in the answer's text.
    pub(crate) unseen_output: u64,
    pub(crate) price: Option<Arc<Price>>,
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
        let is_known = is_believed(usage, self.most_reported) && !usage.lacks_input;
        match &self.price {
            Some(price) if is_known => {
                let known = quantities(usage, &self.asked);
                price.most_with_input(&known, &self.bound, &self.asked).min(reserved)
            }
            _ => reserved,
        }
    }
}

/// The tokens and searches of a usage. Input that was written to a cache for a time that it does not name was written for
/// the longest time that the request marked.
fn quantities(usage: &Usage, asked: &Asked) -> Quantities {
    let unnamed = if asked.marks_hour { usage.cache_write_unnamed_tokens } else { 0 };
    let mut calls = [0; TOOLS.len()];
    calls[0] = usage.web_searches.into();
    Quantities {
        input: usage.input_tokens.into(),
        cached: usage.cached_input_tokens.into(),
        cache_write: usage.cache_write_tokens.saturating_sub(unnamed).into(),
        cache_write_1h: u64::from(usage.cache_write_1h_tokens) + u64::from(unnamed),
        input_audio: usage.input_audio_tokens.into(),
        input_image: usage.input_image_tokens.into(),
        output: usage.output_tokens.into(),
        output_audio: usage.output_audio_tokens.into(),
        output_image: usage.output_image_tokens.into(),
        calls,
        ..Quantities::default()
    }
}

/// A count that an answer tells, of something of which the request asked for `reserved`: no more than that.
fn within(count: Option<u64>, reserved: u64) -> u64 {
    count.map_or(reserved, |count| count.min(reserved))
}

/// The charge for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bill {
    pub(crate) used: Quantities,
    pub(crate) cost: u64,
    /// True if the upstream reported a usage that cannot be believed.
    pub(crate) usage_invalid: bool,
}

impl Bill {
    pub(crate) fn new(terms: &Terms, end: &End) -> Self {
        let Some(outcome) = &end.outcome else { return Self::default() };
        if terms.asked.sells == Sells::Training {
            return Self::of_training(terms, outcome);
        }
        let is_whole = end.ended == Ended::Complete;
        let reported = outcome.usage.filter(|usage| is_believed(usage, terms.most_reported));
        let mut used = match &reported {
            Some(usage) => Quantities {
                input: match usage.lacks_input {
                    true => terms.input_estimate.max(usage.input_tokens.into()),
                    false => usage.input_tokens.into(),
                },
                // Some servers report the usage so far with each event, or first the input alone.
                output: u64::from(usage.output_tokens)
                    + terms.ratio.tokens(uncounted_eighths(outcome)),
                ..quantities(usage, &terms.asked)
            },
            None => {
                let received = terms.ratio.tokens(outcome.output_eighths);
                Quantities::of_tokens(terms.input_estimate, received.max(terms.unseen_output))
            }
        };
        let most = terms.bound.calls.map(|bound| bound.max(MOST_CALLS));
        for ((used, seen), most) in used.calls.iter_mut().zip(outcome.calls).zip(most) {
            *used = (*used).max(seen.into()).min(most);
        }
        used.calls[0] = used.calls[0].max(terms.asked.sure_searches);
        let (images, duration) = match is_whole {
            true => (outcome.data_entries, outcome.duration_ms),
            false => (None, None),
        };
        let audio = terms.demand.audio_milliseconds;
        // Compressed audio may be longer than its length suggests.
        let duration_ok = duration.filter(|length| *length <= audio.saturating_mul(LONGEST_AUDIO));
        used.images = within(images, terms.demand.images);
        used.audio_milliseconds = duration_ok.unwrap_or(audio);
        used.video_milliseconds = within(duration, terms.asked.video_milliseconds);
        // `auto` tells nothing.
        let tells = |text: &Option<Box<str>>| text.clone().filter(|text| **text != *"auto");
        let tells = Reported {
            tier: tells(&outcome.service_tier),
            size: tells(&outcome.size),
            quality: tells(&outcome.quality),
        };
        let cost =
            terms.price.as_ref().map_or(0, |price| price.cost_of(&used, &terms.asked, &tells));
        let is_denied = uncounted_eighths(outcome) > outcome.eighths_after_usage;
        let usage_invalid = outcome.usage_invalid || reported != outcome.usage || is_denied;
        Self { used, cost, usage_invalid }
    }

    /// The charge for a fine-tuning job: what it has trained. A job that did not succeed has trained what it tells, and one
    /// that tells nothing is charged by its bound.
    fn of_training(terms: &Terms, outcome: &Outcome) -> Self {
        use Progress::{Cancelled, Expired, Failed};
        let has_stopped = matches!(outcome.progress, Some(Cancelled | Expired | Failed));
        let told = outcome.trained_tokens.or(has_stopped.then_some(0));
        let most = terms.asked.trained_tokens;
        let used = Quantities { trained: within(told, most), ..Quantities::default() };
        let price = terms.price.as_ref();
        let cost =
            price.map_or(0, |price| price.cost_of(&used, &terms.asked, &Reported::default()));
        let usage_invalid = outcome.usage_invalid || told.is_some_and(|told| told > most);
        Self { used, cost, usage_invalid }
    }

    /// The draws on the limits.
    pub(crate) fn consumed(&self) -> Consumed {
        Consumed {
            tokens: self.used.tokens(),
            images: self.used.images,
            audio_milliseconds: self.used.audio_milliseconds,
            cost: self.cost,
        }
    }
}

#[cfg(test)]
#[path = "bill_tests.rs"]
mod tests;
