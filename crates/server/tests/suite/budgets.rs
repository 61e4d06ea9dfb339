//! Budgets of turns: `maxTotalTokens` (experimental) and the limits below `agents`.

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::{calls, runs, says};

/// A response that uses 100 tokens.
fn costs_100(mut response: Value) -> Value {
    let usage = json!({ "usage": { "input_tokens": 90, "output_tokens": 10 } });
    response["steps"].as_array_mut().unwrap().push(usage);
    response
}

async fn thread(peer: &mut Peer) -> String {
    peer.start_thread(json!({ "sandbox": "dangerFullAccess", "approvalPolicy": "never" })).await
}

fn turn(thread: &str, max_total_tokens: impl Into<Value>) -> Value {
    let input = json!([{ "type": "text", "text": "Work." }]);
    json!({ "threadId": thread, "input": input, "maxTotalTokens": max_total_tokens.into() })
}

fn experimental() -> Value {
    json!({ "experimentalApi": true })
}

#[tokio::test]
async fn no_request_is_sent_when_the_tokens_are_used_up() {
    let env = TestEnvironment::with_responses(json!([
        costs_100(runs("true")),
        costs_100(runs("true")),
        costs_100(runs("true")),
        costs_100(says("Never said.")),
    ]))
    .await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = thread(&mut peer).await;
    let ended = peer.run_turn_with(turn(&thread, 240)).await;
    assert_eq!(ended["status"], "failed", "{ended}");
    let error = &ended["error"];
    assert_eq!(error["agentErrorInfo"], "UsageLimitExceeded");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("240 tokens") && message.contains("300 used"), "{message}");
    let requests = env.model().raw_requests();
    assert_eq!(requests.len(), 3);
    // Of 240 tokens, 100 and then 200 were used when these were sent.
    assert!(!requests[1].contains("<budget>"));
    assert!(requests[2].contains("200 of 240 tokens"), "{}", requests[2]);
    // Each turn has a budget of its own, and the notice is not part of the history.
    let ended = peer.run_turn(&thread, "Again.").await;
    assert_eq!(ended["status"], "completed", "{ended}");
    assert!(!env.model().raw_requests()[3].contains("<budget>"));
}

// Effect of `agents.max_total_tokens`.
#[tokio::test]
async fn the_lower_limit_of_request_and_configuration_applies() {
    for (configured, requested, limit) in [(150, 1_000, "150 tokens"), (1_000, 150, "150 tokens")] {
        let responses = json!([costs_100(runs("true")), costs_100(runs("true"))]);
        let mut env = TestEnvironment::with_responses(responses).await;
        env.config_overrides.push(format!("agents.max_total_tokens={configured}"));
        let server = env.start();
        let mut peer = server.connect_with(experimental()).await;
        let thread = thread(&mut peer).await;
        let ended = peer.run_turn_with(turn(&thread, requested)).await;
        let message = ended["error"]["message"].as_str().unwrap();
        assert!(message.contains(limit), "{message}");
        assert_eq!(env.model().requests().len(), 2);
    }
}

#[tokio::test]
async fn a_response_that_needs_no_further_request_may_pass_the_limit() {
    let env = TestEnvironment::with_responses(json!([costs_100(says("Done."))])).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = thread(&mut peer).await;
    let ended = peer.run_turn_with(turn(&thread, 1)).await;
    assert_eq!(ended["status"], "completed", "{ended}");
}

#[tokio::test]
async fn a_turn_that_joins_can_lower_the_limit() {
    let asks = calls("exec_command", json!({ "cmd": "read line", "yield_time_ms": 250 }));
    let env = TestEnvironment::with_responses(json!([
        costs_100(asks),
        costs_100(runs("true")),
        costs_100(says("Never said.")),
    ]))
    .await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = thread(&mut peer).await;
    let first = peer.call("turn/start", turn(&thread, 1_000)).await["turn"]["id"].clone();
    peer.expect_where("item/started", |params| params["item"]["type"] == "commandExecution").await;
    peer.call("turn/start", turn(&thread, 150)).await;
    let ended = peer.turn_end(first.as_str().unwrap()).await;
    let message = ended["error"]["message"].as_str().unwrap();
    assert!(message.contains("150 tokens"), "{message}");
    assert_eq!(env.model().requests().len(), 2);
}

// Effect of `agents.max_total_seconds`.
#[tokio::test]
async fn everything_stops_when_the_time_is_over() {
    let mut env =
        TestEnvironment::with_responses(json!([runs("sleep 1000"), says("Never said.")])).await;
    env.config_overrides.push("agents.max_total_seconds=1".to_owned());
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = thread(&mut peer).await;
    let ended = peer.run_turn(&thread, "Sleep.").await;
    assert_eq!(ended["status"], "failed");
    let message = ended["error"]["message"].as_str().unwrap();
    assert!(message.contains("agents.max_total_seconds"), "{message}");
    assert_eq!(env.model().requests().len(), 1);
}

#[tokio::test]
async fn a_limit_is_a_positive_number_of_an_experimental_client() {
    let env = TestEnvironment::with_responses(json!([says("x")])).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let id = thread(&mut peer).await;
    for bad in [json!(0), json!(-5), json!("100"), json!(1.5)] {
        let fault = peer.refused("turn/start", turn(&id, bad)).await;
        assert!(fault.message.contains("maxTotalTokens"), "{fault:?}");
    }
    let mut plain = server.connect().await;
    let fault = plain.refused("turn/start", turn(&id, 10)).await;
    assert!(fault.message.contains("experimentalApi"), "{fault:?}");
    assert!(env.model().requests().is_empty());
}

#[tokio::test]
async fn a_response_that_is_cut_off_is_charged() {
    let cut = json!({ "steps": [{ "message": "Half of" }, { "cut": "" }] });
    let mut env = TestEnvironment::with_responses(json!([cut, says("Never said.")])).await;
    env.config_overrides.push("model_providers.scripted.stream_max_retries=3".to_owned());
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = thread(&mut peer).await;
    let ended = peer.run_turn_with(turn(&thread, 100)).await;
    let message = ended["error"]["message"].as_str().unwrap();
    assert!(message.contains("100 tokens"), "{message}");
    assert_eq!(env.model().requests().len(), 1);
}

#[tokio::test]
async fn a_request_that_the_provider_refuses_costs_nothing() {
    let busy = json!({ "steps": [{ "error": { "status": 503, "message": "Later.",
        "headers": { "retry-after-ms": "1" } } }] });
    let mut env = TestEnvironment::with_responses(json!([busy, busy, says("Now.")])).await;
    env.config_overrides.push("model_providers.scripted.request_max_retries=3".to_owned());
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = thread(&mut peer).await;
    let ended = peer.run_turn_with(turn(&thread, 1)).await;
    assert_eq!(ended["status"], "completed", "{ended}");
}

#[tokio::test]
async fn turns_that_continue_a_goal_stay_within_the_budget_of_the_turn_before() {
    let mut env = TestEnvironment::with_responses(json!([
        costs_100(runs("true")),
        costs_100(says("Half way.")),
        costs_100(runs("true")),
        costs_100(says("Never said before the next turn.")),
    ]))
    .await;
    env.config_overrides.push("features.goals=true".to_owned());
    env.config_overrides.push("agents.max_total_tokens=250".to_owned());
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = thread(&mut peer).await;
    peer.call("thread/goal/set", json!({ "threadId": thread, "objective": "All green." })).await;
    let first = peer.expect("turn/completed").await;
    assert_eq!(first["turn"]["status"], "completed", "{first}");
    let second = peer.expect("turn/completed").await;
    let message = second["turn"]["error"]["message"].as_str().unwrap();
    assert!(message.contains("250 tokens") && message.contains("300 used"), "{message}");
    assert_eq!(env.model().requests().len(), 3);
    // A turn that a client starts has a budget of its own.
    let ended = peer.run_turn(&thread, "Go on.").await;
    assert_eq!(ended["status"], "completed", "{ended}");
}
