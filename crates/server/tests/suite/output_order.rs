//! What a command writes to standard output and standard error arrives in the order in which it was
//! written, with every tool that shows one text.

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::says;

/// Runs of each tool.
const RUNS: usize = 200;
/// Calls of one response, which run at the same time.
const CALLS: usize = 10;

const SCRIPT: &str = "i=0; while [ $i -lt 20 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done";

fn expected() -> String {
    (0..20).map(|i| format!("out {i}\nerr {i}\n")).collect()
}

/// A thread of a model that calls a tool in every run.
async fn check(name: &str, arguments: Value) {
    let call = json!({ "function_call": { "name": name, "arguments": arguments } });
    let response = json!({ "steps": vec![call; CALLS] });
    let mut responses = vec![response; RUNS / CALLS];
    responses.push(says("Done."));
    let env = TestEnvironment::with_responses(Value::from(responses)).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let params = json!({ "sandbox": "dangerFullAccess", "approvalPolicy": "never" });
    let thread = peer.start_thread(params).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    assert_eq!(in_order(&peer), RUNS);
}

/// The number of commands that ended, each with its output in order, also in its deltas.
fn in_order(peer: &Peer) -> usize {
    let expected = expected();
    let mut deltas = std::collections::BTreeMap::<String, String>::new();
    let mut ended = 0;
    for line in peer.raw_lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        let params = &message["params"];
        match message["method"].as_str() {
            Some("item/commandExecution/outputDelta") => {
                let id = params["itemId"].as_str().unwrap().to_owned();
                deltas.entry(id).or_default().push_str(params["delta"].as_str().unwrap());
            }
            Some("item/completed") if params["item"]["type"] == "commandExecution" => {
                assert_eq!(params["item"]["aggregatedOutput"], expected);
                assert_eq!(deltas[params["item"]["id"].as_str().unwrap()], expected);
                ended += 1;
            }
            _ => {}
        }
    }
    ended
}

#[tokio::test]
async fn outputs_of_exec_command_are_in_order() {
    check("exec_command", json!({ "cmd": SCRIPT, "yield_time_ms": 60_000 })).await;
}

#[tokio::test]
async fn outputs_of_shell_are_in_order() {
    check("shell", json!({ "command": ["sh", "-c", SCRIPT] })).await;
}

#[tokio::test]
async fn outputs_of_the_user_s_commands_are_in_order() {
    let env = TestEnvironment::with_responses(json!([says("x")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    for _ in 0..RUNS {
        let command = json!({ "threadId": thread, "command": SCRIPT });
        peer.call("thread/shellCommand", command).await;
        peer.expect("turn/completed").await;
    }
    assert_eq!(in_order(&peer), RUNS);
}
