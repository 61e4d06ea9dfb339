//! Requests of agents to the clients of the root: each client that got one learns when it needs no
//! answer any longer, whatever has ended it.

use serde_json::{Value, json};
use testkit::Peer;

use super::{environment, spawn, wait};
use crate::{calls, says};

fn resolutions(lines: &[String], id: &Value) -> usize {
    let resolves = |line: &&String| {
        let message: Value = serde_json::from_str(line).unwrap();
        message["method"] == "serverRequest/resolved" && message["params"]["requestId"] == *id
    };
    lines.iter().filter(resolves).count()
}

async fn resolutions_for(peer: &mut Peer, id: &Value) -> usize {
    peer.settled().await;
    resolutions(peer.raw_lines(), id)
}

#[tokio::test]
async fn a_request_of_an_agent_is_resolved_whatever_ends_its_root() {
    let question = json!({ "questions": [{ "id": "db", "header": "H", "question": "Which?" }] });
    let command = json!({ "cmd": "touch made", "sandbox_permissions": "require_escalated",
        "justification": "It must." });
    for method in ["turn/interrupt", "thread/archive", "thread/delete"] {
        for (tool, arguments, asks) in [
            ("request_user_input", &question, "item/tool/requestUserInput"),
            ("exec_command", &command, "item/commandExecution/requestApproval"),
        ] {
            let environment = environment(vec![
                vec![spawn("Work."), wait(&["Ada"], 60_000), says("Done.")],
                vec![calls(tool, arguments.clone()), says("Asked.")],
            ])
            .await;
            let server = environment.start();
            let experimental = json!({ "experimentalApi": true });
            let mut peer = server.connect_with(experimental.clone()).await;
            let mut stranger = server.connect_with(experimental.clone()).await;
            let thread = peer.start_thread(json!({ "approvalPolicy": "on-request" })).await;
            let mut gone = server.connect_with(experimental).await;
            gone.call("thread/resume", json!({ "threadId": thread })).await;
            let turn = peer.start_turn(&thread, "Go.").await;
            let waits = |params: &Value| params["item"]["tool"] == "wait";
            peer.expect_where("item/started", waits).await;
            let asked = peer.asked(asks).await;
            let (id, context) = (json!(asked.id), format!("{tool}, {method}"));
            gone.asked(asks).await;
            gone.call("thread/unsubscribe", json!({ "threadId": thread })).await;
            let params = match method {
                "turn/interrupt" => json!({ "threadId": thread, "turnId": turn }),
                _ => json!({ "threadId": thread }),
            };
            peer.call(method, params).await;
            let resolves = |params: &Value| params["requestId"] == id;
            let resolved = peer.expect_where("serverRequest/resolved", resolves).await;
            assert_eq!(resolved["threadId"], asked.params["threadId"], "{context}");
            gone.expect_where("serverRequest/resolved", resolves).await;
            for (peer, expected) in [(&mut peer, 1), (&mut gone, 1), (&mut stranger, 0)] {
                assert_eq!(resolutions_for(peer, &id).await, expected, "{context}");
            }
        }
    }
}
