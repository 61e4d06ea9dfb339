//! Queued messages.

use serde_json::{Value, json};
use tui::terminal::input::{Code, Key};

use crate::harness::Bench;

fn with_queue(columns: usize, rows: usize, texts: &[&str]) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.begin_turn("go");
    for text in texts {
        bench.type_text(text);
        bench.key(Key::plain(Code::Tab));
    }
    bench
}

#[test]
fn they_are_shown_above_the_composer_and_in_a_list() {
    for (columns, rows) in [(120, 40), (80, 24), (40, 12)] {
        let mut bench = with_queue(columns, rows, &["one", "two", "three", "four"]);
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
Enter edits, Delete removes, Esc closes";
        let list: Vec<String> = list
            .lines()
            .map(|line| match line.chars().count() > columns {
                true => line.chars().take(columns - 1).chain(['…']).collect(),
                false => line.to_owned(),
            })
            .collect();
        assert!(bench.shown().ends_with(&list.join("\n")), "{}", bench.shown());
    }
}

#[test]
fn one_is_removed_and_another_edited_in_its_place() {
    let mut bench = with_queue(80, 24, &["one", "two", "three"]);
    bench.send("/queue");
    bench.key(Key::plain(Code::Delete));
    bench.key(Key::plain(Code::Enter));
    assert!(bench.shown().contains("› two"), "{}", bench.shown());
    bench.type_text("!");
    bench.key(Key::plain(Code::Tab));
    for expected in ["two!", "three"] {
        bench.turn("turn/completed", "completed", Value::Null);
        let turn = json!({ "id": "t1", "status": "inProgress", "items": [], "error": null });
        let params = bench.answer("turn/start", json!({ "turn": turn }));
        assert_eq!(params["input"][0]["text"], expected);
    }
}

#[test]
fn what_is_being_written_waits_while_another_is_edited() {
    let mut bench = with_queue(80, 24, &["one"]);
    bench.type_text("half");
    bench.key(Key::alt(Code::Up));
    bench.key(Key::plain(Code::Enter));
    assert!(
        bench.shown().contains("› one") && bench.shown().contains("↳ half"),
        "{}",
        bench.shown()
    );
}

#[test]
fn a_list_follows_what_is_sent_meanwhile() {
    let mut bench = with_queue(80, 24, &["one", "two"]);
    bench.key(Key::alt(Code::Up));
    bench.turn("turn/completed", "completed", Value::Null);
    assert_eq!(bench.call("turn/start").1["input"][0]["text"], "one");
    assert!(bench.shown().contains("1 of 1"), "{}", bench.shown());
    // The first row is another one now.
    bench.key(Key::plain(Code::Enter));
    assert!(bench.shown().contains("› two"), "{}", bench.shown());
}

#[test]
fn an_interrupted_turn_gives_all_of_them_back_before_what_is_being_written() {
    for (status, error) in
        [("interrupted", Value::Null), ("failed", json!({ "message": "no credit" }))]
    {
        let mut bench = with_queue(80, 24, &["one", "two"]);
        bench.type_text("three");
        bench.turn("turn/completed", status, error);
        assert!(bench.calls.is_empty());
        let shown = bench.shown();
        assert!(shown.contains("The 2 queued messages are back in the composer."), "{shown}");
        assert!(shown.contains("› one\n\n  two\n\n  three"), "{shown}");
        bench.key(Key::plain(Code::Enter));
        assert_eq!(bench.call("turn/start").1["input"][0]["text"], "one\n\ntwo\n\nthree");
    }
}

#[test]
fn a_command_that_waits_runs_at_the_end_and_the_next_message_follows() {
    let mut bench = with_queue(80, 24, &["/model gpt-z ", "then this"]);
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
fn the_queue_is_kept_when_the_program_ends() {
    let mut bench = with_queue(80, 24, &["one", "two"]);
    bench.type_text("three");
    assert_eq!(bench.app.unsent().text, "one\n\ntwo\n\nthree");
}

#[test]
fn a_queue_that_is_full_takes_no_more() {
    let mut bench = Bench::open(40, 12);
    bench.begin_turn("go");
    for _ in 0..257 {
        bench.key(Key::plain(Code::Char('x')));
        bench.key(Key::plain(Code::Tab));
    }
    assert!(bench.shown().contains("› x"), "{}", bench.shown());
    assert!(bench.shown().contains("and 253 more messages"), "{}", bench.shown());
}

#[test]
fn a_refused_message_does_not_replace_what_is_being_written() {
    let mut bench = Bench::open(80, 24);
    bench.send("hello");
    bench.type_text("more");
    bench.refuse("turn/start", "no key is configured");
    assert!(bench.shown().contains("› hello\n\n  more"), "{}", bench.shown());
}
