//! What a verdict of a reviewer costs and what of it lasts: requests that fail for a moment, reviews that
//! are withdrawn, and the user's approval of a denied action over the end of the server.

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::auto_review::{COMPLETED, STARTED, answer, escalates, open, requests, reviewed, script};
use crate::managed_network::{get, service};
use crate::{runs, says};

const APPROVE_DENIED: &str = "thread/approveGuardianDeniedAction";

async fn environment(thread: &[Value], reviews: &[Value]) -> TestEnvironment {
    TestEnvironment::with_responses(script(thread, reviews)).await
}

#[tokio::test]
async fn a_request_to_the_reviewer_that_fails_for_a_moment_is_sent_again() {
    let busy = json!({ "steps": [{ "error": { "status": 503, "message": "busy" } }] });
    let cut = json!({ "steps": [{ "message": "{" }, { "cut": {} }] });
    let good = says(&answer("approve", "low", "high"));
    let thread = [escalates("touch made"), says("Done.")];
    let mut env = environment(&thread, &[busy, cut, good]).await;
    for key in ["request_max_retries", "stream_max_retries"] {
        env.config_overrides.push(format!("model_providers.scripted.{key}=1"));
    }
    let server = env.start();
    let (mut peer, thread) = open(&server, reviewed()).await;
    let turn = peer.start_turn(&thread, "Make the file.").await;
    assert_eq!(peer.expect(COMPLETED).await["review"]["status"], "approved");
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    assert!(env.workspace().join("made").exists());
    let requests = requests(&env);
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|request| request["input"] == requests[0]["input"]));
}

#[tokio::test]
async fn an_approval_of_a_denied_action_outlives_the_server() {
    for crashes in [false, true] {
        let deny = says(&answer("deny", "high", "low"));
        let thread = [
            escalates("touch made"),
            says("I stop."),
            escalates("touch made"),
            says("Done."),
            escalates("touch made"),
            says("Done."),
        ];
        let mut env = environment(&thread, &[deny.clone(), deny]).await;
        let server = env.start();
        let (mut peer, thread) = open(&server, reviewed()).await;
        let turn = peer.start_turn(&thread, "Make the file.").await;
        let denied = peer.expect(COMPLETED).await;
        peer.turn_end(&turn).await;
        peer.call(APPROVE_DENIED, json!({ "threadId": thread, "event": denied })).await;
        match crashes {
            true => env.crash(),
            false => server.stop().await,
        }
        let server = env.start();
        let mut peer = server.connect().await;
        peer.call("thread/resume", json!({ "threadId": thread })).await;
        peer.run_turn(&thread, "Try again.").await;
        assert!(env.workspace().join("made").exists(), "crashes: {crashes}");
        let sent = env.model().requests().last().unwrap()["input"].to_string();
        assert!(sent.contains("The user approved an action"), "{sent}");
        assert_eq!(requests(&env).len(), 1);
        // Once, also for a server that starts after it was used.
        std::fs::remove_file(env.workspace().join("made")).unwrap();
        server.stop().await;
        let server = env.start();
        let mut peer = server.connect().await;
        peer.call("thread/resume", json!({ "threadId": thread })).await;
        peer.run_turn(&thread, "And again.").await;
        assert!(!env.workspace().join("made").exists(), "crashes: {crashes}");
        assert_eq!(requests(&env).len(), 2);
    }
}

/// The connection that asked is closed while the reviewer still thinks. Its request counts with what it
/// is likely to have used.
#[tokio::test]
async fn a_review_that_is_withdrawn_is_charged() {
    for (limit, status) in [(1_000, "failed"), (100_000, "completed")] {
        let request = get(service()).replace('$', "\\$");
        let gives_up = runs(&format!("timeout 0.5 bash -c \"{request}\"; echo over"));
        let mut thread = [gives_up, says("Done.")];
        let usage = json!({ "usage": { "input_tokens": 90, "output_tokens": 10 } });
        thread[0]["steps"].as_array_mut().unwrap().push(usage);
        let env = environment(&thread, &[json!({ "steps": ["idle"] })]).await;
        let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
        env.write_config(&format!(
            "default_permissions = \"online\"\n{config}\n\
             [permissions.online.filesystem]\n\":root\" = \"read\"\n\
             [permissions.online.network]\nenabled = true\nallow_local_binding = true\n"
        ));
        let server = env.start();
        let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
        let params = json!({ "approvalPolicy": "onRequest", "approvalsReviewer": "auto_review" });
        let thread = peer.start_thread(params).await;
        let input = json!([{ "type": "text", "text": "Go." }]);
        let params = json!({ "threadId": thread, "input": input, "maxTotalTokens": limit });
        let turn = peer.call("turn/start", params).await["turn"]["id"].clone();
        peer.expect(STARTED).await;
        assert_eq!(peer.expect(COMPLETED).await["review"]["status"], "aborted");
        let ended = peer.turn_end(turn.as_str().unwrap()).await;
        assert_eq!(ended["status"], status, "{ended}");
        if status == "failed" {
            let message = ended["error"]["message"].as_str().unwrap();
            assert!(message.contains("1000 tokens"), "{message}");
        }
    }
}
