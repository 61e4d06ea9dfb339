//! Failed commits: no event of any kind claims a change that was lost.

use rusqlite::Connection;
use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::says;

/// An environment whose model always gives this response.
async fn env(response: Value) -> TestEnvironment {
    let script = json!({ "responses": [response], "on_exhausted": "repeat_last" });
    let mut env = TestEnvironment::with_script(&script).await;
    env.config_overrides.push("features.goals=true".to_owned());
    env
}

/// Makes the store refuse this statement from now on.
fn refuse(env: &TestEnvironment, what: &str) {
    let database = Connection::open(env.home().join("threads.db")).unwrap();
    let trigger = format!(
        "CREATE TRIGGER refused BEFORE {what} BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
    );
    database.execute_batch(&trigger).unwrap();
}

fn relent(env: &TestEnvironment) {
    let database = Connection::open(env.home().join("threads.db")).unwrap();
    database.execute_batch("DROP TRIGGER refused").unwrap();
}

/// The methods sent since the last [`Peer::forget`], without warnings.
async fn sent(peer: &mut Peer) -> Vec<String> {
    let mut methods = peer.settled().await;
    methods.retain(|method| method != "warning");
    methods
}

async fn turns(env: &TestEnvironment, thread: &str) -> Vec<Value> {
    let server = env.start();
    let mut peer = server.connect().await;
    let read = json!({ "threadId": thread, "includeTurns": true });
    let mut read = peer.call("thread/read", read).await;
    let turns = read["thread"]["turns"].take();
    turns.as_array().cloned().unwrap_or_default()
}

#[tokio::test]
async fn a_turn_whose_start_cannot_be_stored_is_refused_without_events() {
    let mut env = env(says("Hello.")).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "First.").await;
    peer.settled().await;
    refuse(&env, "INSERT ON turn");
    peer.forget();
    let input = json!([{ "type": "text", "text": "Lost." }]);
    let fault = peer.refused("turn/start", json!({ "threadId": thread, "input": input })).await;
    assert!(fault.message.contains("the thread cannot be stored"), "{}", fault.message);
    assert!(fault.message.contains("the disk is full"), "{}", fault.message);
    assert_eq!(fault.code, -32603);
    let status = peer.expect("thread/status/changed").await;
    assert_eq!(status["status"]["type"], "systemError");
    assert_eq!(sent(&mut peer).await, [""; 0]);
    relent(&env);
    assert_eq!(peer.run_turn(&thread, "Again.").await["status"], "completed");
    env.crash();
    let statuses: Vec<Value> =
        turns(&env, &thread).await.iter().map(|turn| turn["status"].clone()).collect();
    assert_eq!(statuses, ["completed", "completed"]);
}

#[tokio::test]
async fn a_turn_whose_end_cannot_be_stored_has_failed() {
    let mut env = env(says("Hello.")).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "First.").await;
    refuse(&env, "UPDATE OF status ON turn WHEN NEW.status = 1");
    let turn = peer.start_turn(&thread, "Lost.").await;
    let ended = peer.turn_end(&turn).await;
    assert_eq!(ended["status"], "failed");
    let error = ended["error"]["message"].as_str().unwrap();
    assert!(error.contains("the thread cannot be stored"), "{error}");
    peer.expect_where("thread/status/changed", |notice| notice["status"]["type"] == "systemError")
        .await;
    // The failure itself could be stored.
    env.crash();
    assert_eq!(turns(&env, &thread).await[1]["status"], "failed");
}

#[tokio::test]
async fn an_item_that_cannot_be_stored_is_not_reported_as_complete() {
    let mut env = env(says("Hello.")).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "First.").await;
    peer.settled().await;
    refuse(&env, "INSERT ON item WHEN NEW.kind = 'agentMessage'");
    peer.forget();
    let turn = peer.start_turn(&thread, "Lost.").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "failed");
    peer.settled().await;
    let complete = peer.transcript().iter().filter(|line| line.contains("item/completed"));
    let complete: Vec<&String> = complete.collect();
    assert!(complete.iter().all(|line| !line.contains("agentMessage")), "{complete:?}");
    env.crash();
    let stored = turns(&env, &thread).await;
    let items = stored[1]["items"].as_array().unwrap();
    assert!(items.iter().all(|item| item["type"] != "agentMessage"), "{items:?}");
    assert_ne!(stored[1]["status"], "completed");
}

#[tokio::test]
async fn facts_that_cannot_be_stored_are_not_sent() {
    let usage = json!({ "input_tokens": 100, "output_tokens": 20, "total_tokens": 120 });
    let response = json!({ "steps": [{ "message": "Hm." }, { "usage": usage }] });
    let env = env(response).await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "First.").await;
    peer.settled().await;
    refuse(&env, "UPDATE OF extra ON thread");
    peer.forget();
    let goal = json!({ "threadId": thread, "objective": "Be done." });
    let fault = peer.refused("thread/goal/set", goal).await;
    assert!(fault.message.contains("the thread cannot be stored"), "{}", fault.message);
    assert!(!sent(&mut peer).await.contains(&"thread/goal/updated".to_owned()));
    relent(&env);
    refuse(&env, "UPDATE OF token_usage ON thread WHEN NEW.token_usage IS NOT NULL");
    peer.forget();
    let turn = peer.start_turn(&thread, "Lost.").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "failed");
    assert!(!sent(&mut peer).await.contains(&"thread/tokenUsage/updated".to_owned()));
}

#[tokio::test]
async fn an_end_that_could_not_be_stored_is_stored_once_the_store_works_again() {
    // The first operation once the store works again: a read, the next turn, or unloading the
    // thread.
    for next in ["thread/turns/list", "thread/read", "turn/start", "unload"] {
        let env = env(says("Hello.")).await;
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        peer.run_turn(&thread, "First.").await;
        refuse(&env, "UPDATE OF status ON turn");
        let turn = peer.start_turn(&thread, "Lost.").await;
        let ended = peer.turn_end(&turn).await;
        assert_eq!(ended["status"], "failed");
        peer.settled().await;
        relent(&env);
        let shown = match next {
            "turn/start" => {
                let run = peer.run_turn(&thread, "Again.").await;
                assert_eq!(run["status"], "completed");
                None
            }
            "unload" => None,
            "thread/read" => {
                let params = json!({ "threadId": thread, "includeTurns": true });
                Some(peer.call(next, params).await["thread"]["turns"][1].take())
            }
            _ => {
                let params = json!({ "threadId": thread, "sortDirection": "asc" });
                Some(peer.call(next, params).await["data"][1].take())
            }
        };
        if let Some(shown) = shown {
            assert_eq!(
                (&shown["id"], &shown["status"]),
                (&json!(turn), &json!("failed")),
                "{next}"
            );
        }
        server.stop().await;
        let stored = turns(&env, &thread).await[1].take();
        assert_eq!((&stored["id"], &stored["status"]), (&json!(turn), &json!("failed")), "{next}");
        assert_eq!(stored["error"]["message"], ended["error"]["message"], "{next}");
    }
}

#[tokio::test]
async fn a_failure_of_the_store_is_an_internal_error_for_every_method() {
    let env = env(says("Hello.")).await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "First.").await;
    refuse(&env, "INSERT ON history");
    let item = json!({ "type": "message", "role": "assistant",
        "content": [{ "type": "output_text", "text": "x" }] });
    let input = json!([{ "type": "text", "text": "x" }]);
    for (method, params) in [
        ("thread/inject_items", json!({ "threadId": thread, "items": [item] })),
        ("turn/start", json!({ "threadId": thread, "input": input })),
    ] {
        let fault = peer.refused(method, params).await;
        assert_eq!(fault.code, -32603, "{method}: {fault:?}");
        assert!(fault.message.contains("the disk is full"), "{method}: {fault:?}");
    }
}
