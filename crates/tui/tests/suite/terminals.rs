//! Running commands, also after the end of their turn.

use serde_json::{Value, json};
use tui::terminal::input::{Code, Key};

use crate::harness::{Bench, THREAD, command};

pub(crate) fn started(bench: &mut Bench, id: &str, line: &str) {
    let mut item = command("inProgress");
    (item["id"], item["command"]) = (json!(id), json!(line));
    item["aggregatedOutput"] = Value::Null;
    item["exitCode"] = Value::Null;
    bench.item("item/started", item);
}

pub(crate) fn output(bench: &mut Bench, id: &str, text: &str) {
    let delta = json!({ "threadId": THREAD, "turnId": "t1", "itemId": id, "delta": text });
    bench.notify("item/commandExecution/outputDelta", delta);
}

#[test]
fn a_command_that_outlives_its_turn_is_shown_in_a_row_and_listed_with_its_output() {
    for (columns, rows) in [(120, 40), (80, 24), (40, 12)] {
        let mut bench = Bench::open(columns, rows);
        bench.begin_turn("serve");
        started(&mut bench, "s1", "npm run dev");
        output(&mut bench, "s1", "listening on 3000\n");
        assert!(bench.shown().contains("• Runs npm run dev"), "{}", bench.shown());
        bench.turn("turn/completed", "completed", Value::Null);
        let shown = bench.shown();
        assert!(shown.contains("◦ npm run dev  in the background: /ps"), "{shown}");
        assert!(!shown.contains("listening"), "{shown}");
        // Nothing changes by itself.
        bench.now += 10_000;
        bench.event(tui::app::Event::Tick);
        assert_eq!(bench.app.wakes_at(), None);
        bench.send("/ps");
        output(&mut bench, "s1", "\x1b]52;c;YQ==\x07GET /\n");
        let shown = bench.shown();
        assert!(shown.contains("› npm run dev"), "{shown}");
        assert_eq!(shown.contains("in the background"), columns > 40, "{shown}");
        if rows > 20 {
            assert!(shown.contains("listening on 3000"), "{shown}");
            assert!(shown.contains("\\u{1b}]52;c;YQ==\\u{7}GET /"), "{shown}");
        }
        bench.key(Key::plain(Code::Enter));
        assert!(bench.printed.contains("  listening on 3000\n"), "{}", bench.printed);
    }
}

#[test]
fn one_command_of_the_background_is_ended_from_the_list() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("serve");
    started(&mut bench, "s1", "npm run dev");
    bench.send("/ps");
    bench.key(Key::plain(Code::Delete));
    assert!(bench.calls.is_empty(), "the turn waits for it");
    bench.turn("turn/completed", "completed", Value::Null);
    bench.key(Key::plain(Code::Delete));
    let params = bench.answer("thread/backgroundTerminals/clean", json!({}));
    assert_eq!(params, json!({ "threadId": THREAD }));
    let mut item = command("failed");
    item["id"] = json!("s1");
    bench.item("item/completed", item);
    assert!(!bench.shown().contains("Running commands"), "{}", bench.shown());
    bench.send("/ps");
    assert!(bench.shown().contains("No commands are running."), "{}", bench.shown());
}

#[test]
fn several_are_ended_together() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("serve");
    for number in 0..5 {
        started(&mut bench, &format!("s{number}"), &format!("sleep {number}"));
    }
    bench.turn("turn/completed", "completed", Value::Null);
    assert!(bench.shown().contains("and 2 more commands"), "{}", bench.shown());
    bench.send("/ps");
    bench.key(Key::plain(Code::Delete));
    assert!(bench.calls.is_empty());
    bench.key(Key::plain(Code::Esc));
    assert!(bench.shown().contains("/stop ends all 5 background commands"), "{}", bench.shown());
    bench.send("/stop");
    bench.refuse("thread/backgroundTerminals/clean", "the thread is busy");
    assert!(bench.printed.contains("were not ended: the thread is busy"), "{}", bench.printed);
}
