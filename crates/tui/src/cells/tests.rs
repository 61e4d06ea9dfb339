//! Items as they are displayed.

use protocol::ThreadItem;
use serde_json::{Value, json};

use super::*;

fn shown(item: &Value) -> String {
    let item: ThreadItem = serde_json::from_value(item.clone()).unwrap();
    let context = Context { columns: 60, ..Context::default() };
    finished(&item, &context).iter().map(|line| line.text().trim_end().to_owned() + "\n").collect()
}

#[test]
fn each_kind_of_item_says_what_happened() {
    let cases = [
        (
            json!({ "type": "userMessage", "id": "1", "content": [{ "type": "text", "text": "Fix it.\nPlease." }] }),
            "› Fix it.\n  Please.\n",
        ),
        (
            json!({ "type": "agentMessage", "id": "1", "text": "Done: **all** of it." }),
            "Done: all of it.\n",
        ),
        (
            json!({ "type": "reasoning", "id": "1", "summary": ["**Look**\n\nfirst"], "content": [] }),
            "  Look\n\n  first\n",
        ),
        (
            json!({ "type": "commandExecution", "id": "1", "command": "make test", "cwd": "/w", "status": "completed", "commandActions": [], "exitCode": 2, "durationMs": 3200, "aggregatedOutput": "one\r\ntwo\n" }),
            "• Ran make test  (exit code 2, 3s)\n  one\n  two\n",
        ),
        (
            json!({ "type": "commandExecution", "id": "1", "command": "rm -rf /", "cwd": "/w", "status": "declined", "commandActions": [] }),
            "• Not run: rm -rf /\n",
        ),
        (
            json!({ "type": "commandExecution", "id": "1", "command": "make", "cwd": "/w", "status": "failed", "commandActions": [] }),
            "• Failed: make\n",
        ),
        (
            json!({ "type": "agentMessage", "id": "1", "text": "Half of", "reason": "the stream was cut" }),
            "Half of\n  Cut off: the stream was cut\n",
        ),
        (
            json!({ "type": "fileChange", "id": "1", "status": "completed", "changes": [{ "path": "/w/a", "kind": { "type": "add" }, "diff": "x\n" }] }),
            "• Changed w/a\n  add w/a +1 -0\n  1 +x\n",
        ),
        (
            json!({ "type": "mcpToolCall", "id": "1", "server": "docs", "tool": "find", "status": "failed", "arguments": { "q": "x" }, "error": { "message": "gone" } }),
            "• Called docs.find({\"q\":\"x\"})\n  gone\n",
        ),
        (json!({ "type": "webSearch", "id": "1", "query": "rust pty" }), "• Web: rust pty\n"),
        (
            json!({ "type": "contextCompaction", "id": "1" }),
            "• Summarised the conversation to free the context\n",
        ),
    ];
    for (item, expected) in cases {
        assert_eq!(shown(&item), expected, "{item}");
    }
}

#[test]
fn what_a_command_prints_is_never_passed_on() {
    let item = json!({
        "type": "commandExecution", "id": "1", "command": "c", "cwd": "/w", "status": "completed",
        "commandActions": [], "exitCode": 1,
        "aggregatedOutput": "\u{1b}[31mred\u{1b}[0m\n10%\r100%\n\u{1b}]52;c;YQ==\u{7}\n\u{1b}[2Jx\n",
    });
    let expected =
        "• Ran c  (exit code 1)\n  red\n  100%\n  \\u{1b}]52;c;YQ==\\u{7}\n  \\u{1b}[2Jx\n";
    assert_eq!(shown(&item), expected);
}

#[test]
fn a_text_is_given_once_however_it_arrives() {
    let context = Context { columns: 60, ..Context::default() };
    let whole = "First paragraph.\n\n- a\n- b\n\n```rust\nfn main() {}\n```\n\nThe end.";
    let item = |text: &str| -> ThreadItem {
        serde_json::from_value(json!({ "type": "agentMessage", "id": "1", "text": text })).unwrap()
    };
    let expected: Vec<String> = finished(&item(whole), &context).iter().map(Line::text).collect();
    for step in [1, 3, 7, 100] {
        let mut running = Running::start(&item(""));
        let mut lines = Vec::new();
        let chars: Vec<char> = whole.chars().collect();
        for part in chars.chunks(step).take(chars.len() / step / 2) {
            let params = json!({ "threadId": "t", "turnId": "u", "itemId": "1", "delta": part.iter().collect::<String>() });
            let params = serde_json::value::to_raw_value(&params).unwrap();
            running.delta(&Delta::read("item/agentMessage/delta", &params).unwrap().unwrap());
            lines.extend(running.finished(&context));
        }
        // The rest never arrived as deltas: the connection was lost.
        running.complete(&item(whole));
        lines.extend(running.finished(&context));
        assert!(!running.has_begun());
        assert_eq!(running.finished(&context), vec![]);
        assert_eq!(lines.iter().map(Line::text).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn durations_are_short() {
    for (ms, expected) in
        [(40, "0.0s"), (999, "0.9s"), (1_500, "1s"), (61_000, "1m 01s"), (7_260_000, "2h 01m")]
    {
        assert_eq!(duration(ms), expected);
    }
}
