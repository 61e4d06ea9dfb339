//! Texts of responses that broke off and are asked for again, and what is sent while a text is written.

use serde_json::{Value, json};
use tui::app::Event;
use tui::terminal::input::{Code, Key};

use crate::harness::{Bench, THREAD, opened, page, said, turn};

fn text(id: &str, text: &str) -> Value {
    json!({ "type": "agentMessage", "id": id, "text": text })
}

fn cut(id: &str, text: &str) -> Value {
    json!({ "type": "agentMessage", "id": id, "text": text, "reason": "the stream was cut" })
}

fn delta(bench: &mut Bench, id: &str, text: &str) {
    let params = json!({ "threadId": THREAD, "turnId": "t1", "itemId": id, "delta": text });
    bench.notify("item/agentMessage/delta", params);
}

fn failed(bench: &mut Bench, will_retry: bool) {
    bench.notify(
        "error",
        json!({
            "threadId": THREAD, "turnId": "t1", "willRetry": will_retry,
            "error": { "message": "the stream was cut", "agentErrorInfo": null, "additionalDetails": null },
        }),
    );
}

/// An attempt of which `parts` came.
fn attempt(bench: &mut Bench, id: &str, parts: &[&str]) {
    bench.item("item/started", text(id, ""));
    parts.iter().for_each(|part| delta(bench, id, part));
    bench.item("item/completed", cut(id, &parts.concat()));
}

fn after(bench: &Bench, mark: &str) -> String {
    let at = bench.printed.find(mark).unwrap();
    bench.printed[at..].to_owned()
}

/// A failure after which the server waits.
fn limited(bench: &mut Bench, attempt: u32, wait_ms: u64) {
    bench.notify(
        "error",
        json!({
            "threadId": THREAD, "turnId": "t1", "willRetry": true,
            "retry": { "attempt": attempt, "maxAttempts": 5, "waitMs": wait_ms },
            "error": { "message": "rate limit", "agentErrorInfo": null, "additionalDetails": null },
        }),
    );
}

pub(crate) fn waits(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.begin_turn("go");
    limited(&mut bench, 2, 12_000);
    bench
}

#[test]
fn a_wait_for_a_limit_counts_down_and_says_of_how_many_tries() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    limited(&mut bench, 2, 12_000);
    assert!(bench.shown().contains("Trying again in 12 s (attempt 2 of 5)"), "{}", bench.shown());
    assert!(bench.shown().contains("rate limit"), "{}", bench.shown());
    bench.now += 5_000;
    bench.event(Event::Tick);
    assert!(bench.shown().contains("Trying again in 7 s (attempt 2 of 5)"), "{}", bench.shown());
    bench.now += 20_000;
    bench.event(Event::Tick);
    assert!(bench.shown().contains("Trying again (attempt 2 of 5)"), "{}", bench.shown());
    limited(&mut bench, 3, 3_600_000);
    assert!(bench.shown().contains("Trying again in 1h"), "{}", bench.shown());
    // What the next attempt brings ends the wait.
    bench.item("item/started", text("m3", ""));
    assert!(!bench.shown().contains("Trying again"), "{}", bench.shown());
    assert!(bench.shown().contains("Working"), "{}", bench.shown());
}

#[test]
fn a_wait_does_not_count_down_where_nothing_moves() {
    let mut bench = Bench::start(80, 24);
    let config = json!({ "config": { "tui": { "animations": false } }, "origins": {} });
    bench.answer("config/read", config);
    bench.answer("thread/start", opened(&json!([])));
    bench.answer("skills/list", json!({ "data": [] }));
    bench.begin_turn("go");
    limited(&mut bench, 2, 12_000);
    bench.now += 5_000;
    bench.event(Event::Tick);
    assert!(bench.shown().contains("Trying again in 12 s (attempt 2 of 5)"), "{}", bench.shown());
}

const MARK: &str = "! Interrupted here. The request is retried; the next answer replaces this one.";

#[test]
fn an_attempt_of_which_nothing_is_printed_leaves_no_trace() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    attempt(&mut bench, "m1", &["One line and "]);
    failed(&mut bench, true);
    attempt(&mut bench, "m2", &["One line and the "]);
    failed(&mut bench, true);
    bench.item("item/started", text("m3", ""));
    delta(&mut bench, "m3", "One line and the end.");
    bench.item("item/completed", text("m3", "One line and the end."));
    bench.turn("turn/completed", "completed", Value::Null);
    assert_eq!(after(&bench, "One line"), "One line and the end.\n\n· Worked for 0.7s\n\n");
}

#[test]
fn what_was_printed_of_an_attempt_is_marked_and_no_more_of_it_printed() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    attempt(&mut bench, "m1", &["First.\n\nSecond", " and"]);
    failed(&mut bench, true);
    bench.item("item/started", text("m2", ""));
    delta(&mut bench, "m2", "First.\n\nSecond and third.");
    bench.item("item/completed", text("m2", "First.\n\nSecond and third."));
    bench.turn("turn/completed", "completed", Value::Null);
    let expected =
        format!("First.\n{MARK}\n\nFirst.\n\nSecond and third.\n\n· Worked for 0.5s\n\n");
    assert_eq!(after(&bench, "First."), expected);
    bench.send("/copy");
    let copied = String::from_utf8(bench.written.clone()).unwrap();
    // "First.\n\nSecond and third."
    assert!(copied.contains("Rmlyc3QuCgpTZWNvbmQgYW5kIHRoaXJkLg=="), "{copied}");
}

#[test]
fn reasoning_and_plans_of_an_attempt_are_marked_as_well() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    let reasoning = |summary: Value, reason: Value| json!({ "type": "reasoning", "id": "r1", "summary": summary, "content": [], "reason": reason });
    bench.item("item/started", reasoning(json!([]), Value::Null));
    let params = json!({ "threadId": THREAD, "turnId": "t1", "itemId": "r1", "summaryIndex": 0, "delta": "Thinking.\n\nThen" });
    bench.notify("item/reasoning/summaryTextDelta", params);
    bench.item("item/completed", reasoning(json!(["Thinking.\n\nThen"]), json!("cut")));
    failed(&mut bench, true);
    assert_eq!(after(&bench, "Thinking"), format!("Thinking.\n{MARK}\n\n"));
}

#[test]
fn the_text_of_the_last_attempt_stays() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    attempt(&mut bench, "m1", &["As far as "]);
    failed(&mut bench, true);
    attempt(&mut bench, "m2", &["As far as it came"]);
    failed(&mut bench, false);
    let error = json!({ "message": "the stream was cut", "agentErrorInfo": null, "additionalDetails": null });
    bench.turn("turn/completed", "failed", error);
    assert_eq!(
        after(&bench, "As far"),
        "As far as it came\n\n· The turn failed after 0.5s.\n\n✗ the stream was cut\n\n"
    );
}

fn stored() -> Value {
    json!([turn(
        "t0",
        "completed",
        json!([said("u1", "go"), cut("m1", "The answer is"), text("m2", "The answer is 42.")])
    )])
}

#[test]
fn a_thread_that_is_opened_again_has_the_answer_once() {
    let mut bench = Bench::start_with(
        80,
        24,
        tui::app::Start {
            thread: tui::app::StartThread::Resume(THREAD.to_owned()),
            ..tui::app::Start::default()
        },
    );
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    bench.answer("thread/resume", opened(&json!([])));
    while let Some((tag, method, _)) = bench.calls.pop_front() {
        let result = match method {
            "thread/turns/list" => page(stored()),
            _ => json!({ "data": [] }),
        };
        bench.event(Event::Arrived(tui::link::Arrival::Answer { tag, result: Ok(result) }));
    }
    assert_eq!(after(&bench, "› go"), "› go\n\nThe answer is 42.\n\n");
    bench.key(Key::ctrl('t'));
    bench.answer("thread/turns/list", page(stored()));
    assert_eq!(bench.shown().matches("The answer is").count(), 1, "{}", bench.shown());
    bench.key(Key::plain(Code::Esc));
    bench.send("/export answer.md");
    bench.answer("thread/turns/list", page(stored()));
    let exported = bench.others.iter().find_map(|effect| match effect {
        tui::app::Effect::Export { text, .. } => Some(text.clone()),
        _ => None,
    });
    assert_eq!(exported.unwrap().matches("The answer is").count(), 1);
}

#[test]
fn a_message_sent_while_a_text_is_written_comes_behind_it() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    bench.item("item/started", text("m1", ""));
    delta(&mut bench, "m1", "The answer");
    bench.item("item/started", said("u2", "and that"));
    bench.item("item/completed", said("u2", "and that"));
    assert!(bench.shown().contains("The answer\n› and that\n"), "{}", bench.shown());
    delta(&mut bench, "m1", " is 42.");
    bench.item("item/completed", text("m1", "The answer is 42."));
    assert_eq!(after(&bench, "The answer"), "The answer is 42.\n\n› and that\n\n");
}

#[test]
fn a_response_that_breaks_off_after_a_whole_message_says_so() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    bench.item("item/started", text("m1", ""));
    bench.item("item/completed", text("m1", "The answer."));
    failed(&mut bench, true);
    failed(&mut bench, true);
    bench.item("item/started", text("m2", ""));
    bench.item("item/completed", text("m2", "The answer."));
    let said = "· The response broke off after this message. The model continues.";
    let expected = format!("The answer.\n\n{said}\n\nThe answer.\n\n");
    assert_eq!(after(&bench, "The answer."), expected);
}
