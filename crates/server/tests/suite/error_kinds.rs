//! Every value of `agentErrorInfo`, with a cause (specification: Errors; wire shapes).

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::{runs, says};

/// A cause of a failed turn, and the expected report.
struct Row {
    cause: Value,
    info: Value,
    /// Part of the message.
    message: &'static str,
    details: Option<&'static str>,
}

/// The provider refuses the request.
fn refused(status: u16, code: &str, info: Value) -> Row {
    let cause = json!({ "error": { "status": status, "code": code, "message": "said upstream",
        "headers": { "x-request-id": "req_1" } } });
    Row { cause, info, message: "said upstream", details: Some("request id `req_1`") }
}

/// The provider's response fails.
fn failed(code: &str, info: Value) -> Row {
    let cause = json!({ "error": { "code": code, "message": "said upstream" } });
    Row { cause, info, message: "said upstream", details: None }
}

fn with_status(name: &str, status: u16) -> Value {
    json!({ name: { "httpStatusCode": status } })
}

fn rows() -> Vec<Row> {
    let http = |status| with_status("HttpConnectionFailed", status);
    let mut rows = vec![
        refused(400, "some_code", json!("BadRequest")),
        refused(401, "some_code", json!("Unauthorized")),
        refused(403, "some_code", http(403)),
        refused(404, "some_code", http(404)),
        refused(429, "some_code", with_status("ResponseTooManyFailedAttempts", 429)),
        refused(500, "some_code", http(500)),
        refused(502, "some_code", http(502)),
        refused(503, "some_code", http(503)),
        refused(400, "context_length_exceeded", json!("ContextWindowExceeded")),
        refused(429, "insufficient_quota", json!("UsageLimitExceeded")),
        refused(503, "server_is_overloaded", json!("ServerOverloaded")),
        refused(400, "cyber_policy", json!("CyberPolicy")),
        failed("context_length_exceeded", json!("ContextWindowExceeded")),
        failed("insufficient_quota", json!("UsageLimitExceeded")),
        failed("usage_limit_reached", json!("UsageLimitExceeded")),
        failed("rate_limit_exceeded", json!("ResponseTooManyFailedAttempts")),
        failed("server_is_overloaded", json!("ServerOverloaded")),
        failed("slow_down", json!("ServerOverloaded")),
        failed("server_error", json!("InternalServerError")),
        failed("invalid_prompt", json!("BadRequest")),
        failed("invalid_api_key", json!("Unauthorized")),
        failed("cyber_policy", json!("CyberPolicy")),
        failed("something_new", json!("Other")),
    ];
    for (cause, info, message) in [
        (json!({ "cut": "data: {\"ty" }), json!("ResponseStreamDisconnected"), "broke"),
        (json!({ "error": { "incomplete": "max_output_tokens" } }), json!("Other"), "cut off"),
    ] {
        rows.push(Row { cause, info, message, details: None });
    }
    rows
}

/// Runs a turn that fails, and checks that its error is reported once before the turn's end, equal
/// to the error in the turn.
async fn failing_turn(peer: &mut Peer, thread: &str) -> Value {
    let turn = peer.run_turn(thread, "Fail.").await;
    assert_eq!(turn["status"], "failed");
    let notice = peer.expect("error").await;
    assert_eq!((&notice["error"], &notice["willRetry"]), (&turn["error"], &json!(false)));
    assert_eq!((&notice["threadId"], &notice["turnId"]), (&json!(thread), &turn["id"]));
    turn
}

async fn check(row: Row) {
    let Row { cause, info, message, details } = row;
    let env =
        TestEnvironment::with_responses(json!([{ "steps": [cause.clone()] }, says("Well again.")]))
            .await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let turn = failing_turn(&mut peer, &thread).await;
    assert_eq!(turn["error"]["agentErrorInfo"], info, "{cause}");
    let said = turn["error"]["message"].as_str().unwrap();
    assert!(said.contains(message), "{said}");
    let more = turn["error"]["additionalDetails"].as_str();
    assert!(more.unwrap_or_default().ends_with(details.unwrap_or_default()), "{cause}: {more:?}");
    assert_eq!(more.is_some(), details.is_some(), "{cause}: {more:?}");
    let failed = peer
        .expect_where("thread/status/changed", |notice| notice["status"]["type"] == "systemError");
    failed.await;
    // The thread can continue, and the failure is stored.
    assert_eq!(peer.run_turn(&thread, "Again.").await["status"], "completed");
    let read = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    let first = &read["thread"]["turns"][0];
    assert_eq!((&first["status"], &first["error"]), (&turn["status"], &turn["error"]));
}

#[tokio::test]
async fn a_provider_error_is_reported_with_its_kind() {
    for row in rows() {
        check(row).await;
    }
}

#[tokio::test]
async fn an_unreachable_provider() {
    let mut env = TestEnvironment::with_responses(json!([says("Never.")])).await;
    // A port without a listener: bound once, then closed.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    env.config_overrides.push(format!("model_providers.scripted.base_url=\"http://{free}/v1\""));
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let turn = failing_turn(&mut peer, &thread).await;
    assert_eq!(turn["error"]["agentErrorInfo"], "ResponseStreamConnectionFailed");
}

#[tokio::test]
async fn a_provider_that_takes_the_request_and_never_answers() {
    let mut env = TestEnvironment::with_responses(json!([says("Never.")])).await;
    // Connections remain in its backlog.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    for set in [
        format!("base_url=\"http://{address}/v1\""),
        "stream_idle_timeout_ms=100".to_owned(),
        "request_max_retries=0".to_owned(),
    ] {
        env.config_overrides.push(format!("model_providers.scripted.{set}"));
    }
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let turn = failing_turn(&mut peer, &thread).await;
    assert_eq!(turn["error"]["agentErrorInfo"], "ResponseStreamConnectionFailed");
    let message = turn["error"]["message"].as_str().unwrap();
    assert!(message.contains("did not answer for 0.1 s"), "{message}");
}

#[tokio::test]
async fn a_machine_without_a_sandbox() {
    let mut env =
        TestEnvironment::with_responses(json!([runs("touch made"), says("Never.")])).await;
    env.has_sandbox = false;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({ "sandbox": "workspaceWrite" })).await;
    let turn = failing_turn(&mut peer, &thread).await;
    assert_eq!(turn["error"]["agentErrorInfo"], "SandboxError");
    let message = turn["error"]["message"].as_str().unwrap();
    assert!(message.contains("the sandbox is not available"));
    let item = peer.item("commandExecution").await;
    assert_eq!((&item["status"], &item["exitCode"]), (&json!("failed"), &Value::Null));
    assert_eq!(item["aggregatedOutput"], message);
    assert!(!env.workspace().join("made").exists());
    assert_eq!(env.model().requests().len(), 1);
}

#[tokio::test]
async fn a_rollback_that_cannot_be_done() {
    let env = TestEnvironment::with_responses(json!([{ "steps": ["idle"] }])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.start_turn(&thread, "Wait.").await;
    let fault = peer.refused("thread/rollback", json!({ "threadId": thread, "numTurns": 1 })).await;
    assert_eq!(fault.data["agentErrorInfo"], "ThreadRollbackFailed");
    assert_eq!(fault.data["message"], json!(fault.message));
    assert!(fault.message.contains("a turn is running"), "{fault:?}");
}

/// Values that other tests show, by value and test.
const SHOWN_BY_NAME: [&str; 4] = [
    // In this file, above.
    "ResponseStreamConnectionFailed",
    "SandboxError",
    "ThreadRollbackFailed",
    // `steering::a_review_and_a_compaction_take_no_input`.
    "ActiveTurnNotSteerable",
];

#[test]
fn every_value_has_a_cause() {
    let (_, schema) = &protocol::artifacts::json_schema(false)[0];
    let schema: Value = serde_json::from_str(schema).unwrap();
    let mut promised = BTreeSet::new();
    for form in schema["$defs"]["AgentErrorInfo"]["anyOf"].as_array().unwrap() {
        let names = form["enum"].as_array().or(form["required"].as_array()).unwrap();
        promised.extend(names.iter().map(|name| name.as_str().unwrap().to_owned()));
    }
    let name = |info: Value| match info {
        Value::Object(object) => object.keys().next().unwrap().clone(),
        name => name.as_str().unwrap().to_owned(),
    };
    let mut shown: BTreeSet<String> = rows().into_iter().map(|row| name(row.info)).collect();
    shown.extend(SHOWN_BY_NAME.map(str::to_owned));
    assert_eq!(shown, promised);
}
