//! Queued messages: those in the queue of the thread, and what waits here.

use jsonrpc::ErrorObject;
use serde_json::{Value, json};
use tui::app::Event;
use tui::link::Arrival;
use tui::terminal::input::{Code, Key};

use crate::harness::{Bench, THREAD, opened};

fn with_queue(columns: usize, rows: usize, texts: &[&str]) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.begin_turn("go");
    for text in texts {
        bench.queue(text);
    }
    bench
}

/// A message of another client.
fn message(id: &str, input: Value) -> Value {
    json!({ "id": id, "input": input, "clientUserMessageId": format!("other-{id}") })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Answers the list of the queue.
fn list(bench: &mut Bench, messages: &[Value], pause: &Value) {
    let page = json!({ "data": messages, "nextCursor": null, "pause": pause });
    let params = bench.answer("thread/queue/list", page);
    assert_eq!(params["threadId"], THREAD);
}

fn interrupted(texts: &[&str]) -> Bench {
    let mut bench = with_queue(80, 24, texts);
    bench.turn("turn/completed", "interrupted", Value::Null);
    bench.queue_changed(texts.len(), json!({ "reason": "interrupted" }));
    bench.calls.clear();
    bench
}

#[test]
fn they_go_to_the_server_and_are_shown_above_the_composer_and_in_a_list() {
    for (columns, rows) in [(120, 40), (80, 24), (40, 12)] {
        let mut bench = with_queue(columns, rows, &["one", "two", "three"]);
        let params = bench.queue("four");
        assert_eq!(
            (&params["threadId"], &params["input"]),
            (&json!(THREAD), &json!([{ "type": "text", "text": "four" }]))
        );
        let shown = bench.shown();
        assert!(
            shown.contains("↳ one  (sent at the end of the") && shown.contains("↳ three"),
            "{shown}"
        );
        assert!(shown.contains("and 1 more messages"), "{shown}");
        bench.key(Key::alt(Code::Up));
        let list = "\
Queued messages  1 of 4
search:
› one
  two
  three
  four
Enter edits, Delete removes, Alt+↑↓ move, Alt+Home puts first, Tab starts, Esc c…";
        let list: Vec<String> = list
            .lines()
            .map(|line| match line.chars().count() > columns {
                true => line.chars().take(columns - 1).chain(['…']).collect(),
                false => line.replace("Esc c…", "Esc closes"),
            })
            .collect();
        assert!(bench.shown().ends_with(&list.join("\n")), "{}", bench.shown());
    }
}

#[test]
fn every_message_has_an_id_of_its_own() {
    let mut bench = with_queue(80, 24, &[]);
    let ids = ["same", "same"].map(|text| bench.queue(text)["clientUserMessageId"].clone());
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn one_is_removed_and_another_edited_in_its_place() {
    let mut bench = with_queue(80, 24, &["one", "two", "three"]);
    bench.send("/queue");
    bench.key(Key::plain(Code::Delete));
    let params = bench.answer("thread/queue/delete", json!({ "deleted": true }));
    assert_eq!(params["queuedSubmissionId"], "one");
    bench.key(Key::plain(Code::Enter));
    let params = bench.answer("thread/queue/delete", json!({ "deleted": true }));
    assert_eq!(params["queuedSubmissionId"], "two");
    assert!(bench.shown().contains("› two"), "{}", bench.shown());
    let params = bench.queue("!");
    assert_eq!(params["input"][0]["text"], "two!");
    let params = bench.answer("thread/queue/reorder", json!({}));
    assert_eq!(params["queuedSubmissionIds"], json!(["two!", "three"]));
    assert!(bench.shown().contains("↳ two!  (sent"), "{}", bench.shown());
}

#[test]
fn one_that_has_started_is_not_edited() {
    let mut bench = with_queue(80, 24, &["one"]);
    bench.key(Key::plain(Code::Up));
    bench.answer("thread/queue/delete", json!({ "deleted": false }));
    let shown = bench.shown();
    assert!(shown.contains("already been sent") && !shown.contains("› one"), "{shown}");
}

#[test]
fn what_is_being_written_waits_while_another_is_edited() {
    let mut bench = with_queue(80, 24, &["one"]);
    bench.type_text("half");
    bench.key(Key::alt(Code::Up));
    bench.key(Key::plain(Code::Enter));
    bench.answer("thread/queue/delete", json!({ "deleted": true }));
    assert_eq!(bench.call("thread/queue/add").1["input"][0]["text"], "half");
    assert!(
        bench.shown().contains("› one") && bench.shown().contains("↳ half"),
        "{}",
        bench.shown()
    );
}

#[test]
fn they_are_moved_in_the_list() {
    let mut bench = with_queue(80, 24, &["one", "two", "three"]);
    bench.key(Key::alt(Code::Up));
    bench.key(Key::plain(Code::End));
    bench.key(Key::alt(Code::Home));
    let params = bench.answer("thread/queue/reorder", json!({}));
    assert_eq!(params["queuedSubmissionIds"], json!(["three", "one", "two"]));
    assert!(bench.shown().contains("› three\n  one\n  two"), "{}", bench.shown());
    bench.key(Key::alt(Code::Down));
    let params = bench.answer("thread/queue/reorder", json!({}));
    assert_eq!(params["queuedSubmissionIds"], json!(["one", "three", "two"]));
    // Another client has changed the queue meanwhile.
    bench.key(Key::alt(Code::Up));
    bench.refuse("thread/queue/reorder", "must include every queued submission exactly once");
    list(&mut bench, &[message("b", json!([text("theirs")]))], &Value::Null);
    assert!(bench.shown().contains("› theirs"), "{}", bench.shown());
}

#[test]
fn another_client_changes_the_queue() {
    let mut bench = with_queue(80, 24, &["one"]);
    let theirs = json!([
        { "type": "image", "url": "data:image/png;base64,AA==" }, { "type": "text", "text": "theirs" },
    ]);
    bench.queue_changed(2, Value::Null);
    // It changes again before the list comes.
    bench.queue_changed(3, Value::Null);
    list(&mut bench, &[message("a", theirs.clone())], &Value::Null);
    let file =
        json!([text("see @a.rs"), { "type": "mention", "name": "a.rs", "path": "/work/a.rs" }]);
    list(&mut bench, &[message("a", theirs), message("b", file)], &Value::Null);
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
    let shown = bench.shown();
    assert!(shown.contains("↳ theirs [image]") && shown.contains("↳ see @a.rs"), "{shown}");
    // Its parts are the same when it was edited here.
    bench.key(Key::plain(Code::Up));
    bench.answer("thread/queue/delete", json!({ "deleted": true }));
    bench.key(Key::plain(Code::Tab));
    let (_, params) = bench.call("thread/queue/add");
    assert_eq!(params["input"][1]["path"], "/work/a.rs", "{params}");
    // An image of which only the data is known cannot be edited here.
    bench.send("/queue");
    bench.key(Key::plain(Code::Enter));
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
    assert!(bench.shown().contains("not added here"), "{}", bench.shown());
    bench.queue_changed(0, Value::Null);
    assert!(!bench.shown().contains("theirs"), "{}", bench.shown());
}

#[test]
fn after_an_interruption_the_queue_waits_until_it_is_started() {
    let mut bench = interrupted(&["one", "two"]);
    let shown = bench.shown();
    assert!(
        shown.contains(
            "‖ The queue waits, Tab starts it: the turn was interrupted\n↳ one  (↑ edits"
        ),
        "{shown}"
    );
    assert!(shown.contains("↳ one") && !shown.contains("› one"), "{shown}");
    bench.key(Key::plain(Code::Tab));
    let (tag, params) = bench.call("thread/queue/start");
    assert_eq!((&params["threadId"], params.get("queuedSubmissionId")), (&json!(THREAD), None));
    // Pressed again, it does not start the second one.
    bench.key(Key::plain(Code::Tab));
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
    let error = Err(ErrorObject::internal("the image is gone".to_owned()));
    bench.event(Event::Arrived(Arrival::Answer { tag, result: error }));
    assert!(bench.printed.contains("The queue was not started: the image is gone"));
    bench.key(Key::alt(Code::Up));
    bench.key(Key::plain(Code::Down));
    bench.key(Key::plain(Code::Tab));
    let turn = json!({ "id": "t2", "status": "inProgress", "items": [], "error": null });
    let params = bench.answer("thread/queue/start", json!({ "turn": turn }));
    assert_eq!(params["queuedSubmissionId"], "two");
    assert!(bench.shown().contains("Working"), "{}", bench.shown());
}

#[test]
fn a_thread_that_is_opened_again_shows_why_its_queue_waits() {
    let mut bench = Bench::open(120, 24);
    bench.event(Event::Connected(Box::new(crate::harness::initialized())));
    bench.calls.retain(|call| call.1 == "thread/resume");
    bench.answer("thread/resume", opened(&json!([])));
    let pause = json!({ "reason": "notStarted", "message": "cannot read /tmp/a.png" });
    bench.queue_changed(1, pause.clone());
    bench.calls.retain(|call| call.1 == "thread/queue/list");
    list(&mut bench, &[message("a", json!([text("look")]))], &pause);
    let shown = bench.shown();
    assert!(
        shown.contains("Tab starts it: its message could not start: cannot read /tmp/a.png"),
        "{shown}"
    );
}

#[test]
fn a_command_runs_here_at_the_end_and_the_next_message_follows() {
    let mut bench = with_queue(80, 24, &[]);
    for text in ["/model gpt-z ", "then this"] {
        bench.type_text(text);
        bench.key(Key::plain(Code::Tab));
    }
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
    bench.turn("turn/completed", "completed", Value::Null);
    // For how long it is used is asked afterwards.
    bench.call("config/read");
    let (_, params) = bench.call("turn/start");
    assert_eq!(
        (&params["model"], &params["input"][0]["text"]),
        (&json!("gpt-z"), &json!("then this"))
    );
}

#[test]
fn a_command_waits_for_the_queue_before_it() {
    let mut bench = with_queue(80, 24, &["one"]);
    bench.type_text("/compact ");
    bench.key(Key::plain(Code::Tab));
    bench.turn("turn/completed", "completed", Value::Null);
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
    bench.turn("turn/started", "inProgress", Value::Null);
    bench.queue_changed(0, Value::Null);
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
    bench.turn("turn/completed", "completed", Value::Null);
    bench.call("thread/compact/start");
}

#[test]
fn an_interrupted_turn_gives_back_what_waits_here() {
    for (status, error) in
        [("interrupted", Value::Null), ("failed", json!({ "message": "no credit" }))]
    {
        let mut bench = with_queue(80, 24, &[]);
        for text in ["/compact ", "one"] {
            bench.type_text(text);
            bench.key(Key::plain(Code::Tab));
        }
        bench.type_text("three");
        bench.turn("turn/completed", status, error);
        assert!(bench.calls.is_empty());
        let shown = bench.shown();
        assert!(shown.contains("The 2 queued messages are back in the composer."), "{shown}");
        assert!(shown.contains("› /compact\n\n  one\n\n  three"), "{shown}");
    }
}

#[test]
fn what_the_server_does_not_have_is_kept_when_the_program_ends() {
    let mut bench = with_queue(80, 24, &["one"]);
    bench.type_text("two");
    bench.key(Key::plain(Code::Tab));
    bench.type_text("three");
    assert_eq!(bench.app.unsent().text, "two\n\nthree");
}

#[test]
fn a_message_that_the_server_refuses_is_in_the_composer_again() {
    let mut bench = with_queue(80, 24, &[]);
    bench.type_text("one");
    bench.key(Key::plain(Code::Tab));
    bench.type_text("two");
    bench.refuse("thread/queue/add", "the queue of the thread is full");
    assert!(bench.printed.contains("The message was not queued: the queue of the thread is full"));
    assert!(bench.shown().contains("› one\n\n  two"), "{}", bench.shown());
}

#[test]
fn a_message_on_its_way_when_the_connection_is_lost_is_found_in_the_queue() {
    for is_queued in [true, false] {
        let mut bench = with_queue(80, 24, &[]);
        bench.type_text("one");
        bench.key(Key::plain(Code::Tab));
        bench.event(Event::Lost { why: "the connection ended".to_owned(), can_return: true });
        assert!(bench.shown().contains("? one  (perhaps not received)"), "{}", bench.shown());
        bench.event(Event::Connected(Box::new(crate::harness::initialized())));
        bench.calls.retain(|call| call.1 == "thread/resume");
        bench.answer("thread/resume", opened(&json!([])));
        bench.queue_changed(1, Value::Null);
        bench.calls.retain(|call| call.1.starts_with("thread/"));
        bench.answer("thread/turns/list", crate::harness::page(json!([])));
        let one = if is_queued { "one" } else { "other" };
        list(&mut bench, &[message("a", json!([text(one)]))], &Value::Null);
        assert_eq!(bench.shown().contains("› one"), !is_queued, "{}", bench.shown());
    }
}

#[test]
fn a_refused_message_does_not_replace_what_is_being_written() {
    let mut bench = Bench::open(80, 24);
    bench.send("hello");
    bench.type_text("more");
    bench.refuse("turn/start", "no key is configured");
    assert!(bench.shown().contains("› hello\n\n  more"), "{}", bench.shown());
}

#[test]
fn what_waits_here_is_bounded() {
    let mut bench = with_queue(40, 12, &[]);
    bench.type_text("/compact ");
    bench.key(Key::plain(Code::Tab));
    for _ in 0..256 {
        bench.key(Key::plain(Code::Char('x')));
        bench.key(Key::plain(Code::Tab));
    }
    assert!(bench.shown().contains("› x"), "{}", bench.shown());
    assert!(bench.shown().contains("and 253 more messages"), "{}", bench.shown());
}
