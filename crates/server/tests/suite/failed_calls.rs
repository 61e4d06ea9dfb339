//! Tool calls that fail before they run: each becomes the item that it would have been on success,
//! started and completed as failed, with the reason, and is stored as such.

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::{says, tool_outputs};

/// A call, the item that shows it, and the reason that the client and the model receive.
struct Row {
    call: Value,
    /// Members of the final item; `$WORK` is the working folder.
    item: Value,
    reason: &'static str,
}

fn function(name: &str, arguments: Value) -> Value {
    json!({ "function_call": { "name": name, "arguments": arguments } })
}

fn patch(input: &str) -> Value {
    json!({ "custom_tool_call": { "name": "apply_patch", "input": input } })
}

fn command(command: &str, cwd: &str) -> Value {
    json!({ "type": "commandExecution", "command": command, "cwd": cwd })
}

fn tool(name: &str, arguments: Value) -> Value {
    json!({ "type": "dynamicToolCall", "tool": name, "arguments": arguments, "success": false })
}

const MISFIT: &str = "*** Begin Patch\n*** Update File: a.txt\n@@ fn main\n keep\n-nothing\n+x\n\
                      *** Add File: new.txt\n+one\n*** Delete File: b.txt\n*** End Patch";

fn misfit_item() -> Value {
    let diff = "@@ fn main\n keep\n-nothing\n+x\n";
    json!({ "type": "fileChange", "changes": [
        { "path": "$WORK/a.txt", "kind": { "type": "update" }, "diff": diff },
        { "path": "$WORK/new.txt", "kind": { "type": "add" }, "diff": "one\n" },
        { "path": "$WORK/b.txt", "kind": { "type": "delete" }, "diff": "" },
    ] })
}

fn rows() -> Vec<Row> {
    let row = |call, item, reason| Row { call, item, reason };
    let heredoc = format!("apply_patch <<'EOF'\n{MISFIT}\nEOF");
    let image = |path: &str| json!({ "type": "imageView", "path": path });
    let plan = json!({ "plan": [{ "step": "x", "status": "odd" }] });
    vec![
        row(
            function("fly", json!({ "high": true })),
            tool("fly", json!({ "high": true })),
            "no tool `fly`",
        ),
        row(
            function("exec_command", json!("{not json")),
            command("{not json", "$WORK"),
            "cannot be read",
        ),
        row(function("exec_command", json!({ "cmd": " " })), command(" ", "$WORK"), "is empty"),
        row(
            function("exec_command", json!({ "cmd": "ls", "workdir": "gone" })),
            command("ls", "$WORK/gone"),
            "gone does not exist",
        ),
        row(
            function("exec_command", json!({ "cmd": "ls", "workdir": "a.txt" })),
            command("ls", "$WORK/a.txt"),
            "a.txt is not a folder",
        ),
        row(
            function("exec_command", json!({ "cmd": "ls", "login": true })),
            command("ls", "$WORK"),
            "login shells are switched off",
        ),
        row(
            function("write_stdin", json!({ "session_id": 77 })),
            tool("write_stdin", json!({ "session_id": 77, "chars": "" })),
            "session id 77",
        ),
        row(function("update_plan", plan.clone()), tool("update_plan", plan), "odd"),
        row(
            patch("no patch"),
            json!({ "type": "fileChange", "changes": [] }),
            "the patch cannot be read",
        ),
        row(patch(MISFIT), misfit_item(), "the patch does not apply"),
        row(
            function("exec_command", json!({ "cmd": heredoc })),
            misfit_item(),
            "the patch does not apply",
        ),
        row(patch(""), json!({ "type": "fileChange", "changes": [] }), "read: the patch is empty"),
        // The path occurs once.
        row(
            patch("*** Begin Patch\n*** Update File: sub\n@@\n-x\n+y\n*** End Patch"),
            json!({ "type": "fileChange" }),
            "does not apply: $WORK/sub: it is a folder",
        ),
        row(
            function("view_image", json!({ "path": "nowhere.png" })),
            image("$WORK/nowhere.png"),
            "nowhere.png",
        ),
        row(function("view_image", json!({})), image("$WORK"), "`path`"),
        row(
            function("lookup", json!("{not json")),
            tool("lookup", json!("{not json")),
            "cannot be read",
        ),
    ]
}

/// The member of a failed item that holds the reason.
fn reason(item: &Value) -> &Value {
    match item["type"].as_str().unwrap() {
        "commandExecution" => &item["aggregatedOutput"],
        "dynamicToolCall" => &item["contentItems"][0]["text"],
        _ => &item["reason"],
    }
}

#[tokio::test]
async fn every_call_that_fails_before_it_runs_is_shown_with_the_reason() {
    for Row { call, item: expected, reason: why } in rows() {
        let responses = json!([{ "steps": [call] }, says("I see.")]);
        let mut env = TestEnvironment::with_responses(responses).await;
        env.config_overrides.push("allow_login_shell=false".to_owned());
        for name in ["a.txt", "b.txt"] {
            std::fs::write(env.workspace().join(name), "something\n").unwrap();
        }
        std::fs::create_dir(env.workspace().join("sub")).unwrap();
        let server = env.start();
        let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
        let lookup =
            json!({ "name": "lookup", "description": "", "inputSchema": { "type": "object" } });
        let thread = peer.start_thread(json!({ "dynamicTools": [lookup] })).await;
        assert_eq!(peer.run_turn(&thread, "Go.").await["status"], "completed", "{call}");
        let kind = expected["type"].as_str().unwrap();
        let started =
            peer.expect_where("item/started", |params| params["item"]["type"] == kind).await;
        let item = peer.item(kind).await;
        assert_eq!(item["id"], started["item"]["id"], "{call}");
        let work = env.workspace().display().to_string();
        let expected: Value =
            serde_json::from_str(&expected.to_string().replace("$WORK", &work)).unwrap();
        for (member, value) in expected.as_object().unwrap() {
            assert_eq!(&item[member], value, "{member} of {call}");
        }
        if kind != "imageView" {
            assert_eq!(started["item"]["status"], "inProgress", "{call}");
            assert_eq!(item["status"], "failed", "{call}");
        }
        let notice = reason(&item).as_str().unwrap();
        assert!(notice.contains(&why.replace("$WORK", &work)), "{call}: {notice}");
        assert_eq!(tool_outputs(&env), [notice], "the model gets the same: {call}");
        let read =
            peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
        let items = read["thread"]["turns"][0]["items"].as_array().unwrap().clone();
        assert!(items.contains(&item), "{call}: {items:?}");
    }
}

/// A response with these output items, as a provider would send it.
fn raw_response(items: &[Value]) -> Value {
    let done = items.iter().enumerate().map(|(index, item)| {
        json!({ "type": "response.output_item.done", "output_index": index, "item": item })
    });
    let usage = json!({ "input_tokens": 1, "output_tokens": 1, "total_tokens": 2 });
    let end = json!({ "type": "response.completed", "response": { "id": "r", "usage": usage } });
    let events = done.chain([end]).map(|event| format!("data: {event}\n\n"));
    json!({ "steps": [{ "cut": events.collect::<String>() }] })
}

#[tokio::test]
async fn an_item_of_an_unknown_type_is_shown_and_answered() {
    let action = json!({ "type": "exec", "command": ["ls"] });
    let call = json!({ "type": "local_shell_call", "call_id": "c1", "action": action });
    let note = json!({ "type": "novelty", "text": "x" });
    let env = TestEnvironment::with_responses(json!([
        raw_response(&[call.clone(), note.clone()]),
        says("I see.")
    ]))
    .await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&thread, "Go.").await["status"], "completed");
    for (kind, raw, why) in [
        ("local_shell_call", &call, "calls of the type `local_shell_call` cannot be carried out"),
        ("novelty", &note, "an item of the type `novelty`, which this version does not know"),
    ] {
        let item = peer.item("dynamicToolCall").await;
        assert_eq!((&item["tool"], &item["status"]), (&json!(kind), &json!("failed")));
        assert_eq!(&item["arguments"], raw);
        assert!(reason(&item).as_str().unwrap().contains(why), "{item}");
    }
    // The model gets back its item and the answer to it.
    let request = env.model().requests().pop().unwrap();
    let input = request["input"].as_array().unwrap();
    assert!(input.contains(&call) && input.contains(&note), "{request}");
    let answers: Vec<&Value> = input.iter().filter(|item| item["call_id"] == "c1").collect();
    assert_eq!(answers.len(), 2, "{request}");
    assert_eq!(answers[1]["type"], "local_shell_call_output");
    assert!(answers[1]["output"].as_str().unwrap().contains("cannot be carried out"), "{request}");
}

#[tokio::test]
async fn data_that_arrives_only_with_the_whole_item_is_shown() {
    let summary = json!([{ "type": "summary_text", "text": "One." },
        { "type": "summary_text", "text": "Two." }]);
    let reasoning = json!({ "type": "reasoning", "summary": summary });
    let action = json!({ "type": "search", "queries": ["rust", "agents"] });
    let search = json!({ "type": "web_search_call", "status": "completed", "action": action });
    let env = TestEnvironment::with_responses(json!([raw_response(&[reasoning, search])])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    let item = peer.item("reasoning").await;
    assert_eq!(item["summary"], json!(["One.", "Two."]));
    let lines: Vec<String> = peer.transcript().to_vec();
    let at = |what: &str| lines.iter().position(|line| line.contains(what)).unwrap();
    assert!(at("summaryPartAdded item2[0]") < at("summaryPartAdded item2[1]"), "{lines:?}");
    assert!(at("item/started item2") < at("summaryPartAdded item2[0]"), "{lines:?}");
    assert!(at("summaryPartAdded item2[1]") < at("item/completed item2"), "{lines:?}");
    assert_eq!(peer.item("webSearch").await["query"], "rust");
}

#[tokio::test]
async fn calls_beyond_the_bound_are_shown_too() {
    let call = json!({ "function_call": { "name": "get_time", "arguments": {} } });
    let env =
        TestEnvironment::with_responses(json!([{ "steps": vec![call; 130] }, says("Many.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    let read = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    let items = read["thread"]["turns"][0]["items"].as_array().unwrap().clone();
    let calls = items.iter().filter(|item| item["type"] == "dynamicToolCall");
    assert_eq!(calls.filter(|call| call["status"] == "failed").count(), 130);
}
