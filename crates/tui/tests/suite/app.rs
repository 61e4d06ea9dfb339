//! Threads, turns, questions and settings.

use jsonrpc::RequestId;
use serde_json::{Value, json};
use tui::app::{Effect, Event, Start, StartThread};
use tui::palette::Palette;
use tui::terminal::input::{Code, Input, Key, Reply};

use crate::harness::{
    Bench, THREAD, command, completed, initialized, listed, message, opened, page, turn,
};

#[test]
fn the_first_frames_show_the_thread_and_the_composer() {
    for (columns, rows) in [(120, 40), (80, 24), (40, 12)] {
        let bench = Bench::open(columns, rows);
        let shown = bench.shown();
        assert!(shown.starts_with("agentd  gpt-x  /work\n"), "{shown}");
        assert!(
            // The cursor stands before the hint.
            shown.ends_with(
                "\n› Describe a task, or / for commands\n  gpt-x high · asks before edits · /wor…"
            ) || shown.ends_with(
                "\n› Describe a task, or / for commands\n  gpt-x high · asks before edits · /work · main"
            ),
            "{shown}"
        );
    }
}

#[test]
fn a_turn_is_printed_as_it_happens_and_each_thing_once() {
    let mut bench = Bench::open(80, 24);
    let params = bench.begin_turn("fix the test");
    assert_eq!(params["input"][0]["text"], "fix the test");
    assert_eq!(params["threadId"], THREAD);
    bench.item("item/started", json!({ "type": "userMessage", "id": "u1", "content": [{ "type": "text", "text": "fix the test" }] }));
    bench.item("item/completed", json!({ "type": "userMessage", "id": "u1", "content": [{ "type": "text", "text": "fix the test" }] }));
    bench.item("item/started", message(""));
    for part in ["I will ", "look.\n\n", "Then I run ", "the tests."] {
        bench.delta(part);
    }
    assert!(bench.shown().contains("Then I run the tests.\n\n● Working"), "{}", bench.shown());
    bench.item("item/completed", message("I will look.\n\nThen I run the tests."));
    bench.item("item/started", command("inProgress"));
    let delta =
        json!({ "threadId": THREAD, "turnId": "t1", "itemId": "c1", "delta": "running 3 tests\n" });
    bench.notify("item/commandExecution/outputDelta", delta);
    assert!(bench.shown().contains("• Runs cargo test"), "{}", bench.shown());
    assert!(bench.shown().contains("  running 3 tests"), "{}", bench.shown());
    bench.item("item/completed", command("completed"));
    bench.turn("turn/completed", "completed", Value::Null);
    let expected = "agentd  gpt-x  /work\n\
        Describe a task. / lists commands, @ files, $ skills, ! runs a shell command.\n\n\
        › fix the test\n\nI will look.\n\nThen I run the tests.\n\n• Ran cargo test\n  ok\n\n\
        · Worked for 0.7s\n\n";
    assert_eq!(bench.printed, expected);
    assert!(!bench.shown().contains("Working"), "{}", bench.shown());
}

#[test]
fn a_message_is_kept_in_one_piece_while_others_finish() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    bench.item("item/started", command("inProgress"));
    bench.item("item/started", message(""));
    bench.delta("First.\n\nSec");
    bench.item("item/completed", command("completed"));
    bench.delta("ond.\n\n");
    bench.item("item/completed", message("First.\n\nSecond."));
    let at = |text: &str| bench.printed.find(text).unwrap();
    assert!(
        at("First.") < at("Second.") && at("Second.") < at("• Ran cargo test"),
        "{}",
        bench.printed
    );
}

#[test]
fn what_is_written_during_a_turn_goes_into_it_or_waits() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    bench.send("also this");
    let params = bench.answer("turn/steer", json!({ "turnId": "t1" }));
    assert_eq!(
        (&params["expectedTurnId"], &params["input"][0]["text"]),
        (&json!("t1"), &json!("also this"))
    );
    bench.queue("and then that");
    assert!(bench.shown().contains("↳ and then that"), "{}", bench.shown());
    assert!(bench.calls.is_empty());
    // The last one can be edited.
    bench.key(Key::plain(Code::Up));
    bench.answer("thread/queue/delete", json!({ "deleted": true }));
    assert!(bench.shown().contains("› and then that"), "{}", bench.shown());
    bench.queue("!");
    // The server starts it.
    bench.turn("turn/completed", "completed", Value::Null);
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
}

#[test]
fn a_turn_that_takes_no_input_leaves_the_message_for_its_end() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    bench.send("more");
    bench.refuse("turn/steer", "the turn is a review");
    assert!(bench.shown().contains("↳ more"), "{}", bench.shown());
}

#[test]
fn a_message_that_was_refused_is_in_the_composer_again() {
    let mut bench = Bench::open(80, 24);
    bench.send("hello");
    bench.refuse("turn/start", "no key is configured");
    assert!(
        bench.printed.contains("The message was not sent: no key is configured"),
        "{}",
        bench.printed
    );
    assert!(bench.shown().contains("› hello"), "{}", bench.shown());
}

#[test]
fn escape_interrupts_once() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    bench.key(Key::plain(Code::Esc));
    bench.key(Key::plain(Code::Esc));
    let params = bench.answer("turn/interrupt", json!({}));
    assert_eq!(params, json!({ "threadId": THREAD, "turnId": "t1" }));
    assert!(bench.calls.is_empty());
    assert!(bench.shown().contains("Interrupting"), "{}", bench.shown());
    bench.turn("turn/completed", "interrupted", Value::Null);
    assert!(bench.printed.contains("■ Interrupted."), "{}", bench.printed);
}

#[test]
fn a_failed_turn_says_why() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    bench.turn("turn/completed", "failed", json!({ "message": "the key was refused" }));
    assert!(bench.printed.contains("✗ the key was refused"), "{}", bench.printed);
}

fn approval() -> Value {
    json!({
        "threadId": THREAD, "turnId": "t1", "itemId": "c1", "startedAtMs": 0, "command": "rm -rf build",
        "cwd": "/work", "reason": "needs to write",
    })
}

#[test]
fn a_question_takes_the_keys_until_it_is_answered() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    bench.type_text("half a thou");
    bench.now += 1_000;
    bench.ask(7, "item/commandExecution/requestApproval", approval());
    assert!(bench.shown().contains("rm -rf build"), "{}", bench.shown());
    // The message goes on, however long the pause is, and Enter does not send or answer anything.
    bench.press('g');
    bench.now += 5_000;
    bench.press('h');
    assert!(bench.shown().contains("You are typing your message"), "{}", bench.shown());
    bench.key(Key::plain(Code::Enter));
    assert!(bench.responses.is_empty());
    bench.now += 1_000;
    bench.key(Key::plain(Code::Down));
    bench.now += 1_000;
    bench.key(Key::plain(Code::Char('y')));
    assert!(bench.responses.is_empty());
    assert_eq!(bench.app.wakes_at(), Some(bench.now + 300));
    bench.now += 300;
    bench.event(Event::Tick);
    let (id, outcome) = bench.responses.pop().unwrap();
    assert_eq!(
        (id, outcome.unwrap()["decision"].clone()),
        (RequestId::Integer(7), json!("accept"))
    );
    assert!(bench.shown().contains("› half a though"), "{}", bench.shown());
}

#[test]
fn nothing_that_waits_for_an_answer_says_that_it_runs() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    let mut item = command("inProgress");
    item["awaitsApproval"] = json!(true);
    bench.item("item/started", item);
    assert!(bench.shown().contains("• Waits for approval: cargo test"), "{}", bench.shown());
    bench.ask(7, "item/commandExecution/requestApproval", approval());
    let shown = bench.shown();
    assert!(shown.contains("● Waiting for your answer"), "{shown}");
    assert!(!shown.contains("Working") && !shown.contains("Esc interrupts"), "{shown}");
    assert!(!shown.contains("Waits for approval") && !shown.contains("Runs "), "{shown}");
    bench.now += 1_000;
    bench.press('y');
    bench.notify(
        "item/commandExecution/running",
        json!({ "threadId": THREAD, "turnId": "t1", "itemId": "c1" }),
    );
    assert!(bench.shown().contains("● Working"), "{}", bench.shown());
}

#[test]
fn a_question_that_another_client_answers_disappears() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    bench.ask(7, "item/commandExecution/requestApproval", approval());
    bench.notify("serverRequest/resolved", json!({ "threadId": THREAD, "requestId": 7 }));
    assert!(!bench.shown().contains("rm -rf build"), "{}", bench.shown());
    assert!(bench.responses.is_empty());
}

#[test]
fn what_cannot_be_asked_is_refused_at_once() {
    let mut bench = Bench::open(80, 24);
    bench.ask(9, "some/newMethod", json!({}));
    let (_, outcome) = bench.responses.pop().unwrap();
    assert!(outcome.is_err());
}

#[test]
fn after_a_reconnection_nothing_is_lost_or_doubled() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    bench.item(
        "item/completed",
        json!({ "type": "userMessage", "id": "u1", "content": [{ "type": "text", "text": "go" }] }),
    );
    bench.item("item/started", message(""));
    bench.delta("One.\n\nTwo");
    bench.ask(7, "item/commandExecution/requestApproval", approval());
    bench.event(Event::Lost { why: "the connection ended".to_owned(), can_return: true });
    assert!(bench.shown().contains("Not connected"), "{}", bench.shown());
    bench.now += 1_000;
    bench.event(Event::Tick);
    assert!(bench.others.iter().any(|effect| matches!(effect, Effect::Reconnect)));
    bench.event(Event::Connected(Box::new(initialized())));
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    let user =
        json!({ "type": "userMessage", "id": "u1", "content": [{ "type": "text", "text": "go" }] });
    let running = turn("t1", "inProgress", json!([user, message("One.\n\nTwo.\n\nThree")]));
    let params = bench.answer("thread/resume", opened(&json!([running])));
    assert_eq!(params["threadId"], THREAD);
    // What is being written is not stored yet.
    let page = page(json!([turn("t1", "inProgress", json!([user]))]));
    assert_eq!(bench.answer("thread/turns/list", page)["threadId"], THREAD);
    bench.delta(" more.");
    bench.item("item/completed", message("One.\n\nTwo.\n\nThree more."));
    bench.turn("turn/completed", "completed", Value::Null);
    let tail = &bench.printed[bench.printed.find("› go").unwrap()..];
    let texts: Vec<&str> =
        tail.lines().filter(|line| !line.is_empty() && !line.starts_with('!')).collect();
    assert_eq!(texts, ["› go", "One.", "Two.", "Three more."]);
}

#[test]
fn a_server_that_is_gone_for_good_ends_the_program_with_the_reason() {
    let mut bench = Bench::open(80, 24);
    bench.event(Event::Lost { why: "the server has ended".to_owned(), can_return: false });
    let Some(Effect::Quit(ended)) = bench.others.pop() else { panic!("it goes on") };
    assert_eq!(ended.code, 1);
    assert!(ended.message.unwrap().contains("the server has ended"));
}

#[test]
fn a_resumed_thread_is_printed_page_by_page_before_what_is_new() {
    let thread = StartThread::Resume(THREAD.to_owned());
    let mut bench = Bench::start_with(80, 24, Start { thread, ..Start::default() });
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    bench.answer("thread/resume", opened(&json!([])));
    bench.turn("turn/started", "inProgress", Value::Null);
    let mut new = command("completed");
    new["id"] = json!("new");
    bench.item("item/completed", new);
    let turn = |id: &str, text: &str| {
        let item = json!({ "type": "agentMessage", "id": id, "text": text });
        json!({ "id": id, "status": "completed", "items": [item], "error": null })
    };
    for (turns, next) in
        [(json!([turn("a", "One.")]), json!("2")), (json!([turn("b", "Two.")]), Value::Null)]
    {
        let params = bench.answer(
            "thread/turns/list",
            json!({ "data": turns, "nextCursor": next, "backwardsCursor": null }),
        );
        let cursor = if next.is_null() { json!("2") } else { Value::Null };
        assert_eq!(params["cursor"], cursor);
        bench.calls.retain(|call| call.1 != "skills/list");
    }
    let texts: Vec<&str> = bench.printed.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(texts, ["agentd  gpt-x  /work", "One.", "Two.", "• Ran cargo test", "  ok"]);
}

#[test]
fn the_latest_answer_is_copied_and_a_theme_is_stored() {
    let mut bench = Bench::open(80, 24);
    bench.send("/copy");
    assert!(bench.written.is_empty());
    bench.item("item/completed", message("a\x1b]0;x\x07"));
    bench.send("/copy");
    assert_eq!(bench.written, b"\x1b]52;c;YRtdMDt4Bw==\x1b\\");
    // What follows the command may be left out.
    bench.send("/theme");
    assert!(bench.shown().contains("dracula"), "{}", bench.shown());
    bench.type_text("dracula");
    bench.key(Key::plain(Code::Enter));
    let (_, params) = bench.call("config/value/write");
    assert_eq!((&params["keyPath"], &params["value"]), (&json!("tui.theme"), &json!("dracula")));
    bench.send("/theme drakula");
    assert!(bench.printed.contains("dracula"), "{}", bench.printed);
}

#[test]
fn a_thread_is_chosen_from_a_list_that_is_read_page_by_page() {
    let start = Start { thread: StartThread::Choose, ..Start::default() };
    let mut bench = Bench::start_with(80, 24, start);
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    let params = bench.answer("thread/list", listed(0..50, json!("next")));
    assert_eq!((&params["cwd"], &params["cursor"]), (&json!("/work"), &Value::Null));
    assert!(bench.shown().contains("thread number 0"), "{}", bench.shown());
    for _ in 0..30 {
        bench.key(Key::plain(Code::Down));
    }
    bench.calls.retain(|call| call.1 == "thread/list");
    assert_eq!(bench.answer("thread/list", listed(50..80, Value::Null))["cursor"], "next");
    bench.calls.retain(|call| call.1 == "thread/list");
    bench.type_text("fix");
    bench.calls.retain(|call| call.1 == "thread/list");
    assert_eq!(bench.calls.back().unwrap().2["searchTerm"], "fix");
    bench.calls.retain(|call| call.2["searchTerm"] == "fix");
    // Rows that come at once replace those before without a change between; late ones do not.
    let is_quiet = |bench: &mut Bench| {
        let frame = bench.app.frame(bench.now);
        let row = frame.live.iter().find(|line| line.text().contains("thread number"));
        row.is_some_and(|row| row.spans.iter().all(|span| span.style() == Palette::QUIET))
    };
    let late = bench.app.wakes_at().unwrap();
    assert!(late > bench.now && !is_quiet(&mut bench));
    bench.now = late;
    bench.event(Event::Tick);
    assert!(is_quiet(&mut bench) && bench.app.wakes_at().is_none_or(|at| at > late));
    bench.answer("thread/list", listed(7..8, Value::Null));
    assert!(!is_quiet(&mut bench));
    assert!(bench.shown().contains("thread number 7") && !bench.shown().contains("number 8"));
    // The threads in which it was said follow.
    bench.calls.retain(|call| call.1 == "thread/search");
    let (_, params) = bench.call("thread/search");
    assert_eq!(
        (&params["searchTerm"], &params["limit"], &params["cwd"]),
        (&json!("fix"), &json!(49), &json!("/work"))
    );
    bench.calls.clear();
    bench.key(Key::plain(Code::Enter));
    assert_eq!(bench.call("thread/resume").1["threadId"], "id-7");
}

#[test]
fn a_list_that_is_left_at_the_start_begins_a_new_thread() {
    let start = Start { thread: StartThread::Choose, ..Start::default() };
    let mut bench = Bench::start_with(40, 12, start);
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    bench.refuse("thread/list", "the store is busy");
    assert!(bench.shown().contains("the store is busy"), "{}", bench.shown());
    bench.key(Key::plain(Code::Esc));
    bench.answer("thread/start", opened(&json!([])));
    assert!(bench.shown().contains("agentd  gpt-x"), "{}", bench.shown());
}

#[test]
fn ctrl_c_clears_then_warns_then_quits() {
    let mut bench = Bench::open(80, 24);
    bench.type_text("words");
    bench.key(Key::ctrl('c'));
    assert!(!bench.shown().contains("words"), "{}", bench.shown());
    bench.key(Key::ctrl('c'));
    assert!(bench.shown().contains("Press Ctrl+C again to quit."), "{}", bench.shown());
    assert!(bench.others.iter().all(|effect| !matches!(effect, Effect::Quit(_))));
    bench.key(Key::ctrl('c'));
    assert!(bench.others.iter().any(|effect| matches!(effect, Effect::Quit(_))));
}

#[test]
fn a_mistyped_command_is_not_sent() {
    let mut bench = Bench::open(80, 24);
    for (typed, hint) in
        [("/modle x", "Did you mean /model?"), ("/xyz", "/help lists all of them.")]
    {
        bench.send(typed);
        assert!(bench.calls.is_empty(), "{:?}", bench.calls);
        let shown = bench.shown();
        assert!(shown.contains(hint) && shown.contains(&format!("› {typed}")), "{shown}");
        bench.key(Key::ctrl('c'));
    }
    bench.send(" /xyz");
    assert_eq!(bench.call("turn/start").1["input"][0]["text"], " /xyz");
}

#[test]
fn words_that_a_command_does_not_take_are_refused() {
    let mut bench = Bench::open(80, 24);
    for (typed, hint) in [
        ("/quit now", "/quit takes no argument."),
        ("/model echo ultra", "unknown effort \"ultra\""),
    ] {
        bench.send(typed);
        assert!(bench.calls.is_empty() && bench.others.is_empty(), "{typed}: {:?}", bench.others);
        assert!(bench.shown().contains(hint), "{typed}: {}", bench.shown());
        bench.key(Key::ctrl('c'));
    }
    bench.send("/model echo high");
    let used = "From the next turn on, this thread: echo high";
    assert!(bench.shown().contains(used), "{}", bench.shown());
}

#[test]
fn escape_counts_as_twice_only_without_anything_in_between() {
    let mut bench = Bench::open(80, 24);
    bench.item("item/completed", message("It is mended."));
    bench.key(Key::plain(Code::Esc));
    bench.type_text("x");
    bench.key(Key::plain(Code::Backspace));
    bench.key(Key::plain(Code::Esc));
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
    bench.key(Key::plain(Code::Esc));
    bench.call("thread/turns/list");
}

#[test]
fn a_thread_that_cannot_be_opened_ends_the_program_with_the_reason() {
    let thread = StartThread::Resume("0199".to_owned());
    let mut bench = Bench::start_with(80, 24, Start { thread, ..Start::default() });
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    bench.refuse("thread/resume", "there is no such thread");
    let Some(Effect::Quit(ended)) = bench.others.pop() else { panic!("it goes on") };
    assert!(ended.message.unwrap().contains("there is no such thread"));
}

#[test]
fn the_prompt_of_the_command_line_is_the_first_message() {
    let start = Start { prompt: Some("do it".to_owned()), ..Start::default() };
    let mut bench = Bench::start_with(80, 24, start);
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    bench.answer("thread/start", opened(&json!([])));
    let methods: Vec<&str> = bench.calls.iter().map(|call| call.1).collect();
    assert_eq!(methods, ["skills/list", "turn/start"]);
}

#[test]
fn what_is_sent_before_the_thread_is_open_is_sent_then() {
    let mut bench = Bench::start(80, 24);
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    bench.send("early");
    assert!(bench.shown().contains("↳ early"), "{}", bench.shown());
    bench.answer("thread/start", opened(&json!([])));
    bench.answer("skills/list", json!({ "data": [] }));
    assert_eq!(bench.call("turn/start").1["input"][0]["text"], "early");
}

#[test]
fn settings_hold_from_the_next_turn_on() {
    let mut bench = Bench::open(80, 24);
    bench.send("/model gpt-y low");
    bench.send("/approvals edit");
    bench.refuse("config/read", "busy");
    bench.key(Key::plain(Code::Esc));
    bench.refuse("config/read", "busy");
    let params = bench.begin_turn("go");
    assert_eq!((&params["model"], &params["effort"]), (&json!("gpt-y"), &json!("low")));
    assert_eq!(params["sandboxPolicy"]["type"], "workspaceWrite");
    bench.turn("turn/completed", "completed", Value::Null);
    let params = bench.begin_turn("again");
    assert_eq!(params["model"], Value::Null);
}

// Effect of `tui.notifications`.
// Effect of `tui.notification_method`.
#[test]
fn notifications_come_only_while_the_terminal_is_not_focused() {
    for (config, is_focused, expected) in [
        (json!({}), true, ""),
        (json!({}), false, "\x1b]9;The turn ended"),
        (json!({ "notification_method": "bel" }), false, "\x07"),
        (json!({ "notifications": false }), false, ""),
        (json!({ "notifications": ["approval-requested"] }), false, ""),
    ] {
        let mut bench = Bench::start(80, 24);
        bench.answer("config/read", json!({ "config": { "tui": config }, "origins": {} }));
        bench.answer("thread/start", opened(&json!([])));
        bench.answer("skills/list", json!({ "data": [] }));
        bench.begin_turn("go");
        bench.event(Event::Input(Input::Focus(is_focused)));
        bench.turn("turn/completed", "completed", Value::Null);
        let written = String::from_utf8(bench.written.clone()).unwrap();
        assert!(
            written.starts_with(expected) && written.is_empty() == expected.is_empty(),
            "{written:?}"
        );
    }
}

// Effect of `tui.status_line`.
// Effect of `tui.show_tooltips`.
#[test]
fn the_status_line_shows_what_is_configured() {
    for (tui, expected, has_tip) in [
        (
            json!({ "status_line": ["thread", "sandbox"] }),
            "0199aaaa-0000-7000-8000-000000000001 · read only",
            true,
        ),
        (json!({ "status_line": [], "show_tooltips": false }), "›", false),
    ] {
        let mut bench = Bench::start(80, 24);
        bench.answer("config/read", json!({ "config": { "tui": tui }, "origins": {} }));
        bench.answer("thread/start", opened(&json!([])));
        assert!(bench.shown().trim_end().ends_with(expected), "{}", bench.shown());
        assert_eq!(bench.shown().contains("Describe a task"), has_tip);
    }
}

// Effect of `tui.alternate_screen`.
#[test]
fn the_alternate_screen_is_used_where_it_is_configured() {
    let mut bench = Bench::start(80, 24);
    let config = json!({ "tui": { "alternate_screen": "always" } });
    bench.answer("config/read", json!({ "config": config, "origins": {} }));
    assert!(matches!(bench.others.pop(), Some(Effect::Alternate(true))));
}

// Effect of `disable_paste_burst`.
#[test]
fn keys_that_come_at_once_are_a_paste_unless_that_is_switched_off() {
    for (disabled, calls) in [(false, 0), (true, 1)] {
        let mut bench = Bench::start(80, 24);
        bench.event(Event::Input(Input::Reply(Reply::Bracketed(false))));
        let config = json!({ "disable_paste_burst": disabled });
        bench.answer("config/read", json!({ "config": config, "origins": {} }));
        bench.answer("thread/start", opened(&json!([])));
        bench.answer("skills/list", json!({ "data": [] }));
        for key in "two lines".chars().map(Code::Char).chain([Code::Enter]) {
            bench.app.handle(Event::Input(Input::Key(Key::plain(key))), bench.now);
            bench.settle();
        }
        assert_eq!(bench.calls.len(), calls);
    }
}

#[test]
fn unknown_items_of_the_status_line_are_named() {
    let mut bench = Bench::start(80, 24);
    let config = json!({ "tui": { "status_line": ["modell", "git-branch", "limits"] } });
    bench.answer("config/read", json!({ "config": config, "origins": {} }));
    bench.answer("thread/start", opened(&json!([])));
    assert!(
        bench
            .printed
            .contains("tui.status_line: the status line has no item \"modell\"; it has model"),
        "{}",
        bench.printed
    );
}

// Effect of `tui.theme`.
#[test]
fn code_has_the_colours_of_the_theme() {
    let mut colours = Vec::new();
    for theme in ["dracula", "github", "drakula"] {
        let mut bench = Bench::start(80, 24);
        let config = json!({ "tui": { "theme": theme } });
        bench.answer("config/read", json!({ "config": config, "origins": {} }));
        bench.answer("thread/start", opened(&json!([])));
        bench.item("item/completed", message("```rust\nfn main() {}\n```\n"));
        let screen = bench.terminal.screen();
        let (rows, _) = screen.size();
        let row = (0..rows.get())
            .find(|row| screen.cell(*row, 0).is_some_and(|cell| cell.contents() == "f"));
        colours.push(screen.cell(row.unwrap(), 0).unwrap().fgcolor());
        assert_eq!(bench.printed.contains("tui.theme"), theme == "drakula", "{}", bench.printed);
    }
    assert!(colours[0] != colours[1] && colours[1] != colours[2], "{colours:?}");
}

// Effect of `file_opener`.
#[test]
fn files_are_linked_by_the_configured_opener() {
    for (opener, expected) in [
        (json!(null), Some("vscode://file/work/src/a.rs")),
        (json!("cursor"), Some("cursor://file/work/src/a.rs")),
        (json!("none"), None),
    ] {
        let mut bench = Bench::start(80, 24);
        bench.answer("config/read", json!({ "config": { "file_opener": opener }, "origins": {} }));
        bench.answer("thread/start", opened(&json!([])));
        bench.app.handle(Event::Arrived(completed(message("See `src/a.rs:12`."))), 500);
        let frame = bench.app.frame(500);
        let spans = frame.printed.iter().flat_map(|line| &line.spans);
        let link = spans.filter_map(|span| span.link()).next().map(|link| link.to_string());
        assert_eq!(
            link.as_deref().map(|link| link.starts_with(expected.unwrap_or("-"))),
            expected.map(|_| true)
        );
    }
}
