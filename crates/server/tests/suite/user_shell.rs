//! Commands that the user runs in a thread (specification: `thread/shellCommand`,
//! `thread/backgroundTerminals/clean`).

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, assert_lines};

use crate::{calls, runs, says};

fn shell(thread: &str, command: &str) -> Value {
    json!({ "threadId": thread, "command": command })
}

#[tokio::test]
async fn a_user_command_on_an_idle_thread_is_a_turn() {
    let env = TestEnvironment::with_responses(json!([says("I saw it.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    // The user's own command is neither confined nor subject to approval.
    let params = json!({ "sandbox": "readOnly", "approvalPolicy": "never" });
    let thread = peer.start_thread(params).await;
    peer.forget();
    let command = shell(&thread, "echo made > file; cat file; exit 3");
    assert_eq!(peer.call("thread/shellCommand", command).await, json!({}));
    let item = peer.item("commandExecution").await;
    assert_eq!((&item["source"], &item["status"]), (&json!("userShell"), &json!("failed")));
    assert_eq!((&item["exitCode"], &item["aggregatedOutput"]), (&json!(3), &json!("made\n")));
    peer.expect("turn/completed").await;
    assert_lines(
        peer.transcript(),
        "> thread/shellCommand
         < thread/shellCommand
         * thread/status/changed active
         * turn/started turn1 inProgress
         * item/started item1 commandExecution inProgress \"echo made > file; cat file; exit 3\"
         * item/commandExecution/outputDelta item1 \"made\\n\"
         * item/completed item1 commandExecution failed \"echo made > file; cat file; exit 3\" exit 3 output \"made\\n\"
         * turn/completed turn1 completed",
    );
    assert!(env.workspace().join("file").exists());
    assert!(env.model().requests().is_empty(), "the model is not asked");
    peer.run_turn(&thread, "Did you see?").await;
    let request = env.model().raw_requests().pop().unwrap();
    assert!(request.contains("user_shell_command") && request.contains("exit code 3"), "{request}");
    for bad in ["", "  ", "a\0b"] {
        let fault = peer.refused("thread/shellCommand", shell(&thread, bad)).await;
        assert!(fault.message.contains("`command`"), "{fault:?}");
    }
}

#[tokio::test]
async fn the_output_of_a_user_command_during_a_turn_reaches_the_model() {
    let env = TestEnvironment::with_responses(json!([runs("touch made"), says("Done.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({ "approvalPolicy": "unlessTrusted" })).await;
    let turn = peer.start_turn(&thread, "Begin.").await;
    let approval = peer.asked("item/commandExecution/requestApproval").await;
    peer.call("thread/shellCommand", shell(&thread, "echo MINE")).await;
    let item =
        peer.expect_where("item/completed", |params| params["item"]["source"] == "userShell");
    let item = item.await;
    assert_eq!(item["turnId"], turn);
    peer.decide(&approval, "decline").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    let request = env.model().raw_requests().pop().unwrap();
    assert!(request.contains("MINE"), "{request}");
    assert_eq!(env.model().requests().len(), 2);
}

/// A command that prints `text` when the file `gate` of the workspace exists.
fn gated(gate: &str, text: &str) -> String {
    format!("until [ -e {gate} ]; do sleep 0.01; done; echo {text}")
}

/// Each item of the thread's turns: its kind and its status.
async fn stored_items(peer: &mut Peer, thread: &str) -> Vec<(String, Value)> {
    let read = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    let turns = read["thread"]["turns"].as_array().unwrap().clone();
    let items = turns.iter().flat_map(|turn| turn["items"].as_array().unwrap());
    items.map(|item| (item["type"].as_str().unwrap().to_owned(), item["status"].clone())).collect()
}

#[tokio::test]
async fn a_turn_waits_for_the_commands_that_its_user_runs_in_it() {
    // The model has finished when the commands end, in either order; then it learns of them.
    for order in [["first", "second"], ["second", "first"]] {
        let asks = runs("touch made");
        let env = TestEnvironment::with_responses(json!([
            asks,
            says("Done."),
            says("Seen one."),
            says("Seen both.")
        ]))
        .await;
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({ "approvalPolicy": "unlessTrusted" })).await;
        let turn = peer.start_turn(&thread, "Begin.").await;
        let approval = peer.asked("item/commandExecution/requestApproval").await;
        for gate in ["first", "second"] {
            peer.call("thread/shellCommand", shell(&thread, &gated(gate, gate))).await;
        }
        peer.decide(&approval, "decline").await;
        peer.expect_where("item/completed", |params| params["item"]["text"] == "Done.").await;
        let seen = peer.settled().await;
        assert!(!seen.contains(&"turn/completed".to_owned()), "{seen:?}");
        for (gate, text) in order.into_iter().zip(["Seen one.", "Seen both."]) {
            std::fs::write(env.workspace().join(gate), "").unwrap();
            peer.expect_where("item/completed", |params| params["item"]["text"] == text).await;
            let request = env.model().raw_requests().pop().unwrap();
            assert!(request.contains(&format!("exit code 0\\n{gate}")), "{request}");
        }
        let end = peer.turn_end(&turn).await;
        assert_eq!(end["status"], "completed");
        for (kind, status) in stored_items(&mut peer, &thread).await {
            assert_ne!(status, "inProgress", "{kind}");
        }
    }
}

#[tokio::test]
async fn a_turn_of_two_commands_ends_with_the_last_and_asks_no_model() {
    for order in [["first", "second"], ["second", "first"]] {
        let env = TestEnvironment::with_responses(json!([says("I saw both.")])).await;
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        for gate in ["first", "second"] {
            peer.call("thread/shellCommand", shell(&thread, &gated(gate, gate))).await;
        }
        let turn = peer.expect("turn/started").await["turn"]["id"].as_str().unwrap().to_owned();
        std::fs::write(env.workspace().join(order[0]), "").unwrap();
        assert_eq!(
            peer.item("commandExecution").await["aggregatedOutput"],
            format!("{}\n", order[0])
        );
        let seen = peer.settled().await;
        assert!(!seen.contains(&"turn/completed".to_owned()), "{seen:?}");
        std::fs::write(env.workspace().join(order[1]), "").unwrap();
        assert_eq!(peer.turn_end(&turn).await["status"], "completed");
        let completed = ("commandExecution".to_owned(), json!("completed"));
        assert_eq!(stored_items(&mut peer, &thread).await, [completed.clone(), completed]);
        assert!(env.model().requests().is_empty());
        peer.run_turn(&thread, "Did you see?").await;
        let request = env.model().raw_requests().pop().unwrap();
        let places = order.map(|gate| request.find(&format!("exit code 0\\n{gate}")).unwrap());
        assert!(places[0] < places[1]);
    }
}

#[tokio::test]
async fn an_interrupt_reaches_all_commands_of_the_user() {
    for in_turn in [true, false] {
        let asks = in_turn.then(|| runs("touch made"));
        let responses = Value::from_iter(asks.into_iter().chain([says("On.")]));
        let env = TestEnvironment::with_responses(responses).await;
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({ "approvalPolicy": "unlessTrusted" })).await;
        if in_turn {
            peer.start_turn(&thread, "Begin.").await;
            peer.asked("item/commandExecution/requestApproval").await;
        }
        for text in ["one", "two"] {
            let script = format!("echo {text}; exec sleep 600");
            peer.call("thread/shellCommand", shell(&thread, &script)).await;
            peer.expect("item/commandExecution/outputDelta").await;
        }
        let read = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true }));
        let turn = read.await["thread"]["turns"][0]["id"].as_str().unwrap().to_owned();
        peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
        assert_eq!(peer.turn_end(&turn).await["status"], "interrupted");
        let items = stored_items(&mut peer, &thread).await;
        let failed = items.iter().filter(|(_, status)| *status == "failed").count();
        assert_eq!(failed, 2, "{items:?}");
        assert!(items.iter().all(|(_, status)| *status != "inProgress"), "{items:?}");
        // What they wrote until then is part of the next request.
        peer.run_turn(&thread, "Go on.").await;
        let request = env.model().raw_requests().pop().unwrap();
        assert!(request.contains("no exit code") && request.contains("two"), "{request}");
    }
}

#[tokio::test]
async fn a_crash_ends_the_turn_and_its_commands() {
    let mut env = TestEnvironment::with_responses(json!([says("x")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    for text in ["one", "two"] {
        let script = format!("echo {text}; exec sleep 600");
        peer.call("thread/shellCommand", shell(&thread, &script)).await;
        peer.expect("item/commandExecution/outputDelta").await;
    }
    env.crash();
    let after = env.start();
    let mut late = after.connect().await;
    let items = stored_items(&mut late, &thread).await;
    let failed = ("commandExecution".to_owned(), json!("failed"));
    assert_eq!(items, [failed.clone(), failed]);
}

#[tokio::test]
async fn a_command_that_does_not_end_is_interrupted() {
    let env = TestEnvironment::with_responses(json!([says("x")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.call("thread/shellCommand", shell(&thread, "echo begun; sleep 600")).await;
    let turn = peer.expect("turn/started").await["turn"]["id"].as_str().unwrap().to_owned();
    peer.expect("item/commandExecution/outputDelta").await;
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    let item = peer.item("commandExecution").await;
    assert_eq!((&item["status"], &item["aggregatedOutput"]), (&json!("failed"), &json!("begun\n")));
    assert_eq!(peer.turn_end(&turn).await["status"], "interrupted");
}

#[tokio::test]
async fn background_terminals_are_cleaned() {
    let background = calls("exec_command", json!({ "cmd": "sleep 600", "yield_time_ms": 250 }));
    let env = TestEnvironment::with_responses(json!([background, says("It runs.")])).await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer
        .start_thread(json!({ "sandbox": "dangerFullAccess", "approvalPolicy": "never" }))
        .await;
    peer.run_turn(&thread, "Start it.").await;
    let cleaned =
        peer.call("thread/backgroundTerminals/clean", json!({ "threadId": thread })).await;
    assert_eq!(cleaned, json!({}));
    let item = peer.item("commandExecution").await;
    assert_eq!((&item["command"], &item["status"]), (&json!("sleep 600"), &json!("failed")));
    peer.refused("thread/backgroundTerminals/clean", json!({ "threadId": "unknown" })).await;
}

#[tokio::test]
async fn a_user_command_that_may_not_have_full_access_is_refused() {
    let forbidden = "[[rules.prefix_rules]]\npattern = [{ token = \"touch\" }]\n\
                     decision = \"forbidden\"\njustification = \"ours\"\n";
    let confined = "allowed_sandbox_modes = [\"read-only\", \"workspace-write\"]\n";
    for (requirements, expected) in [
        (forbidden, "a rule forbids this command: ours"),
        (confined, "outside the sandbox are not allowed by"),
    ] {
        let env = TestEnvironment::with_responses(json!([says("x")])).await;
        std::fs::create_dir_all(env.system_dir()).unwrap();
        std::fs::write(env.system_dir().join("requirements.toml"), requirements).unwrap();
        let server = env.start();
        let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
        let thread = peer.start_thread(json!({})).await;
        let fault = peer.refused("thread/shellCommand", shell(&thread, "true; touch made")).await;
        assert_eq!(fault.code, -32600);
        assert!(fault.message.contains(expected), "{fault:?}");
        let spawn = json!({ "command": ["touch", "made"], "processHandle": "a",
            "cwd": env.workspace() });
        let spawned = peer.refused("process/spawn", spawn).await;
        assert_eq!((spawned.code, &spawned.message), (fault.code, &fault.message));
        if requirements == forbidden {
            for policy in ["dangerFullAccess", "workspaceWrite"] {
                let exec = json!({ "command": ["touch", "made"], "cwd": env.workspace(),
                    "sandboxPolicy": { "type": policy } });
                let refused = peer.refused("command/exec", exec).await;
                assert_eq!((refused.code, &refused.message), (spawned.code, &spawned.message));
            }
        }
        assert!(!env.workspace().join("made").exists());
        let seen = peer.settled().await;
        assert!(!seen.contains(&"turn/started".to_owned()), "{seen:?}");
    }
}

#[tokio::test]
async fn a_user_s_rule_forbids_the_user_s_command_too() {
    let env = TestEnvironment::with_responses(json!([says("x")])).await;
    let rules = env.home().join("rules");
    std::fs::create_dir_all(&rules).unwrap();
    let rule = "prefix_rule(pattern=['touch'], decision='forbidden')";
    std::fs::write(rules.join("a.rules"), rule).unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let fault = peer.refused("thread/shellCommand", shell(&thread, "touch made")).await;
    assert!(fault.message.contains("a.rules:1"), "{fault:?}");
    let exec =
        json!({ "command": ["touch", "made"], "sandboxPolicy": { "type": "dangerFullAccess" } });
    let fault = peer.refused("command/exec", exec).await;
    assert!(fault.message.contains("a.rules:1"), "{fault:?}");
    peer.call("thread/shellCommand", shell(&thread, "echo fine")).await;
    assert_eq!(peer.item("commandExecution").await["status"], "completed");
}
