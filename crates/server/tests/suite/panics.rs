//! A thread whose actor panics: its clients are notified, its turn ends at once, and it can be
//! resumed.

use serde_json::json;
use testkit::TestEnvironment;

use crate::auto_review::{COMPLETED, STARTED, escalates, open, reviewed, script};
use crate::{runs, says};

#[tokio::test]
async fn a_panic_fails_the_turn_closes_the_thread_and_leaves_it_to_be_resumed() {
    for ephemeral in [false, true] {
        let env = TestEnvironment::with_responses(json!([
            runs("touch made"),
            says("Never."),
            says("On.")
        ]))
        .await;
        let server = env.start();
        let mut peer = server.connect().await;
        let mut other = server.connect().await;
        let start = json!({ "approvalPolicy": "unlessTrusted", "ephemeral": ephemeral });
        let thread = peer.start_thread(start).await;
        other.call("thread/resume", json!({ "threadId": thread })).await;
        let turn = peer.start_turn(&thread, "Begin.").await;
        let asked = peer.asked("item/commandExecution/requestApproval").await;
        env.clock.panic_next();
        peer.decide(&asked, "accept").await;
        for client in [&mut peer, &mut other] {
            let error = client.expect("error").await;
            assert_eq!((&error["turnId"], &error["willRetry"]), (&json!(turn), &json!(false)));
            let ended = client.turn_end(&turn).await;
            assert_eq!(ended["status"], "failed");
            let message = ended["error"]["message"].as_str().unwrap();
            assert!(message.contains("the clock is broken"), "{message}");
            assert!(message.contains("thread/resume"), "{message}");
            client.expect("serverRequest/resolved").await;
            let closed = client.expect("thread/closed").await;
            assert_eq!(closed["threadId"], json!(thread));
        }
        let read = json!({ "threadId": thread, "includeTurns": true });
        if ephemeral {
            other.refused("thread/read", read).await;
            continue;
        }
        let item = other
            .expect_where("item/completed", |notice| notice["item"]["type"] == "commandExecution");
        assert_eq!(item.await["item"]["status"], "failed");
        // The end is also stored at once.
        let stored = other.call("thread/read", read).await;
        let turns = &stored["thread"]["turns"];
        assert_eq!((&turns[0]["id"], &turns[0]["status"]), (&json!(turn), &json!("failed")));
        assert_eq!(stored["thread"]["status"]["type"], "notLoaded");
        assert!(!env.workspace().join("made").exists());
        other.call("thread/resume", json!({ "threadId": thread })).await;
        assert_eq!(other.run_turn(&thread, "Go on.").await["status"], "completed");
    }
}

#[tokio::test]
async fn callers_of_a_thread_that_panics_get_an_error_and_others_continue() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let other = peer.start_thread(json!({})).await;
    env.clock.panic_next();
    let input = json!([{ "type": "text", "text": "x" }]);
    let fault = peer.refused("turn/start", json!({ "threadId": thread, "input": input })).await;
    assert_eq!(
        (fault.code, &*fault.message),
        (-32600, "the thread is no longer loaded; call thread/resume")
    );
    peer.expect("thread/closed").await;
    assert_eq!(peer.run_turn(&other, "Hi.").await["status"], "completed");
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
}

#[tokio::test]
async fn a_review_ends_with_the_thread_that_panics() {
    let thread = [escalates("touch made"), says("On.")];
    let responses = script(&thread, &[json!({ "steps": ["idle"] })]);
    let env = TestEnvironment::with_responses(responses).await;
    let server = env.start();
    let (mut peer, thread) = open(&server, reviewed()).await;
    let turn = peer.start_turn(&thread, "Make the file.").await;
    let started = peer.expect(STARTED).await;
    env.clock.panic_next();
    let input = json!([{ "type": "text", "text": "x" }]);
    let steer = json!({ "threadId": thread, "expectedTurnId": turn, "input": input });
    peer.refused("turn/steer", steer).await;
    let completed = peer.expect(COMPLETED).await;
    assert_eq!(completed["reviewId"], started["reviewId"]);
    assert_eq!(completed["review"], json!({ "status": "aborted" }));
    assert!(completed["completedAtMs"].is_number(), "{completed}");
    assert_eq!(peer.turn_end(&turn).await["status"], "failed");
    peer.expect("thread/closed").await;
    let ends = peer.transcript().iter().filter(|line| line.contains(COMPLETED)).count();
    assert_eq!(ends, 1);
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(peer.run_turn(&thread, "Go on.").await["status"], "completed");
    assert!(!env.workspace().join("made").exists());
}
