//! Prompts that are open outside the server: while one is counted, the clock of a thread's turn stands
//! still: its commands' time limits, its budget's seconds, and those of its agents
//! (`thread/increment_elicitation`, experimental).

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::agents::{of, outputs, parsed};
use crate::{calls, runs, says, tool_outputs};

const INCREMENT: &str = "thread/increment_elicitation";
const DECREMENT: &str = "thread/decrement_elicitation";

fn experimental() -> Value {
    json!({ "experimentalApi": true })
}

async fn change(peer: &mut Peer, method: &str, thread: &str) -> Value {
    peer.call(method, json!({ "threadId": thread })).await
}

#[tokio::test]
async fn connections_count_their_own_prompts() {
    let env = TestEnvironment::with_responses(json!([says("Hi.")])).await;
    let server = env.start();
    let mut first = server.connect_with(experimental()).await;
    let mut second = server.connect_with(experimental()).await;
    let thread = first.start_thread(json!({})).await;
    let other = first.start_thread(json!({})).await;
    let refused = first.refused(DECREMENT, json!({ "threadId": thread })).await;
    assert!(refused.message.contains("counts no open prompt"), "{refused:?}");
    let counted = |count: u64| json!({ "count": count, "paused": count > 0 });
    assert_eq!(change(&mut first, INCREMENT, &thread).await, counted(1));
    assert_eq!(change(&mut second, INCREMENT, &thread).await, counted(2));
    assert_eq!(change(&mut second, INCREMENT, &thread).await, counted(3));
    assert_eq!(change(&mut second, INCREMENT, &other).await, counted(1), "each thread has its own");
    assert_eq!(change(&mut first, DECREMENT, &thread).await, counted(2));
    let refused = first.refused(DECREMENT, json!({ "threadId": thread })).await;
    assert!(refused.message.contains("other connections count 2"), "{refused:?}");
    // A connection that ends gives back what it counted.
    drop(second);
    let mut count = 3;
    while count != 1 {
        count = change(&mut first, INCREMENT, &thread).await["count"].as_u64().unwrap();
        change(&mut first, DECREMENT, &thread).await;
    }
    let refused = first.refused(INCREMENT, json!({ "threadId": "nope" })).await;
    assert!(!refused.message.is_empty());
    let mut plain = server.connect().await;
    let refused = plain.refused(INCREMENT, json!({ "threadId": thread })).await;
    assert_eq!(refused.message, format!("{INCREMENT} requires experimentalApi capability"));
}

/// A command with a time limit of 2 s runs for 3 s. A prompt that is open meanwhile lets it.
#[tokio::test]
async fn time_limits_stand_still_while_a_prompt_is_open() {
    for pauses in [true, false] {
        let argv = ["sh", "-c", "sleep 3; echo finished"];
        let call = calls("shell", json!({ "command": argv, "timeout_ms": 2_000 }));
        let mut env = TestEnvironment::with_responses(json!([call, says("Done.")])).await;
        env.config_overrides.push("features.unified_exec=false".to_owned());
        let server = env.start();
        let mut peer = server.connect_with(experimental()).await;
        let thread = peer.start_thread(json!({ "approvalPolicy": "never" })).await;
        if pauses {
            change(&mut peer, INCREMENT, &thread).await;
        }
        let turn = peer.start_turn(&thread, "Go.").await;
        let end = tokio::time::timeout(Duration::from_secs(20), peer.turn_end(&turn)).await;
        assert_eq!(end.unwrap()["status"], "completed");
        let output = &tool_outputs(&env)[0];
        assert_eq!(output.contains("finished"), pauses, "{output}");
    }
}

/// The wait of a call for its command's output stands still too, and goes on with the connection's
/// end.
#[tokio::test]
async fn a_call_waits_until_the_prompt_is_closed() {
    let arguments = json!({ "cmd": "sleep 60", "yield_time_ms": 300 });
    let call = calls("exec_command", arguments);
    let env = TestEnvironment::with_responses(json!([call, says("Done.")])).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let mut counting = server.connect_with(experimental()).await;
    let thread = peer.start_thread(json!({ "approvalPolicy": "never" })).await;
    change(&mut counting, INCREMENT, &thread).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let early = tokio::time::timeout(Duration::from_secs(2), peer.turn_end(&turn)).await;
    assert!(early.is_err(), "the call has not been answered");
    drop(counting);
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
}

/// The turn has 2 s, and its command takes 3. Time goes on when the prompt closes.
#[tokio::test]
async fn the_seconds_of_a_budget_do_not_pass_while_a_prompt_is_open() {
    for closes in [false, true] {
        let responses = json!([runs("sleep 3"), runs("sleep 30"), says("Done.")]);
        let responses = if closes { responses } else { json!([runs("sleep 3"), says("Done.")]) };
        let mut env = TestEnvironment::with_responses(responses).await;
        env.config_overrides.push("agents.max_total_seconds=2".to_owned());
        let server = env.start();
        let mut peer = server.connect_with(experimental()).await;
        let thread = peer.start_thread(json!({ "approvalPolicy": "never" })).await;
        // Before the turn, or while it runs.
        if closes {
            change(&mut peer, INCREMENT, &thread).await;
        }
        let turn = peer.start_turn(&thread, "Go.").await;
        if !closes {
            change(&mut peer, INCREMENT, &thread).await;
        }
        peer.item("commandExecution").await;
        if closes {
            change(&mut peer, DECREMENT, &thread).await;
        }
        let end =
            tokio::time::timeout(Duration::from_secs(20), peer.turn_end(&turn)).await.unwrap();
        let expected = if closes { "failed" } else { "completed" };
        assert_eq!(end["status"], expected, "{end}");
        if closes {
            let message = end["error"]["message"].as_str().unwrap();
            assert!(message.contains("agents.max_total_seconds"), "{message}");
        }
    }
}

/// A prompt of the root pauses the command of its agent, which has a time limit of 1 s and runs for 2,
/// and the seconds that both may take. A prompt of another thread does not.
#[tokio::test]
async fn a_prompt_pauses_the_agents_of_its_thread() {
    for pauses in [true, false] {
        let argv = ["sh", "-c", "sleep 2; echo finished"];
        let command = calls("shell", json!({ "command": argv, "timeout_ms": 1_000 }));
        let spawn = calls("spawn_agent", json!({ "message": "Run it." }));
        let wait = calls("wait_agent", json!({ "targets": ["Ada"], "timeout_ms": 20_000 }));
        let responses =
            [of(0, [spawn, wait, says("Done.")]), of(1, [command, says("It ran.")])].concat();
        let mut env = TestEnvironment::with_responses(Value::from(responses)).await;
        env.config_overrides.push("features.unified_exec=false".to_owned());
        if pauses {
            env.config_overrides.push("agents.max_total_seconds=1".to_owned());
        }
        let server = env.start();
        let mut peer = server.connect_with(experimental()).await;
        let thread = peer.start_thread(json!({ "approvalPolicy": "never" })).await;
        let other = peer.start_thread(json!({})).await;
        change(&mut peer, INCREMENT, if pauses { &thread } else { &other }).await;
        let end = peer.run_turn(&thread, "Go.").await;
        assert_eq!(end["status"], "completed", "{end}");
        let agent = parsed(&outputs(&env, &thread)[0])["agent_id"].as_str().unwrap().to_owned();
        let output = &outputs(&env, &agent)[0];
        assert_eq!(output.contains("finished"), pauses, "{output}");
    }
}
