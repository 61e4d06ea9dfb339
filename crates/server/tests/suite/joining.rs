//! Clients that leave or join in the middle of a turn: the snapshot and the later events of a
//! client together are complete.

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::{calls, runs, says};

#[tokio::test]
async fn a_running_turn_is_returned_and_continues() {
    let words = json!({ "steps": [{ "message":
        { "chunks": ["one ", "two ", "three ", "four"], "chunk_delay_ms": 150 } }] });
    let env = TestEnvironment::with_responses(json!([runs("true"), words])).await;
    let server = env.start();
    let mut first = server.connect().await;
    let params = json!({ "sandbox": "dangerFullAccess", "approvalPolicy": "never" });
    let thread = first.start_thread(params).await;
    let turn = first.start_turn(&thread, "Count.").await;
    first.expect("item/agentMessage/delta").await;
    drop(first);
    let mut second = server.connect().await;
    let resumed = second.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(resumed["thread"]["status"]["type"], "active");
    let turns = resumed["thread"]["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 1);
    assert_eq!((&turns[0]["id"], &turns[0]["status"]), (&json!(turn), &json!("inProgress")));
    let items = turns[0]["items"].as_array().unwrap();
    let kinds: Vec<&Value> = items.iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["userMessage", "commandExecution", "agentMessage"]);
    assert_eq!(items[1]["status"], "completed");
    let mut text = items[2]["text"].as_str().unwrap().to_owned();
    assert!("one two three four".starts_with(&text) && !text.is_empty(), "{text}");
    second.turn_end(&turn).await;
    for line in second.raw_lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        if message["method"] == "item/agentMessage/delta" {
            assert_eq!(message["params"]["itemId"], items[2]["id"]);
            text.push_str(message["params"]["delta"].as_str().unwrap());
        }
    }
    assert_eq!(text, "one two three four", "no gap and no repeat");
}

#[tokio::test]
async fn pending_approvals_are_shown() {
    let env = TestEnvironment::with_responses(json!([runs("touch made"), says("So.")])).await;
    let server = env.start();
    let mut first = server.connect().await;
    let thread = first.start_thread(json!({ "approvalPolicy": "unlessTrusted" })).await;
    let turn = first.start_turn(&thread, "Begin.").await;
    first.asked("item/commandExecution/requestApproval").await;
    let steer = json!({ "threadId": thread, "expectedTurnId": turn,
        "input": [{ "type": "text", "text": "Also." }] });
    first.call("turn/steer", steer).await;
    drop(first);
    let mut second = server.connect_with(json!({ "experimentalApi": true })).await;
    let resumed = second.call("thread/resume", json!({ "threadId": thread })).await;
    let turns = resumed["thread"]["turns"].as_array().unwrap();
    let ids: Vec<&Value> = turns.iter().map(|turn| &turn["id"]).collect();
    assert_eq!(ids, [&json!(turn)]);
    let items = turns[0]["items"].as_array().unwrap();
    let command = items.iter().find(|item| item["type"] == "commandExecution").unwrap();
    assert_eq!(command["status"], "inProgress");
    assert!(items.iter().any(|item| item["content"][0]["text"] == "Also."), "{items:?}");
    let asked = second.asked("item/commandExecution/requestApproval").await;
    assert_eq!(asked.params["itemId"], command["id"]);
    let params = json!({ "threadId": thread, "excludeTurns": true });
    let again = second.call("thread/resume", params).await;
    assert_eq!(again["thread"]["turns"], json!([]));
    second.decide(&asked, "decline").await;
    second.turn_end(&turn).await;
}

#[tokio::test]
async fn a_turn_that_starts_withdraws_what_waits_for_an_approval() {
    for call in [runs("touch made"), crate::patches("*** Add File: made\n+x")] {
        let env = TestEnvironment::with_responses(json!([call, says("Then the other.")])).await;
        let server = env.start();
        let mut peer = server.connect().await;
        let params = json!({ "approvalPolicy": "unlessTrusted", "sandbox": "readOnly" });
        let thread = peer.start_thread(params).await;
        let turn = peer.start_turn(&thread, "Begin.").await;
        let open = |line: &String| line.contains("requestApproval");
        while !peer.raw_lines().iter().any(open) {
            peer.next().await;
        }
        let joined = peer.start_turn(&thread, "No, the other one.").await;
        peer.expect("serverRequest/resolved").await;
        for ended in [&turn, &joined] {
            assert_eq!(peer.turn_end(ended).await["status"], "completed");
        }
        assert!(!env.workspace().join("made").exists());
        let request = env.model().raw_requests().pop().unwrap();
        let places = ["withdrawn", "No, the other one."].map(|text| request.find(text).unwrap());
        assert!(places[0] < places[1], "the message follows: {request}");
    }
}

#[tokio::test]
async fn the_plan_of_the_latest_turn_and_the_tokens_are_sent_to_a_client_that_joins() {
    let plan = json!({ "explanation": "Why.", "plan": [
        { "step": "Look", "status": "completed" }, { "step": "Act", "status": "in_progress" },
    ] });
    let responses = [calls("update_plan", plan), says("Planned."), says("Without a plan.")];
    let env = TestEnvironment::with_responses(json!(responses)).await;
    let server = env.start();
    let mut first = server.connect().await;
    let thread = first.start_thread(json!({})).await;
    let turn = first.start_turn(&thread, "Begin.").await;
    first.turn_end(&turn).await;

    let mut second = server.connect().await;
    second.call("thread/resume", json!({ "threadId": thread })).await;
    let sent = second.expect("turn/plan/updated").await;
    assert_eq!((&sent["turnId"], &sent["explanation"]), (&json!(turn), &json!("Why.")));
    let steps = json!([
        { "step": "Look", "status": "completed" }, { "step": "Act", "status": "inProgress" },
    ]);
    assert_eq!(sent["plan"], steps);
    let usage = second.expect("thread/tokenUsage/updated").await;
    assert!(usage["tokenUsage"]["total"]["totalTokens"].as_i64() > Some(0), "{usage}");

    let turn = first.start_turn(&thread, "Go on.").await;
    first.turn_end(&turn).await;
    let mut third = server.connect().await;
    third.call("thread/resume", json!({ "threadId": thread })).await;
    third.expect("thread/tokenUsage/updated").await;
    let lines = third.raw_lines();
    let plans = lines.iter().filter(|line| line.contains("turn/plan/updated")).count();
    assert_eq!(plans, 0, "a turn without a plan shows none");
}
