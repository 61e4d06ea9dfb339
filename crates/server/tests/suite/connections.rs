//! Several connections: on one thread, slow, closed, or with many messages.

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::{runs, says};

#[tokio::test]
async fn two_connections_on_a_thread_get_the_same_bytes() {
    let steps = json!({ "steps": [{ "reasoning": "Thinking." }, { "function_call":
        { "name": "exec_command", "arguments": { "cmd": "echo out; echo err >&2" } } }] });
    let env = TestEnvironment::with_responses(json!([steps, says("Done.")])).await;
    let server = env.start();
    let mut first = server.connect().await;
    let thread = first.start_thread(json!({})).await;
    let mut second = server.connect().await;
    second.call("thread/resume", json!({ "threadId": thread })).await;
    let notice = |peer: &testkit::Peer| -> Vec<String> {
        let lines = peer.raw_lines().iter();
        lines.filter(|line| line.contains("\"turnId\"")).cloned().collect()
    };
    let turn = first.start_turn(&thread, "Go.").await;
    for peer in [&mut first, &mut second] {
        peer.turn_end(&turn).await;
        peer.settled().await;
    }
    assert!(notice(&first).len() > 8);
    assert_eq!(notice(&first), notice(&second));
}

#[tokio::test]
async fn a_client_that_leaves_does_not_end_its_turn() {
    let env = TestEnvironment::with_responses(json!([runs("touch made"), says("Done.")])).await;
    let server = env.start();
    let mut first = server.connect().await;
    let start = json!({ "approvalPolicy": "unlessTrusted", "sandbox": "workspaceWrite" });
    let thread = first.start_thread(start).await;
    let turn = first.start_turn(&thread, "Go.").await;
    first.asked("item/commandExecution/requestApproval").await;
    drop(first);
    let mut second = server.connect().await;
    second.call("thread/resume", json!({ "threadId": thread })).await;
    let asked = second.asked("item/commandExecution/requestApproval").await;
    second.decide(&asked, "accept").await;
    assert_eq!(second.turn_end(&turn).await["status"], "completed");
    assert!(env.workspace().join("made").exists());
}

#[tokio::test]
async fn a_thousand_requests_at_once_are_answered_in_order() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let mut sent = Vec::new();
    for _ in 0..1_000 {
        sent.push(peer.send("thread/loaded/list", json!({})).await);
    }
    let last = *sent.last().unwrap();
    peer.response(last).await.unwrap();
    let answered: Vec<i64> = peer
        .raw_lines()
        .iter()
        .filter_map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_i64())
        .collect();
    assert_eq!(answered[answered.len() - 1_000..], sent);
}

#[tokio::test]
async fn many_threads_run_at_once() {
    let responses = json!([runs("echo {{last_user_text}}"), says("Done: {{last_user_text}}")]);
    let env = TestEnvironment::with_responses(responses).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let mut turns = Vec::new();
    for number in 0..20 {
        let thread = peer.start_thread(json!({})).await;
        let turn = peer.start_turn(&thread, &format!("number {number}")).await;
        turns.push((thread, turn, number));
    }
    for (thread, turn, number) in turns {
        assert_eq!(peer.turn_end(&turn).await["status"], "completed");
        let message = peer.expect_where("item/completed", |notice| {
            notice["threadId"] == thread && notice["item"]["type"] == "agentMessage"
        });
        assert_eq!(message.await["item"]["text"], format!("Done: number {number}"));
    }
}

#[tokio::test]
async fn events_of_a_thread_go_to_its_subscribers_only() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let mut stranger = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Psst.").await;
    assert_eq!(stranger.settled().await, [""; 0]);
}
