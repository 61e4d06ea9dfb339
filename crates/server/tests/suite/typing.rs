//! Text for commands that run outside of the sandbox: who is asked, what is shown, what is typed. And
//! terminals that were started with a grant.

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, TestServer};

use crate::{calls, says, tool_outputs};

const COMMAND: &str = "item/commandExecution/requestApproval";
const PERMISSIONS: &str = "item/permissions/requestApproval";

/// The session id that the model gets for the first command of a thread.
const SESSION: u64 = 2;

async fn open(server: &TestServer) -> (Peer, String) {
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let start = json!({ "approvalPolicy": "onRequest", "sandbox": "workspaceWrite" });
    let thread = peer.start_thread(start).await;
    peer.forget();
    (peer, thread)
}

fn terminal(cmd: &str, more: Value) -> Value {
    let mut arguments = json!({ "cmd": cmd, "tty": true, "yield_time_ms": 250 });
    for (member, value) in more.as_object().unwrap() {
        arguments[member] = value.clone();
    }
    calls("exec_command", arguments)
}

fn types(session: u64, text: &str) -> Value {
    calls("write_stdin", json!({ "session_id": session, "chars": text, "yield_time_ms": 30_000 }))
}

#[tokio::test]
async fn a_shell_outside_of_the_sandbox_runs_no_line_that_was_not_approved() {
    for decision in ["accept", "decline"] {
        let escalated = json!({ "sandbox_permissions": "require_escalated", "justification": "x" });
        let line = "touch ../outside\u{200b}; exit\n";
        let env = TestEnvironment::with_responses(json!([
            terminal("exec sh", escalated),
            types(SESSION, line),
            says("Done.")
        ]))
        .await;
        let server = env.start();
        let (mut peer, thread) = open(&server).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let asked = peer.asked(COMMAND).await;
        assert_eq!(asked.params["command"], "exec sh");
        peer.decide(&asked, "accept").await;
        let asked = peer.asked(COMMAND).await;
        assert_eq!(asked.params["command"], "touch ../outside\\u{200b}; exit\n");
        assert_eq!(asked.params["cwd"], json!(env.workspace()));
        let reason = asked.params["reason"].as_str().unwrap();
        assert!(reason.contains("session 2") && reason.contains("exec sh"), "{reason}");
        peer.decide(&asked, decision).await;
        peer.turn_end(&turn).await;
        let is_accepted = decision == "accept";
        assert_eq!(env.root().join("outside\u{200b}").exists(), is_accepted, "{decision}");
        let item = peer.item("dynamicToolCall").await;
        assert_eq!(item["id"], asked.params["itemId"]);
        assert_eq!((&item["tool"], &item["success"]), (&json!("write_stdin"), &json!(is_accepted)));
        let output = &tool_outputs(&env)[1];
        let expected = if is_accepted { "exited with code 0" } else { "the user declined this" };
        assert!(output.contains(expected), "{output}");
    }
}

#[tokio::test]
async fn a_terminal_with_a_grant_of_the_turn_ends_with_it() {
    for (scope, ends) in [("turn", true), ("session", false)] {
        let asks = json!({ "permissions": { "file_system": { "write": ["../out"] } } });
        let session = 5;
        let env = TestEnvironment::with_responses(json!([
            calls("request_permissions", asks),
            terminal("read -r name; touch ../out/$name", json!({})),
            says("It waits."),
            types(session, "made\n"),
            says("Done."),
        ]))
        .await;
        let out = env.root().join("out");
        std::fs::create_dir(&out).unwrap();
        let server = env.start();
        let (mut peer, thread) = open(&server).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let asked = peer.asked(PERMISSIONS).await;
        let answer = json!({ "permissions": asked.params["permissions"], "scope": scope });
        peer.answer(&asked, answer).await;
        assert_eq!(peer.turn_end(&turn).await["status"], "completed");
        assert!(tool_outputs(&env)[1].contains(&format!("session ID {session}")));
        peer.run_turn(&thread, "Type.").await;
        assert_eq!(out.join("made").exists(), !ends, "{:?}", tool_outputs(&env));
        let output = &tool_outputs(&env)[2];
        assert_eq!(output.contains("granted until the end of the turn"), ends, "{output}");
    }
}
