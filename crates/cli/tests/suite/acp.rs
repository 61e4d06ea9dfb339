//! `agentd acp` from outside: the real program on standard input and output.

use std::process::Command;

use crate::common::{Running, TestEnvironment, stderr};
use serde_json::{Value, json};

/// Prepares the program with a script as its model.
fn program(env: &TestEnvironment, responses: &Value, more: &[&str]) -> Command {
    let model = format!("model={:?}", env.script(responses));
    let settings = ["acp", "-c", r#"model_provider="offline""#, "-c", &model];
    env.agentd(&[&settings[..], more].concat())
}

fn send(editor: &mut Running, id: i64, method: &str, params: &Value) {
    let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    editor.send(&message.to_string());
}

fn answer(editor: &Running, id: i64) -> Value {
    editor.message(|message| message["id"] == id && message.get("method").is_none())
}

/// The handshake and a session.
fn open(editor: &mut Running, env: &TestEnvironment) -> String {
    send(editor, 1, "initialize", &json!({ "protocolVersion": 1 }));
    assert_eq!(answer(editor, 1)["result"]["protocolVersion"], 1);
    send(editor, 2, "session/new", &json!({ "cwd": env.work(), "mcpServers": [] }));
    answer(editor, 2)["result"]["sessionId"].as_str().unwrap().to_owned()
}

fn prompt(editor: &mut Running, id: i64, session: &str, text: &str) {
    let prompt = json!([{ "type": "text", "text": text }]);
    send(editor, id, "session/prompt", &json!({ "sessionId": session, "prompt": prompt }));
}

fn idle() -> Value {
    json!([{ "steps": [{ "message": "I begin." }, "idle"] }])
}

#[test]
fn an_editor_that_goes_away_leaves_an_interrupted_turn() {
    let env = TestEnvironment::new();
    let mut editor = Running::start(&mut program(&env, &idle(), &[]));
    let session = open(&mut editor, &env);
    prompt(&mut editor, 3, &session, "Go.");
    editor.message(|message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
    let (status, _) = editor.end();
    assert_eq!(status.code(), Some(0));

    let mut editor = Running::start(&mut program(&env, &idle(), &[]));
    send(&mut editor, 1, "initialize", &json!({ "protocolVersion": 1 }));
    let place = json!({ "sessionId": session, "cwd": env.work(), "mcpServers": [] });
    send(&mut editor, 2, "session/load", &place);
    editor.message(|message| message["params"]["update"]["content"]["text"] == "Go.");
    assert!(answer(&editor, 2).get("result").is_some());
    editor.end();
    let mut server = Running::server(&env, &[]);
    let turns = server.call(1, "thread/turns/list", json!({ "threadId": session }));
    assert_eq!(turns["result"]["data"][0]["status"], "interrupted", "{turns}");
}

#[test]
fn a_line_of_100_megabytes_is_refused_in_bounded_memory_and_the_program_goes_on() {
    let env = TestEnvironment::new();
    let mut editor = Running::start(&mut program(&env, &idle(), &[]));
    editor.send(&"x".repeat(100 << 20));
    let refused = editor.message(|message| message["id"].is_null());
    assert_eq!(refused["error"]["code"], -32600);
    let status = std::fs::read_to_string(format!("/proc/{}/status", editor.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 300 << 10, "{peak} kB");
    open(&mut editor, &env);
}

#[test]
fn a_running_server_is_used_and_a_wrong_address_is_named() {
    let env = TestEnvironment::new();
    let responses = json!([{ "steps": [{ "message": "Hello." }] }]);
    let model = format!("model={:?}", env.script(&responses));
    let socket = env.tmp().join("agentd.sock");
    let address = format!("unix://{}", socket.display());
    let provider = r#"model_provider="offline""#;
    let arguments = ["app-server", "--listen", &address, "-c", provider, "-c", &model];
    let server = Running::start(&mut env.agentd(&arguments));
    while !socket.exists() {
        std::thread::yield_now();
    }
    let mut editor = Running::start(&mut env.agentd(&["acp", "--connect", &address]));
    let session = open(&mut editor, &env);
    prompt(&mut editor, 3, &session, "Go.");
    assert_eq!(answer(&editor, 3)["result"]["stopReason"], "end_turn");
    prompt(&mut editor, 4, &session, "Go.");
    server.signal("KILL");
    let lost = answer(&editor, 4);
    assert!(lost["error"]["message"].is_string(), "{lost}");
    assert_eq!(editor.end_with_input_open().0.code(), Some(1));

    for address in ["http://h", "unix:///nowhere/agentd.sock"] {
        let failed = env.run(&["acp", "--connect", address]);
        assert_eq!(failed.status.code(), Some(2), "{address}: {}", stderr(&failed));
    }
}
