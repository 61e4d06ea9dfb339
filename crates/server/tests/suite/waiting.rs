//! Requests that wait for something outside the server hold up no others, on their connection or
//! elsewhere, except those about the same thread whose order matters. Here the outside waits until a
//! test lets it go on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::mcp_servers::Bench;
use crate::{runs, says};

/// A thread whose turn runs until it is interrupted.
async fn busy_thread(peer: &mut Peer) -> (String, String) {
    let thread = peer.start_thread(json!({ "sandbox": "workspaceWrite" })).await;
    let turn = busy_turn(peer, &thread).await;
    (thread, turn)
}

async fn busy_turn(peer: &mut Peer, thread: &str) -> String {
    let turn = peer.start_turn(thread, "Go.").await;
    let is_command = |started: &Value| {
        started["turnId"] == turn && started["item"]["type"] == "commandExecution"
    };
    peer.expect_where("item/started", is_command).await;
    turn
}

async fn interrupt(peer: &mut Peer, thread: &str, turn: &str) {
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    assert_eq!(peer.turn_end(turn).await["status"], "interrupted");
}

/// Requests that need nothing outside the server.
async fn read(peer: &mut Peer, thread: &str) {
    peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    peer.call("thread/list", json!({})).await;
    peer.call("thread/loaded/list", json!({})).await;
}

/// The ids of the calls that are answered, in the order of the responses.
fn answered(peer: &Peer) -> Vec<i64> {
    let messages = peer.raw_lines().iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    messages
        .filter(|message| message["method"].is_null())
        .filter_map(|message| message["id"].as_i64())
        .collect()
}

/// Waits for a process that makes this file.
async fn exists(path: &Path) {
    while !path.exists() {
        // tidy: sleep processes of others report nothing
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A configuration with a required server that is ready once the file `gate` is there.
fn gated_server(bench: &Bench, gate: &Path) -> Value {
    let script = bench.env.root().join("server.sh");
    let line = format!(
        "while ! [ -e {} ]; do sleep 0.01; done; exec sh {} {}",
        gate.display(),
        script.display(),
        gate.with_extension("log").display()
    );
    json!({ "mcp_servers": { "needed": {
        "command": "sh", "args": ["-c", line], "required": true, "startup_timeout_ms": 60_000,
    } } })
}

#[tokio::test]
async fn a_required_server_holds_up_only_the_thread_that_needs_it() {
    let responses = json!([runs("sleep 1000"), runs("sleep 1000")]);
    let bench = Bench::with_responses(responses, "").await;
    let server = bench.env.start();
    let start = json!({ "sandbox": "workspaceWrite" });
    let stored = server.connect().await.start_thread(start).await;
    server.stop().await;
    let server = bench.env.start();
    let mut peer = server.connect().await;
    let (busy, mut turn) = busy_thread(&mut peer).await;
    for (method, thread) in [("thread/start", None), ("thread/resume", Some(&stored))] {
        let gate: PathBuf = bench.env.root().join(method.replace('/', "-"));
        let mut params = json!({ "config": gated_server(&bench, &gate) });
        if let Some(thread) = thread {
            params["threadId"] = json!(thread);
        }
        let waiting = peer.send(method, params).await;
        // Handled after it, when they are about the same thread.
        let renamed = json!({ "threadId": stored, "name": method });
        let renamed = peer.send("thread/name/set", renamed).await;
        read(&mut peer, &busy).await;
        read(&mut peer, &stored).await;
        interrupt(&mut peer, &busy, &turn).await;
        let other = json!({ "threadId": busy, "name": "Quick" });
        peer.call("thread/name/set", other).await;
        assert!(!answered(&peer).contains(&waiting), "{method}");
        assert!(thread.is_none() || !answered(&peer).contains(&renamed), "{method}");
        if thread.is_none() {
            turn = busy_turn(&mut peer, &busy).await;
        }
        std::fs::write(&gate, "").unwrap();
        peer.response(waiting).await.unwrap();
        peer.response(renamed).await.unwrap();
    }
    let turn = busy_turn(&mut peer, &stored).await;
    interrupt(&mut peer, &stored, &turn).await;
}

#[tokio::test]
async fn a_mention_of_a_slow_resource_holds_up_only_the_input_of_its_thread() {
    let responses = json!([runs("sleep 1000"), says("Next.")]);
    let bench = Bench::with_responses(responses, "").await;
    let server = bench.env.start();
    let mut peer = server.connect().await;
    let (thread, turn) = busy_thread(&mut peer).await;
    let other = peer.start_thread(json!({ "sandbox": "workspaceWrite" })).await;
    let mention = json!({ "type": "mention", "name": "one:slow", "path": "test://slow" });
    let steer = json!({ "threadId": thread, "expectedTurnId": turn, "input": [mention] });
    let steer = peer.send("turn/steer", steer).await;
    let next = json!({ "threadId": thread, "input": [{ "type": "text", "text": "Next." }] });
    let next = peer.send("turn/start", next).await;
    read(&mut peer, &thread).await;
    interrupt(&mut peer, &thread, &turn).await;
    let quick = busy_turn(&mut peer, &other).await;
    interrupt(&mut peer, &other, &quick).await;
    read(&mut peer, &thread).await;
    let before = answered(&peer);
    assert!(!before.contains(&steer) && !before.contains(&next), "{before:?}");
    std::fs::write(bench.env.root().join("server.log.go"), "").unwrap();
    let refused = peer.response(steer).await.unwrap_err();
    assert!(refused.message.contains("turn"), "{}", refused.message);
    let started = peer.response(next).await.unwrap();
    let ended = peer.turn_end(started["turn"]["id"].as_str().unwrap()).await;
    assert_eq!(ended["status"], "completed");
    assert!(answered(&peer).ends_with(&[steer, next]));
}

/// An environment with one hook of the user.
async fn with_hook(event: &str, line: &str, responses: Value) -> TestEnvironment {
    let env = TestEnvironment::with_responses(responses).await;
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!("{config}\n[features]\nhooks = true\n"));
    let handler = json!({ "type": "command", "command": line });
    let hooks = json!({ "hooks": { event: [{ "hooks": [handler] }] } });
    std::fs::write(env.home().join("hooks.json"), hooks.to_string()).unwrap();
    env
}

#[tokio::test]
async fn hooks_of_a_turn_hold_up_no_interrupt_and_no_read() {
    let line = "grep -q Slow && sleep 1000; true";
    let env = with_hook("UserPromptSubmit", line, json!([runs("sleep 1000")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let (busy, turn) = busy_thread(&mut peer).await;
    let slow = peer.start_thread(json!({})).await;
    let input = json!({ "threadId": slow, "input": [{ "type": "text", "text": "Slow." }] });
    let started = peer.send("turn/start", input).await;
    read(&mut peer, &slow).await;
    interrupt(&mut peer, &busy, &turn).await;
    let started = peer.response(started).await.unwrap();
    let is_slow = |begun: &Value| begun["threadId"] == slow.as_str();
    peer.expect_where("hook/started", is_slow).await;
    read(&mut peer, &slow).await;
    interrupt(&mut peer, &slow, started["turn"]["id"].as_str().unwrap()).await;
}

#[tokio::test]
async fn the_end_of_a_thread_with_its_hooks_holds_up_no_other_thread() {
    for ends in ["thread/archive", "thread/delete", "unload"] {
        let folder = tempfile::tempdir().unwrap();
        let (began, gate) = (folder.path().join("began"), folder.path().join("gate"));
        let (touched, awaited) = (began.display(), gate.display());
        let line = format!("touch {touched}; while ! [ -e {awaited} ]; do sleep 0.01; done");
        let env = with_hook("SessionEnd", &line, json!([says("One.")])).await;
        let server = env.start();
        let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
        let mut other = server.connect().await;
        let kept = peer.start_thread(json!({})).await;
        let ending = peer.start_thread(json!({})).await;
        peer.run_turn(&ending, "Go.").await;
        let waiting = match ends {
            "unload" => {
                peer.call("thread/unsubscribe", json!({ "threadId": ending })).await;
                tokio::time::pause();
                tokio::time::advance(Duration::from_secs(31 * 60)).await;
                tokio::time::resume();
                None
            }
            method => Some(peer.send(method, json!({ "threadId": ending })).await),
        };
        exists(&began).await;
        for (peer, name) in [(&mut peer, "One"), (&mut other, "Two")] {
            let name = json!({ "threadId": kept, "name": name });
            peer.call("thread/name/set", name).await;
            peer.call("thread/resume", json!({ "threadId": kept })).await;
        }
        let is_over = match waiting {
            Some(waiting) => answered(&peer).contains(&waiting),
            None => peer.settled().await.contains(&"thread/closed".to_owned()),
        };
        assert!(!is_over, "{ends}");
        std::fs::write(&gate, "").unwrap();
        match waiting {
            Some(waiting) => drop(peer.response(waiting).await.unwrap()),
            None => drop(peer.expect("thread/closed").await),
        }
    }
}

#[tokio::test]
async fn requests_about_one_thread_are_handled_in_order() {
    let env = TestEnvironment::with_responses(json!([says("One.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let mut sent = Vec::new();
    for number in 0..100 {
        let name = json!({ "threadId": thread, "name": format!("Name {number}") });
        sent.push(peer.send("thread/name/set", name).await);
    }
    peer.response(*sent.last().unwrap()).await.unwrap();
    assert!(answered(&peer).ends_with(&sent));
    let read = peer.call("thread/read", json!({ "threadId": thread })).await;
    assert_eq!(read["thread"]["name"], "Name 99");
}

#[tokio::test]
async fn a_request_that_waits_takes_effect_although_its_client_leaves() {
    let bench = Bench::with_responses(json!([says("One.")]), "").await;
    let server = bench.env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let mut other = server.connect().await;
    other.call("thread/resume", json!({ "threadId": thread })).await;
    let mention = json!({ "type": "mention", "name": "one:slow", "path": "test://slow" });
    let start = json!({ "threadId": thread, "input": [mention] });
    let start = peer.send("turn/start", start).await;
    peer.settled().await;
    assert!(!answered(&peer).contains(&start));
    drop(peer);
    other.settled().await;
    std::fs::write(bench.env.root().join("server.log.go"), "").unwrap();
    assert_eq!(other.expect("turn/completed").await["turn"]["status"], "completed");
}
