//! Failures of the model: which are retried, how they are reported, and what remains of a turn that
//! fails. The kinds of errors are in `error_kinds`.

use serde_json::{Value, json};
use testkit::{TestEnvironment, assert_lines};

use crate::{runs, says};

fn refused(status: u16, message: &str) -> Value {
    json!({ "error": { "status": status, "code": "some_code", "message": message } })
}

#[tokio::test]
async fn a_missing_key_fails_the_first_turn_with_advice() {
    let mut env = TestEnvironment::with_responses(json!([says("Never.")])).await;
    env.config_overrides.extend([
        "model_providers.scripted.env_key=\"SCRIPTED_KEY\"".to_owned(),
        "model_providers.scripted.env_key_instructions=\"Ask the office.\"".to_owned(),
    ]);
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.run_turn(&thread, "Hi.").await;
    assert_eq!(turn["status"], "failed");
    let message = turn["error"]["message"].as_str().unwrap();
    assert!(message.contains("SCRIPTED_KEY") && message.contains("Ask the office."), "{message}");
    assert!(env.model().requests().is_empty());
}

#[tokio::test]
async fn a_key_is_sent_as_a_bearer_token() {
    let expecting = json!({ "expect": { "header": { "authorization": "Bearer s3cret" } },
        "steps": [{ "message": "Hello." }] });
    let mut env = TestEnvironment::with_responses(json!([expecting])).await;
    env.variables.push(("SCRIPTED_KEY".into(), "s3cret".into()));
    env.config_overrides.push("model_providers.scripted.env_key=\"SCRIPTED_KEY\"".to_owned());
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
}

#[tokio::test]
async fn a_broken_stream_is_retried() {
    let cut = json!({ "steps": [{ "message": { "chunks": ["Par"] } }, { "cut": "data: {\"ty" }] });
    let mut env = TestEnvironment::with_responses(json!([cut, says("Whole.")])).await;
    env.config_overrides.push("model_providers.scripted.stream_max_retries=1".to_owned());
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.forget();
    let turn = peer.run_turn(&thread, "Talk.").await;
    assert_eq!((&turn["status"], &turn["error"]), (&json!("completed"), &Value::Null));
    assert_lines(
        peer.transcript(),
        r#"
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Talk."
        * item/completed item1 userMessage "Talk."
        * item/started item2 agentMessage ""
        * item/agentMessage/delta item2 "Par"
        * item/completed item2 agentMessage "Par"
        * error "ResponseStreamDisconnected" "the stream from $MODEL broke: error reading a body from connection: unexpected EOF during chunk size line (retry 1 of 1 within 0.4 s)", will retry
        * item/started item3 agentMessage ""
        * item/agentMessage/delta item3 "Whole."
        * item/completed item3 agentMessage "Whole."
        * turn/completed turn1 completed
        "#,
    );
}

#[tokio::test]
async fn a_temporary_refusal_is_retried_and_reported() {
    let error = |status: u16, code: &str| {
        json!({ "status": status, "code": code, "message": "Later.",
            "headers": { "retry-after-ms": "1", "x-request-id": "req_1" } })
    };
    let after = |error: Value| json!({ "steps": [{ "error": error }] });
    let with_status = |status: u16| json!({ "HttpConnectionFailed": { "httpStatusCode": status } });
    for (status, code, info) in [
        (429, "rate_limit_exceeded", with_status(429)),
        (500, "server_error", json!("InternalServerError")),
        (500, "oops", with_status(500)),
        (503, "oops", with_status(503)),
        (503, "server_is_overloaded", json!("ServerOverloaded")),
    ] {
        let busy = after(error(status, code));
        let mut env = TestEnvironment::with_responses(json!([busy, busy, says("Now.")])).await;
        env.config_overrides.push("model_providers.scripted.request_max_retries=3".to_owned());
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed", "{code}");
        for attempt in 1..=2 {
            let retry = format!("(retry {attempt} of 3 in 0.1 s)");
            let notice = peer.expect("error").await;
            assert_eq!(
                (&notice["willRetry"], &notice["error"]["agentErrorInfo"]),
                (&json!(true), &info)
            );
            let attempt = json!({ "attempt": attempt, "maxAttempts": 3, "waitMs": 1 });
            assert_eq!(notice["retry"], attempt);
            let message = notice["error"]["message"].as_str().unwrap();
            assert!(message.contains("Later.") && message.ends_with(&retry), "{message}");
            let details = format!("error code `{code}`, request id `req_1`");
            assert_eq!(notice["error"]["additionalDetails"], details);
        }
    }
}

#[tokio::test]
async fn permanent_refusals_fail_the_turn_and_state_the_attempts() {
    let busy = json!({ "error": { "status": 429, "message": "Busy." } });
    let hour = json!({ "error": { "status": 429, "message": "Busy.",
        "headers": { "retry-after": "3600" } } });
    for (error, tries, end) in
        [(busy, 2, "Busy. (after 2 tries)"), (hour, 1, "Busy.; try again in 60 min 0 s")]
    {
        let script = json!({ "responses": [{ "steps": [error] }], "on_exhausted": "repeat_last" });
        let mut env = TestEnvironment::with_script(&script).await;
        env.config_overrides.push("model_providers.scripted.request_max_retries=1".to_owned());
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        let turn = peer.run_turn(&thread, "Hi.").await;
        assert_eq!(
            turn["error"]["agentErrorInfo"],
            json!({ "ResponseTooManyFailedAttempts": { "httpStatusCode": 429 } })
        );
        let message = turn["error"]["message"].as_str().unwrap();
        assert!(message.ends_with(end), "{message}");
        assert_eq!(env.model().requests().len(), tries);
    }
}

#[tokio::test]
async fn an_unreachable_provider_is_retried_and_reported() {
    let mut env = TestEnvironment::with_responses(json!([says("Never.")])).await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    env.config_overrides.extend([
        format!("model_providers.scripted.base_url=\"http://{free}/v1\""),
        "model_providers.scripted.request_max_retries=1".to_owned(),
    ]);
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "failed");
    for (will_retry, end) in [(true, "(retry 1 of 1 within 0.4 s)"), (false, "(after 2 tries)")] {
        let notice = peer.expect("error").await;
        assert_eq!(notice["willRetry"], will_retry);
        assert_eq!(notice["error"]["agentErrorInfo"], "ResponseStreamConnectionFailed");
        assert!(notice["error"]["message"].as_str().unwrap().ends_with(end), "{notice}");
    }
}

#[tokio::test]
async fn a_failure_after_a_command_keeps_its_item() {
    let env = TestEnvironment::with_responses(
        json!([runs("echo done"), { "steps": [refused(500, "no")] }]),
    );
    let env = env.await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.forget();
    peer.run_turn(&thread, "Go.").await;
    assert_lines(
        peer.transcript(),
        r#"
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Go."
        * item/completed item1 userMessage "Go."
        * item/started item2 commandExecution inProgress "echo done"
        * item/commandExecution/outputDelta item2 "done\n"
        * item/completed item2 commandExecution completed "echo done" exit 0 output "done\n"
        * error {"HttpConnectionFailed":{"httpStatusCode":500}} "POST $MODEL/v1/responses answered 500 Internal Server Error: no"
        * turn/completed turn1 failed {"HttpConnectionFailed":{"httpStatusCode":500}} "POST $MODEL/v1/responses answered 500 Internal Server Error: no"
        "#,
    );
}

#[tokio::test]
async fn the_model_learns_why_a_malformed_call_fails() {
    let odd = json!({ "steps": [
        { "function_call": { "name": "fly", "arguments": {} } },
        { "function_call": { "name": "exec_command", "arguments": "{not json" } },
        { "function_call": { "name": "exec_command", "arguments": { "cmd": " " } } },
        { "function_call": { "name": "write_stdin", "arguments": { "session_id": 77 } } },
        { "custom_tool_call": { "name": "apply_patch", "input": "no patch" } },
    ] });
    let env = TestEnvironment::with_responses(json!([odd, says("I see.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&thread, "Go.").await["status"], "completed");
    let outputs = crate::tool_outputs(&env);
    let expected = [
        "no tool `fly`",
        "cannot be read",
        "`cmd` is empty",
        "session id 77",
        "the patch cannot be read",
    ];
    assert_eq!(outputs.len(), expected.len(), "{outputs:?}");
    for (output, expected) in outputs.iter().zip(expected) {
        assert!(output.contains(expected), "{output}");
    }
}
