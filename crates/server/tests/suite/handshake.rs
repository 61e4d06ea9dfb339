//! `initialize`, opting out of notifications, and the gate for experimental methods.

use jsonrpc::Limits;
use serde_json::{Value, json};
use testkit::{TestEnvironment, assert_lines};

use crate::says;

async fn env() -> TestEnvironment {
    TestEnvironment::with_responses(json!([says("Hello.")])).await
}

#[tokio::test]
async fn nothing_is_answered_before_the_handshake() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.open(Limits::default());
    for method in ["thread/start", "thread/list", "command/exec", "mock/experimentalMethod"] {
        let fault = peer.refused(method, json!({})).await;
        assert_eq!((fault.code, fault.message.as_str()), (-32600, "Not initialized"), "{method}");
    }
    assert_eq!(peer.refused("no/such", json!({})).await.message, "Not initialized");
    peer.initialize(Value::Null).await;
    peer.start_thread(json!({})).await;
}

#[tokio::test]
async fn the_handshake_is_done_once() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.open(Limits::default());
    let opened = peer.initialize(Value::Null).await;
    let client = json!({ "clientInfo": { "name": "other", "title": "O", "version": "1" } });
    let fault = peer.refused("initialize", client).await;
    assert_eq!((fault.code, fault.message.as_str()), (-32600, "Already initialized"));
    let user_agent = opened["userAgent"].as_str().unwrap();
    assert!(user_agent.starts_with("test_client/0.0.0 ("), "{user_agent}");
    assert!(user_agent.ends_with("(test_client; 1.2.3)"), "{user_agent}");
    assert_eq!(opened["agentHome"], env.home().display().to_string());
    assert_eq!(opened["platformFamily"], "unix");
    assert_eq!(opened["platformOs"], std::env::consts::OS);
}

#[tokio::test]
async fn a_client_name_must_fit_a_header() {
    let env = env().await;
    let server = env.start();
    for name in ["", "näme", "two\nlines", "tab\t", "\u{7f}"] {
        let mut peer = server.open(Limits::default());
        let client = json!({ "clientInfo": { "name": name, "title": "T", "version": "1" } });
        let fault = peer.refused("initialize", client).await;
        assert_eq!(fault.code, -32602, "{name:?}");
        assert!(fault.message.contains("clientInfo.name"), "{}", fault.message);
        // A refused `initialize` does not initialize the connection.
        assert_eq!(peer.refused("thread/list", json!({})).await.message, "Not initialized");
        peer.initialize(Value::Null).await;
    }
}

#[tokio::test]
async fn the_user_agent_reaches_the_provider() {
    let expecting = json!({ "expect": { "header": { "user-agent": "test_client/0.0.0 (" } },
        "steps": [{ "message": "Hello." }] });
    let env = TestEnvironment::with_responses(json!([expecting])).await;
    let mut peer = env.start().connect().await;
    let thread = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
}

#[tokio::test]
async fn notifications_are_opted_out_of_by_their_exact_names() {
    let env = env().await;
    let server = env.start();
    let names = json!(["item/agentMessage/delta", "thread/started", "turn/", "item/*", "no/such"]);
    let mut peer = server.connect_with(json!({ "optOutNotificationMethods": names })).await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Hi.").await;
    peer.expect_where("thread/status/changed", |notice| notice["status"]["type"] == "idle").await;
    assert_lines(
        peer.transcript(),
        r#"
        > thread/start
        < thread/start
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Hi."
        * item/completed item1 userMessage "Hi."
        * item/started item2 agentMessage ""
        * item/completed item2 agentMessage "Hello."
        * turn/completed turn1 completed
        * thread/status/changed idle
        "#,
    );
}

#[tokio::test]
async fn experimental_methods_need_the_capability() {
    let env = env().await;
    let server = env.start();
    let mut stable = server.connect().await;
    let mut experimental = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = stable.start_thread(json!({})).await;
    let input = json!([{ "type": "text", "text": "Hi." }]);
    for (method, params, descriptor) in [
        ("mock/experimentalMethod", json!({ "value": "x" }), "mock/experimentalMethod"),
        ("process/spawn", json!({}), "process/spawn"),
        ("thread/goal/get", json!({ "threadId": "x" }), "thread/goal/get"),
        (
            "thread/start",
            json!({ "mockExperimentalField": "x" }),
            "thread/start.mockExperimentalField",
        ),
        ("thread/start", json!({ "dynamicTools": [] }), "thread/start.dynamicTools"),
        (
            "turn/start",
            json!({ "threadId": thread, "input": input, "environments": [] }),
            "turn/start.environments",
        ),
    ] {
        let fault = stable.refused(method, params.clone()).await;
        let expected = format!("{descriptor} requires experimentalApi capability");
        assert_eq!((fault.code, fault.message), (-32600, expected));
        if let Err(fault) = experimental.try_call(method, params).await {
            assert!(!fault.message.contains("experimentalApi"), "{method}: {fault:?}");
        }
    }
    let echoed = experimental.call("mock/experimentalMethod", json!({ "value": "x" })).await;
    assert_eq!(echoed["echoed"], "x");
}
