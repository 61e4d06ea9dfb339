//! The charge for an answer that came later: by its end, or by what is known of it when its end will not be seen.

use gateway_body::{Outcome, Progress};
use gateway_policy::plan::Demand;
use gateway_policy::price::Quantities;
use gateway_store::ledger::Ended;
use gateway_store::records::later_answers::LaterAnswer;

use crate::bill::{Bill, End, Terms};
use crate::calibration::Ratio;

/// The end of an answer.
#[derive(Debug)]
pub(super) enum Ending {
    /// It was seen.
    Seen(Outcome),
    /// It will not be seen; what was last seen of the answer.
    Lost(Loss, Outcome),
}

/// Why an end will not be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// The upstream does not know the answer.
    Unknown,
    /// The answer did not end in time.
    Expired,
    /// The client deleted it.
    Deleted,
}

/// The end and the charge of an answer. `ratio` is that of its model's text.
pub(super) fn charge(answer: &LaterAnswer, ending: Ending, ratio: Ratio) -> (End, Bill) {
    match ending {
        Ending::Seen(outcome) => {
            let has_failed = matches!(outcome.progress, Some(Progress::Failed | Progress::Expired));
            let failed = outcome.failed || has_failed;
            let end = End::answered(200, Some(Outcome { complete: true, failed, ..outcome }));
            let bill = Bill::new(&terms(answer, 0, ratio), &end);
            (end, bill)
        }
        Ending::Lost(loss, outcome) => lost(answer, loss, outcome),
    }
}

/// A usage or text that was seen counts; nothing seen of the output is its maximum, which nothing exceeds.
fn lost(answer: &LaterAnswer, loss: Loss, last: Outcome) -> (End, Bill) {
    let id = &answer.id;
    let (ended, cause) = match loss {
        Loss::Unknown => (Ended::Cut, format!("it does not know {id}, whose end was not seen")),
        Loss::Expired => {
            let seconds = answer.expires_at.saturating_sub(answer.created_at) / 1_000_000;
            (Ended::Stalled, format!("the end of {id} was not seen within {seconds} s"))
        }
        Loss::Deleted => (Ended::ClientGone, format!("the client deleted {id}")),
    };
    // The usage of an answer that runs may be zero until its end.
    let usage = last.usage.filter(|usage| {
        let most = u64::from(usage.input_tokens.max(usage.output_tokens));
        usage.output_tokens > 0 && most <= answer.most_reported
    });
    let eighths = last.output_eighths.max(answer.seen_eighths);
    let known = Outcome {
        usage,
        usage_invalid: last.usage_invalid,
        output_eighths: eighths.min(answer.most_output.saturating_mul(8)),
        ..Outcome::default()
    };
    let is_known = usage.is_some() || eighths > 0;
    let end = End::broken(ended, cause, known);
    let unseen = if is_known { 0 } else { answer.most_output };
    let bill = Bill::new(&terms(answer, unseen, Ratio::default()), &end);
    let unknown = End::broken(ended, String::new(), Outcome::default());
    let most = Bill::new(&terms(answer, answer.most_output, Ratio::default()), &unknown);
    if bill.cost <= most.cost && bill.used.tokens() <= most.used.tokens() {
        return (end, bill);
    }
    (end, Bill { usage_invalid: bill.usage_invalid, ..most })
}

fn terms(answer: &LaterAnswer, unseen_output: u64, ratio: Ratio) -> Terms {
    Terms {
        demand: Demand::default(),
        input_estimate: answer.input_estimate,
        unseen_output,
        price: answer.price.clone(),
        asked: answer.asked.clone(),
        bound: Quantities::default(),
        most_reported: answer.most_reported,
        ratio,
    }
}

#[cfg(test)]
#[path = "charge_tests.rs"]
mod tests;
