//! What fills the screen: transcripts, agents, long diffs; and what is taken out of a thread.

use serde_json::{Value, json};
use tui::app::{Effect, Event};
use tui::terminal::input::{Code, Key};

use crate::harness::{Bench, THREAD, command, message, rolled_back};

fn turn(id: &str, items: Value) -> Value {
    json!({ "id": id, "status": "completed", "items": items, "error": null })
}

fn said(id: &str, text: &str) -> Value {
    json!({ "type": "userMessage", "id": id, "content": [{ "type": "text", "text": text }] })
}

fn answered(id: &str, text: &str) -> Value {
    json!({ "type": "agentMessage", "id": id, "text": text })
}

fn page(turns: Value, next: Value) -> Value {
    json!({ "data": turns, "nextCursor": next, "backwardsCursor": null })
}

fn overlays(bench: &mut Bench) -> Vec<bool> {
    let found = bench.others.iter().filter_map(|effect| match effect {
        Effect::Overlay(is_overlaid) => Some(*is_overlaid),
        _ => None,
    });
    let found = found.collect();
    bench.others.clear();
    found
}

#[test]
fn a_transcript_has_all_output_and_earlier_turns_and_follows_what_comes() {
    for (columns, rows) in [(120, 40), (80, 24), (40, 12)] {
        let mut bench = Bench::open(columns, rows);
        bench.begin_turn("go");
        bench.key(Key::ctrl('t'));
        assert_eq!(overlays(&mut bench), [true]);
        let output: String = (1..=30).map(|n| format!("row {n}\n")).collect();
        let mut ran = command("completed");
        ran["aggregatedOutput"] = json!(output);
        let turns = json!([
            turn("b", json!([said("u2", "second"), ran])),
            turn("a", json!([said("u1", "first")]))
        ]);
        let params = bench.answer("thread/turns/list", page(turns, json!("older")));
        assert_eq!((&params["sortDirection"], &params["cursor"]), (&json!("desc"), &Value::Null));
        assert!(bench.shown().contains("row 30"), "{}", bench.shown());
        bench.key(Key::plain(Code::Char('g')));
        let params = bench.answer(
            "thread/turns/list",
            page(json!([turn("z", json!([said("u0", "zeroth")]))]), Value::Null),
        );
        assert_eq!(params["cursor"], "older");
        let shown = bench.shown();
        let mut lines = shown.lines().map(str::trim_end);
        assert_eq!(lines.next(), Some("Transcript of this thread"));
        assert_eq!(lines.next(), Some("› zeroth"), "{shown}");
        bench.key(Key::plain(Code::End));
        // What streams in is displayed here; it is printed when the view is closed.
        let printed = bench.printed.clone();
        bench.item("item/started", answered("m1", ""));
        bench.delta("Hello ");
        bench.delta("there.");
        assert!(bench.shown().contains("Hello there."), "{}", bench.shown());
        bench.item("item/completed", message("Hello there."));
        assert_eq!(bench.printed, printed);
        bench.key(Key::plain(Code::Char('q')));
        assert_eq!(overlays(&mut bench), [false]);
        assert!(bench.printed.ends_with("Hello there.\n\n"), "{}", bench.printed);
        assert_eq!(bench.printed.matches("Hello there.").count(), 1);
    }
}

#[test]
fn a_question_comes_before_what_is_read() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    bench.send("/transcript");
    bench.answer("thread/turns/list", page(json!([]), Value::Null));
    assert!(bench.shown().contains("nothing to show"), "{}", bench.shown());
    let params = json!({
        "threadId": THREAD, "turnId": "t1", "itemId": "c1", "startedAtMs": 0, "command": "make", "cwd": "/work",
        "availableDecisions": ["accept", "decline"],
    });
    bench.ask(7, "item/commandExecution/requestApproval", params);
    assert!(bench.shown().contains("make"), "{}", bench.shown());
    assert_eq!(overlays(&mut bench), [true, false]);
    bench.now += 5_000;
    bench.press('n');
    assert_eq!(bench.responses.len(), 1);
    assert_eq!(overlays(&mut bench), [true]);
    assert!(bench.shown().contains("Transcript"), "{}", bench.shown());
}

#[test]
fn an_agent_is_looked_at_while_it_works() {
    let mut bench = Bench::open(80, 24);
    bench.send("/agents");
    assert!(bench.printed.contains("no agents"));
    let call = json!({
        "type": "collabToolCall", "id": "x", "tool": "spawnAgent", "status": "completed",
        "senderThreadId": THREAD, "receiverThreadIds": ["agent-1"],
        "agentsStates": { "agent-1": { "status": "running", "message": "looks at the parser" } },
    });
    bench.item("item/completed", call);
    bench.send("/agents");
    assert!(bench.shown().contains("Running  looks at the parser"), "{}", bench.shown());
    bench.key(Key::plain(Code::Enter));
    assert_eq!(bench.answer("thread/resume", json!({}))["threadId"], "agent-1");
    let params = bench.answer("thread/turns/list", page(json!([]), Value::Null));
    assert_eq!(params["threadId"], "agent-1");
    let params = json!({ "threadId": "agent-1", "turnId": "u", "startedAtMs": 0, "item": answered("a1", "I read") });
    bench.notify("item/started", params);
    let delta = json!({ "threadId": "agent-1", "turnId": "u", "itemId": "a1", "delta": " it." });
    bench.notify("item/agentMessage/delta", delta);
    assert!(bench.shown().contains("I read it."), "{}", bench.shown());
    bench.key(Key::plain(Code::Esc));
    assert_eq!(bench.call("thread/unsubscribe").1["threadId"], "agent-1");
    assert!(!bench.printed.contains("I read it."));
}

#[test]
fn a_long_diff_is_scrolled() {
    let mut bench = Bench::open(80, 24);
    let diff = |count: usize| {
        let lines: String = (0..count).map(|n| format!("+line {n}\n")).collect();
        format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1,{count} @@\n{lines}")
    };
    bench.begin_turn("go");
    for (count, is_long) in [(3, false), (40, true)] {
        bench.notify(
            "turn/diff/updated",
            json!({ "threadId": THREAD, "turnId": "t1", "diff": diff(count) }),
        );
        bench.send("/diff");
        assert_eq!(overlays(&mut bench).contains(&true), is_long);
    }
    assert!(bench.shown().starts_with("Changes of the latest turn"), "{}", bench.shown());
}

#[test]
fn an_earlier_message_is_edited_in_this_thread_or_a_copy() {
    let turns = || {
        json!([
            turn("c", json!([said("u3", "third"), answered("a3", "x")])),
            turn("b", json!([said("u2", "second\nwith two lines")])),
            turn("a", json!([said("u1", "first")])),
        ])
    };
    let choose = |undo: bool| {
        let mut bench = Bench::start(80, 24);
        let config = json!({ "config": { "features": { "undo": undo } }, "origins": {} });
        bench.answer("config/read", config);
        bench.answer("thread/start", crate::harness::opened(&json!([])));
        bench.calls.clear();
        bench.item("item/completed", message("x"));
        bench.key(Key::plain(Code::Esc));
        assert!(bench.shown().contains("Press Esc again"), "{}", bench.shown());
        bench.key(Key::plain(Code::Esc));
        bench.answer("thread/turns/list", page(turns(), Value::Null));
        let shown = bench.shown();
        assert!(
            shown.contains("third") && shown.contains("latest") && shown.contains("2 turns back"),
            "{shown}"
        );
        bench.key(Key::plain(Code::Down));
        bench.key(Key::plain(Code::Enter));
        bench
    };
    let mut bench = choose(true);
    assert!(bench.shown().contains("Undo the 2 latest turns (f)"), "{}", bench.shown());
    bench.key(Key::plain(Code::Enter));
    let restored = rolled_back(json!({
        "diff": "", "diffTruncated": false, "restored": ["/work/a"], "conflicts": [],
        "notRestored": [{ "path": "/work/.git", "reason": "it is git's" }],
    }));
    let params = bench.answer("thread/rollback", restored);
    assert_eq!(params, json!({ "threadId": THREAD, "numTurns": 2, "restoreFiles": true }));
    assert!(
        bench.printed.contains("The 2 latest turns were undone; 1 file restored."),
        "{}",
        bench.printed
    );
    assert!(bench.printed.contains("Not restored: /work/.git (it is git's)"));
    assert!(bench.shown().contains("› second\n  with two lines"), "{}", bench.shown());

    let mut bench = choose(false);
    assert!(bench.shown().contains("features.undo is off"), "{}", bench.shown());
    bench.key(Key::plain(Code::Enter));
    let params = bench.answer("thread/rollback", rolled_back(Value::Null));
    assert_eq!(params, json!({ "threadId": THREAD, "numTurns": 2 }));
    assert!(bench.printed.contains("files stay as they are"), "{}", bench.printed);

    let mut bench = choose(false);
    bench.key(Key::plain(Code::Down));
    bench.key(Key::plain(Code::Enter));
    let mut copy = crate::harness::opened(&json!([]));
    copy["thread"]["id"] = json!("copy");
    let params = bench.answer("thread/fork", copy);
    assert_eq!(params, json!({ "threadId": THREAD, "lastTurnId": "a" }));
    assert!(bench.shown().contains("› second\n  with two lines"), "{}", bench.shown());
}

#[test]
fn undo_shows_the_changes_before_it_makes_them() {
    let mut bench = Bench::start(120, 40);
    let config = json!({ "config": { "features": { "undo": true } }, "origins": {} });
    bench.answer("config/read", config);
    bench.answer("thread/start", crate::harness::opened(&json!([])));
    bench.calls.clear();
    for (conflicts, overwrites) in
        [(json!([]), false), (json!([{ "path": "/work/b", "reason": "changed" }]), true)]
    {
        bench.send("/undo");
        let files = json!({
            "diff": "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-new\n+old\n", "diffTruncated": false,
            "restored": ["/work/a"], "conflicts": conflicts, "notRestored": [],
        });
        let params = bench.answer("thread/rollback", rolled_back(files.clone()));
        assert_eq!(params["dryRun"], true);
        let shown = bench.shown();
        assert!(shown.contains("+old"), "{shown}");
        let first = shown.lines().find(|line| line.starts_with('›')).unwrap();
        assert_eq!(first.contains("restore 1 file"), !overwrites, "{shown}");
        assert_eq!(shown.contains("later changes of 1 file are lost"), overwrites, "{shown}");
        if overwrites {
            bench.key(Key::plain(Code::Down));
        }
        bench.key(Key::plain(Code::Enter));
        let params = bench.answer("thread/rollback", rolled_back(files.clone()));
        assert_eq!(
            (&params["dryRun"], params["overwriteChanges"] == true),
            (&Value::Null, overwrites)
        );
    }
    bench.send("/undo");
    bench.refuse("thread/rollback", "the turn was not recorded");
    let shown = bench.shown();
    assert!(shown.contains("Files cannot be restored: the turn was not recorded"), "{shown}");
    bench.press('t');
    bench.refuse("thread/rollback", "no turn");
    assert!(bench.printed.contains("Nothing was undone: no turn"), "{}", bench.printed);
}

pub(crate) fn undo_off(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.send("/undo");
    bench
}

#[test]
fn undo_offers_to_record_files_where_that_is_off() {
    let with_offer = |letter| {
        let mut bench = Bench::open(80, 24);
        bench.send("/undo");
        let shown = bench.shown();
        for part in ["features.undo is off", "files stay as they are", "Record file changes"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(bench.calls.is_empty(), "{:?}", bench.calls);
        bench.press(letter);
        bench
    };
    let mut bench = with_offer('f');
    let written = json!({ "status": "ok", "version": "2", "filePath": "/c.toml", "overriddenMetadata": null });
    let edits = bench.answer("config/batchWrite", written)["edits"].clone();
    assert_eq!((&edits[0]["keyPath"], &edits[0]["value"]), (&json!("features.undo"), &json!(true)));
    assert!(bench.printed.contains("recorded from the next turn on"), "{}", bench.printed);
    let config = json!({ "config": { "features": { "undo": true } }, "origins": {} });
    bench.answer("config/read", config);
    bench.send("/undo");
    assert_eq!(bench.call("thread/rollback").1["dryRun"], true);

    let mut bench = with_offer('u');
    let set = |on: bool| json!({ "enablement": { "undo": on } });
    let params = bench.answer("experimentalFeature/enablement/set", set(true));
    assert_eq!(params, set(true));
    bench.send("/undo");
    assert_eq!(bench.call("thread/rollback").1["dryRun"], true);
    let mut bench = with_offer('u');
    bench.answer("experimentalFeature/enablement/set", set(false));
    assert!(bench.printed.contains("It stays off"), "{}", bench.printed);

    let mut bench = with_offer('t');
    let params = bench.answer("thread/rollback", rolled_back(Value::Null));
    assert_eq!(params, json!({ "threadId": THREAD, "numTurns": 1 }));
}

#[test]
fn a_fork_says_where_one_is_after_its_turns() {
    let mut bench = Bench::open(120, 40);
    bench.send("/fork");
    let mut copy = crate::harness::opened(&json!([]));
    copy["thread"]["id"] = json!("copy");
    bench.answer("thread/fork", copy);
    assert!(!bench.printed.contains("You are in a copy"), "{}", bench.printed);
    let turns = page(json!([turn("a", json!([said("u", "the first words")]))]), Value::Null);
    bench.calls.retain(|call| call.1 == "thread/turns/list");
    bench.answer("thread/turns/list", turns);
    let said = format!(
        "the first words\n\n· You are in a copy. The original thread is unchanged: /resume {THREAD}"
    );
    assert!(bench.printed.replace("\n  ", " ").contains(&said), "{}", bench.printed);
}

#[test]
fn code_is_copied_and_the_thread_written() {
    let mut bench = Bench::open(80, 24);
    bench.item("item/completed", message("One:\n\n```sh\nls\n```\n\n```sh\npwd\n```\n"));
    bench.send("/copy 2");
    assert_eq!(bench.written, b"\x1b]52;c;cHdkCg==\x1b\\");
    bench.written.clear();
    bench.send("/copy code");
    assert!(bench.shown().contains("Copy a block of code"), "{}", bench.shown());
    bench.key(Key::plain(Code::Enter));
    assert_eq!(bench.written, b"\x1b]52;c;bHMK\x1b\\");
    bench.send("/copy 3");
    assert!(bench.shown().contains("has 2 blocks"), "{}", bench.shown());
    bench.written.clear();
    bench.item(
        "item/completed",
        json!({ "type": "agentMessage", "id": "big", "text": "x".repeat(100_000) }),
    );
    bench.send("/copy");
    assert!(
        bench.written.is_empty() && bench.printed.contains("(74000): /export"),
        "{}",
        bench.printed
    );

    bench.send("/export notes.md");
    bench.answer(
        "thread/turns/list",
        page(json!([turn("a", json!([said("u", "hi")]))]), json!("next")),
    );
    bench.answer(
        "thread/turns/list",
        page(json!([turn("b", json!([answered("a", "ho")]))]), Value::Null),
    );
    let Some(Effect::Export { path, text }) = bench.others.pop() else {
        panic!("{:?}", bench.others)
    };
    assert_eq!(path, std::path::Path::new("/work/notes.md"));
    assert_eq!(text, "## User\n\nhi\n\n## Agent\n\nho\n");
    bench.event(Event::Exported(Ok(path)));
    assert!(bench.printed.contains("was written to /work/notes.md"), "{}", bench.printed);
    bench.event(Event::Exported(Err("/work/notes.md exists already".to_owned())));
    assert!(bench.printed.contains("was not exported: /work/notes.md exists already"));
}

#[test]
fn undoing_a_turn_without_changes_restores_nothing() {
    let mut bench = Bench::start(80, 24);
    let config = json!({ "config": { "features": { "undo": true } }, "origins": {} });
    bench.answer("config/read", config);
    bench.answer("thread/start", crate::harness::opened(&json!([])));
    bench.answer("skills/list", json!({ "data": [] }));
    bench.send("/undo");
    let nothing = json!({ "restored": [], "conflicts": [], "notRestored": [], "diff": "", "diffTruncated": false });
    bench.answer("thread/rollback", rolled_back(nothing));
    let shown = bench.shown();
    assert!(
        shown.contains("Undo the latest turn") && shown.contains("it changed no files"),
        "{shown}"
    );
    assert!(!shown.contains("restore 0"), "{shown}");
}
