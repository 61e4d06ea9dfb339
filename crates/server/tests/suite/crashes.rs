//! Recovery after a server died in the middle of a turn: each orphaned turn is closed once, and the
//! thread continues with a history that a provider accepts.

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::{runs, says};

#[tokio::test]
async fn a_turn_that_a_crash_cut_is_interrupted_and_its_items_failed() {
    let mut env =
        TestEnvironment::with_responses(json!([runs("touch made"), says("Never."), says("On.")]))
            .await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({ "approvalPolicy": "unlessTrusted" })).await;
    let turn = peer.start_turn(&thread, "Begin.").await;
    peer.asked("item/commandExecution/requestApproval").await;
    let before =
        peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    assert_eq!(before["thread"]["turns"][0]["status"], "inProgress");
    env.crash();
    let after = env.start();
    let mut late = after.connect().await;
    let read = late.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    let turns = read["thread"]["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 1);
    assert_eq!((&turns[0]["id"], &turns[0]["status"]), (&json!(turn), &json!("interrupted")));
    let items = turns[0]["items"].as_array().unwrap();
    let command = items.iter().find(|item| item["type"] == "commandExecution").unwrap();
    assert_eq!(command["status"], "failed");
    late.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(late.run_turn(&thread, "Go on.").await["status"], "completed");
    // Recovery happens once: a second start finds no orphaned turn.
    after.stop().await;
    let mut last = env.start().connect().await;
    let read = last.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    let statuses: Vec<&Value> =
        read["thread"]["turns"].as_array().unwrap().iter().map(|turn| &turn["status"]).collect();
    assert_eq!(statuses, ["interrupted", "completed"]);
}

#[tokio::test]
async fn a_turn_that_joined_one_is_closed_with_it() {
    let mut env = TestEnvironment::with_responses(json!([runs("touch made"), says("On.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({ "approvalPolicy": "unlessTrusted" })).await;
    peer.start_turn(&thread, "Begin.").await;
    peer.asked("item/commandExecution/requestApproval").await;
    peer.start_turn(&thread, "Also.").await;
    peer.settled().await;
    env.crash();
    let server = env.start();
    let mut peer = server.connect().await;
    assert_eq!(statuses(&mut peer, &thread).await, ["interrupted", "interrupted"]);
}

#[tokio::test]
async fn after_a_crash_every_call_in_the_history_has_its_output() {
    let two = json!({ "steps": [
        { "function_call": { "name": "exec_command", "arguments": { "cmd": "echo safe; pwd" } } },
        { "function_call": { "name": "exec_command", "arguments": { "cmd": "touch made" } } },
        { "custom_tool_call": { "name": "apply_patch", "input": "no patch" } },
    ] });
    let mut env = TestEnvironment::with_responses(json!([two, says("On."), says("And on.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({ "approvalPolicy": "unlessTrusted" })).await;
    peer.start_turn(&thread, "Begin.").await;
    peer.asked("item/commandExecution/requestApproval").await;
    peer.settled().await;
    env.crash();
    let server = env.start();
    let mut peer = server.connect().await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    for text in ["Go on.", "And on."] {
        assert_eq!(peer.run_turn(&thread, text).await["status"], "completed");
    }
    for request in env.model().requests() {
        assert_eq!(ids(&request, "_call"), ids(&request, "_call_output"));
    }
    assert_eq!(ids(&env.model().requests()[2], "_call").len(), 3);
}

/// Ids of the calls, or of their outputs, in the order of the calls.
fn ids(request: &Value, kind: &str) -> Vec<String> {
    let input = request["input"].as_array().unwrap().iter();
    let items = input.filter(|item| item["type"].as_str().is_some_and(|name| name.ends_with(kind)));
    items.map(|item| item["call_id"].as_str().unwrap().to_owned()).collect()
}

async fn statuses(peer: &mut Peer, thread: &str) -> Vec<Value> {
    let params = json!({ "threadId": thread, "includeTurns": true });
    let read = peer.call("thread/read", params).await;
    read["thread"]["turns"].as_array().unwrap().iter().map(|turn| turn["status"].clone()).collect()
}
