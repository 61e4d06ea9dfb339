//! Plan mode: the agent changes nothing, whatever the thread's policy and the approvals
//! (collaboration mode `plan`).

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, TestServer};

use crate::{calls, patches, runs, says, tool_outputs};

const COMMAND: &str = "item/commandExecution/requestApproval";

fn experimental() -> Value {
    json!({ "experimentalApi": true })
}

fn turn(thread: &str, mode: &str) -> Value {
    json!({ "threadId": thread, "input": [{ "type": "text", "text": "Go." }],
        "collaborationMode": { "mode": mode,
            "settings": { "model": "gpt-5", "developer_instructions": null } } })
}

async fn env(mut responses: Vec<Value>) -> TestEnvironment {
    responses.push(says("Done."));
    TestEnvironment::with_responses(json!(responses)).await
}

async fn open(server: &TestServer, params: Value) -> (Peer, String) {
    let mut peer = server.connect_with(experimental()).await;
    let thread = peer.start_thread(params).await;
    (peer, thread)
}

fn escalated(command: &str) -> Value {
    calls(
        "exec_command",
        json!({ "cmd": command, "sandbox_permissions": "require_escalated",
            "justification": "please", "prefix_rule": ["touch"] }),
    )
}

#[tokio::test]
async fn modifying_tools_are_not_offered_in_plan_mode() {
    let env = env(vec![says("A plan."), says("Work.")]).await;
    let server = env.start();
    let (mut peer, thread) = open(&server, json!({ "sandbox": "dangerFullAccess" })).await;
    peer.run_turn_with(turn(&thread, "plan")).await;
    peer.run_turn_with(turn(&thread, "default")).await;
    let requests = env.model().requests();
    let offered = |request: &Value| request["tools"].to_string();
    assert!(!offered(&requests[0]).contains("apply_patch"));
    assert!(!offered(&requests[0]).contains("require_escalated"));
    assert!(offered(&requests[1]).contains("apply_patch"));
    assert!(offered(&requests[1]).contains("require_escalated"));
    let notice = requests[0]["input"].to_string();
    assert!(notice.contains("Sandbox: read-only") && notice.contains("Network: off"), "{notice}");
    let notice = requests[1]["input"].to_string();
    assert!(notice.contains("Sandbox: none"), "{notice}");
}

#[tokio::test]
async fn modes_are_listed_with_the_configured_effort() {
    let env = env(Vec::new()).await;
    let list = "collaborationMode/list";
    let mut peer = env.start().connect_with(experimental()).await;
    let mut expected = json!([
        { "name": "Plan", "mode": "plan" },
        { "name": "Default", "mode": "default" },
    ]);
    assert_eq!(peer.call(list, json!({})).await, json!({ "data": expected }));
    env.write_config("plan_mode_reasoning_effort = \"high\"\n");
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    expected[0]["reasoning_effort"] = json!("high");
    assert_eq!(peer.call(list, json!({})).await, json!({ "data": expected }));
    let refused = server.connect().await.refused(list, json!({})).await;
    assert!(refused.message.contains("experimentalApi"), "{refused:?}");
}

#[tokio::test]
async fn a_patch_is_refused_with_the_reason_in_every_form() {
    let script = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: made\n+x\n*** End Patch\nEOF";
    for policy in ["dangerFullAccess", "workspaceWrite"] {
        for first in [patches("*** Add File: made\n+x"), runs(script)] {
            let env = env(vec![first]).await;
            let server = env.start();
            let (mut peer, thread) =
                open(&server, json!({ "sandbox": policy, "approvalPolicy": "never" })).await;
            assert_eq!(peer.run_turn_with(turn(&thread, "plan")).await["status"], "completed");
            let item = peer.item("fileChange").await;
            assert_eq!(item["status"], "failed");
            assert!(item["reason"].as_str().unwrap().contains("plan mode"), "{item}");
            assert!(tool_outputs(&env)[0].contains("plan mode changes nothing"));
            assert!(!env.workspace().join("made").exists(), "{policy}");
        }
    }
}

#[tokio::test]
async fn commands_run_read_only_whatever_the_policy_is() {
    let policies = [
        json!({ "type": "dangerFullAccess" }),
        json!({ "type": "externalSandbox", "networkAccess": "enabled" }),
        json!({ "type": "workspaceWrite", "writableRoots": [], "networkAccess": true }),
        json!({ "type": "readOnly" }),
    ];
    let argv = calls("shell", json!({ "command": ["touch", "made"] }));
    for policy in policies {
        let script = "cat seen; touch made; cat < /dev/tcp/127.0.0.1/9";
        let env = env(vec![runs(script), argv.clone()]).await;
        std::fs::write(env.workspace().join("seen"), "SEEN").unwrap();
        let server = env.start();
        let (mut peer, thread) = open(&server, json!({ "approvalPolicy": "never" })).await;
        let mut params = turn(&thread, "plan");
        params["sandboxPolicy"] = policy.clone();
        peer.run_turn_with(params).await;
        let item = peer.item("commandExecution").await;
        let output = item["aggregatedOutput"].as_str().unwrap();
        assert!(output.contains("SEEN") && output.contains("Read-only file system"), "{output}");
        assert_eq!(peer.item("commandExecution").await["status"], "failed");
        assert!(!env.workspace().join("made").exists(), "{policy}");
        // The thread's own policy is unchanged, for turns after plan mode.
        let resumed = peer.call("thread/resume", json!({ "threadId": thread })).await;
        assert_eq!(resumed["sandbox"]["type"], policy["type"], "{resumed}");
    }
}

#[tokio::test]
async fn approvals_rules_and_grants_widen_nothing() {
    let env = env(vec![runs("touch made"), escalated("touch made")]).await;
    let rules = env.home().join("rules");
    std::fs::create_dir_all(&rules).unwrap();
    std::fs::write(rules.join("a.rules"), "prefix_rule(pattern=['touch'])\n").unwrap();
    let server = env.start();
    let (mut peer, thread) =
        open(&server, json!({ "approvalPolicy": "onRequest", "sandbox": "workspaceWrite" })).await;
    peer.run_turn_with(turn(&thread, "plan")).await;
    assert_eq!(peer.item("commandExecution").await["status"], "failed");
    let escalated = peer.item("commandExecution").await;
    assert_eq!(escalated["status"], "failed");
    let reason = escalated["aggregatedOutput"].as_str().unwrap();
    assert!(reason.contains("plan mode runs commands read-only"), "{reason}");
    assert!(!env.workspace().join("made").exists());
}

#[tokio::test]
async fn an_approved_command_is_read_only_and_no_amendment_is_taken() {
    for decision in [
        json!("accept"),
        json!("acceptForSession"),
        json!({ "acceptWithExecpolicyAmendment": { "execpolicy_amendment": ["touch"] } }),
    ] {
        let touch = || runs("touch made");
        let env = env(vec![touch(), says("A plan."), touch()]).await;
        let server = env.start();
        let (mut peer, thread) = open(
            &server,
            json!({ "approvalPolicy": "unlessTrusted", "sandbox": "dangerFullAccess" }),
        )
        .await;
        let started = peer.call("turn/start", turn(&thread, "plan")).await;
        let asked = peer.asked(COMMAND).await;
        assert_eq!(asked.params["proposedExecpolicyAmendment"], Value::Null);
        peer.decide(&asked, decision.clone()).await;
        peer.turn_end(started["turn"]["id"].as_str().unwrap()).await;
        assert!(!env.workspace().join("made").exists(), "{decision}");
        assert!(!env.home().join("rules/default.rules").exists(), "{decision}");
        // The approval for the session covered reading only: the work requires another approval.
        let started = peer.call("turn/start", turn(&thread, "default")).await;
        let asked = peer.asked(COMMAND).await;
        peer.decide(&asked, "accept").await;
        peer.turn_end(started["turn"]["id"].as_str().unwrap()).await;
        assert!(env.workspace().join("made").exists(), "{decision}");
    }
}

#[tokio::test]
async fn approvals_after_the_mode_changed_modify_nothing() {
    for (first, method, kind) in [
        (escalated("touch made"), COMMAND, "commandExecution"),
        (patches("*** Add File: made\n+x"), "item/fileChange/requestApproval", "fileChange"),
    ] {
        let env = env(vec![first]).await;
        let server = env.start();
        let (mut peer, thread) = open(
            &server,
            json!({ "approvalPolicy": "unlessTrusted", "sandbox": "workspaceWrite" }),
        )
        .await;
        let working = peer.start_turn(&thread, "Go.").await;
        let asked = peer.asked(method).await;
        // A turn that starts withdraws the request: an answer to it comes too late.
        peer.call("turn/start", turn(&thread, "plan")).await;
        peer.decide(&asked, "accept").await;
        peer.turn_end(&working).await;
        assert_eq!(peer.item(kind).await["status"], "declined");
        assert!(!env.workspace().join("made").exists(), "{method}");
    }
}

#[tokio::test]
async fn a_command_that_may_write_gets_no_input() {
    let shell = calls("exec_command", json!({ "cmd": "sh", "tty": true, "yield_time_ms": 250 }));
    let write = calls("write_stdin", json!({ "session_id": 2, "chars": "touch made\n" }));
    let env = env(vec![shell, says("It runs."), write]).await;
    let server = env.start();
    let params = json!({ "approvalPolicy": "never", "sandbox": "dangerFullAccess" });
    let (mut peer, thread) = open(&server, params).await;
    peer.run_turn(&thread, "Start it.").await;
    assert!(tool_outputs(&env)[0].contains("session ID 2"), "{:?}", tool_outputs(&env));
    peer.run_turn_with(turn(&thread, "plan")).await;
    let item = peer.item("dynamicToolCall").await;
    assert_eq!((&item["tool"], &item["status"]), (&json!("write_stdin"), &json!("failed")));
    assert!(item["contentItems"][0]["text"].as_str().unwrap().contains("plan mode"), "{item}");
    assert!(!env.workspace().join("made").exists());
}
