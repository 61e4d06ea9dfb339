//! Joining a thread in the middle of a message, and coming back to one.

use serde_json::{Value, json};
use tui::app::{Effect, Event, Start, StartThread};

use crate::harness::{Bench, THREAD, command, initialized, message, opened, page, said, turn};

fn join(columns: usize, rows: usize, running: &Value) -> Bench {
    let thread = StartThread::Resume(THREAD.to_owned());
    let mut bench = Bench::start_with(columns, rows, Start { thread, ..Start::default() });
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    bench.answer("thread/resume", opened(running));
    bench
}

fn texts(bench: &Bench) -> Vec<&str> {
    bench.printed.lines().skip(1).filter(|line| !line.is_empty()).collect()
}

fn reconnect(bench: &mut Bench, running: &Value) {
    bench.event(Event::Lost { why: "the connection ended".to_owned(), can_return: true });
    bench.now += 1_000;
    bench.event(Event::Tick);
    assert!(bench.others.drain(..).any(|effect| matches!(effect, Effect::Reconnect)));
    bench.event(Event::Connected(Box::new(initialized())));
    bench.calls.retain(|call| call.1 == "config/read" || call.1 == "thread/resume");
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    bench.answer("thread/resume", opened(running));
}

#[test]
fn a_message_that_is_being_written_goes_on_where_it_is() {
    for (columns, rows) in [(120, 40), (80, 24), (40, 12)] {
        let items = json!([said("u1", "go"), command("completed"), message("First.\n\nSec")]);
        let mut bench = join(columns, rows, &json!([turn("t1", "inProgress", items)]));
        // Additions come before the stored turns are read.
        bench.delta("ond.\n\nTh");
        assert_eq!(texts(&bench), Vec::<&str>::new());
        let earlier = turn("t0", "completed", json!([said("u0", "before")]));
        let stored = turn("t1", "inProgress", json!([said("u1", "go"), command("completed")]));
        bench.answer("thread/turns/list", page(json!([earlier, stored])));
        assert_eq!(
            texts(&bench),
            ["› before", "› go", "• Ran cargo test", "  ok", "First.", "Second."]
        );
        assert!(bench.shown().contains("Th\n\n● Working"), "{}", bench.shown());
        bench.delta("ird.");
        bench.item("item/completed", message("First.\n\nSecond.\n\nThird."));
        bench.turn("turn/completed", "completed", Value::Null);
        assert_eq!(texts(&bench)[4..], ["First.", "Second.", "Third.", "· Worked for 0.2s"]);
        assert!(!bench.shown().contains("Working"), "{}", bench.shown());
    }
}

#[test]
fn what_ends_while_the_turns_are_read_is_shown_once_in_its_place() {
    let items = json!([said("u1", "go"), message("One")]);
    let mut bench = join(80, 24, &json!([turn("t1", "inProgress", items)]));
    bench.item("item/completed", message("One two."));
    bench.item("item/started", command("inProgress"));
    bench.item("item/completed", command("completed"));
    bench.turn("turn/completed", "completed", Value::Null);
    // The page was read before the end.
    let stored = turn("t1", "inProgress", json!([said("u1", "go"), message("One two.")]));
    bench.answer("thread/turns/list", page(json!([stored])));
    let lines = ["› go", "One two.", "• Ran cargo test", "  ok", "· Worked for 0.2s"];
    assert_eq!(texts(&bench), lines);
    assert!(!bench.shown().contains("Working"), "{}", bench.shown());
}

#[test]
fn a_stored_message_of_a_running_turn_is_complete() {
    let items = json!([said("u1", "go"), message("I will.")]);
    let mut bench = join(80, 24, &json!([turn("t1", "inProgress", items.clone())]));
    bench.answer("thread/turns/list", page(json!([turn("t1", "inProgress", items)])));
    assert_eq!(texts(&bench), ["› go", "I will."]);
    assert!(bench.shown().contains("● Working"), "{}", bench.shown());
}

#[test]
fn a_thread_that_stores_nothing_shows_what_is_being_written() {
    let items = json!([said("u1", "go"), message("One.\n\nTwo")]);
    let mut bench = join(80, 24, &json!([turn("t1", "inProgress", items)]));
    bench.refuse("thread/turns/list", "an ephemeral thread keeps no turns");
    bench.delta(" three.");
    bench.turn("turn/completed", "completed", Value::Null);
    let shown = texts(&bench);
    assert_eq!(shown[1..], ["› go", "One.", "Two three.", "· Worked for 0.1s"]);
}

#[test]
fn a_server_that_was_killed_leaves_the_message_as_far_as_it_came() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    bench.item("item/completed", said("u1", "go"));
    bench.item("item/started", message(""));
    bench.delta("One.\n\nTwo");
    reconnect(&mut bench, &json!([]));
    let stored = turn("t1", "interrupted", json!([said("u1", "go")]));
    bench.answer("thread/turns/list", page(json!([stored])));
    let printed = &bench.printed[bench.printed.find("› go").unwrap()..];
    let texts: Vec<&str> = printed.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(
        texts,
        ["› go", "One.", "! the connection ended; reconnecting", "Two", "■ Interrupted."]
    );
    assert!(!bench.shown().contains("Working"), "{}", bench.shown());
    // The end is reported once.
    bench.turn("turn/completed", "interrupted", Value::Null);
    assert_eq!(bench.printed.matches("Interrupted").count(), 1);
}

#[test]
fn a_message_without_an_answer_comes_back_unless_the_server_has_it() {
    for (has_it, expected) in [(true, "› new words"), (false, "› lost words\n\n  new words")] {
        let mut bench = Bench::open(80, 24);
        bench.send("lost words");
        bench.type_text("new words");
        bench.event(Event::Lost { why: "gone".to_owned(), can_return: true });
        assert!(
            bench.shown().contains("? lost words  (perhaps not received)"),
            "{}",
            bench.shown()
        );
        assert_eq!(bench.app.unsent().text, "lost words\n\nnew words");
        reconnect(&mut bench, &json!([]));
        let items = if has_it { json!([said("u1", "lost words")]) } else { json!([]) };
        bench.answer("thread/turns/list", page(json!([turn("t1", "completed", items)])));
        let shown = bench.shown();
        let shown = shown.replace("  \n", "\n");
        assert!(shown.contains(expected), "{shown}");
        assert_eq!(shown.matches("lost words").count(), 1, "{shown}");
    }
}

#[test]
fn messages_that_wait_stay_in_the_queue_while_the_turn_goes_on() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    bench.item("item/completed", said("u1", "go"));
    let queued = bench.queue("afterwards");
    let running = turn("t1", "inProgress", json!([said("u1", "go")]));
    reconnect(&mut bench, &json!([running]));
    bench.queue_changed(1, Value::Null);
    bench.answer("thread/turns/list", page(json!([running])));
    bench.calls.retain(|call| call.1 != "skills/list");
    let message = json!({
        "id": "q1", "input": queued["input"], "clientUserMessageId": queued["clientUserMessageId"],
    });
    bench.answer(
        "thread/queue/list",
        json!({ "data": [message], "nextCursor": null, "pause": null }),
    );
    assert!(bench.shown().contains("↳ afterwards"), "{}", bench.shown());
    bench.turn("turn/completed", "completed", Value::Null);
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
}
