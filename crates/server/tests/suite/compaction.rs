//! Compaction of long threads: on demand, automatically, and when the provider rejects a request as
//! too long.

use serde_json::{Value, json};
use testkit::{TestEnvironment, assert_lines};

use crate::{runs, says};

fn too_long() -> Value {
    json!({ "steps": [{ "error": { "code": "context_length_exceeded", "message": "too long" } }] })
}

/// Inserts lines into the environment's configuration, before its tables.
fn configure(env: &TestEnvironment, line: &str) {
    let path = env.home().join("config.toml");
    let old = std::fs::read_to_string(&path).unwrap();
    env.write_config(&format!("{line}\n{old}"));
}

#[tokio::test]
async fn a_requested_compaction_is_a_separate_turn() {
    let env = TestEnvironment::with_responses(json!([
        runs("echo NOISE"),
        says("The answer is 42."),
        says("SUMMARY: they asked and were answered."),
        says("Again."),
    ]))
    .await;
    std::fs::write(env.workspace().join("AGENTS.md"), "PROJECT RULES").unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let params = json!({ "developerInstructions": "PINNED INSTRUCTIONS", "sandbox": "dangerFullAccess",
        "approvalPolicy": "never" });
    let thread = peer.start_thread(params).await;
    let fault = peer.refused("thread/compact/start", json!({ "threadId": thread })).await;
    assert!(fault.message.contains("no history"), "{fault:?}");
    peer.run_turn(&thread, "What is the answer?").await;
    peer.settled().await;
    peer.forget();
    let answer = peer.call("thread/compact/start", json!({ "threadId": thread })).await;
    assert_eq!(answer, json!({}));
    peer.item("contextCompaction").await;
    peer.expect("turn/completed").await;
    assert_lines(
        peer.transcript(),
        "> thread/compact/start
         < thread/compact/start
         * thread/status/changed active
         * turn/started turn2 inProgress
         * item/started item4 contextCompaction
         * item/completed item4 contextCompaction
         * thread/compacted
         * turn/completed turn2 completed",
    );
    peer.run_turn(&thread, "And now?").await;
    let requests = env.model().raw_requests();
    let last = requests.last().unwrap();
    for kept in
        ["PROJECT RULES", "PINNED INSTRUCTIONS", "What is the answer?", "SUMMARY:", "And now?"]
    {
        assert_eq!(last.matches(kept).count(), 1, "{kept} in {last}");
    }
    assert!(!last.contains("42") && !last.contains("NOISE"), "{last}");
    assert_eq!(requests.len(), 4, "nothing was run again");
    // Clients see all turns, also after a restart.
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let params = json!({ "threadId": thread, "itemsView": "full" });
    let turns = peer.call("thread/turns/list", params).await;
    let kinds: Vec<Vec<&str>> = turns["data"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|turn| {
            let items = turn["items"].as_array().unwrap();
            items.iter().map(|item| item["type"].as_str().unwrap()).collect()
        })
        .collect();
    let expected: [&[&str]; 3] = [
        &["userMessage", "commandExecution", "agentMessage"],
        &["contextCompaction"],
        &["userMessage", "agentMessage"],
    ];
    assert_eq!(kinds, expected);
}

/// A message, and behind it a call.
fn says_and_runs(text: &str, command: &str) -> Value {
    let call = json!({ "name": "exec_command", "arguments": { "cmd": command } });
    json!({ "steps": [{ "message": text }, { "function_call": call }] })
}

#[tokio::test]
async fn a_call_in_place_of_a_summary_is_not_run() {
    let env = TestEnvironment::with_responses(json!([
        says("One."),
        says_and_runs("Let me look first.", "touch made"),
        says_and_runs("SUMMARY", "touch made"),
        says("Two."),
    ]))
    .await;
    let server = env.start();
    let mut peer = server.connect().await;
    let params = json!({ "approvalPolicy": "never", "sandbox": "danger-full-access" });
    let thread = peer.start_thread(params).await;
    peer.run_turn(&thread, "first").await;
    peer.call("thread/compact/start", json!({ "threadId": thread })).await;
    let error = peer.expect("error").await;
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("`exec_command`") && message.contains("not run"), "{message}");
    assert_eq!(error["willRetry"], true);
    peer.item("contextCompaction").await;
    assert_eq!(peer.expect("turn/completed").await["turn"]["status"], "completed");
    assert!(!env.workspace().join("made").exists());
    peer.run_turn(&thread, "second").await;
    let requests = env.model().requests();
    assert_eq!(requests.len(), 4);
    assert!(requests[1]["tools"].as_array().is_some_and(|tools| !tools.is_empty()));
    assert_eq!(requests[2]["tools"], Value::Null);
    assert_eq!(requests[1]["input"], requests[2]["input"]);
    let last = requests[3].to_string();
    assert!(last.contains("SUMMARY") && !last.contains("look first"), "{last}");
}

#[tokio::test]
async fn a_compacted_history_survives_a_restart() {
    let env = TestEnvironment::with_responses(json!([
        says("One."),
        says("SUMMARY"),
        says("Two."),
        says("Three.")
    ]))
    .await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "first").await;
    peer.call("thread/compact/start", json!({ "threadId": thread })).await;
    peer.item("contextCompaction").await;
    peer.expect("turn/completed").await;
    peer.run_turn(&thread, "second").await;
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect().await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    peer.run_turn(&thread, "third").await;
    let requests = env.model().requests();
    let (before, after) = (&requests[2]["input"], &requests[3]["input"]);
    let before = before.as_array().unwrap();
    assert_eq!(after.as_array().unwrap()[..before.len()], before[..], "the prompt cache holds");
    // A rollback over the compaction restores the history that it replaced.
    peer.call("thread/rollback", json!({ "threadId": thread, "numTurns": 3 })).await;
    peer.run_turn(&thread, "other second").await;
    let last = env.model().raw_requests().pop().unwrap();
    assert!(
        last.contains("One.") && !last.contains("SUMMARY") && !last.contains("third"),
        "{last}"
    );
}

// Effect of `model_auto_compact_token_limit`.
#[tokio::test]
async fn a_long_thread_is_compacted_automatically() {
    let noise = "x".repeat(20_000);
    let env = TestEnvironment::with_responses(json!([
        says(&noise),
        says("SUMMARY: much was said."),
        says("Short."),
    ]))
    .await;
    configure(&env, "model_auto_compact_token_limit = 4000");
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Talk.").await;
    assert_eq!(peer.run_turn(&thread, "Go on.").await["status"], "completed");
    let last = env.model().raw_requests().pop().unwrap();
    assert!(last.contains("SUMMARY") && last.contains("Talk.") && last.contains("Go on."));
    assert!(!last.contains(&noise));
    let params = json!({ "threadId": thread, "itemsView": "full", "limit": 1 });
    let turn = peer.call("thread/turns/list", params).await["data"][0].clone();
    let kinds: Vec<&str> = turn["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["userMessage", "contextCompaction", "agentMessage"]);
}

#[tokio::test]
async fn a_history_too_long_for_the_provider_is_compacted_and_retried() {
    let env = TestEnvironment::with_responses(json!([
        says("One."),
        too_long(),
        says("SUMMARY"),
        says("It fits."),
        too_long(),
        too_long(),
        too_long(),
        too_long(),
        too_long(),
        too_long(),
        too_long(),
    ]))
    .await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "first").await;
    assert_eq!(peer.run_turn(&thread, "second").await["status"], "completed");
    assert_eq!(env.model().requests().len(), 4);
    let failed = peer.run_turn(&thread, "third").await;
    assert_eq!(failed["status"], "failed");
    for attempt in 1..=5 {
        let notice = peer.expect_where("error", |notice| notice["willRetry"] == true).await;
        let message = notice["error"]["message"].as_str().unwrap();
        let expected = format!("(retry {attempt} of 5 with less of the oldest history)");
        assert!(message.contains(&expected), "{message}");
    }
    assert_eq!(failed["error"]["agentErrorInfo"], "ContextWindowExceeded");
    let read = peer.call("thread/read", json!({ "threadId": thread })).await;
    assert_eq!(read["thread"]["status"]["type"], "systemError");
}

/// The compaction's item as it was sent and as it is stored.
async fn compaction_item(peer: &mut testkit::Peer, thread: &str) -> Value {
    let item = peer.item("contextCompaction").await;
    let read = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    let turns = read["thread"]["turns"].as_array().unwrap();
    let items = turns.iter().flat_map(|turn| turn["items"].as_array().unwrap());
    assert!(items.clone().any(|kept| *kept == item), "{read}");
    item
}

#[tokio::test]
async fn a_failed_compaction_is_reported_in_its_item_and_turn() {
    let broken = json!({ "steps": [{ "error": { "code": "server_error", "message": "Oops." } }] });
    let slow = json!({ "steps": [{ "delay_ms": 60_000 }, { "message": "SUMMARY" }] });
    for (answer, status, reason) in [
        (says(" "), "failed", "gave no summary"),
        (broken, "failed", "Oops."),
        (slow, "interrupted", "the turn was interrupted"),
        (says("SUMMARY"), "completed", ""),
    ] {
        let env = TestEnvironment::with_responses(json!([says("One."), answer])).await;
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        peer.run_turn(&thread, "first").await;
        peer.forget();
        peer.call("thread/compact/start", json!({ "threadId": thread })).await;
        let turn = peer.expect("turn/started").await["turn"]["id"].as_str().unwrap().to_owned();
        if status == "interrupted" {
            peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
        }
        let turn = peer.turn_end(&turn).await;
        assert_eq!(turn["status"], status);
        let item = compaction_item(&mut peer, &thread).await;
        let notice = item["reason"].as_str().unwrap_or_default();
        assert!(notice.contains(reason), "{item}");
        assert_eq!(item.get("reason").is_none(), status == "completed", "{item}");
        if status == "failed" {
            assert_eq!(turn["error"]["message"], notice);
        }
    }
}

// Effect of `compact_prompt`, `experimental_compact_prompt_file`.
#[tokio::test]
async fn the_configured_prompt_asks_for_the_summary() {
    let script = json!([says("One."), says("SUMMARY")]);
    let env = TestEnvironment::with_responses(script.clone()).await;
    configure(&env, "compact_prompt = \"SUM IT UP, PLEASE\"");
    let compacted = async |env: &TestEnvironment| {
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        peer.run_turn(&thread, "first").await;
        peer.call("thread/compact/start", json!({ "threadId": thread })).await;
        peer.item("contextCompaction").await;
        env.model().raw_requests().pop().unwrap()
    };
    assert!(compacted(&env).await.contains("SUM IT UP, PLEASE"));
    let env = TestEnvironment::with_responses(script.clone()).await;
    let file = env.root().join("prompt.md");
    std::fs::write(&file, "FROM THE FILE").unwrap();
    configure(&env, &format!("experimental_compact_prompt_file = \"{}\"", file.display()));
    assert!(compacted(&env).await.contains("FROM THE FILE"));
    std::fs::remove_file(&file).unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let fault = peer.refused("thread/start", json!({})).await;
    assert!(fault.message.contains("experimental_compact_prompt_file"), "{fault:?}");
}

#[tokio::test]
async fn a_compaction_is_interrupted_or_joined() {
    let slow = json!({ "steps": [{ "delay_ms": 60_000 }, { "message": "SUMMARY" }] });
    let env = TestEnvironment::with_responses(json!([says("One."), slow, says("Two.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "first").await;
    peer.call("thread/compact/start", json!({ "threadId": thread })).await;
    let started =
        peer.expect_where("item/started", |params| params["item"]["type"] == "contextCompaction");
    let turn = started.await["turnId"].as_str().unwrap().to_owned();
    let fault = peer.refused("thread/compact/start", json!({ "threadId": thread })).await;
    assert!(fault.message.contains("turn is running"), "{fault:?}");
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    assert_eq!(peer.turn_end(&turn).await["status"], "interrupted");
    assert_eq!(peer.run_turn(&thread, "second").await["status"], "completed");
    let last = env.model().raw_requests().pop().unwrap();
    assert!(last.contains("One."), "the history is as it was");
}

#[tokio::test]
async fn the_deprecated_notification_follows_unless_a_client_opted_out() {
    let env = TestEnvironment::with_responses(json!([
        says("One."),
        too_long(),
        says("SUMMARY."),
        says("Two.")
    ]));
    let env = env.await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let opted_out = json!({ "optOutNotificationMethods": ["thread/compacted"] });
    let mut other = server.connect_with(opted_out).await;
    other.call("thread/resume", json!({ "threadId": thread })).await;
    peer.run_turn(&thread, "One?").await;
    let turn = peer.run_turn(&thread, "Two?").await;
    let params = peer.expect("thread/compacted").await;
    assert_eq!(params, json!({ "threadId": thread, "turnId": turn["id"] }));
    other.settled().await;
    let lines = other.raw_lines().join("\n");
    assert!(lines.contains("contextCompaction") && !lines.contains("thread/compacted"), "{lines}");
}
