//! Random trees: whatever happens to them, every turn has one end, and no result and no place is
//! lost.

use super::*;

/// A small generator, so that a failure names the seed that repeats it.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

const NAMES: [&str; 5] = ["Ada", "Basil", "Cleo", "Dario", "Edith"];

/// The names that agents of a tree get, more than any tree here has.
const ALL_NAMES: [&str; 48] = [
    "Ada", "Basil", "Cleo", "Dario", "Edith", "Felix", "Greta", "Hugo", "Iris", "Jonas", "Kira",
    "Leo", "Mira", "Nils", "Olga", "Pavel", "Quinn", "Rosa", "Sven", "Tara", "Ugo", "Vera",
    "Willa", "Xenia", "Yann", "Zora", "Anton", "Bella", "Cyril", "Dana", "Emil", "Flora", "Gino",
    "Hedda", "Ivo", "Jana", "Karl", "Lena", "Milan", "Nora", "Otto", "Petra", "Rufus", "Selma",
    "Tomas", "Ulla", "Viktor", "Wanda",
];

/// One call of a root, at random.
fn any_call(random: &mut Random) -> Value {
    let name = NAMES[random.below(5) as usize];
    let (tool, arguments) = match random.below(8) {
        0..=2 => ("spawn_agent", json!({ "message": "go", "fork_context": random.below(4) == 0 })),
        3 | 4 => {
            let targets: Vec<&str> = NAMES[..1 + random.below(3) as usize].to_vec();
            ("wait_agent", json!({ "targets": targets, "timeout_ms": random.below(60) }))
        }
        5 => {
            let interrupt = random.below(2) == 0;
            ("send_input", json!({ "target": name, "message": "more", "interrupt": interrupt }))
        }
        6 => ("close_agent", json!({ "target": name })),
        _ => ("resume_agent", json!({ "id": name })),
    };
    json!({ "function_call": { "name": tool, "arguments": arguments } })
}

/// Runs a random tree to its end, an interruption or a crash, and checks what is stored of it.
async fn run_tree(seed: u64) {
    let mut random = Random(seed);
    let rounds = 3 + random.below(5);
    let mut responses = Vec::new();
    for _ in 0..rounds {
        let steps: Vec<Value> = (0..=random.below(3)).map(|_| any_call(&mut random)).collect();
        responses.push(json!({ "steps": steps }));
    }
    // In the end each place is free again.
    let close = |name: &&str| {
        json!({ "function_call":
        { "name": "close_agent", "arguments": { "target": name } } })
    };
    responses.push(json!({ "steps": ALL_NAMES.iter().map(close).collect::<Vec<_>>() }));
    let spawn = || {
        json!({ "function_call":
        { "name": "spawn_agent", "arguments": { "message": "last" } } })
    };
    responses.push(json!({ "steps": [spawn(), spawn(), spawn()] }));
    responses.push(says("Done."));
    let mut responses = of(0, responses);
    // Every agent works a while, and once more for each further input; some start agents.
    let delay = random.below(25);
    if random.below(3) == 0 {
        let call = json!({ "name": "spawn_agent", "arguments": { "message": "deeper" } });
        responses.push(json!({ "steps": [{ "function_call": call }] }));
    }
    responses.push(json!({ "steps": [{ "delay_ms": delay }, { "message": "Result." }] }));
    let script = json!({ "on_exhausted": "repeat_last", "responses": responses });
    let mut environment = TestEnvironment::with_script(&script).await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let config = json!({ "agents": { "max_threads": 3, "max_depth": 2 } });
    let thread = peer.start_thread(json!({ "config": config })).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let ending = random.below(3);
    if ending > 0 {
        for _ in 0..random.below(3 * rounds) {
            peer.expect("item/started").await;
            if peer.transcript().iter().any(|line| line.contains("turn/completed")) {
                break;
            }
        }
    }
    let finished = match ending {
        0 => {
            assert_eq!(peer.turn_end(&turn).await["status"], "completed", "seed {seed}");
            true
        }
        1 => {
            let params = json!({ "threadId": thread, "turnId": turn });
            // Refused when the turn has just ended.
            let _ = peer.try_call("turn/interrupt", params).await;
            peer.turn_end(&turn).await;
            false
        }
        _ => false,
    };
    if finished {
        let outputs = outputs(&environment, &thread);
        for output in &outputs[outputs.len() - 3..] {
            assert!(output.contains("agent_id"), "seed {seed}: a place leaks: {outputs:?}");
        }
    }
    let reported = outputs(&environment, &thread);
    if ending == 2 {
        environment.crash();
        drop(server);
    } else {
        server.stop().await;
    }
    let server = environment.start();
    let mut peer = server.connect().await;
    check_stored(&mut peer, &reported, seed).await;
    server.stop().await;
}

/// Every turn has one end, and every result that was reported to the parent is stored.
async fn check_stored(peer: &mut testkit::Peer, reported: &[String], seed: u64) {
    let kinds = json!(["cli", "subAgentThreadSpawn"]);
    let listed = peer.call("thread/list", json!({ "sourceKinds": kinds, "limit": 100 })).await;
    let mut results = std::collections::BTreeMap::new();
    for thread in listed["data"].as_array().unwrap() {
        let params = json!({ "threadId": thread["id"], "includeTurns": true });
        let read = peer.call("thread/read", params).await;
        for turn in read["thread"]["turns"].as_array().unwrap() {
            let status = turn["status"].as_str().unwrap();
            assert!(["completed", "interrupted"].contains(&status), "seed {seed}: {turn}");
            assert!(turn["completedAt"].is_number(), "seed {seed}: {turn}");
            for item in turn["items"].as_array().unwrap() {
                assert_ne!(item["status"], "inProgress", "seed {seed}: {item}");
                if item["type"] == "agentMessage" && status == "completed" {
                    results.insert(thread["id"].as_str().unwrap().to_owned(), item["text"].clone());
                }
            }
        }
    }
    for output in reported {
        let Ok(output) = serde_json::from_str::<Value>(output) else { continue };
        for (agent, state) in output["status"].as_object().into_iter().flatten() {
            if let Some(message) = state.get("completed") {
                assert_eq!(results.get(agent), Some(message), "seed {seed}: a result is lost");
            }
        }
    }
}

/// `AGENT_TREES` sets the number of trees.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_trees_lose_nothing() {
    let trees = std::env::var("AGENT_TREES").map_or(24, |n| n.parse().unwrap());
    for first in (0..trees).step_by(4) {
        let four: Vec<_> = (first..trees.min(first + 4))
            .map(|seed| tokio::spawn(async move { run_tree(seed).await }))
            .collect();
        for tree in four {
            tree.await.unwrap();
        }
    }
}
