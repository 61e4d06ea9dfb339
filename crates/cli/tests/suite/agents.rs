//! The real program with trees of agents, killed with SIGKILL at random points. After each kill every
//! turn of every thread has one end, each result that was reported is stored, and the thread at the
//! root goes on.
//!
//! `AGENTD_AGENT_TREES` sets the number of trees.

use std::collections::BTreeMap;

use crate::common::{Running, TestEnvironment};
use serde_json::{Value, json};

/// Default number of trees.
const TREES: u64 = 30;
/// Environments used in parallel.
const AT_ONCE: u64 = 2;

#[test]
fn trees_of_agents_survive_kills() {
    let trees = std::env::var("AGENTD_AGENT_TREES").map_or(TREES, |n| n.parse().unwrap());
    let workers: Vec<_> = (0..AT_ONCE)
        .map(|first| {
            std::thread::spawn(move || {
                (first..trees).step_by(AT_ONCE as usize).for_each(kill_a_tree);
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("what was reported is kept");
    }
}

fn call(name: &str, arguments: Value) -> Value {
    json!({ "function_call": { "name": name, "arguments": arguments } })
}

/// The root starts three agents, waits for each, gives one further input and closes another.
fn script(delay: u64) -> Value {
    let spawn = || call("spawn_agent", json!({ "message": "work" }));
    let wait = |name: &str| call("wait_agent", json!({ "targets": [name], "timeout_ms": 20_000 }));
    let root = [
        json!({ "steps": [spawn(), spawn(), spawn()] }),
        json!({ "steps": [wait("Ada"), wait("Basil")] }),
        json!({ "steps": [call("send_input", json!({ "target": "Ada", "message": "more" }))] }),
        json!({ "steps": [call("close_agent", json!({ "target": "Cleo" })), wait("Ada")] }),
        json!({ "steps": [{ "message": "All done." }] }),
    ];
    let mut responses: Vec<Value> = root.into();
    responses.iter_mut().for_each(|response| response["conversation"] = 0.into());
    let work = json!({ "steps": [{ "delay_ms": delay }, { "message": "A result." }] });
    responses.extend([work.clone(), work.clone(), work]);
    Value::from(responses)
}

fn kill_a_tree(seed: u64) {
    let env = TestEnvironment::new();
    let model = env.script(&script(seed % 4 * 30));
    let mut server = Running::server(&env, &[]);
    let root = server.thread(&model);
    let input = json!([{ "type": "text", "text": "Go." }]);
    server.send(
        &json!({ "id": 2, "method": "turn/start",
            "params": { "threadId": root, "input": input } })
        .to_string(),
    );
    // Messages after which it is killed; the end of the turn at the latest.
    let mut left = 3 + (seed * 7) % 40;
    let mut reported = BTreeMap::new();
    loop {
        let message = server.message(|_| true);
        note_results(&message, &mut reported);
        left -= 1;
        if left == 0 || message["method"] == "turn/completed" {
            break;
        }
    }
    server.signal("KILL");
    server.end_with_input_open();

    let mut server = Running::server(&env, &[]);
    let mut stored = BTreeMap::new();
    for id in threads(&mut server) {
        stored.extend(check_ends(&mut server, &id));
    }
    for (agent, message) in &reported {
        assert_eq!(stored.get(agent), Some(message), "seed {seed}: a result is lost");
    }
    server.call(9, "thread/resume", json!({ "threadId": root }));
    server.call(10, "turn/start", json!({ "threadId": root, "input": input }));
    let ended = server.message(|message| {
        message["method"] == "turn/completed" && message["params"]["threadId"] == root.as_str()
    });
    assert_eq!(ended["params"]["turn"]["status"], "completed", "seed {seed}: {ended}");
    // Names of agents from before the kill stay theirs, so that the script may not have waited for all
    // agents: their turns end with the server.
    assert!(server.end().0.success(), "seed {seed}");
    let mut server = Running::server(&env, &[]);
    for id in threads(&mut server) {
        check_ends(&mut server, &id);
    }
    assert!(server.end().0.success(), "seed {seed}");
}

/// Remembers the results that were reported to the root, by agent.
fn note_results(message: &Value, reported: &mut BTreeMap<String, Value>) {
    let item = &message["params"]["item"];
    if message["method"] != "item/completed" || item["type"] != "collabToolCall" {
        return;
    }
    for (agent, state) in item["agentsStates"].as_object().into_iter().flatten() {
        if state["status"] == "completed" {
            reported.insert(agent.clone(), state["message"].clone());
        }
    }
}

/// The ids of the root and of its agents.
fn threads(server: &mut Running) -> Vec<String> {
    let kinds = json!(["cli", "editor", "exec", "appServer", "unknown", "subAgentThreadSpawn"]);
    let listed = server.call(3, "thread/list", json!({ "sourceKinds": kinds, "limit": 100 }));
    let data = listed["result"]["data"].as_array().unwrap();
    data.iter().map(|thread| thread["id"].as_str().unwrap().to_owned()).collect()
}

/// Checks that each turn has its end, and returns the final messages of completed ones.
fn check_ends(server: &mut Running, id: &str) -> BTreeMap<String, Value> {
    let read = server.call(4, "thread/read", json!({ "threadId": id, "includeTurns": true }));
    let mut results = BTreeMap::new();
    for turn in read["result"]["thread"]["turns"].as_array().unwrap() {
        let status = turn["status"].as_str().unwrap();
        assert!(["completed", "interrupted"].contains(&status), "{turn}");
        assert!(turn["completedAt"].is_number(), "{turn}");
        for item in turn["items"].as_array().unwrap() {
            assert_ne!(item["status"], "inProgress", "{turn}");
            if item["type"] == "agentMessage" && status == "completed" {
                results.insert(id.to_owned(), item["text"].clone());
            }
        }
    }
    results
}
