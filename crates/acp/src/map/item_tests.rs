//! Tests of items as calls of tools.

use super::*;

fn shown(item: Value) -> Value {
    let item: ThreadItem = serde_json::from_value(item).unwrap();
    serde_json::to_value(tool_call(&item, "/w", Version::First)).unwrap()
}

fn command(more: Value) -> Value {
    let mut item = json!({
        "type": "commandExecution", "id": "i", "command": "cat a", "cwd": "/w",
        "status": "inProgress",
        "commandActions": [{ "type": "read", "command": "cat a", "name": "a", "path": "/w/a" }],
    });
    item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    shown(item)
}

#[test]
fn a_command_has_kind_place_and_output() {
    let running = command(json!({}));
    assert_eq!(
        running,
        json!({
            "toolCallId": "i", "title": "cat a", "kind": "read", "status": "in_progress",
            "locations": [{ "path": "/w/a" }], "rawInput": { "command": "cat a", "cwd": "/w" },
        })
    );
    let done = command(json!({
        "status": "completed", "aggregatedOutput": "a ``` b\n", "exitCode": 0, "durationMs": 5,
    }));
    assert_eq!(done["content"][0]["content"]["text"], "````\na ``` b\n````");
    assert_eq!((&done["status"], &done["rawOutput"]["exitCode"]), (&json!("completed"), &json!(0)));
    let failed = command(json!({ "status": "failed", "exitCode": 3 }));
    assert_eq!(failed["content"][0]["content"]["text"], "Exit code 3");
    let search = json!([{ "type": "search", "command": "rg" }, { "type": "read", "command": "c", "name": "n", "path": "b" }]);
    assert_eq!(command(json!({ "commandActions": search }))["kind"], "search");
    let unknown = json!([{ "type": "unknown", "command": "make" }]);
    assert_eq!(command(json!({ "commandActions": unknown }))["kind"], "execute");
    assert_eq!(command(json!({ "commandActions": [] }))["kind"], "execute");
    assert_eq!(command(json!({ "status": "declined" }))["status"], "failed");
}

#[test]
fn of_a_long_output_the_end_is_shown() {
    let text = format!("{}end", "é".repeat(MAX_OUTPUT));
    let [ToolCallContent::Content { content: ContentBlock::Text { text } }] = &output(1, &text)[..]
    else {
        panic!()
    };
    assert!(
        text.starts_with("[32773 bytes before]\n```\né") && text.ends_with("éend\n```"),
        "{}",
        text.len()
    );
    assert_eq!(output(0, ""), []);
}

#[test]
fn changes_of_files() {
    let change = |kind: Value, diff: &str| json!({ "path": "a", "kind": kind, "diff": diff });
    let item = |changes: Value| {
        shown(json!({ "type": "fileChange", "id": "i", "status": "completed", "changes": changes }))
    };
    let added = item(json!([change(json!({ "type": "add" }), "x\n")]));
    assert_eq!((&added["title"], &added["kind"]), (&json!("Add a"), &json!("edit")));
    assert_eq!(added["content"], json!([{ "type": "diff", "path": "/w/a", "newText": "x\n" }]));
    let deleted = item(json!([change(json!({ "type": "delete" }), "@@ -1 +0,0 @@\n-x\n")]));
    assert_eq!((&deleted["title"], &deleted["kind"]), (&json!("Delete a"), &json!("delete")));
    assert_eq!(deleted["content"][0]["oldText"], "x\n");
    let moved = item(json!([change(json!({ "type": "update", "move_path": "b" }), "")]));
    assert_eq!((&moved["title"], &moved["kind"]), (&json!("Move a"), &json!("move")));
    assert_eq!(moved["locations"], json!([{ "path": "/w/b" }]));
    let failed = shown(json!({
        "type": "fileChange", "id": "i", "status": "failed", "changes": [], "reason": "no such file",
    }));
    assert_eq!((&failed["status"], &failed["kind"]), (&json!("failed"), &json!("edit")));
    assert_eq!(failed["content"][0]["content"]["text"], "no such file");
}

#[test]
fn results_of_tools_keep_their_blocks() {
    let call = shown(json!({
        "type": "mcpToolCall", "id": "i", "server": "s", "tool": "t", "status": "completed",
        "arguments": { "a": 1 },
        "result": { "content": [
            { "type": "text", "text": "T", "annotations": {} },
            { "type": "resource", "resource": { "uri": "u", "text": "R" } },
            { "type": "surprise" },
        ] },
    }));
    assert_eq!((&call["title"], &call["rawInput"]), (&json!("s: t"), &json!({ "a": 1 })));
    let content = |at: usize| call["content"][at]["content"].clone();
    assert_eq!(content(0), json!({ "type": "text", "text": "T" }));
    assert_eq!(content(1)["resource"], json!({ "uri": "u", "text": "R" }));
    assert!(content(2)["text"].as_str().unwrap().contains("surprise"));
}

#[test]
fn other_items() {
    let check = |item: Value, title: &str, kind: &str, status: &str| {
        let call = shown(item);
        let found = [&call["title"], &call["kind"], &call["status"]];
        assert_eq!(found, [&json!(title), &json!(kind), &json!(status)], "{call}");
    };
    check(
        json!({ "type": "webSearch", "id": "i", "query": "q" }),
        "Search the web: q",
        "search",
        "completed",
    );
    let open = json!({ "type": "webSearch", "id": "i", "query": "q", "action": { "type": "openPage", "url": "u" } });
    check(open, "Open u", "fetch", "completed");
    check(
        json!({ "type": "imageView", "id": "i", "path": "/w/a.png", "reason": "none" }),
        "View /w/a.png",
        "read",
        "failed",
    );
    let image =
        json!({ "type": "imageGeneration", "id": "i", "status": "completed", "result": "AA==" });
    check(image, "Draw an image", "other", "completed");
    let agent = json!({ "type": "collabToolCall", "id": "i", "tool": "spawnAgent", "status": "inProgress", "senderThreadId": "t", "prompt": "p" });
    check(agent, "Start an agent", "think", "in_progress");
    let hook = json!({ "type": "hookPrompt", "id": "i", "fragments": [{ "hookRunId": "h", "text": "x" }] });
    check(hook, "A hook added text", "other", "completed");
    let message = json!({ "type": "agentMessage", "id": "i", "text": "x" });
    assert_eq!(shown(message), Value::Null);
}
