//! Commands that keep running: terminals with input, commands that outlive their turn, and the end
//! of all processes that they started.

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, TestServer};

use crate::{calls, runs, says, tool_outputs};

/// The session id that the model gets for the first command of a thread.
const SESSION: u64 = 2;

async fn open(server: &TestServer) -> (Peer, String) {
    let mut peer = server.connect().await;
    let start = json!({ "sandbox": "workspaceWrite", "approvalPolicy": "never" });
    let thread = peer.start_thread(start).await;
    (peer, thread)
}

/// A call that starts a terminal session, which waits for a line.
fn reads_a_line() -> Value {
    calls(
        "exec_command",
        json!({ "cmd": "read -r line; echo \"got $line\"; test -t 0 && echo terminal",
        "tty": true, "yield_time_ms": 250 }),
    )
}

fn types(text: &str) -> Value {
    calls("write_stdin", json!({ "session_id": SESSION, "chars": text, "yield_time_ms": 30_000 }))
}

#[tokio::test]
async fn a_terminal_takes_input() {
    let env =
        TestEnvironment::with_responses(json!([reads_a_line(), types("hello\n"), says("Done.")]))
            .await;
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    assert_eq!(peer.run_turn(&thread, "Go.").await["status"], "completed");
    let item = peer.item("commandExecution").await;
    assert_eq!(item["processId"], SESSION.to_string());
    let output = item["aggregatedOutput"].as_str().unwrap().replace('\r', "");
    assert_eq!(output, "hello\ngot hello\nterminal\n");
    let typed = peer.expect("item/commandExecution/terminalInteraction").await;
    assert_eq!((&typed["itemId"], &typed["stdin"]), (&item["id"], &json!("hello\n")));
    let outputs = tool_outputs(&env);
    assert!(outputs[0].contains(&format!("session ID {SESSION}")), "{outputs:?}");
    assert!(outputs[1].contains("exited with code 0"), "{outputs:?}");
}

#[tokio::test]
async fn a_command_outlives_its_turn_and_its_item_ends_where_it_began() {
    let env = TestEnvironment::with_responses(json!([
        reads_a_line(),
        says("It waits."),
        types("late\n"),
        says("Done."),
    ]))
    .await;
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    let first = peer.run_turn(&thread, "Start it.").await;
    let before =
        peer.expect_where("item/started", |notice| notice["item"]["type"] == "commandExecution");
    let id = before.await["item"]["id"].clone();
    peer.run_turn(&thread, "Type.").await;
    let notice = peer.expect_where("item/completed", |notice| notice["item"]["id"] == id).await;
    assert_eq!((&notice["turnId"], &notice["item"]["exitCode"]), (&first["id"], &json!(0)));
    let read = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    let turns = read["thread"]["turns"].as_array().unwrap();
    let of_turn = |turn: &Value| -> Vec<Value> {
        let items = turn["items"].as_array().unwrap().iter();
        items.filter(|item| item["type"] == "commandExecution").cloned().collect()
    };
    assert_eq!(of_turn(&turns[0]), [notice["item"].clone()]);
    assert!(of_turn(&turns[1]).is_empty());
}

#[tokio::test]
async fn two_commands_of_one_response_run_concurrently() {
    // Each command waits for the other.
    let meet = |mine: &str, other: &str| {
        let cmd = format!("touch {mine}; until test -e {other}; do :; done; echo {mine}");
        json!({ "function_call": { "name": "exec_command", "arguments": { "cmd": cmd } } })
    };
    let both = json!({ "steps": [meet("one", "two"), meet("two", "one")] });
    let env = TestEnvironment::with_responses(json!([both, says("Done.")])).await;
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    assert_eq!(peer.run_turn(&thread, "Go.").await["status"], "completed");
    let outputs = tool_outputs(&env);
    assert!(outputs[0].ends_with("one\n") && outputs[1].ends_with("two\n"), "{outputs:?}");
}

#[tokio::test]
async fn an_interrupt_ends_everything_that_a_command_started() {
    for sandbox in ["workspaceWrite", "dangerFullAccess"] {
        // A duration that no other sleeper on this machine has.
        let mark = format!("31{}.{}", std::process::id(), sandbox.len());
        let command = format!("(setsid sleep {mark} &) ; (sleep {mark} &) ; echo up; sleep {mark}");
        let env = TestEnvironment::with_responses(json!([runs(&command), says("Done.")])).await;
        let server = env.start();
        let mut peer = server.connect().await;
        let start = json!({ "sandbox": sandbox, "approvalPolicy": "never" });
        let thread = peer.start_thread(start).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        peer.expect("item/commandExecution/outputDelta").await;
        until(|| sleepers(&mark) == 3).await;
        peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
        assert_eq!(peer.turn_end(&turn).await["status"], "interrupted");
        assert_eq!(peer.item("commandExecution").await["status"], "failed");
        until(|| sleepers(&mark) == 0).await;
    }
}

#[tokio::test]
async fn the_end_of_the_server_ends_everything_that_its_commands_started() {
    let mark = format!("32{}.1", std::process::id());
    let command = format!("(setsid sleep {mark} &) ; echo up; sleep {mark}");
    let env = TestEnvironment::with_responses(json!([runs(&command), says("Done.")])).await;
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    until(|| sleepers(&mark) == 2).await;
    server.stop().await;
    assert_eq!(peer.turn_end(&turn).await["status"], "interrupted");
    until(|| sleepers(&mark) == 0).await;
}

/// The number of processes that sleep for this duration, without the shells that started them.
pub(crate) fn sleepers(mark: &str) -> usize {
    let wanted = format!("sleep\0{mark}\0");
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line == wanted.as_bytes()).count()
}

pub(crate) async fn until(holds: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if holds() {
            return;
        }
        // tidy: sleep because other processes' starts and ends have no event to wait for.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("it does not come to be");
}
