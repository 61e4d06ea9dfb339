//! Goals (experimental; specification: Goal).

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::{calls, runs, says};

async fn env(responses: Value) -> TestEnvironment {
    let mut env = TestEnvironment::with_responses(responses).await;
    env.config_overrides.push("features.goals=true".to_owned());
    env
}

fn experimental() -> Value {
    json!({ "experimentalApi": true })
}

// Effect of `features.goals`.
#[tokio::test]
async fn the_feature_and_the_capability_are_needed() {
    let plain = TestEnvironment::with_responses(json!([says("x")])).await;
    let server = plain.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = peer.start_thread(json!({})).await;
    for method in ["thread/goal/set", "thread/goal/get", "thread/goal/clear"] {
        let fault = peer.refused(method, json!({ "threadId": thread, "objective": "x" })).await;
        assert!(fault.message.contains("features.goals"), "{fault:?}");
    }
    let env = env(json!([says("x")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let fault = peer.refused("thread/goal/get", json!({ "threadId": "x" })).await;
    assert_eq!(fault.message, "thread/goal/get requires experimentalApi capability");
}

// Effect of `features.goals`.
#[tokio::test]
async fn a_goal_is_worked_on_until_it_is_reached() {
    let usage =
        json!({ "usage": { "input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 10 } });
    let with_usage = |mut response: Value| {
        response["steps"].as_array_mut().unwrap().push(usage.clone());
        response
    };
    let env = env(json!([
        with_usage(runs("true")),
        with_usage(says("Half way.")),
        with_usage(calls("update_goal", json!({ "status": "complete" }))),
        says("Reached."),
    ]))
    .await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = peer
        .start_thread(json!({ "sandbox": "dangerFullAccess", "approvalPolicy": "never" }))
        .await;
    assert_eq!(
        peer.call("thread/goal/get", json!({ "threadId": thread })).await,
        json!({ "goal": null })
    );
    let set = json!({ "threadId": thread, "objective": " Make it green. ", "tokenBudget": 10_000 });
    let goal = peer.call("thread/goal/set", set).await["goal"].clone();
    assert_eq!(goal["objective"], "Make it green.");
    assert_eq!(goal["status"], "active");
    assert_eq!((&goal["tokensUsed"], &goal["tokenBudget"]), (&json!(0), &json!(10_000)));
    let reached = peer.expect_where("thread/goal/updated", |params| {
        params["goal"]["status"] == "complete" && params["goal"]["tokensUsed"] == 210
    });
    assert_eq!(reached.await["threadId"], thread);
    peer.expect_where("item/completed", |params| params["item"]["text"] == "Reached.").await;
    peer.expect_where("thread/status/changed", |params| params["status"]["type"] == "idle").await;
    let first = env.model().raw_requests()[0].clone();
    assert!(first.contains("Make it green.") && first.contains("0 of 10000 tokens"), "{first}");
    let read = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    assert_eq!(read["thread"]["turns"].as_array().unwrap().len(), 2);
    assert_eq!(read["thread"]["preview"], "Make it green.");
    // The goal survives a restart, whether or not the thread is loaded.
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let kept = peer.call("thread/goal/get", json!({ "threadId": thread })).await;
    assert_eq!(
        (&kept["goal"]["status"], &kept["goal"]["tokensUsed"]),
        (&json!("complete"), &json!(210))
    );
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(peer.call("thread/goal/get", json!({ "threadId": thread })).await, kept);
    let cleared = peer.call("thread/goal/clear", json!({ "threadId": thread })).await;
    assert_eq!(cleared, json!({ "cleared": true }));
    peer.expect("thread/goal/cleared").await;
    let again = peer.call("thread/goal/clear", json!({ "threadId": thread })).await;
    assert_eq!(again, json!({ "cleared": false }));
}

#[tokio::test]
async fn bad_goals_are_refused_by_name() {
    let env = env(json!([says("x")])).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = peer.start_thread(json!({})).await;
    for (change, member) in [
        (json!({ "objective": "" }), "`objective`"),
        (json!({ "objective": "   " }), "`objective`"),
        (json!({ "objective": "é".repeat(4001) }), "`objective`"),
        (json!({ "objective": "x", "tokenBudget": 0 }), "`tokenBudget`"),
        (json!({ "status": "active" }), "objective"),
    ] {
        let mut params = change;
        params["threadId"] = json!(thread);
        let fault = peer.refused("thread/goal/set", params).await;
        assert!(fault.message.contains(member), "{fault:?}");
    }
    let goal = peer.call("thread/goal/get", json!({ "threadId": thread })).await;
    assert_eq!(goal, json!({ "goal": null }), "nothing changed");
    let params = json!({ "threadId": thread, "objective": "é".repeat(4000), "status": "paused" });
    let goal = peer.call("thread/goal/set", params).await;
    assert_eq!(goal["goal"]["status"], "paused");
    assert!(env.model().requests().is_empty(), "a paused goal starts nothing");
}
