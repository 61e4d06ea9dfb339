//! Threads that another server of the same home has open: used through it, by clients of both, and taken over when it
//! ends.

mod links;
mod passing;
mod road;

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, TestServer};

use crate::{runs, says};
use road::Road;

const COMMAND: &str = "item/commandExecution/requestApproval";

fn two() -> Value {
    json!([says("One."), says("Two."), says("Three."), says("Four.")])
}

/// A client of each server on one thread, which the first server has open.
async fn joined(first: &TestServer, second: &TestServer, params: Value) -> (Peer, Peer, String) {
    let mut here = first.connect().await;
    let mut there = second.connect().await;
    let thread = here.start_thread(params).await;
    here.run_turn(&thread, "Begin.").await;
    let resumed = there.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(resumed["thread"]["id"], thread.as_str());
    here.forget();
    there.forget();
    (here, there, thread)
}

fn methods(peer: &Peer) -> Vec<String> {
    let read = |line: &String| {
        serde_json::from_str::<Value>(line).unwrap()["method"].as_str().map(str::to_owned)
    };
    peer.raw_lines().iter().filter_map(read).collect()
}

#[tokio::test]
async fn clients_of_two_servers_use_one_thread() {
    let env = TestEnvironment::with_responses(two()).await;
    let (first, second) = (env.start(), env.start());
    let (mut here, mut there, thread) = joined(&first, &second, json!({})).await;

    // Each sees the turns of the other.
    let turn = there.start_turn(&thread, "From there.").await;
    for peer in [&mut here, &mut there] {
        assert_eq!(peer.turn_end(&turn).await["status"], "completed");
        assert_eq!(peer.item("agentMessage").await["text"], "Two.");
    }
    let turn = here.start_turn(&thread, "From here.").await;
    for peer in [&mut here, &mut there] {
        assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    }
    // The response comes before the events that it causes.
    let lines = there.raw_lines();
    let response = lines.iter().position(|line| line.contains("\"result\"")).unwrap();
    let started = lines.iter().position(|line| line.contains("turn/started")).unwrap();
    assert!(response < started, "{lines:?}");

    // What needs the thread's server goes there, whether the client has joined the thread or not.
    let mut visitor = second.connect().await;
    visitor.call("thread/name/set", json!({ "threadId": thread, "name": "Ours" })).await;
    here.expect_where("thread/name/updated", |it| it["threadName"] == "Ours").await;
    there.expect_where("thread/name/updated", |it| it["threadName"] == "Ours").await;
    let fault = there
        .refused("turn/steer", json!({ "threadId": thread, "expectedTurnId": "x", "input": [] }))
        .await;
    assert!(!fault.message.contains("open in another server"), "{fault:?}");
    there.call("thread/unsubscribe", json!({ "threadId": thread })).await;
    let before = methods(&there).len();
    here.run_turn(&thread, "Alone.").await;
    there.call("thread/list", json!({})).await;
    let since = methods(&there).split_off(before);
    assert!(!since.iter().any(|method| method.starts_with("turn/")), "{since:?}");
}

#[tokio::test]
async fn either_client_answers_a_question() {
    for answers_there in [true, false] {
        let responses = json!([says("One."), runs("touch made"), says("Done.")]);
        let env = TestEnvironment::with_responses(responses).await;
        let (first, second) = (env.start(), env.start());
        let params = json!({ "approvalPolicy": "unlessTrusted", "sandbox": "readOnly" });
        let (mut here, mut there, thread) = joined(&first, &second, params).await;
        let turn = there.start_turn(&thread, "Run it.").await;
        let asked_here = here.asked(COMMAND).await;
        let asked_there = there.asked(COMMAND).await;
        assert_eq!(asked_here.params["itemId"], asked_there.params["itemId"]);
        let (answering, asked, other, open) = match answers_there {
            true => (&mut there, asked_there, &mut here, asked_here),
            false => (&mut here, asked_here, &mut there, asked_there),
        };
        answering.decide(&asked, "decline").await;
        let resolved = other.expect("serverRequest/resolved").await;
        assert_eq!(resolved["requestId"], json!(open.id), "the id that this client knows");
        for peer in [&mut here, &mut there] {
            assert_eq!(peer.turn_end(&turn).await["status"], "completed");
        }
    }
}

#[tokio::test]
async fn a_server_that_ends_is_taken_over() {
    let responses = json!([says("One."), { "steps": [{ "delay_ms": 600_000 }, { "message": "Late." }] }, says("On.")]);
    let env = TestEnvironment::with_responses(responses).await;
    let (first, second) = (env.start(), env.start());
    let (here, mut there, thread) = joined(&first, &second, json!({})).await;
    let turn = there.start_turn(&thread, "Never ends.").await;
    there.expect("turn/started").await;
    drop(here);
    first.stop().await;
    assert_eq!(there.turn_end(&turn).await["status"], "interrupted");
    let warning = there.expect_where("warning", |it| it["threadId"] == thread.as_str()).await;
    assert!(
        warning["message"].as_str().unwrap().contains("this server goes on with it"),
        "{warning}"
    );
    assert_eq!(there.run_turn(&thread, "Go on.").await["status"], "completed");
}

#[tokio::test]
async fn a_thread_that_changes_hands_is_found_again() {
    let env = TestEnvironment::with_responses(two()).await;
    let (first, second, third) = (env.start(), env.start(), env.start());
    let (here, mut there, thread) = joined(&first, &second, json!({})).await;
    let mut last = third.connect().await;
    last.call("thread/resume", json!({ "threadId": thread })).await;
    drop(here);
    first.stop().await;
    // One of the two goes on with it, and the other one joins it there.
    for peer in [&mut there, &mut last] {
        let warning = peer.expect_where("warning", |it| it["threadId"] == thread.as_str()).await;
        assert!(warning["message"].as_str().unwrap().contains("goes on with"), "{warning}");
    }
    let turn = there.start_turn(&thread, "Go on.").await;
    for peer in [&mut there, &mut last] {
        assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    }
}

#[tokio::test]
async fn a_door_that_nobody_answers_is_an_error_in_time() {
    let env = TestEnvironment::with_responses(two()).await;
    let first = env.start();
    let mut here = first.connect().await;
    let thread = here.start_thread(json!({})).await;
    here.run_turn(&thread, "Begin.").await;
    let road = Road::before_the_door(&env);
    let second = env.start();
    let mut there = second.connect().await;
    road.hold();
    let resume = json!({ "threadId": thread });
    let id = there.send("thread/resume", resume.clone()).await;
    road.requested("initialize").await;
    tokio::time::pause();
    let fault = there.response(id).await.unwrap_err();
    tokio::time::resume();
    assert!(fault.message.contains("is open in another server (process "), "{fault:?}");
    // And without any door.
    std::fs::remove_dir_all(env.home().join("doors")).unwrap();
    let fault = there.refused("thread/resume", resume).await;
    assert!(fault.message.contains("use that server, or stop it first"), "{fault:?}");
}
