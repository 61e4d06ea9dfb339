//! Ends that were seen and ends that are lost, and what they cost.

use std::sync::Arc;

use super::*;
use gateway_body::Usage;
use gateway_policy::price::{Asked, Price, Rates, Sells, UnitPrice};
use gateway_store::ledger::Endpoint;

/// At 1 and 10 micro-dollars a token, with an input of 4 and at most 100 output tokens.
fn answer(seen_eighths: u64) -> LaterAnswer {
    let rates = Rates { input: 1_000_000, output: 10_000_000, ..Rates::default() };
    LaterAnswer {
        id: "resp_1".into(),
        kind: "response".into(),
        request: "req_1".into(),
        organization: "org-1".into(),
        project: "proj_1".into(),
        key: "key_1".into(),
        model: "big".into(),
        upstream: "main".into(),
        backend: "main".into(),
        region: None,
        endpoint: Endpoint::Completions,
        batch: false,
        held: 1004,
        tokens: 100,
        long_context: false,
        input_estimate: 4,
        most_output: 100,
        most_reported: 1000,
        price: Some(Arc::new(Price::from(rates))),
        asked: Asked::default(),
        seen_eighths,
        created_at: 0,
        expires_at: 60_000_000,
        poll_at: 0,
        polls: 0,
    }
}

fn usage(input_tokens: u32, output_tokens: u32) -> Option<Usage> {
    Some(Usage { input_tokens, output_tokens, ..Usage::default() })
}

fn outcome(progress: Progress, usage: Option<Usage>, tokens: u64) -> Outcome {
    let (progress, output_eighths) = (Some(progress), tokens * 8);
    Outcome { progress, usage, output_eighths, ..Outcome::default() }
}

#[test]
fn an_end_that_was_seen_is_charged_as_any_other() {
    use Progress::{Cancelled, Completed, Expired, Failed, Incomplete};
    let (complete, failed) = ((Ended::Complete, 200), (Ended::ErrorReported, 502));
    for (progress, reported, text, end, used) in [
        (Completed, usage(9, 5), 70, complete, [9, 5]),
        (Completed, usage(9, 500), 0, complete, [9, 500]),
        (Completed, usage(9, 5000), 3, complete, [4, 3]),
        (Completed, None, 7, complete, [4, 7]),
        (Completed, None, 0, complete, [4, 0]),
        (Incomplete, usage(9, 5), 0, complete, [9, 5]),
        (Cancelled, None, 7, complete, [4, 7]),
        (Failed, usage(9, 5), 0, failed, [9, 5]),
        (Failed, None, 7, failed, [4, 7]),
        (Failed, None, 0, failed, [0, 0]),
        (Expired, None, 0, failed, [0, 0]),
    ] {
        let seen = outcome(progress, reported, text);
        let (ending, bill) = charge(&answer(400), Ending::Seen(seen), Ratio::default());
        assert_eq!((ending.ended, ending.status), end, "{progress:?} {reported:?} {text}");
        assert_eq!([bill.used.input, bill.used.output], used, "{progress:?} {reported:?} {text}");
        assert_eq!(bill.cost, used[0] + 10 * used[1]);
    }
}

#[test]
fn an_end_that_is_lost_costs_what_is_known_and_at_most_the_maximum() {
    for (seen, reported, text, used) in [
        // Nothing of the output is known.
        (0, None, 0, [4, 100]),
        (0, usage(9, 0), 0, [4, 100]),
        (0, usage(9, 5000), 0, [4, 100]),
        // Some is.
        (0, usage(9, 5), 0, [9, 5]),
        (0, None, 7, [4, 7]),
        (80, None, 7, [4, 10]),
        (80, usage(9, 5), 7, [9, 5]),
        // More than there may be.
        (0, usage(9, 500), 0, [4, 100]),
        (0, usage(900, 5), 0, [4, 100]),
        (80_000, None, 0, [4, 100]),
        (0, None, u64::MAX / 16, [4, 100]),
    ] {
        for (loss, end) in [
            (Loss::Unknown, (Ended::Cut, 502)),
            (Loss::Expired, (Ended::Stalled, 504)),
            (Loss::Deleted, (Ended::ClientGone, 499)),
        ] {
            let last = outcome(Progress::Open, reported, text);
            let (ending, bill) = charge(&answer(seen), Ending::Lost(loss, last), Ratio::default());
            assert_eq!((ending.ended, ending.status), end);
            let found = [bill.used.input, bill.used.output];
            assert_eq!(found, used, "{seen} {reported:?} {text}");
            assert_eq!(bill.cost, used[0] + 10 * used[1]);
            assert!(ending.cause.is_some_and(|cause| cause.contains("resp_1")));
        }
    }
}

#[test]
fn a_video_costs_its_seconds() {
    let asked = Asked { sells: Sells::Video, video_milliseconds: 8000, ..Asked::default() };
    let videos = vec![UnitPrice { price: 100_000, ..UnitPrice::default() }];
    let price = Price { videos, ..Price::default() };
    let video = LaterAnswer {
        kind: "video".into(),
        held: 800_000,
        most_output: 0,
        price: Some(Arc::new(price)),
        asked,
        ..answer(0)
    };
    let state = |progress, duration_ms| Outcome { duration_ms, ..outcome(progress, None, 0) };
    for (ending, cost) in [
        (Ending::Seen(state(Progress::Completed, Some(4000))), 400_000),
        (Ending::Seen(state(Progress::Completed, None)), 800_000),
        (Ending::Seen(state(Progress::Completed, Some(u64::MAX))), 800_000),
        (Ending::Seen(state(Progress::Failed, Some(8000))), 0),
        (Ending::Seen(state(Progress::Expired, None)), 0),
        (Ending::Lost(Loss::Unknown, Outcome::default()), 800_000),
        (Ending::Lost(Loss::Expired, state(Progress::Open, Some(4000))), 800_000),
        (Ending::Lost(Loss::Deleted, Outcome::default()), 800_000),
    ] {
        let shown = format!("{ending:?}");
        assert_eq!(charge(&video, ending, Ratio::default()).1.cost, cost, "{shown}");
    }
}
