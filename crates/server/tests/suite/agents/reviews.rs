//! Reviews of what agents do: the reviewer knows what the user wrote in the thread at the root, and
//! the clients of the root learn of the reviews.

use serde_json::{Value, json};

use super::{environment, spawn, wait};
use crate::auto_review::{COMPLETED, STARTED, answer, document, requests};
use crate::{calls, says};

#[tokio::test]
async fn a_review_of_an_agents_action_has_the_users_words_and_reaches_the_roots_clients() {
    let command = json!({ "cmd": "touch made", "sandbox_permissions": "require_escalated",
        "justification": "It must." });
    let environment = environment(vec![
        vec![spawn("Make it."), wait(&["Ada"], 20_000), says("Done.")],
        vec![calls("exec_command", command), says("Refused.")],
        vec![says(&answer("deny", "high", "unknown"))],
    ])
    .await;
    let server = environment.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer
        .start_thread(json!({ "approvalPolicy": "on-request",
            "approvalsReviewer": "auto_review" }))
        .await;
    let mut gone = server.connect().await;
    gone.call("thread/resume", json!({ "threadId": thread })).await;
    let turn = peer.start_turn(&thread, "Touch the file made, please.").await;
    let started = peer.expect(STARTED).await;
    let agent = started["threadId"].as_str().unwrap().to_owned();
    assert_ne!(agent, thread);
    let completed = peer.expect(COMPLETED).await;
    assert_eq!(completed["review"]["status"], "denied");
    assert_eq!(
        (&completed["threadId"], &completed["reviewId"]),
        (&json!(agent), &started["reviewId"])
    );
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    gone.turn_end(&turn).await;
    for peer in [&peer, &gone] {
        for method in [STARTED, COMPLETED] {
            let is_about =
                |line: &&String| serde_json::from_str::<Value>(line).unwrap()["method"] == method;
            assert_eq!(peer.raw_lines().iter().filter(is_about).count(), 1, "{method}");
        }
    }
    let request = document(&requests(&environment)[0]);
    assert_eq!(request["user"]["messages"], json!([]), "{request}");
    let words = json!({ "messages": [{ "text": "Touch the file made, please." }] });
    assert_eq!(request["user"]["rootThread"], words);
    // The user can approve what was denied.
    let params = json!({ "threadId": agent, "event": completed });
    peer.call("thread/approveGuardianDeniedAction", params).await;
}

#[tokio::test]
async fn words_that_follow_count_too() {
    let command = json!({ "cmd": "touch made", "sandbox_permissions": "require_escalated",
        "justification": "It must." });
    let slow = json!({ "steps": [{ "delay_ms": 60_000 }, { "message": "late" }] });
    let environment = environment(vec![
        vec![spawn("Wait."), slow],
        vec![says("Ready."), calls("exec_command", command), says("Refused.")],
        vec![says(&answer("deny", "high", "unknown"))],
    ])
    .await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = peer
        .start_thread(json!({ "approvalPolicy": "on-request",
            "approvalsReviewer": "auto_review" }))
        .await;
    let turn = peer.start_turn(&thread, "Begin.").await;
    let announced = |params: &Value| params["thread"]["agentNickname"] == "Ada";
    let announced = peer.expect_where("thread/started", announced).await;
    let agent = announced["thread"]["id"].as_str().unwrap().to_owned();
    let resumed = peer.call("thread/resume", json!({ "threadId": agent })).await;
    let idle =
        |params: &Value| params["threadId"] == agent.as_str() && params["status"]["type"] == "idle";
    if resumed["thread"]["status"]["type"] != "idle" {
        peer.expect_where("thread/status/changed", idle).await;
    }
    let stop = json!([{ "type": "text", "text": "Stop, make no files." }]);
    let params = json!({ "threadId": thread, "expectedTurnId": turn, "input": stop });
    peer.call("turn/steer", params).await;
    peer.start_turn(&agent, "Go on.").await;
    peer.expect(COMPLETED).await;
    let request = document(&requests(&environment)[0]);
    let words = json!([{ "text": "Begin." }, { "text": "Stop, make no files." }]);
    assert_eq!(request["user"]["rootThread"]["messages"], words, "{request}");
    // A client wrote this in the agent's own thread; the agent's first input is not the user's.
    assert_eq!(request["user"]["messages"], json!([{ "text": "Go on." }]), "{request}");
}

#[tokio::test]
async fn a_warning_about_an_agents_reviewer_reaches_the_roots_clients() {
    let command = json!({ "cmd": "touch made", "sandbox_permissions": "require_escalated",
        "justification": "It must." });
    let environment = environment(vec![
        vec![spawn("Make it."), wait(&["Ada"], 20_000), says("Done.")],
        vec![calls("exec_command", command), says("Refused.")],
        vec![says("I approve.")],
    ])
    .await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = peer
        .start_thread(json!({ "approvalPolicy": "on-request",
            "approvalsReviewer": "auto_review" }))
        .await;
    let mut other = server.connect().await;
    other.call("thread/resume", json!({ "threadId": thread })).await;
    let turn = peer.start_turn(&thread, "Touch the file made, please.").await;
    for peer in [&mut peer, &mut other] {
        let completed = peer.expect(COMPLETED).await;
        let warned = peer.expect("guardianWarning").await;
        assert_ne!(warned["threadId"], thread.as_str());
        assert_eq!(warned["threadId"], completed["threadId"]);
        assert!(warned["message"].as_str().unwrap().contains("not the JSON object"), "{warned}");
        peer.turn_end(&turn).await;
        let is_about = |line: &&String| {
            serde_json::from_str::<Value>(line).unwrap()["method"] == "guardianWarning"
        };
        assert_eq!(peer.raw_lines().iter().filter(is_about).count(), 1);
    }
}

#[tokio::test]
async fn the_words_of_a_root_that_is_not_loaded_come_from_the_store() {
    let command = json!({ "cmd": "touch made", "sandbox_permissions": "require_escalated",
        "justification": "It must." });
    let tries = || calls("exec_command", command.clone());
    let denies = || says(&answer("deny", "high", "unknown"));
    let mut environment = environment(vec![
        vec![spawn("Wait."), wait(&["Ada"], 10_000), says("Ready."), says("Stopped.")],
        vec![says("Ready."), says("I will."), tries(), says("Refused."), tries(), says("Refused.")],
        vec![denies(), denies()],
    ])
    .await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let params = json!({ "approvalPolicy": "on-request", "approvalsReviewer": "auto_review" });
    let thread = peer.start_thread(params).await;
    peer.run_turn(&thread, "Touch the file made, please.").await;
    let spawned = super::parsed(&super::outputs(&environment, &thread)[0]);
    let agent = spawned["agent_id"].as_str().unwrap().to_owned();
    peer.call("thread/resume", json!({ "threadId": agent })).await;
    peer.run_turn(&agent, "Be careful.").await;
    environment.crash();
    drop(server);

    let server = environment.start();
    let mut peer = server.connect().await;
    peer.call("thread/resume", json!({ "threadId": agent })).await;
    peer.run_turn(&agent, "Go on.").await;
    let words = |at: usize| document(&requests(&environment)[at])["user"]["rootThread"].clone();
    let asked = json!({ "text": "Touch the file made, please." });
    assert_eq!(words(0), json!({ "messages": [asked] }));
    let own = document(&requests(&environment)[0])["user"]["messages"].clone();
    assert_eq!(own, json!([{ "text": "Be careful." }, { "text": "Go on." }]));
    // Loaded again, the root has called no agent, and is followed all the same.
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    peer.run_turn(&thread, "Stop.").await;
    peer.run_turn(&agent, "Go on.").await;
    assert_eq!(words(1), json!({ "messages": [asked, { "text": "Stop." }] }));
}
