//! A history that stays short: what is folded, what is left out and where the rest is.

use serde_json::{Value, json};
use tui::app::{Event, Start, StartThread};
use tui::terminal::input::{Code, Input, Key};

use crate::harness::{Bench, THREAD, command, initialized, message, opened, page, said, turn};

fn working(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.begin_turn("Mend the parser.");
    bench.item("item/completed", said("u1", "Mend the parser."));
    bench
}

fn reads(id: &str, path: &str) -> Value {
    let action = json!({ "type": "read", "command": format!("cat {path}"), "name": path, "path": format!("/work/{path}") });
    exploration(id, &format!("cat {path}"), action)
}

fn searches(id: &str, query: &str, folder: Value) -> Value {
    let text = format!("rg {query}");
    exploration(
        id,
        &text,
        json!({ "type": "search", "command": text, "query": query, "path": folder }),
    )
}

fn exploration(id: &str, text: &str, action: Value) -> Value {
    let mut item = command("completed");
    item["id"] = json!(id);
    item["command"] = json!(text);
    item["commandActions"] = json!([action]);
    item["aggregatedOutput"] = json!("what was found\n");
    item
}

fn begins(bench: &mut Bench, item: &Value) {
    let mut begun = item.clone();
    begun["status"] = json!("inProgress");
    begun["exitCode"] = Value::Null;
    begun["aggregatedOutput"] = Value::Null;
    bench.item("item/started", begun);
}

/// Two files are read, and a search runs.
pub(crate) fn exploring(columns: usize, rows: usize) -> Bench {
    let mut bench = working(columns, rows);
    for path in ["api.py", "models.py"] {
        let item = reads(path, path);
        begins(&mut bench, &item);
        bench.item("item/completed", item);
    }
    begins(&mut bench, &searches("s1", "parse", json!("src")));
    bench
}

pub(crate) fn explored(columns: usize, rows: usize) -> Bench {
    let mut bench = exploring(columns, rows);
    bench.item("item/completed", searches("s1", "parse", json!("src")));
    let mut listed =
        exploration("l1", "ls", json!({ "type": "listFiles", "command": "ls", "path": null }));
    listed["source"] = json!("unifiedExecStartup");
    bench.item("item/completed", listed);
    bench.item("item/completed", message("It is read in two places."));
    bench.turn("turn/completed", "completed", Value::Null);
    bench
}

pub(crate) fn turn_ends(columns: usize, rows: usize) -> Bench {
    let mut bench = working(columns, rows);
    bench.item("item/completed", message("It is mended."));
    bench.now += 65_000;
    bench.turn("turn/completed", "completed", Value::Null);
    bench
}

#[test]
fn reads_and_searches_are_one_line() {
    let mut bench = exploring(80, 24);
    let start = "› Mend the parser.\n\n";
    assert!(bench.printed.ends_with(start), "{}", bench.printed);
    let line = "• Exploring: api.py, models.py, \"parse\" in src  0.0s";
    assert!(bench.shown().contains(line), "{}", bench.shown());
    assert!(!bench.shown().contains("what was found"), "{}", bench.shown());
    bench.item("item/completed", searches("s1", "parse", json!("src")));
    // A file that was read already is named once.
    bench.item("item/completed", reads("again", "api.py"));
    assert!(
        bench.shown().contains("• Explored: api.py, models.py, \"parse\" in src"),
        "{}",
        bench.shown()
    );
    assert!(bench.printed.ends_with(start), "{}", bench.printed);
    bench.item("item/completed", message("Two places."));
    let line =
        "• Explored: api.py, models.py, \"parse\" in src  (Ctrl+T expands)\n\nTwo places.\n\n";
    assert!(bench.printed.ends_with(line), "{}", bench.printed);
    // The next ones are another line.
    bench.item("item/completed", reads("r9", "lexer.py"));
    bench.turn("turn/completed", "completed", Value::Null);
    let line = "• Explored: lexer.py  (Ctrl+T expands)\n\n· Worked for ";
    assert!(bench.printed.contains(line), "{}", bench.printed);
}

#[test]
fn only_what_went_well_is_folded() {
    let mut bench = working(80, 24);
    let mut failed = reads("r1", "gone.py");
    failed["exitCode"] = json!(1);
    failed["aggregatedOutput"] = json!("cat: gone.py: No such file\n");
    bench.item("item/completed", failed);
    let line = "• Ran cat gone.py  (exit code 1)\n  cat: gone.py: No such file\n\n";
    assert!(bench.printed.ends_with(line), "{}", bench.printed);
    // A search that finds nothing is no failure.
    let mut nothing = searches("s1", "parse", Value::Null);
    nothing["exitCode"] = json!(1);
    nothing["aggregatedOutput"] = json!("");
    bench.item("item/completed", nothing);
    // What the user runs is not the agent's, and what does more than look is shown.
    let mut users = reads("r2", "own.py");
    users["source"] = json!("userShell");
    bench.item("item/completed", users);
    let lines =
        "• Explored: \"parse\"  (Ctrl+T expands)\n\n• You ran: cat own.py\n  what was found\n\n";
    assert!(bench.printed.ends_with(lines), "{}", bench.printed);
    let mut unknown = reads("r3", "x.py");
    unknown["commandActions"] = json!([{ "type": "unknown", "command": "cat x.py | sh" }]);
    bench.item("item/completed", unknown);
    assert!(bench.printed.ends_with("• Ran cat x.py\n  what was found\n\n"), "{}", bench.printed);
}

#[test]
fn many_places_are_counted_and_a_notice_comes_after_them() {
    let mut bench = working(40, 12);
    for number in 0..150 {
        bench.item("item/completed", reads(&format!("r{number}"), &format!("src/file{number}.py")));
    }
    bench.send("/plan");
    let line = "• Explored: src/file0.py and 149 more";
    let at = |text: &str| bench.printed.find(text).unwrap_or_else(|| panic!("{}", bench.printed));
    assert!(at(line) < at("The latest turn has no plan"), "{}", bench.printed);
    assert!(bench.printed.contains(&format!("{line}\n")), "{}", bench.printed);
}

#[test]
fn what_was_explored_is_whole_in_the_transcript() {
    let mut bench = explored(80, 24);
    bench.key(Key::ctrl('t'));
    let items = json!([reads("api.py", "api.py"), reads("models.py", "models.py")]);
    bench.answer("thread/turns/list", page(json!([turn("t1", "completed", items)])));
    assert_eq!(bench.shown().matches("what was found").count(), 2, "{}", bench.shown());
}

/// Changes of files with so many lines each.
fn change(id: &str, files: &[(&str, usize)]) -> Value {
    let file = |(path, lines): &(&str, usize)| {
        let diff: String = (1..=*lines).map(|n| format!("{path} line {n}\n")).collect();
        json!({ "path": format!("/work/{path}"), "kind": { "type": "add" }, "diff": diff })
    };
    let changes: Vec<Value> = files.iter().map(file).collect();
    json!({ "type": "fileChange", "id": id, "status": "completed", "changes": changes })
}

pub(crate) fn changes_many(columns: usize, rows: usize) -> Bench {
    let mut bench = working(columns, rows);
    bench.item("item/completed", change("f1", &[("a.py", 500), ("b.py", 3), ("c.py", 9)]));
    bench
}

#[test]
fn one_change_takes_60_lines_and_names_the_rest() {
    let mut bench = working(80, 24);
    let before = bench.printed.lines().count();
    bench.item("item/completed", change("f1", &[("a.py", 500), ("b.py", 3), ("c.py", 9)]));
    let lines: Vec<&str> = bench.printed.lines().skip(before).collect();
    assert_eq!(lines[0], "• Changed 3 files");
    // The headline, the changes, and how many lines there are besides.
    assert_eq!(lines.len(), 1 + 60 + 2, "{}", bench.printed);
    // Every file has its title.
    for title in ["  add a.py +500 -0", "  add b.py +3 -0", "  add c.py +9 -0"] {
        assert!(lines.contains(&title), "{title}: {}", bench.printed);
    }
    let shown = lines.iter().filter(|line| line.contains(" line ")).count();
    let rest = format!("  … {} more lines, Ctrl+T shows them", 512 - shown);
    assert!(lines.contains(&rest.as_str()), "{rest}: {}", bench.printed);
}

#[test]
fn all_changes_of_a_turn_take_300_lines_and_the_next_turn_has_its_own() {
    let mut bench = working(80, 24);
    let before = bench.printed.lines().count();
    for number in 0..20 {
        bench.item("item/completed", change(&format!("f{number}"), &[("a.py", 500)]));
    }
    let lines: Vec<&str> = bench.printed.lines().skip(before).collect();
    let changed = lines.iter().filter(|line| line.contains(" line ") || line.contains("add a.py"));
    assert!(changed.count() <= 300, "{}", bench.printed);
    assert_eq!(lines.iter().filter(|line| **line == "• Changed a.py").count(), 20);
    assert_eq!(lines.iter().filter(|line| line.contains("Ctrl+T shows them")).count(), 20);
    // Nothing of the last ones fits: a title would be a line, too.
    assert_eq!(
        lines[lines.len() - 3..],
        ["• Changed a.py", "  … 501 more lines, Ctrl+T shows them", ""]
    );
    let params = json!({ "threadId": THREAD, "turnId": "t2", "startedAtMs": 0, "completedAtMs": 0, "item": change("g", &[("b.py", 5)]) });
    bench.notify("item/completed", params);
    assert!(bench.printed.ends_with("5 +b.py line 5\n\n"), "{}", bench.printed);
}

#[test]
fn a_line_that_is_longer_than_the_screen_counts_as_its_rows() {
    let mut bench = working(40, 12);
    let before = bench.printed.lines().count();
    let mut item = change("f1", &[]);
    let long = "x".repeat(50_000);
    item["changes"] = json!([{ "path": "/work/min.js", "kind": { "type": "add" }, "diff": long }]);
    bench.item("item/completed", item);
    assert_eq!(bench.printed.lines().count() - before, 1 + 60 + 2);
    assert!(bench.printed.ends_with("  … 1 more line, Ctrl+T shows it\n\n"), "{}", bench.printed);
    let before = bench.printed.lines().count();
    let mut item = command("completed");
    item["aggregatedOutput"] = json!("y ".repeat(20_000));
    bench.item("item/completed", item);
    assert!(bench.printed.lines().count() - before <= 14, "{}", bench.printed);
    assert!(bench.printed.contains("more rows of this line, Ctrl+T"), "{}", bench.printed);
}

#[test]
fn paths_are_shown_from_the_folder_of_the_thread() {
    let mut bench = working(80, 24);
    bench.item("item/completed", change("f1", &[("src/deep/a.py", 1)]));
    bench.item(
        "item/completed",
        json!({ "type": "imageView", "id": "v", "path": "/work/docs/a.png" }),
    );
    bench
        .item("item/completed", json!({ "type": "imageView", "id": "w", "path": "/worker/a.png" }));
    for line in
        ["• Changed src/deep/a.py\n", "• Looked at docs/a.png\n", "• Looked at /worker/a.png\n"]
    {
        assert!(bench.printed.contains(line), "{line}: {}", bench.printed);
    }
    bench.item(
        "item/started",
        json!({ "type": "fileChange", "id": "f2", "status": "inProgress", "changes": [
        { "path": "/work/src/b.py", "kind": { "type": "add" }, "diff": "x\n" },
    ] }),
    );
    assert!(bench.shown().contains("• Changes src/b.py"), "{}", bench.shown());
}

#[test]
fn output_is_wrapped_at_words_inside_the_indent() {
    let mut bench = working(40, 12);
    let mut item = command("completed");
    item["aggregatedOutput"] =
        json!("these are more words than one row of the screen has room for\n");
    bench.item("item/completed", item);
    let lines =
        "• Ran cargo test\n  these are more words than one row of\n  the screen has room for\n\n";
    assert!(bench.printed.ends_with(lines), "{}", bench.printed);
}

#[test]
fn the_lines_that_are_left_out_are_counted_and_the_key_is_named() {
    let mut bench = working(80, 24);
    let mut item = command("completed");
    item["aggregatedOutput"] = json!((1..=500).map(|n| format!("row {n}\n")).collect::<String>());
    bench.item("item/completed", item);
    assert!(
        bench.printed.contains("  … 495 lines (3852 bytes), Ctrl+T shows them\n  row 496\n"),
        "{}",
        bench.printed
    );
    let script: String = (1..=50).map(|n| format!("echo {n}\n")).collect();
    let mut item = command("completed");
    item["id"] = json!("c2");
    item["command"] = json!(script);
    bench.item("item/completed", item);
    assert!(
        bench.printed.contains("  echo 9\n  … 41 more lines of the command, Ctrl+T shows them\n"),
        "{}",
        bench.printed
    );
}

#[test]
fn the_result_of_a_tool_is_whole_in_the_transcript() {
    let mut bench = working(80, 24);
    let text: String = (1..=20).map(|n| format!("result {n}\n")).collect();
    let call = json!({ "type": "mcpToolCall", "id": "m", "server": "docs", "tool": "find", "status": "completed", "arguments": {}, "result": { "content": [{ "type": "text", "text": text }] } });
    bench.item("item/completed", call.clone());
    assert!(
        bench.printed.ends_with("  result 6\n  … 14 more lines, Ctrl+T shows them\n\n"),
        "{}",
        bench.printed
    );
    bench.key(Key::ctrl('t'));
    bench.answer("thread/turns/list", page(json!([turn("t1", "completed", json!([call]))])));
    assert!(bench.shown().contains("  result 20"), "{}", bench.shown());
}

fn plan_updated(bench: &mut Bench, states: [&str; 2], explanation: Value) {
    let steps = json!([
        { "step": "Find where numbers are read", "status": states[0] },
        { "step": "Read them in one place", "status": states[1] },
    ]);
    let params =
        json!({ "threadId": THREAD, "turnId": "t1", "explanation": explanation, "plan": steps });
    bench.notify("turn/plan/updated", params);
}

#[test]
fn the_plan_is_printed_when_it_changes() {
    let mut bench = working(80, 24);
    plan_updated(&mut bench, ["inProgress", "pending"], json!("Numbers first."));
    let plan = "• Plan  0 of 2 done\n  Numbers first.\n  ● Find where numbers are read\n  ○ Read them in one place\n\n";
    assert!(bench.printed.ends_with(plan), "{}", bench.printed);
    let printed = bench.printed.clone();
    plan_updated(&mut bench, ["inProgress", "pending"], Value::Null);
    assert_eq!(bench.printed, printed, "the same plan is not printed again");
    bench.item("item/completed", reads("r1", "api.py"));
    plan_updated(&mut bench, ["completed", "inProgress"], Value::Null);
    let plan = "• Explored: api.py  (Ctrl+T expands)\n\n• Plan  1 of 2 done\n  ✓ Find where numbers are read\n  ● Read them in one place\n\n";
    assert!(bench.printed.ends_with(plan), "{}", bench.printed);
    // A message stays in one piece.
    bench.item("item/started", message(""));
    bench.delta("First line.\n\nSecond");
    plan_updated(&mut bench, ["completed", "completed"], Value::Null);
    assert!(bench.printed.ends_with("First line.\n"), "{}", bench.printed);
    bench.item("item/completed", message("First line.\n\nSecond line."));
    let end = "First line.\n\nSecond line.\n\n• Plan  2 of 2 done\n  ✓ Find where numbers are read\n  ✓ Read them in one place\n\n";
    assert!(bench.printed.ends_with(end), "{}", bench.printed);
}

#[test]
fn a_turn_ends_with_its_duration() {
    let bench = turn_ends(80, 24);
    assert!(
        bench.printed.ends_with("It is mended.\n\n· Worked for 1m 05s\n\n"),
        "{}",
        bench.printed
    );
    // The server's own duration counts, also of turns that are read again.
    let thread = StartThread::Resume(THREAD.to_owned());
    let mut bench = Bench::start_with(80, 24, Start { thread, ..Start::default() });
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    bench.answer("thread/resume", opened(&json!([])));
    let mut done = turn("a", "completed", json!([said("u1", "go"), message("Done.")]));
    done["durationMs"] = json!(12_300);
    let mut stopped = turn(
        "b",
        "interrupted",
        json!([said("u2", "go"), { "type": "agentMessage", "id": "m2", "text": "I" }]),
    );
    stopped["durationMs"] = json!(3_000);
    bench.answer("thread/turns/list", page(json!([done, stopped])));
    bench.event(Event::Connected(Box::new(initialized())));
    assert!(bench.printed.contains("Done.\n\n· Worked for 12s\n\n"), "{}", bench.printed);
    assert!(bench.printed.ends_with("■ Interrupted after 3s.\n\n"), "{}", bench.printed);
    // What the user runs is no work of the agent.
    let mut bench = Bench::open(80, 24);
    bench.turn("turn/started", "inProgress", Value::Null);
    let mut item = command("completed");
    item["source"] = json!("userShell");
    bench.item("item/completed", item);
    bench.turn("turn/completed", "completed", Value::Null);
    assert!(bench.printed.ends_with("• You ran: cargo test\n  ok\n\n"), "{}", bench.printed);
}

fn pasted_text() -> String {
    (1..=5_000).map(|n| format!("pasted {n}\n")).collect()
}

/// A long paste was sent.
pub(crate) fn pasted(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.type_text("Look at ");
    bench.event(Event::Input(Input::Paste(pasted_text())));
    bench.type_text(" and tell me");
    bench.key(Key::plain(Code::Enter));
    let begun = json!({ "id": "t1", "status": "inProgress", "items": [], "error": null });
    let params = bench.answer("turn/start", json!({ "turn": begun }));
    let item = json!({ "type": "userMessage", "id": "u1", "content": params["input"] });
    bench.item("item/completed", item);
    bench
}

#[test]
fn a_pasted_text_stays_folded_when_it_is_sent() {
    let mut bench = pasted(80, 24);
    let line = "› Look at [Pasted text #1, 5000 lines] and tell me\n\n";
    assert!(bench.printed.ends_with(line), "{}", bench.printed);
    bench.key(Key::ctrl('t'));
    let input = json!([{ "type": "text", "text": format!("Look at {}", pasted_text()), "text_elements": [
        { "byteRange": { "start": 8, "end": 8 + pasted_text().len() }, "placeholder": "[Pasted text #1, 5000 lines]" },
    ] }]);
    let items = json!([{ "type": "userMessage", "id": "u1", "content": input }]);
    bench.answer("thread/turns/list", page(json!([turn("t1", "inProgress", items)])));
    assert!(bench.shown().contains("pasted 5000"), "{}", bench.shown());
}

#[test]
fn a_long_message_of_another_client_is_shown_in_its_beginning() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    bench.item("item/completed", said("u1", &pasted_text()));
    assert!(
        bench.printed.contains("  pasted 40\n  … 4960 more lines, Ctrl+T shows them\n"),
        "{}",
        bench.printed
    );
    // A label that stands for a word conceals nothing.
    let input = json!([{ "type": "text", "text": "rm -rf build", "text_elements": [
        { "byteRange": { "start": 0, "end": 12 }, "placeholder": "ls" },
        { "byteRange": { "start": 5, "end": 900 }, "placeholder": "gone" },
    ] }]);
    bench.item("item/completed", json!({ "type": "userMessage", "id": "u2", "content": input }));
    assert!(bench.printed.ends_with("› rm -rf build\n\n"), "{}", bench.printed);
}

fn asked() -> Value {
    json!([
        { "id": "l", "header": "Language", "question": "In which language?", "options": [{ "label": "Rust", "description": "as the rest" }] },
        { "id": "k", "header": "Key", "question": "Which key?", "isSecret": true },
    ])
}

fn question_item(status: &str, text: Option<String>) -> Value {
    let content = text.map(|text| json!([{ "type": "inputText", "text": text }]));
    json!({ "type": "dynamicToolCall", "id": "q1", "tool": "request_user_input", "status": status,
        "arguments": { "questions": asked() }, "contentItems": content, "success": status == "completed" })
}

/// Questions of the model were answered.
pub(crate) fn questions_answered(columns: usize, rows: usize) -> Bench {
    let mut bench = working(columns, rows);
    bench.item("item/started", question_item("inProgress", None));
    let questions: Vec<Value> = asked()
        .as_array()
        .unwrap()
        .iter()
        .map(|question| {
            let mut question = question.clone();
            question["isOther"] = json!(true);
            question
        })
        .collect();
    bench.ask(
        7,
        "item/tool/requestUserInput",
        json!({ "threadId": THREAD, "turnId": "t1", "itemId": "q1", "questions": questions }),
    );
    bench.now += 1_000;
    bench.key(Key::plain(Code::Enter));
    bench.event(Event::Input(Input::Paste("sk-secret".to_owned())));
    bench.key(Key::plain(Code::Enter));
    let answers = json!({ "answers": { "l": { "answers": ["Rust"] }, "k": { "answers": ["[secret, not stored]"] } } });
    bench.item("item/completed", question_item("completed", Some(answers.to_string())));
    bench
}

#[test]
fn questions_and_answers_are_text() {
    let mut bench = questions_answered(80, 24);
    assert_eq!(bench.responses.len(), 1);
    let text = "› Mend the parser.\n\n• Asked: 2 questions\n  In which language?\n  → Rust\n  Which key?\n  → [secret, not stored]\n\n";
    assert!(bench.printed.ends_with(text), "{}", bench.printed);
    assert!(!bench.printed.contains(['{', '"']), "{}", bench.printed);
    let mut withdrawn = question_item("failed", Some("not answered: withdrawn".to_owned()));
    withdrawn["id"] = json!("q2");
    let mut running = question_item("inProgress", None);
    running["id"] = json!("q2");
    bench.item("item/started", running);
    assert!(bench.shown().contains("• Asks: In which language? and 1 more"), "{}", bench.shown());
    bench.item("item/completed", withdrawn);
    assert!(
        bench.printed.ends_with("  Which key?\n  not answered: withdrawn\n\n"),
        "{}",
        bench.printed
    );
}
