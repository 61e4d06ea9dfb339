//! Whole notifications in, text out.

use serde_json::{Value, json};

use super::*;

const LIVE: Detail = Detail { is_live: true, output_lines: 3, diff_lines: 3, reasoning: true };
const LOG: Detail = Detail { is_live: false, output_lines: 3, diff_lines: 0, reasoning: true };

fn render(detail: Detail, notifications: &[(&str, Value)]) -> String {
    let mut out = Vec::new();
    let mut transcript = Transcript::new(&mut out, Palette::off(), detail, "/w".into());
    for (method, params) in notifications {
        let params = RawValue::from_string(params.to_string()).unwrap();
        transcript.notified(method, &params).unwrap();
    }
    transcript.finish(true).unwrap();
    String::from_utf8(out).unwrap()
}

fn item(stage: &'static str, item: Value) -> (&'static str, Value) {
    let at = if stage == "item/started" { "startedAtMs" } else { "completedAtMs" };
    (stage, json!({"threadId": "t", "turnId": "u", at: 1, "item": item}))
}

fn delta(id: &str, text: &str) -> (&'static str, Value) {
    let params = json!({"threadId": "t", "turnId": "u", "itemId": id, "delta": text});
    ("item/agentMessage/delta", params)
}

fn command(status: &str, output: Option<&str>, code: Option<i32>) -> Value {
    json!({"type": "commandExecution", "id": "c", "command": "make test", "cwd": "/w",
        "status": status, "commandActions": [], "aggregatedOutput": output, "exitCode": code,
        "durationMs": 12})
}

fn message(text: &str, phase: Option<&str>) -> Value {
    json!({"type": "agentMessage", "id": text, "text": text, "phase": phase})
}

fn change(status: &str) -> Value {
    let changes = json!([{"path": "/w/a.txt", "kind": {"type": "add"}, "diff": "1\n2\n3\n4\n5\n"}]);
    json!({"type": "fileChange", "id": "f", "changes": changes, "status": status})
}

#[test]
fn a_live_message_is_shown_once_as_it_arrives() {
    let notifications = [
        item("item/started", message("", None)),
        delta("m", "Two\nli"),
        delta("m", "nes.\x1b[2J\n\n"),
        item("item/completed", json!({"type": "agentMessage", "id": "m", "text": "Two\nlines."})),
        item("item/completed", message("Not streamed.", Some("final_answer"))),
    ];
    assert_eq!(render(LIVE, &notifications), "\nagent Two\n  lines.\n\nagent Not streamed.\n");
}

#[test]
fn a_log_leaves_the_answer_out() {
    let notifications = [
        delta("x", "ignored"),
        item("item/completed", message("On the way.", Some("commentary"))),
        item("item/completed", message("Perhaps the answer.", None)),
        item("item/started", command("inProgress", None, None)),
        item("item/completed", command("completed", Some("ok\n"), Some(0))),
        item("item/completed", message("Held to the end.", None)),
    ];
    let expect =
        "agent On the way.\nagent Perhaps the answer.\n$ make test\n  ok\n  exit 0 in 12 ms\n";
    assert_eq!(render(LOG, &notifications), expect);
    let notifications = [item("item/completed", message("The answer.", Some("final_answer")))];
    assert_eq!(render(LOG, &notifications), "");
}

#[test]
fn commands_show_their_exit_status() {
    let check = |ended: Value, expect: &str| {
        let notifications = [
            item("item/started", command("inProgress", None, None)),
            item("item/completed", ended),
        ];
        assert_eq!(render(LOG, &notifications), format!("$ make test\n{expect}"));
    };
    check(
        command("failed", Some("1\n2\n3\n4\r\n5"), Some(2)),
        "  … 2 lines above\n  3\n  4\n  5\n  exit 2 in 12 ms\n",
    );
    check(command("declined", None, None), "  declined: not run\n");
    check(
        command("failed", Some("no sandbox"), None),
        "  no sandbox\n  failed: the command did not finish\n",
    );
}

#[test]
fn a_command_that_ends_later_is_shown_with_its_name() {
    let plan = json!({"threadId": "t", "turnId": "u", "plan": [
        {"step": "one", "status": "completed"}, {"step": "two", "status": "inProgress"},
        {"step": "three", "status": "pending"}]});
    let notifications = [
        item("item/started", command("inProgress", None, None)),
        ("turn/plan/updated", plan),
        item("item/completed", command("completed", None, Some(0))),
    ];
    let expect = "$ make test\nplan\n  ✓ one\n  ▸ two\n  · three\n$ make test\n  exit 0 in 12 ms\n";
    assert_eq!(render(LOG, &notifications), expect);
}

#[test]
fn changes_are_shown_before_they_are_made_or_listed_after() {
    let notifications =
        [item("item/started", change("inProgress")), item("item/completed", change("declined"))];
    let title = "  add a.txt  +5 -0\n";
    let live = "    +1\n    +2\n    +3\n    … 2 lines more\n";
    let end = "  declined: no file was changed\n";
    assert_eq!(render(LIVE, &notifications), format!("\nchange 1 file\n{title}{live}{end}"));
    assert_eq!(render(LOG, &notifications), format!("change 1 file\n{title}{end}"));
}

#[test]
fn warnings_and_usage() {
    let usage = json!({"totalTokens": 3, "inputTokens": 2, "cachedInputTokens": 0,
        "outputTokens": 1, "reasoningOutputTokens": 0});
    let notifications = [
        ("warning", json!({"message": "disk nearly full"})),
        ("configWarning", json!({"summary": "unknown key `a`", "details": "config.toml"})),
        (
            "error",
            json!({"error": {"message": "cut"}, "willRetry": true, "threadId": "t", "turnId": "u"}),
        ),
        (
            "error",
            json!({"error": {"message": "end"}, "willRetry": false, "threadId": "t", "turnId": "u"}),
        ),
        (
            "thread/tokenUsage/updated",
            json!({"threadId": "t", "turnId": "u",
            "tokenUsage": {"total": usage, "last": usage, "modelContextWindow": null}}),
        ),
        ("something/new", json!(null)),
    ];
    let expect = "warning: disk nearly full\nwarning: unknown key `a` (config.toml)\n\
                  warning: cut (trying again)\ntokens 2 in, 1 out\n";
    assert_eq!(render(LOG, &notifications), expect);
}

#[test]
fn hooks_that_refuse_or_fail_are_shown() {
    let run = |status: &str, entries: Value| {
        let run = json!({"id": "r", "eventName": "preToolUse", "handlerType": "command",
            "executionMode": "sync", "scope": "turn", "source": "user", "sourcePath": "/h/hooks.json",
            "displayOrder": 0, "status": status, "startedAt": 0, "entries": entries});
        ("hook/completed", json!({"threadId": "t", "turnId": "u", "run": run}))
    };
    let fragments = json!([{"hookRunId": "r", "text": "run the tests"}]);
    let notifications = [
        run("completed", json!([])),
        run("completed", json!([{"kind": "context", "text": "for the model"}])),
        run("blocked", json!([{"kind": "feedback", "text": "not on a Friday"}])),
        run("failed", json!([{"kind": "error", "text": "it ended with the exit code 1"}])),
        item("item/completed", json!({"type": "hookPrompt", "id": "i", "fragments": fragments})),
    ];
    let expect = "hook preToolUse: not on a Friday\n\
                  warning: the hook of preToolUse in /h/hooks.json: it ended with the exit code 1\n\
                  hook run the tests\n";
    assert_eq!(render(LOG, &notifications), expect);
}

#[test]
fn invalid_parameters_are_an_error() {
    let mut transcript = Transcript::new(Vec::new(), Palette::off(), LOG, "/w".into());
    let params = RawValue::from_string("{}".to_owned()).unwrap();
    let error = transcript.notified("item/started", &params).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}
