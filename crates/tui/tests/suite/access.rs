//! What the agent may do: the question of the first start, `/approvals`, `/model`, and the answers of approvals
//! that lead to more than a reply.

use serde_json::{Value, json};
use tui::app::{Event, Start, StartThread};
use tui::terminal::input::{Code, Key};

use crate::harness::{Bench, THREAD, initialized, metadata, opened};

const FILE: &str = "/home/u/.agent/config.toml";

/// What `config/read` answers where nothing is set, with these keys over it.
pub(crate) fn read(config: Value, set: &[&str]) -> Value {
    let user = json!({ "name": { "type": "user", "file": FILE }, "version": "1" });
    let mut origins = json!({});
    for key in ["sandbox_mode", "approval_policy", "model"] {
        origins[key] = json!({ "name": { "type": "default" }, "version": "0" });
    }
    set.iter().for_each(|key| origins[*key] = user.clone());
    let mut values = json!({ "sandbox_mode": "read-only", "approval_policy": "on-request" });
    values.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    json!({ "config": values, "origins": origins, "layers": [] })
}

/// A new thread in a repository about which nothing is decided.
pub(crate) fn first_start(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::start(columns, rows);
    bench.answer("config/read", read(json!({}), &[]));
    let params = bench.answer("fs/getMetadata", metadata());
    assert_eq!(params["path"], "/work/.git");
    bench.answer("configRequirements/read", json!({ "requirements": null }));
    bench.now += 1_000;
    bench
}

/// The same with settings of the folder's own.
pub(crate) fn first_start_with_settings(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::start(columns, rows);
    let mut config = read(json!({}), &[]);
    config["layers"] = json!([{
        "name": { "type": "project", "dotAgentFolder": "/work/.agent" }, "version": "1", "config": {},
        "disabledReason": "/work is not trusted",
    }]);
    bench.answer("config/read", config);
    bench.answer("fs/getMetadata", metadata());
    bench.answer("configRequirements/read", json!({ "requirements": null }));
    bench.answer("fs/getMetadata", metadata());
    (0..5).for_each(|_| bench.refuse("fs/getMetadata", "no such file"));
    bench.now += 1_000;
    bench
}

fn edits(bench: &mut Bench) -> Vec<(String, Value)> {
    let written =
        json!({ "status": "ok", "version": "2", "filePath": FILE, "overriddenMetadata": null });
    let edits = bench.answer("config/batchWrite", written)["edits"].clone();
    let edit = |edit: &Value| (edit["keyPath"].as_str().unwrap().to_owned(), edit["value"].clone());
    edits.as_array().unwrap().iter().map(edit).collect()
}

fn access(value: &str) -> (String, Value) {
    ("projects.\"/work\".access".to_owned(), json!(value))
}

fn opened_as(approval: &str, sandbox: &str) -> Value {
    let mut it = opened(&json!([]));
    (it["approvalPolicy"], it["sandbox"]) = (json!(approval), json!({ "type": sandbox }));
    it
}

#[test]
fn the_first_start_in_a_repository_asks_once_and_keeps_the_answer() {
    for (letter, value, mode) in [
        ('e', "edit", "edits this folder"),
        ('a', "ask", "asks before edits"),
        ('r', "read-only", "read only"),
    ] {
        let mut bench = first_start(80, 24);
        assert!(bench.shown().contains("What may the agent do in /work?"), "{}", bench.shown());
        bench.press(letter);
        assert_eq!(edits(&mut bench), [access(value)]);
        let said = format!("In /work, from now on: {mode} (`projects` in {FILE}).");
        assert!(bench.printed.replace("\n  ", " ").contains(&said), "{}", bench.printed);
        // The server reads it from the configuration.
        let params = bench.answer("thread/start", opened(&json!([])));
        assert_eq!((&params["sandbox"], &params["approvalPolicy"]), (&Value::Null, &Value::Null));
    }
    // What is not on the screen is not granted with one key.
    let mut bench = first_start(40, 6);
    bench.press('e');
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
}

#[test]
fn escape_is_the_safest_answer_and_the_next_start_asks_again() {
    let mut bench = first_start(80, 24);
    bench.key(Key::plain(Code::Esc));
    let params = bench.answer("thread/start", opened_as("never", "readOnly"));
    assert_eq!(
        (&params["sandbox"], &params["approvalPolicy"]),
        (&json!("readOnly"), &json!("never"))
    );
    assert!(bench.printed.contains("Until the next start: read only."), "{}", bench.printed);
    assert!(bench.shown().contains("gpt-x high · read only · /work"), "{}", bench.shown());
    // Not after a reconnection.
    bench.calls.clear();
    bench.event(Event::Lost { why: "the connection ended".to_owned(), can_return: true });
    bench.event(Event::Connected(Box::new(initialized())));
    bench.answer("config/read", read(json!({}), &[]));
    assert!(bench.calls.iter().all(|call| call.1 != "fs/getMetadata"), "{:?}", bench.calls);
}

#[test]
fn a_lost_connection_leaves_the_question_open() {
    let mut bench = first_start(80, 24);
    bench.event(Event::Lost { why: "the connection ended".to_owned(), can_return: true });
    bench.event(Event::Connected(Box::new(initialized())));
    bench.answer("config/read", read(json!({}), &[]));
    bench.now += 1_000;
    assert!(bench.shown().contains("What may the agent do in /work?"), "{}", bench.shown());
    bench.press('e');
    assert_eq!(edits(&mut bench), [access("edit")]);
    bench.call("thread/start");
}

#[test]
fn an_answer_that_cannot_be_stored_holds_for_the_thread() {
    let mut bench = first_start(80, 24);
    bench.press('e');
    bench.refuse("config/batchWrite", "the file is read-only");
    let said = "you are asked again next time: the file is read-only";
    assert!(bench.printed.replace("\n  ", " ").contains(said), "{}", bench.printed);
    assert_eq!(bench.call("thread/start").1["sandbox"], "workspaceWrite");
}

#[test]
fn it_is_not_asked_where_something_decides_or_outside_of_a_repository() {
    // The configuration, of whichever layer.
    for (config, key) in [
        (json!({}), "sandbox_mode"),
        (json!({}), "approval_policy"),
        (json!({}), "approval_policy.granular.rules"),
        (json!({ "default_permissions": "p" }), "default_permissions"),
    ] {
        let mut bench = Bench::start(80, 24);
        bench.answer("config/read", read(config, &[key]));
        bench.call("thread/start");
    }
    // A flag.
    let overrides = protocol::OpeningOverrides {
        sandbox: Some(protocol::SandboxMode::ReadOnly),
        ..Default::default()
    };
    let mut bench = Bench::start_with(80, 24, Start { overrides, ..Start::default() });
    bench.answer("config/read", read(json!({}), &[]));
    bench.call("thread/start");
    // A thread that has its settings.
    let start = Start { thread: StartThread::Resume(THREAD.to_owned()), ..Start::default() };
    let mut bench = Bench::start_with(80, 24, start);
    bench.answer("config/read", read(json!({}), &[]));
    bench.call("thread/resume");
    // Requirements that leave no choice.
    for required in [
        json!({ "allowedSandboxModes": ["readOnly"] }),
        json!({ "allowedApprovalPolicies": ["never"] }),
    ] {
        let mut bench = Bench::start(80, 24);
        bench.answer("config/read", read(json!({}), &[]));
        bench.answer("fs/getMetadata", metadata());
        bench.answer("configRequirements/read", json!({ "requirements": required }));
        bench.call("thread/start");
    }
    // No repository: neither the folder nor one above it has a marker.
    let mut bench = Bench::start(80, 24);
    let config = json!({ "project_root_markers": [".git", ".hg", "../x"] });
    bench.answer("config/read", read(config, &[]));
    for path in ["/work/.git", "/work/.hg", "/.git", "/.hg"] {
        assert_eq!(bench.calls[0].2["path"], path);
        bench.refuse("fs/getMetadata", "no such file");
    }
    bench.call("thread/start");
}

#[test]
fn requirements_leave_out_what_they_do_not_allow() {
    let mut bench = Bench::start(80, 24);
    bench.answer("config/read", read(json!({}), &[]));
    bench.answer("fs/getMetadata", metadata());
    let required = json!({ "allowedApprovalPolicies": ["onRequest"] });
    bench.answer("configRequirements/read", json!({ "requirements": required }));
    assert!(!bench.shown().contains("Read only"), "{}", bench.shown());
    bench.now += 1_000;
    bench.key(Key::plain(Code::Esc));
    assert_eq!(bench.call("thread/start").1["approvalPolicy"], "onRequest");
}

#[test]
fn trust_in_the_folders_settings_is_part_of_the_same_question() {
    let trust = |level: &str| ("projects.\"/work\".trust_level".to_owned(), json!(level));
    for (letter, value, level) in [('t', "edit", "trusted"), ('a', "ask", "untrusted")] {
        let mut bench = first_start_with_settings(120, 40);
        assert!(!bench.shown().contains("Do you trust"), "{}", bench.shown());
        bench.press(letter);
        assert_eq!(edits(&mut bench), [access(value), trust(level)]);
        if level == "trusted" {
            bench.answer("config/read", read(json!({}), &["sandbox_mode"]));
        }
        bench.call("thread/start");
    }
    let mut bench = first_start_with_settings(120, 40);
    bench.key(Key::plain(Code::Esc));
    assert_eq!(bench.call("thread/start").1["sandbox"], "readOnly");
}

/// `/approvals` without a mode.
pub(crate) fn approvals(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.send("/approvals");
    bench.answer(
        "config/read",
        read(json!({ "sandbox_mode": "workspace-write" }), &["sandbox_mode"]),
    );
    bench
}

/// The question for how long a mode holds.
pub(crate) fn approvals_scope(columns: usize, rows: usize) -> Bench {
    let mut bench = approvals(columns, rows);
    bench.press('r');
    bench.answer(
        "config/read",
        read(json!({ "sandbox_mode": "workspace-write" }), &["sandbox_mode"]),
    );
    bench
}

#[test]
fn approvals_say_what_holds_and_change_it_for_the_thread_or_from_now_on() {
    let bench = approvals(80, 24);
    let shown = bench.shown();
    assert!(shown.contains("This thread: asks before edits.\n"), "{shown}");
    assert!(shown.contains(&format!("New threads here: edits this folder ({FILE}).")), "{shown}");
    assert!(shown.contains("2. Ask before each edit (as now) (a)"), "{shown}");
    // For the thread alone.
    let mut bench = approvals_scope(80, 24);
    assert!(bench.shown().contains("This thread: read only."), "{}", bench.shown());
    bench.key(Key::plain(Code::Esc));
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
    let params = bench.begin_turn("go");
    assert_eq!(params["sandboxPolicy"]["type"], "readOnly");
    assert_eq!(params["approvalPolicy"], "never");
    assert!(bench.shown().contains("· read only ·"), "{}", bench.shown());
    // From now on: for the project that the folder belongs to.
    let mut bench = approvals_scope(80, 24);
    bench.press('f');
    bench.answer("config/read", read(json!({}), &[]));
    bench.refuse("fs/getMetadata", "no such file");
    bench.answer("fs/getMetadata", metadata());
    assert_eq!(edits(&mut bench), [("projects.\"/\".access".to_owned(), json!("read-only"))]);
    let kept = json!({ "sandbox_mode": "read-only", "approval_policy": "never" });
    bench.answer("config/read", read(kept, &["sandbox_mode"]));
    let said =
        format!("From now on, for this thread and new ones here: read only (stored in {FILE}).");
    assert!(bench.printed.replace("\n  ", " ").contains(&said), "{}", bench.printed);
}

#[test]
fn a_mode_that_something_else_overrides_is_said_to_hold_for_the_thread_only() {
    let mut bench = approvals_scope(80, 24);
    bench.press('f');
    bench.answer("config/read", read(json!({}), &[]));
    bench.answer("fs/getMetadata", metadata());
    edits(&mut bench);
    let mut flags = read(json!({ "sandbox_mode": "workspace-write" }), &[]);
    flags["origins"]["sandbox_mode"]["name"] = json!({ "type": "sessionFlags" });
    bench.answer("config/read", flags);
    let said =
        "another setting decides for new threads here: edits this folder (the command line).";
    assert!(bench.printed.replace("\n  ", " ").contains(said), "{}", bench.printed);
}

#[test]
fn the_folders_of_the_configuration_stay_writable() {
    let mut bench = Bench::start(80, 24);
    let workspace = json!({ "writable_roots": ["/data"], "network_access": true });
    let config = json!({ "sandbox_workspace_write": workspace });
    bench.answer("config/read", read(config, &["sandbox_mode"]));
    bench.answer("thread/start", opened(&json!([])));
    bench.answer("skills/list", json!({ "data": [] }));
    bench.send("/approvals edit");
    bench.refuse("config/read", "busy");
    let policy = bench.begin_turn("go")["sandboxPolicy"].take();
    assert_eq!(policy["writableRoots"], json!(["/work", "/data"]));
    assert_eq!(policy["networkAccess"], true);
}

/// The question for how long a model is used.
pub(crate) fn model_scope(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.send("/model gpt-y low");
    let config = json!({ "model": "gpt-x", "model_reasoning_effort": "high" });
    bench.answer("config/read", read(config, &["model"]));
    bench
}

#[test]
fn a_model_is_used_in_the_thread_and_stored_when_that_is_chosen() {
    let mut bench = model_scope(80, 24);
    let shown = bench.shown();
    assert!(shown.contains("This thread: gpt-y low.\n"), "{shown}");
    assert!(shown.contains(&format!("New threads: gpt-x high ({FILE}).")), "{shown}");
    bench.press('t');
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
    assert_eq!(bench.begin_turn("go")["model"], "gpt-y");
    let mut bench = model_scope(80, 24);
    bench.press('f');
    let expected =
        [("model".to_owned(), json!("gpt-y")), ("model_reasoning_effort".to_owned(), json!("low"))];
    assert_eq!(edits(&mut bench), expected);
    let said = "From now on, for this thread and new ones: gpt-y low";
    assert!(bench.printed.contains(said), "{}", bench.printed);
}

/// An edit in the folder is asked about.
pub(crate) fn edit_in_folder(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.begin_turn("Mend the parser.");
    let change = json!({ "type": "fileChange", "id": "f1", "status": "inProgress", "changes": [
        { "path": "/work/src/parser.rs", "kind": { "type": "update", "move_path": null }, "diff": "@@ -1 +1 @@\n-let base = 10;\n+let base = 16;\n" },
    ] });
    bench.item("item/started", change);
    let reason = "/work/src/parser.rs is not in a writable folder (sandbox: read-only)";
    bench.ask(
        7,
        "item/fileChange/requestApproval",
        json!({ "threadId": THREAD, "turnId": "t1", "itemId": "f1", "startedAtMs": 0, "reason": reason, "grantRoot": "/work" }),
    );
    bench.now += 1_000;
    bench
}

#[test]
fn edits_that_are_allowed_in_the_folder_hold_for_later_turns_too() {
    let mut bench = edit_in_folder(80, 24);
    assert!(bench.shown().contains("Change src/parser.rs?"), "{}", bench.shown());
    assert!(bench.shown().contains("gpt-x high · asks before edits ·"), "{}", bench.shown());
    bench.press('e');
    let (_, outcome) = bench.responses.pop().unwrap();
    assert_eq!(outcome.unwrap()["decision"], "acceptForSession");
    assert!(bench.shown().contains("gpt-x high · edits this folder ·"), "{}", bench.shown());
    bench.turn("turn/completed", "completed", Value::Null);
    let params = bench.begin_turn("again");
    assert_eq!(params["sandboxPolicy"]["type"], "workspaceWrite");
}

#[test]
fn what_was_allowed_in_a_thread_is_not_allowed_in_the_next_one() {
    let mut bench = edit_in_folder(80, 24);
    bench.press('e');
    bench.turn("turn/completed", "completed", Value::Null);
    bench.send("/new");
    let mut other = opened(&json!([]));
    other["thread"]["id"] = json!("0199aaaa-0000-7000-8000-000000000002");
    bench.answer("thread/start", other);
    bench.calls.clear();
    bench.send("go");
    let (_, params) = bench.call("turn/start");
    assert_eq!(params["sandboxPolicy"], Value::Null, "{params}");
    assert!(bench.shown().contains("· asks before edits ·"), "{}", bench.shown());
}

/// The user writes what to do instead.
pub(crate) fn instead(columns: usize, rows: usize) -> Bench {
    let mut bench = edit_in_folder(columns, rows);
    bench.press('s');
    bench.type_text("Change the lexer, not the parser.");
    bench
}

#[test]
fn the_turn_has_the_words_before_the_refusal() {
    let mut bench = instead(80, 24);
    bench.key(Key::plain(Code::Enter));
    assert!(bench.responses.is_empty());
    let params = bench.answer("turn/steer", json!({ "turnId": "t1" }));
    assert_eq!(params["expectedTurnId"], "t1");
    assert_eq!(params["input"][0]["text"], "Change the lexer, not the parser.");
    let (_, outcome) = bench.responses.pop().unwrap();
    assert_eq!(outcome.unwrap()["decision"], "decline");
    // A turn that takes none gets the refusal, and the message waits.
    let mut bench = instead(80, 24);
    bench.key(Key::plain(Code::Enter));
    bench.refuse("turn/steer", "the turn has ended");
    assert_eq!(bench.responses.len(), 1);
    assert!(bench.shown().contains("↳ Change the lexer, not the parser."), "{}", bench.shown());
    // The agent of another thread is told there.
    let mut bench = Bench::open(80, 24);
    let params = json!({
        "threadId": "agent-1", "turnId": "t9", "itemId": "x", "startedAtMs": 0, "command": "ls", "cwd": "/work",
    });
    bench.ask(8, "item/commandExecution/requestApproval", params);
    bench.now += 1_000;
    bench.press('s');
    bench.type_text("no");
    bench.key(Key::plain(Code::Enter));
    let params = bench.answer("turn/steer", json!({ "turnId": "t9" }));
    assert_eq!((&params["threadId"], &params["expectedTurnId"]), (&json!("agent-1"), &json!("t9")));
    assert_eq!(bench.responses.len(), 1);
}

/// Permissions are asked for.
fn permissions() -> Bench {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    let params = json!({
        "threadId": THREAD, "turnId": "t1", "itemId": "p1", "startedAtMs": 0, "cwd": "/work",
        "permissions": { "network": { "enabled": true } },
    });
    bench.ask(7, "item/permissions/requestApproval", params);
    bench.now += 1_000;
    bench
}

#[test]
fn a_refusal_that_stops_the_turn_interrupts_it() {
    let mut bench = permissions();
    bench.press('c');
    assert_eq!(bench.responses.len(), 1);
    let (_, params) = bench.call("turn/interrupt");
    assert_eq!(params, json!({ "threadId": THREAD, "turnId": "t1" }));
    let mut bench = permissions();
    bench.press('n');
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
}

#[test]
fn what_was_typed_into_a_question_is_in_the_composer_also_when_another_client_answers() {
    let mut bench = permissions();
    bench.type_text("wait a moment");
    bench.notify("serverRequest/resolved", json!({ "threadId": THREAD, "requestId": 7 }));
    assert!(bench.shown().contains("› wait a moment"), "{}", bench.shown());
    assert!(bench.responses.is_empty());
}
