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

#[tokio::test]
async fn text_of_running_items_is_stored_at_intervals() {
    let short = "Only a few words";
    let long = "sixteen letters ".repeat(1024);
    let pause = json!({ "delay_ms": 600_000 });
    // A short text is stored after a second, a long one at once.
    for text in [short, long.as_str()] {
        let message =
            json!({ "message": { "chunks": [text, " and more"], "chunk_delay_ms": 600_000 } });
        let mut env = TestEnvironment::with_responses(json!([{ "steps": [message, pause] }])).await;
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        peer.start_turn(&thread, "Speak.").await;
        let mut received = String::new();
        while received.len() < text.len() {
            let delta = peer.expect("item/agentMessage/delta").await;
            received.push_str(delta["delta"].as_str().unwrap());
        }
        if text == short {
            stored_text(&env, &thread, text).await;
        }
        env.crash();
        let server = env.start();
        let mut peer = server.connect().await;
        assert_eq!(text_of(&mut peer, &thread).await.as_deref(), Some(text));
        assert_eq!(statuses(&mut peer, &thread).await, ["interrupted"]);
    }
}

/// Waits until the store has the text.
async fn stored_text(env: &TestEnvironment, thread: &str, text: &str) {
    let reader = env.start();
    let mut peer = reader.connect().await;
    while text_of(&mut peer, thread).await.as_deref() != Some(text) {
        tokio::task::yield_now().await;
    }
}

async fn text_of(peer: &mut Peer, thread: &str) -> Option<String> {
    let read = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    let items = read["thread"]["turns"][0]["items"].as_array()?.clone();
    let message = items.iter().find(|item| item["type"] == "agentMessage")?;
    Some(message["text"].as_str()?.to_owned())
}
