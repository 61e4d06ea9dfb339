//! Charges for all ways in which an answer ends.

use gateway_body::{Reader, Usage, tokens};
use gateway_policy::price::{Rates, TokenPrices};
use proptest::prelude::*;

use super::*;

fn price() -> Price {
    let rates = Rates {
        input: 3,
        cached_input: 1,
        cache_write: 4,
        cache_write_1h: 6,
        output: 15_000_001,
        ..Rates::default()
    };
    Price { calls: [Some(10_000), None, None, None], ..Price::from(rates) }
}

fn cost_of(used: &Quantities) -> u64 {
    price().cost_of(used, &Asked::default(), &Reported::default())
}

fn searches(count: u64) -> [u64; TOOLS.len()] {
    let mut calls = [0; TOOLS.len()];
    calls[0] = count;
    calls
}

fn terms(ratio: Ratio) -> Terms {
    Terms {
        demand: Demand {
            tokens: 50,
            images: 2,
            audio_milliseconds: 900,
            cost: 7,
            ..Demand::default()
        },
        input_estimate: 40,
        unseen_output: 0,
        asked: Asked::default(),
        bound: Quantities::default(),
        price: Some(price().into()),
        most_reported: 1_000_000,
        ratio,
    }
}

fn usage() -> impl Strategy<Value = Option<Usage>> {
    let parts = (0_u32..500, 0_u32..500, 0_u32..500, 0_u32..500, 0_u32..2_000_000, 0_u32..4);
    proptest::option::of(parts).prop_map(|parts| {
        parts.map(|(plain, cached, write, write_1h, output, searches)| Usage {
            input_tokens: plain + cached + write + write_1h,
            cached_input_tokens: cached,
            cache_write_tokens: write,
            cache_write_1h_tokens: write_1h,
            output_tokens: output,
            reasoning_tokens: 0,
            web_searches: searches,
            ..Usage::default()
        })
    })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    (usage(), any::<[bool; 3]>(), 0_u64..9_000_000, 0_u64..9_000_000).prop_map(
        |(usage, [complete, failed, usage_invalid], text, after)| Outcome {
            usage,
            usage_invalid,
            complete,
            failed,
            output_eighths: text.max(after),
            eighths_after_usage: if usage.is_some() { after } else { text.max(after) },
            data_entries: Some(1),
            ..Outcome::default()
        },
    )
}

fn end() -> impl Strategy<Value = End> {
    let broken =
        prop::sample::select(vec![Ended::ClientGone, Ended::Cut, Ended::Stalled, Ended::Drained]);
    prop_oneof![
        Just(()).prop_map(|()| End::served()),
        (400_u16..600).prop_map(|status| End::failed(status, None)),
        outcome().prop_map(|outcome| End::answered(200, Some(outcome))),
        Just(()).prop_map(|()| End::answered(200, None)),
        (broken, outcome()).prop_map(|(ended, outcome)| End::broken(ended, String::new(), outcome)),
    ]
}

proptest! {
    /// Tokens and cost of a row agree, and the meters get the same.
    #[test]
    fn tokens_and_cost_agree_for_every_end(end in end()) {
        let bill = Bill::new(&terms(Ratio::default()), &end);
        let taken = bill.consumed();
        prop_assert_eq!(bill.cost, cost_of(&bill.used));
        prop_assert_eq!(taken.tokens, bill.used.input + bill.used.output);
        prop_assert_eq!((taken.cost, taken.images), (bill.cost, bill.used.images));
        let is_bad = end.ended != Ended::Complete;
        prop_assert!(!is_bad || end.status >= 400, "{:?}", end);
        let Some(outcome) = &end.outcome else {
            prop_assert_eq!(bill, Bill::default());
            return Ok(());
        };
        // Never below what the client received.
        let received = match bill.usage_invalid {
            true => 0,
            false => tokens(outcome.eighths_after_usage),
        };
        prop_assert!(bill.used.output >= received);
        if outcome.usage.is_none() {
            prop_assert_eq!(bill.used.output, tokens(outcome.output_eighths));
            prop_assert_eq!(bill.used.input, 40);
        }
    }
}

/// The bill of a stream that is cut behind these events, or complete.
fn bill_of(events: &[&str], is_cut: bool) -> (End, Bill) {
    let mut reader = Reader::events();
    for event in events {
        reader.feed(format!("data: {event}\n\n").as_bytes());
    }
    let outcome = reader.finish();
    let end = match is_cut {
        true => End::broken(Ended::Cut, String::new(), outcome),
        false => End::answered(200, Some(outcome)),
    };
    let bill = Bill::new(&terms(Ratio::default()), &end);
    (end, bill)
}

#[test]
fn an_error_within_an_answer_charges_what_came_before_it() {
    let text = r#"{"choices":[{"delta":{"content":"12345678"}}]}"#;
    let error = r#"{"error":{"message":"The server had an error"}}"#;
    let (end, bill) = bill_of(&[text, error, "[DONE]"], false);
    assert_eq!((end.ended, end.status), (Ended::ErrorReported, 502));
    assert_eq!((bill.used.input, bill.used.output), (40, 2));
    // Nothing came: nothing is charged.
    let (end, bill) = bill_of(&[error], false);
    assert_eq!((end.ended, bill), (Ended::ErrorReported, Bill::default()));
    for failure in [
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        r#"{"type":"response.failed","response":{"error":{"code":"server_error","message":"x"}}}"#,
    ] {
        assert_eq!(bill_of(&[failure], false).0.ended, Ended::ErrorReported, "{failure}");
    }
}

#[test]
fn a_cut_stream_of_messages_has_its_exact_input() {
    let start = r#"{"type":"message_start","message":{"id":"msg_1","content":[],"usage":{
        "input_tokens":10,"cache_creation_input_tokens":300,"cache_read_input_tokens":1000,
        "cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":200},
        "output_tokens":1}}}"#;
    let text = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"12345678"}}"#;
    let start = start.replace('\n', " ");
    let (_, bill) = bill_of(&[&start, text], true);
    let used = Quantities {
        input: 1310,
        cached: 1000,
        cache_write: 100,
        cache_write_1h: 200,
        output: 1 + 2,
        images: 2,
        audio_milliseconds: 900,
        ..Quantities::default()
    };
    assert_eq!(bill.used, used);
    let delta = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7,
        "server_tool_use":{"web_search_requests":2},
        "iterations":[{"type":"compaction","input_tokens":500,"output_tokens":20},{"type":"message","input_tokens":1}]}}"#;
    let delta = delta.replace('\n', " ");
    let (end, bill) = bill_of(&[&start, text, &delta, r#"{"type":"message_stop"}"#], false);
    assert_eq!(end.ended, Ended::Complete);
    assert_eq!(bill.used, Quantities { input: 1810, output: 27, calls: searches(2), ..used });
    assert_eq!(bill.cost, cost_of(&bill.used));
}

#[test]
fn absurd_usage_is_not_believed() {
    let text = r#"{"choices":[{"delta":{"content":"12345678"}}]}"#;
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":999999999,"completion_tokens":1}}"#;
    let (end, bill) = bill_of(&[text, usage, "[DONE]"], false);
    assert_eq!((end.ended, bill.usage_invalid), (Ended::Complete, true));
    assert_eq!((bill.used.input, bill.used.output), (40, 2));
}

/// A usage whose input is missing or was not believed: the estimate counts, or more where parts of it are known.
#[test]
fn an_input_that_is_not_reported_is_estimated() {
    let output = r#"{"type":"message_delta","delta":{},"usage":{"output_tokens":20}}"#;
    let start = |usage: &str| {
        format!(r#"{{"type":"message_start","message":{{"id":"m","usage":{usage}}}}}"#)
    };
    let stop = r#"{"type":"message_stop"}"#;
    for (usage, input, invalid) in [
        (r#"{"input_tokens":-100}"#, 40, true),
        (r#"{"input_tokens":100.0}"#, 40, true),
        (r#"{"input_tokens":"x"}"#, 40, true),
        (r#"{"input_tokens":100,"cache_read_input_tokens":-5}"#, 40, true),
        ("{}", 40, false),
        (r#"{"output_tokens":1}"#, 40, false),
        (r#"{"cache_read_input_tokens":90}"#, 90, false),
        (r#"{"input_tokens":9}"#, 9, false),
        (r#"{"input_tokens":0}"#, 0, false),
    ] {
        let (_, bill) = bill_of(&[&start(usage), output, stop], false);
        let found = (bill.used.input, bill.used.output, bill.usage_invalid);
        assert_eq!(found, (input, 20, invalid), "{usage}");
    }
    let chat = r#"{"choices":[],"usage":{"completion_tokens":20}}"#;
    assert_eq!(bill_of(&[chat, "[DONE]"], false).1.used.input, 40);
    let total = r#"{"choices":[],"usage":{"completion_tokens":20,"total_tokens":50}}"#;
    let bill = bill_of(&[total, "[DONE]"], false).1;
    assert_eq!((bill.used.input, bill.used.output), (30, 20));
}

#[test]
fn texts_are_charged_as_the_model_counts_them() {
    let end = End::broken(
        Ended::ClientGone,
        String::new(),
        Outcome { output_eighths: 800, ..Outcome::default() },
    );
    let calibration = crate::calibration::Calibration::default();
    calibration.learn(
        "m",
        &Outcome {
            usage: Some(Usage { output_tokens: 200, ..Usage::default() }),
            output_eighths: 800,
            ..Outcome::default()
        },
    );
    let bill = Bill::new(&terms(calibration.ratio("m")), &end);
    assert_eq!(bill.used.output, 200);
}

proptest! {
    /// Whatever the input was, and whatever the output within its maximum: the bound is no more than was reserved, and
    /// no less than the cost, as far as that was reserved.
    #[test]
    fn a_known_input_bounds_the_cost(
        (estimate, most_output) in (0_u64..5000, 0_u64..5000), reported in usage(), part in 0.0..=1.0,
    ) {
        let most = Quantities::of_tokens(estimate, most_output);
        let reserved = price().most(&most, &Asked::default());
        let terms = Terms {
            demand: Demand { cost: reserved, ..Demand::default() },
            input_estimate: estimate,
            bound: most,
            ..terms(Ratio::default())
        };
        let output = (part * most_output as f64) as u32;
        let Some(usage) = reported.map(|usage| Usage { output_tokens: output, ..usage }) else {
            return Ok(());
        };
        let bound = terms.bound(&usage);
        prop_assert!(bound <= reserved);
        let cost = cost_of(&quantities(&usage, &Asked::default()));
        prop_assert!(bound >= cost.min(reserved), "{bound} of {reserved}, and it costs {cost}");
        // What is not believed, or has no price, bounds nothing.
        let huge = Usage { input_tokens: 1_000_001, ..usage };
        prop_assert_eq!(terms.bound(&huge), reserved);
        prop_assert_eq!(Terms { price: None, ..terms.clone() }.bound(&usage), reserved);
        prop_assert_eq!(terms.bound(&Usage { lacks_input: true, ..usage }), reserved);
    }
}

#[test]
fn a_cached_input_frees_what_it_does_not_cost() {
    let terms = Terms {
        demand: Demand { cost: 1000, ..Demand::default() },
        input_estimate: 300,
        bound: Quantities::of_tokens(300, 100),
        price: Some(Arc::new(Price::from(Rates {
            input: 3_000_000,
            cached_input: 300_000,
            output: 1_000_000,
            ..Rates::default()
        }))),
        ..terms(Ratio::default())
    };
    // 900 of the estimate; then 200 cached, and 20 not.
    let usage = Usage { input_tokens: 220, cached_input_tokens: 200, ..Usage::default() };
    assert_eq!(terms.bound(&usage), 1000 - 900 + 60 + 60);
}

/// A usage of Messages that wrote 300 tokens to a cache.
fn written(split: &str) -> String {
    format!(
        "{{\"type\":\"message_start\",\"message\":{{\"id\":\"m\",\"usage\":{{\"input_tokens\":10,\
         \"cache_creation_input_tokens\":300,{split}\"output_tokens\":1}}}}}}"
    )
}

#[test]
fn writes_to_a_cache_without_a_named_time_cost_what_the_request_marked() {
    let hour = Asked { marks_cache: true, marks_hour: true, ..Asked::default() };
    let five = Asked { marks_hour: false, ..hour.clone() };
    for (split, asked, expected) in [
        ("", &hour, (0, 300)),
        ("", &five, (300, 0)),
        ("", &Asked::default(), (300, 0)),
        (r#""cache_creation":{"ephemeral_5m_input_tokens":300},"#, &hour, (300, 0)),
        (r#""cache_creation":{"ephemeral_1h_input_tokens":300},"#, &five, (0, 300)),
        // A part of it has no time.
        (r#""cache_creation":{"ephemeral_5m_input_tokens":100},"#, &hour, (100, 200)),
        (r#""cache_creation":{},"#, &hour, (0, 300)),
        (r#""cache_creation":null,"#, &hour, (0, 300)),
    ] {
        let mut reader = Reader::events();
        reader.feed(format!("data: {}\n\n", written(split)).as_bytes());
        let end = End::broken(Ended::Cut, String::new(), reader.finish());
        let bill = Bill::new(&Terms { asked: asked.clone(), ..terms(Ratio::default()) }, &end);
        assert_eq!(
            (bill.used.cache_write, bill.used.cache_write_1h),
            expected,
            "{split} {asked:?}"
        );
        assert_eq!(bill.used.input, 310);
    }
}

#[test]
fn an_answer_cannot_tell_more_than_was_asked_for() {
    let video = Asked { video_milliseconds: 8000, ..Asked::default() };
    let terms = Terms { asked: video, ..terms(Ratio::default()) };
    for (images, duration, is_whole, expected) in [
        (None, None, true, (2, 900, 8000)),
        (Some(1), Some(700), true, (1, 700, 700)),
        (Some(0), Some(0), true, (0, 0, 0)),
        (Some(1000), Some(900 * 32), true, (2, 900 * 32, 8000)),
        (Some(1000), Some(900 * 32 + 1), true, (2, 900, 8000)),
        (Some(u64::MAX), Some(u64::MAX), true, (2, 900, 8000)),
        (Some(1), Some(700), false, (2, 900, 8000)),
    ] {
        let outcome = Outcome {
            data_entries: images,
            duration_ms: duration,
            complete: true,
            ..Outcome::default()
        };
        let end = match is_whole {
            true => End::answered(200, Some(outcome)),
            false => End::broken(Ended::Cut, String::new(), outcome),
        };
        let used = Bill::new(&terms, &end).used;
        let found = (used.images, used.audio_milliseconds, used.video_milliseconds);
        assert_eq!(found, expected, "{images:?} {duration:?} {is_whole}");
    }
}

#[test]
fn absurd_numbers_of_calls_are_not_believed() {
    for (bound, said, seen, expected) in [
        (0, 7, 0, 7),
        (5, 7, 9, 9),
        (0, 999_999_999, 0, 1000),
        (0, 0, u32::MAX, 1000),
        (2000, 1500, 0, 1500),
        (2000, 2001, 0, 2000),
    ] {
        let bound = Quantities { calls: searches(bound), ..Quantities::default() };
        let usage = Usage { web_searches: said, input_tokens: 1, ..Usage::default() };
        let mut outcome = Outcome { usage: Some(usage), complete: true, ..Outcome::default() };
        outcome.calls[0] = seen;
        let end = End::answered(200, Some(outcome));
        let bill = Bill::new(&Terms { bound, ..terms(Ratio::default()) }, &end);
        assert_eq!(bill.used.calls, searches(expected), "{said} {seen}");
    }
}

/// The service tier that the answer names counts, unless that says nothing.
#[test]
fn a_tier_that_is_auto_tells_nothing() {
    let dear = Rates { input: 9_000_000, ..Rates::default() };
    let cheap = Rates { input: 1_000_000, ..Rates::default() };
    let tiers = vec![("priority".into(), TokenPrices { short: dear, long: None })];
    let price = Some(Arc::new(Price { tiers, ..Price::from(cheap) }));
    for (tier, cost) in [(None, 10), (Some("auto"), 10), (Some("priority"), 90), (Some("x"), 90)] {
        let usage = Usage { input_tokens: 10, ..Usage::default() };
        let outcome = Outcome {
            usage: Some(usage),
            complete: true,
            service_tier: tier.map(Into::into),
            ..Outcome::default()
        };
        let end = End::answered(200, Some(outcome));
        let bill = Bill::new(&Terms { price: price.clone(), ..terms(Ratio::default()) }, &end);
        assert_eq!(bill.cost, cost, "{tier:?}");
    }
}

#[test]
fn calls_of_the_servers_tools_are_counted_in_the_output() {
    let items = [
        r#"{"type":"web_search_call","id":"ws_1"}"#,
        r#"{"type":"file_search_call","id":"fs_1"}"#,
        r#"{"type":"web_search_call","id":"ws_2"}"#,
        r#"{"type":"message","content":[{"type":"output_text","text":"web_search_call"}]}"#,
        r#"{"type":"function_call","arguments":"{\"type\":\"web_search_call\"}"}"#,
    ];
    let whole = format!(r#"{{"id":"resp_1","output":[{}]}}"#, items.join(","));
    let mut reader = Reader::json();
    reader.feed(whole.as_bytes());
    assert_eq!(reader.finish().calls, [2, 1, 0, 0]);
    let mut reader = Reader::events();
    for item in items {
        // Only the item that is done counts.
        for kind in ["added", "done"] {
            let event = format!(r#"{{"type":"response.output_item.{kind}","item":{item}}}"#);
            reader.feed(format!("data: {event}\n\n").as_bytes());
        }
    }
    let last = format!(r#"{{"type":"response.completed","response":{whole}}}"#);
    reader.feed(format!("data: {last}\n\n").as_bytes());
    assert_eq!(reader.finish().calls, [2, 1, 0, 0]);
}
