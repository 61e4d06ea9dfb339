//! Forks and rollbacks of threads (specification: Threads; `thread/fork`, `thread/rollback`).

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, assert_lines};

use crate::{runs, says};

fn talkative() -> Value {
    json!({ "responses": [says("Yes: {{last_user_text}}")], "on_exhausted": "repeat_last" })
}

/// The texts of the user's messages in the last request to the model.
fn asked(env: &TestEnvironment) -> Vec<String> {
    let requests = env.model().requests();
    let input = requests.last().unwrap()["input"].as_array().unwrap().clone();
    let texts = input.iter().filter(|item| item["role"] == "user");
    let texts = texts.filter_map(|item| item["content"][0]["text"].as_str().map(str::to_owned));
    texts.filter(|text| !text.contains("<environment_context>")).collect()
}

pub(crate) async fn questions(peer: &mut Peer, thread: &str) -> Vec<String> {
    let params = json!({ "threadId": thread, "includeTurns": true });
    let read = peer.call("thread/read", params).await;
    let turns = read["thread"]["turns"].as_array().unwrap().clone();
    let first = |turn: &Value| turn["items"][0]["content"][0]["text"].as_str().unwrap().to_owned();
    turns.iter().map(first).collect()
}

#[tokio::test]
async fn a_fork_and_its_parent_are_independent() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let root = peer.start_thread(json!({})).await;
    let mut turns = Vec::new();
    for text in ["one", "two", "three"] {
        turns.push(peer.run_turn(&root, text).await["id"].clone());
    }
    peer.settled().await;
    peer.forget();
    let forked = peer.call("thread/fork", json!({ "threadId": root })).await;
    let notice = peer.expect("thread/started").await;
    assert_lines(peer.transcript(), "> thread/fork\n< thread/fork\n* thread/started thread2");
    let thread = &forked["thread"];
    assert_eq!(notice["thread"], *thread);
    let fork = thread["id"].as_str().unwrap().to_owned();
    assert_ne!(fork, root);
    assert_eq!((&thread["sessionId"], &thread["forkedFromId"]), (&json!(root), &json!(root)));
    assert_eq!((&thread["preview"], &thread["name"]), (&json!("one"), &Value::Null));

    peer.run_turn(&fork, "four").await;
    assert_eq!(asked(&env), ["one", "two", "three", "four"]);
    peer.run_turn(&root, "other four").await;
    assert_eq!(asked(&env), ["one", "two", "three", "other four"]);
    assert_eq!(questions(&mut peer, &fork).await, ["one", "two", "three", "four"]);

    // A fork of a fork, from an earlier turn, with other settings.
    let params = json!({ "threadId": fork, "lastTurnId": turns[1], "model": "gpt-5-mini" });
    let second = peer.call("thread/fork", params).await;
    assert_eq!(second["model"], "gpt-5-mini");
    assert_eq!(second["thread"]["sessionId"], root, "the root's");
    assert_eq!(second["thread"]["forkedFromId"], fork);
    let second = second["thread"]["id"].as_str().unwrap().to_owned();
    peer.run_turn(&second, "new three").await;
    assert_eq!(asked(&env), ["one", "two", "new three"]);

    // All of it survives a restart.
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect().await;
    assert_eq!(questions(&mut peer, &second).await, ["one", "two", "new three"]);
    assert_eq!(questions(&mut peer, &root).await, ["one", "two", "three", "other four"]);
    peer.call("thread/resume", json!({ "threadId": fork })).await;
    peer.run_turn(&fork, "five").await;
    assert_eq!(asked(&env), ["one", "two", "three", "four", "five"]);
}

#[tokio::test]
async fn a_fork_of_a_running_thread_leaves_the_running_turn_out() {
    let env =
        TestEnvironment::with_responses(json!([says("Yes."), runs("touch made"), says("So.")]))
            .await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer.start_thread(json!({ "approvalPolicy": "unlessTrusted" })).await;
    peer.run_turn(&thread, "one").await;
    let running = peer.start_turn(&thread, "two").await;
    let approval = peer.asked("item/commandExecution/requestApproval").await;
    let fork = peer.call("thread/fork", json!({ "threadId": thread })).await;
    assert_eq!(fork["thread"]["status"]["type"], "idle");
    let id = fork["thread"]["id"].as_str().unwrap().to_owned();
    assert_eq!(questions(&mut peer, &id).await, ["one"]);
    let params = json!({ "threadId": thread, "lastTurnId": running });
    let fault = peer.refused("thread/fork", params).await;
    assert!(fault.message.contains("still running"), "{fault:?}");
    let params = json!({ "threadId": thread, "lastTurnId": "nothing" });
    peer.refused("thread/fork", params).await;
    peer.decide(&approval, "decline").await;
    peer.turn_end(&running).await;
}

#[tokio::test]
async fn an_ephemeral_fork_leaves_no_trace() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "one").await;
    let fork = peer.call("thread/fork", json!({ "threadId": thread, "ephemeral": true })).await;
    assert_eq!(fork["thread"]["ephemeral"], true);
    let fork = fork["thread"]["id"].as_str().unwrap().to_owned();
    peer.run_turn(&fork, "two").await;
    assert_eq!(asked(&env), ["one", "two"]);
    let page = peer.call("thread/list", json!({})).await;
    assert_eq!(page["data"].as_array().unwrap().len(), 1);
    let fault = peer.refused("thread/fork", json!({ "threadId": fork })).await;
    assert!(fault.message.contains("ephemeral"), "{fault:?}");
    let fault = peer.refused("thread/rollback", json!({ "threadId": fork, "numTurns": 1 })).await;
    assert!(fault.message.contains("ephemeral"), "{fault:?}");
    peer.refused("thread/fork", json!({ "threadId": "unknown" })).await;
}

#[tokio::test]
async fn a_rollback_removes_turns_permanently() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    for text in ["one", "two", "three"] {
        peer.run_turn(&thread, text).await;
    }
    let back = |turns: Value| json!({ "threadId": thread, "numTurns": turns });
    for (turns, expected) in
        [(json!(0), "numTurns"), (json!(4), "3 turns, so 4"), (json!(-1), "numTurns")]
    {
        let fault = peer.refused("thread/rollback", back(turns)).await;
        assert!(fault.message.contains(expected), "{fault:?}");
    }
    let rolled = peer.call("thread/rollback", back(json!(2))).await;
    assert_eq!(rolled["thread"]["turns"].as_array().unwrap().len(), 1);
    assert_eq!(questions(&mut peer, &thread).await, ["one"]);
    peer.run_turn(&thread, "new two").await;
    assert_eq!(asked(&env), ["one", "new two"]);
    let last = env.model().raw_requests().pop().unwrap();
    assert_eq!(last.matches("<environment_context>").count(), 1, "sent once");
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let fault = peer.refused("thread/rollback", back(json!(1))).await;
    assert!(fault.message.contains("thread/resume"), "{fault:?}");
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    peer.run_turn(&thread, "three").await;
    assert_eq!(asked(&env), ["one", "new two", "three"]);
    let rolled = peer.call("thread/rollback", back(json!(3))).await;
    assert_eq!(rolled["thread"]["turns"], json!([]));
    // The model gets its environment again, because the rollback dropped that message too.
    peer.run_turn(&thread, "afresh").await;
    assert_eq!(asked(&env), ["afresh"]);
    let requests = env.model().raw_requests();
    assert!(requests.last().unwrap().contains("<environment_context>"));
}

#[tokio::test]
async fn a_running_turn_is_not_rolled_back() {
    let env = TestEnvironment::with_responses(json!([runs("touch made"), says("So.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({ "approvalPolicy": "unlessTrusted" })).await;
    let turn = peer.start_turn(&thread, "one").await;
    let approval = peer.asked("item/commandExecution/requestApproval").await;
    let fault = peer.refused("thread/rollback", json!({ "threadId": thread, "numTurns": 1 })).await;
    assert!(fault.message.contains("turn is running"), "{fault:?}");
    peer.decide(&approval, "decline").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
}
