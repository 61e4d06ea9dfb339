//! Approvals that a model reviews in the user's place: what is sent to the model, what clients see, and
//! what each answer leads to.

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, TestServer, assert_lines};

use crate::{runs, says};

const STARTED: &str = "item/autoApprovalReview/started";
const COMPLETED: &str = "item/autoApprovalReview/completed";

fn answer(verdict: &str, risk: &str, authorization: &str) -> String {
    json!({
        "reviewId": "{{review_id}}",
        "verdict": verdict,
        "riskLevel": risk,
        "userAuthorization": authorization,
        "rationale": "The user asked for it.",
    })
    .to_string()
}

/// A script of the thread, the first conversation, and of its reviewer, the second.
fn script(thread: &[Value], reviews: &[Value]) -> Value {
    let of = |number: u64, responses: &[Value]| -> Vec<Value> {
        let responses = responses.iter().cloned();
        responses
            .map(|mut response| {
                response["conversation"] = number.into();
                response
            })
            .collect()
    };
    json!([of(0, thread), of(1, reviews)].concat())
}

fn reviewed() -> Value {
    json!({
        "approvalPolicy": "unlessTrusted",
        "approvalsReviewer": "auto_review",
        "sandbox": "workspaceWrite",
    })
}

async fn environment(thread: &[Value], reviews: &[Value]) -> TestEnvironment {
    TestEnvironment::with_responses(script(thread, reviews)).await
}

async fn open(server: &TestServer, params: Value) -> (Peer, String) {
    let mut peer = server.connect().await;
    let thread = peer.start_thread(params).await;
    peer.forget();
    (peer, thread)
}

/// The requests to the reviewer.
fn requests(env: &TestEnvironment) -> Vec<Value> {
    let is_review = |request: &Value| {
        request["prompt_cache_key"].as_str().is_some_and(|key| key.ends_with("/approvals"))
    };
    env.model().requests().into_iter().filter(is_review).collect()
}

/// The JSON object that a reviewer gets.
fn document(request: &Value) -> Value {
    assert_eq!(request["input"].as_array().unwrap().len(), 1);
    let text = request["input"][0]["content"][0]["text"].as_str().unwrap();
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn a_command_that_the_reviewer_approves_runs() {
    let env = environment(
        &[runs("touch made; echo made"), says("Done.")],
        &[says(&answer("approve", "low", "high"))],
    )
    .await;
    let server = env.start();
    let (mut peer, thread) = open(&server, reviewed()).await;
    let turn = peer.start_turn(&thread, "Make the file.").await;
    let started = peer.expect(STARTED).await;
    let completed = peer.expect(COMPLETED).await;
    peer.turn_end(&turn).await;
    peer.expect_where("thread/status/changed", |notice| notice["status"]["type"] == "idle").await;
    assert_lines(
        peer.transcript(),
        r#"
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Make the file."
        * item/completed item1 userMessage "Make the file."
        * item/started item2 commandExecution inProgress "touch made; echo made"
        * item/autoApprovalReview/started
        * item/autoApprovalReview/completed
        * item/commandExecution/outputDelta item2 "made\n"
        * item/completed item2 commandExecution completed "touch made; echo made" exit 0 output "made\n"
        * item/started item3 agentMessage ""
        * item/agentMessage/delta item3 "Done."
        * item/completed item3 agentMessage "Done."
        * turn/completed turn1 completed
        * thread/status/changed idle
        "#,
    );
    let action = json!({
        "type": "command", "source": "unifiedExec", "command": "touch made; echo made",
        "cwd": env.workspace(),
    });
    assert_eq!((&started["action"], &completed["action"]), (&action, &action));
    assert_eq!(started["review"], json!({ "status": "inProgress" }));
    assert_eq!(started["reviewId"], completed["reviewId"]);
    assert_eq!(completed["decisionSource"], "agent");
    assert_eq!(
        completed["review"],
        json!({
            "status": "approved", "riskLevel": "low", "userAuthorization": "high",
            "rationale": "The user asked for it.",
        })
    );
    let requests = requests(&env);
    assert_eq!(requests.len(), 1);
    let document = document(&requests[0]);
    assert_eq!(document["reviewId"], started["reviewId"]);
    assert_eq!(document["user"]["messages"], json!([{ "text": "Make the file." }]));
    let action = &document["data"]["action"];
    assert_eq!(action["script"], "touch made; echo made");
    assert_eq!(action["cwd"], json!(env.workspace()));
    assert_eq!(action["leavesSandbox"], false);
    assert_eq!(requests[0]["text"]["format"]["strict"], true);
    assert!(requests[0]["tools"].as_array().is_none_or(Vec::is_empty));
}

// Effect of `approvals_reviewer`, `features.smart_approvals`.
#[tokio::test]
async fn the_configuration_chooses_the_reviewer() {
    for (written, expected) in [
        ("", "user"),
        ("approvals_reviewer=\"auto_review\"", "auto_review"),
        ("approvals_reviewer=\"guardian_subagent\"", "guardian_subagent"),
        ("features.smart_approvals=true", "auto_review"),
    ] {
        let mut env = environment(&[says("Hello.")], &[]).await;
        env.config_overrides.extend((!written.is_empty()).then(|| written.to_owned()));
        let server = env.start();
        let mut peer = server.connect().await;
        let started = peer.call("thread/start", json!({})).await;
        assert_eq!(started["approvalsReviewer"], expected, "{written}");
        let started = peer.call("thread/start", json!({ "approvalsReviewer": "user" })).await;
        assert_eq!(started["approvalsReviewer"], "user", "the client's choice counts more");
    }
}

#[tokio::test]
async fn every_way_to_choose_a_reviewer_is_stored_and_shown() {
    let env = environment(&[says("Hello.")], &[]).await;
    let server = env.start();
    let mut peer = server.connect().await;
    for reviewer in ["user", "auto_review", "guardian_subagent"] {
        let started = peer.call("thread/start", json!({ "approvalsReviewer": reviewer })).await;
        assert_eq!(started["approvalsReviewer"], reviewer);
    }
    let started = peer.call("thread/start", reviewed()).await;
    let thread = started["thread"]["id"].as_str().unwrap().to_owned();
    peer.run_turn(&thread, "Hello.").await;
    let forked = peer.call("thread/fork", json!({ "threadId": thread })).await;
    assert_eq!(forked["approvalsReviewer"], "auto_review");
    let params = json!({ "threadId": thread, "approvalsReviewer": "user" });
    assert_eq!(peer.call("thread/fork", params).await["approvalsReviewer"], "user");
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let resumed = peer.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(resumed["approvalsReviewer"], "auto_review");
    let params = json!({ "threadId": thread, "approvalsReviewer": "guardian_subagent" });
    let resumed = peer.call("thread/resume", params).await;
    assert_eq!(resumed["approvalsReviewer"], "guardian_subagent");
    let params = json!({ "threadId": thread, "approvalsReviewer": "me" });
    assert_eq!(peer.refused("thread/resume", params).await.code, -32602);
}
