use super::*;

/// The events of notifications, after that of the thread.
fn events(notifications: &[(&str, Value)]) -> Vec<Value> {
    let mut out = Vec::new();
    let mut events = ThreadEvents::new(&mut out, io::sink());
    events.opened("t").unwrap();
    for (method, params) in notifications {
        let params = RawValue::from_string(params.to_string()).unwrap();
        events.notified(method, &params).unwrap();
    }
    let text = String::from_utf8(out).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    assert_eq!(lines.next(), Some(json!({ "type": "thread.started", "thread_id": "t" })));
    lines.collect()
}

fn about(member: &str, value: Value) -> Value {
    let mut params =
        json!({ "threadId": "t", "turnId": "u", "startedAtMs": 1, "completedAtMs": 1 });
    params[member] = value;
    params
}

fn turn(status: &str, error: Value) -> (&'static str, Value) {
    let turn = json!({ "id": "u", "items": [], "itemsView": "full", "status": status,
        "error": error });
    ("turn/completed", json!({ "threadId": "t", "turn": turn }))
}

#[test]
fn items_have_the_other_form() {
    let check = |item: Value, expected: Option<Value>| {
        let found = events(&[("item/completed", about("item", item.clone()))]);
        let expected = expected.map(|item| json!({ "type": "item.completed", "item": item }));
        assert_eq!(found, Vec::from_iter(expected), "{item}");
    };
    let message = json!({ "id": "1", "type": "agent_message", "text": "hi" });
    check(json!({ "type": "agentMessage", "id": "1", "text": "hi" }), Some(message.clone()));
    check(json!({ "type": "exitedReviewMode", "id": "1", "review": "hi" }), Some(message));
    check(
        json!({ "type": "reasoning", "id": "1", "summary": ["a", "b"], "content": ["c"] }),
        Some(json!({ "id": "1", "type": "reasoning", "text": "a\n\nb" })),
    );
    check(
        json!({ "type": "commandExecution", "id": "1", "command": "ls", "cwd": "/w",
            "status": "declined", "commandActions": [] }),
        Some(json!({ "id": "1", "type": "command_execution", "command": "ls",
            "aggregated_output": "", "status": "failed" })),
    );
    check(
        json!({ "type": "fileChange", "id": "1", "status": "completed", "changes": [
            { "path": "a", "kind": { "type": "update", "movePath": "b" }, "diff": "" }] }),
        Some(json!({ "id": "1", "type": "file_change", "status": "completed",
            "changes": [{ "path": "a", "kind": "update" }] })),
    );
    let arguments = json!({ "type": "agentMessage" });
    check(
        json!({ "type": "mcpToolCall", "id": "1", "server": "s", "tool": "t",
            "status": "completed", "arguments": arguments,
            "result": { "content": [1], "structuredContent": arguments } }),
        Some(json!({ "id": "1", "type": "mcp_tool_call", "server": "s", "tool": "t",
            "status": "completed", "arguments": arguments,
            "result": { "content": [1], "structured_content": arguments } })),
    );
    check(
        json!({ "type": "collabToolCall", "id": "1", "tool": "spawnAgent", "prompt": "Count.",
            "status": "completed", "senderThreadId": "t", "receiverThreadIds": ["a"],
            "agentsStates": { "a": { "status": "pendingInit" } } }),
        Some(json!({ "id": "1", "type": "collab_tool_call", "tool": "spawn_agent",
            "prompt": "Count.", "status": "completed", "sender_thread_id": "t",
            "receiver_thread_ids": ["a"],
            "agents_states": { "a": { "status": "pending_init", "message": null } } })),
    );
    check(json!({ "type": "contextCompaction", "id": "1" }), None);
}

#[test]
fn the_result_of_a_review_is_one_message() {
    let completed = |item: Value| ("item/completed", about("item", item));
    let said =
        |id: &str, text: &str| completed(json!({ "type": "agentMessage", "id": id, "text": text }));
    let mode =
        |kind: &str, text: &str| completed(json!({ "type": kind, "id": kind, "review": text }));
    let command = completed(json!({ "type": "commandExecution", "id": "c", "command": "ls",
        "cwd": "/w", "status": "completed", "commandActions": [] }));
    let messages = |notifications: &[(&str, Value)]| -> Vec<Value> {
        let found = events(notifications).into_iter();
        let text = |mut event: Value| event["item"]["text"].take();
        found.map(text).filter(|text| !text.is_null()).collect()
    };
    let entered = || mode("enteredReviewMode", "changes");
    let review =
        [entered(), said("1", "good"), mode("exitedReviewMode", "good"), said("2", "more")];
    assert_eq!(messages(&review), ["good", "more"]);
    let on_the_way = [entered(), said("1", "I look"), command, mode("exitedReviewMode", "good")];
    assert_eq!(messages(&on_the_way), ["I look", "good"]);
    let cut = [entered(), said("1", "I look"), turn("failed", json!(null))];
    assert_eq!(messages(&cut), ["I look"]);
}

#[test]
fn a_plan_is_one_item_of_its_turn() {
    let plan = |status: &str| {
        ("turn/plan/updated", about("plan", json!([{ "step": "s", "status": status }])))
    };
    let found = events(&[plan("inProgress"), plan("completed"), turn("completed", json!(null))]);
    let item = |kind: &str, completed: bool| {
        let items = json!([{ "text": "s", "completed": completed }]);
        json!({ "type": kind, "item": { "id": "plan-u", "type": "todo_list", "items": items } })
    };
    let expected =
        [item("item.started", false), item("item.updated", true), item("item.completed", true)];
    assert_eq!(found[..3], expected);
    assert_eq!(found[3]["type"], "turn.completed");
}

#[test]
fn usage_is_that_of_the_turn() {
    let tokens = |n: i64| {
        json!({ "totalTokens": 2 * n, "inputTokens": n, "cachedInputTokens": 0,
            "cacheWriteInputTokens": n, "outputTokens": n, "reasoningOutputTokens": 0 })
    };
    let used = |total: i64, last: i64| {
        let usage = json!({ "total": tokens(total), "last": tokens(last) });
        ("thread/tokenUsage/updated", about("tokenUsage", usage))
    };
    let started = ("turn/started", about("turn", json!(null)));
    let end = || turn("completed", json!(null));
    for (notifications, expected) in [
        (vec![started.clone(), end()], 0),
        (vec![started.clone(), used(5, 5), used(8, 3), end()], 8),
        // A thread that was continued.
        (vec![started.clone(), used(105, 5), used(108, 3), end()], 8),
        (vec![used(100, 40), started.clone(), used(105, 5), end()], 5),
    ] {
        let found = events(&notifications);
        let usage = &found.last().unwrap()["usage"];
        assert_eq!(
            (&usage["input_tokens"], &usage["cache_write_input_tokens"]),
            (&expected.into(), &expected.into())
        );
        assert_eq!(usage.as_object().unwrap().len(), 5);
    }
}

#[test]
fn every_end_has_one_event() {
    let failed =
        |message: &str| vec![json!({ "type": "turn.failed", "error": { "message": message } })];
    let error = json!({ "message": "it broke" });
    assert_eq!(events(&[turn("failed", error)]), failed("it broke"));
    assert_eq!(events(&[turn("failed", json!(null))]), failed("the turn failed"));
    assert_eq!(events(&[turn("interrupted", json!(null))]), failed("the turn was interrupted"));
}

#[test]
fn what_comes_before_the_thread_waits_for_it() {
    let mut out = Vec::new();
    let mut events = ThreadEvents::new(&mut out, io::sink());
    let error = json!({ "error": { "message": "busy" }, "willRetry": true, "threadId": "t",
        "turnId": "u" });
    let error = RawValue::from_string(error.to_string()).unwrap();
    events.notified("error", &error).unwrap();
    events.opened("t").unwrap();
    let text = String::from_utf8(out).unwrap();
    let types: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].take())
        .collect();
    assert_eq!(types, ["thread.started", "item.completed"]);
    let mut out = Vec::new();
    print_error(&mut out, "no such thread").unwrap();
    assert_eq!(out, b"{\"type\":\"error\",\"message\":\"no such thread\"}\n");
}

#[test]
fn warnings_are_no_events() {
    let (mut out, mut warnings) = (Vec::new(), Vec::new());
    let mut events = ThreadEvents::new(&mut out, &mut warnings);
    events.opened("t").unwrap();
    for (method, params) in [
        ("warning", json!({ "message": "careful" })),
        ("guardianWarning", json!({ "threadId": "t", "message": "odd\u{1b}[31m" })),
        ("configWarning", json!({ "summary": "no such key" })),
        ("deprecationNotice", json!({ "summary": "old" })),
    ] {
        let params = RawValue::from_string(params.to_string()).unwrap();
        events.notified(method, &params).unwrap();
    }
    assert_eq!(String::from_utf8(out).unwrap().lines().count(), 1);
    let expected = "agentd: warning: careful\nagentd: warning: odd\n\
                    agentd: warning: no such key\nagentd: warning: old\n";
    assert_eq!(String::from_utf8(warnings).unwrap(), expected);
}
