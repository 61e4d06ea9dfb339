//! Questions of MCP servers that are open while clients come and go, and while their thread ends.

use std::time::Duration;

use serde_json::{Value, json};

use crate::mcp_servers::{Bench, call};
use crate::{calls, says};

const ASKED: &str = "mcpServer/elicitation/request";

#[tokio::test]
async fn an_open_question_is_sent_to_a_client_that_subscribes_later() {
    let bench = Bench::new("").await;
    let server = bench.env.start();
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    let thread = first.start_thread(json!({})).await;
    let id = first.send("mcpServer/tool/call", call(&thread, "ask")).await;
    let asked = first.asked(ASKED).await;
    // The one that called goes; the question waits for the other.
    second.call("thread/resume", json!({ "threadId": thread })).await;
    let again = second.asked(ASKED).await;
    assert_eq!((&again.id, &again.params), (&asked.id, &asked.params));
    first.call("thread/unsubscribe", json!({ "threadId": thread })).await;
    second.answer(&again, json!({ "action": "accept", "content": { "n": 7 } })).await;
    let done = first.response(id).await.unwrap();
    assert_eq!(done["content"][0]["text"], r#"{"action":"accept","content":{"n":7}}"#);
    // Also the one that no longer subscribes.
    for peer in [&mut first, &mut second] {
        let resolved = peer.expect("serverRequest/resolved").await;
        assert_eq!(resolved["threadId"], thread.as_str());
        assert_eq!(resolved["requestId"], again.id);
    }
}

#[tokio::test]
async fn an_invalid_answer_leaves_the_question_to_the_other_clients() {
    let bench = Bench::new("").await;
    let server = bench.env.start();
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    let thread = first.start_thread(json!({})).await;
    second.call("thread/resume", json!({ "threadId": thread })).await;
    let id = first.send("mcpServer/tool/call", call(&thread, "ask")).await;
    let asked = first.asked(ASKED).await;
    let secret = "hunter2";
    first.answer(&asked, json!({ "action": "accept", "content": { "n": secret } })).await;
    let warning = first.expect("warning").await;
    let message = warning["message"].as_str().unwrap();
    assert!(message.contains("content.n") && message.contains("stays open"), "{message}");
    assert!(!message.contains(secret), "{message}");
    let asked = second.asked(ASKED).await;
    second.answer(&asked, json!({ "action": "decline" })).await;
    let done = first.response(id).await.unwrap();
    assert_eq!(done["content"][0]["text"], r#"{"action":"decline"}"#);
}

#[tokio::test]
async fn a_question_is_cancelled_with_its_thread() {
    let bench = Bench::new("").await;
    let server = bench.env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    let id = peer.send("mcpServer/tool/call", call(&thread, "ask")).await;
    let asked = peer.asked(ASKED).await;
    let archived = peer.send("thread/archive", json!({ "threadId": thread })).await;
    let resolved = peer.expect("serverRequest/resolved").await;
    assert_eq!(resolved["requestId"], asked.id);
    peer.response(archived).await.unwrap();
    let done = peer.response(id).await.unwrap();
    assert_eq!(done["content"][0]["text"], r#"{"action":"cancel"}"#);
}

#[tokio::test]
async fn a_question_ends_with_its_call() {
    let responses = json!([
        calls("mcp__one__hasty", json!({})),
        says("One."),
        calls("mcp__one__hasty", json!({})),
        says("Two."),
    ]);
    let bench = Bench::with_responses(responses, "default_tools_approval_mode = \"approve\"").await;
    let waits = bench.log.with_extension("log.waits");
    std::fs::write(&waits, "").unwrap();
    let server = bench.env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let is_ready = |status: &Value| status["name"] == "one" && status["status"] == "ready";
    peer.expect_where("mcpServer/startupStatus/updated", is_ready).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(ASKED).await;
    let flags = |flags: Value| move |changed: &Value| changed["status"]["activeFlags"] == flags;
    peer.expect_where("thread/status/changed", flags(json!(["waitingOnUserInput"]))).await;
    // The server answers the call without its answer.
    std::fs::write(bench.log.with_extension("log.go"), "").unwrap();
    assert_eq!(peer.expect("serverRequest/resolved").await["requestId"], asked.id);
    peer.expect_where("thread/status/changed", flags(json!([]))).await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    answers(&bench, 1).await;
    // Also when the answer follows the question at once.
    std::fs::remove_file(waits).unwrap();
    let turn = peer.start_turn(&thread, "Go on.").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    answers(&bench, 2).await;
}

/// Waits until the server has as many answers, all of which cancel.
async fn answers(bench: &Bench, count: usize) {
    loop {
        let log = bench.log();
        let answers: Vec<&str> = log.lines().filter(|line| line.contains("\"id\":901")).collect();
        assert!(answers.iter().all(|answer| answer.contains(r#""action":"cancel""#)), "{log}");
        if answers.len() >= count {
            return;
        }
        // tidy: sleep processes of others report nothing
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_question_ends_with_its_server() {
    let bench = Bench::new("").await;
    let server = bench.env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let id = peer.send("mcpServer/tool/call", call(&thread, "dies")).await;
    let asked = peer.asked(ASKED).await;
    let begun = std::time::Instant::now();
    std::fs::write(bench.log.with_extension("log.go"), "").unwrap();
    assert_eq!(peer.expect("serverRequest/resolved").await["requestId"], asked.id);
    peer.response(id).await.unwrap_err();
    // A connection with open questions is otherwise drained for 5 s.
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

/// The turn may take 2 s; its user takes 3.
#[tokio::test]
async fn a_turn_that_waits_for_an_answer_shows_it_and_uses_no_time() {
    let responses = json!([calls("mcp__one__ask", json!({})), says("Done.")]);
    let keys = "default_tools_approval_mode = \"approve\"";
    let mut bench = Bench::with_responses(responses, keys).await;
    bench.env.config_overrides.push("agents.max_total_seconds=2".to_owned());
    let server = bench.env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let is_ready = |status: &Value| status["name"] == "one" && status["status"] == "ready";
    peer.expect_where("mcpServer/startupStatus/updated", is_ready).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(ASKED).await;
    assert_eq!(asked.params["turnId"], turn.as_str());
    let flags = |flags: Value| move |changed: &Value| changed["status"]["activeFlags"] == flags;
    peer.expect_where("thread/status/changed", flags(json!(["waitingOnUserInput"]))).await;
    // tidy: sleep the budget is of real seconds
    tokio::time::sleep(Duration::from_secs(3)).await;
    peer.answer(&asked, json!({ "action": "decline" })).await;
    peer.expect_where("thread/status/changed", flags(json!([]))).await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
}
