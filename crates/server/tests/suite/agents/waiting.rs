//! `wait_agent` returns within its time, whatever the agents do: measured on a clock that only the test
//! moves.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, advance, pause, resume};

use super::*;
use crate::runs;

const TIMEOUT: u64 = 5_000;
/// What the call may take beyond its time.
const SLACK: u64 = 50;
/// Bound of the time for which the clock stands still: then it moves by itself, and the test's own
/// time limits end it.
const MAX_YIELDS: usize = 20_000_000;
/// Turns of the runtime after which every task that could run has run.
const SETTLED: usize = 1_000;

/// Stops the clock. While the task runs, the runtime is never idle, so the clock does not move by
/// itself while other threads work, such as the writer of the store.
fn stop_clock() -> JoinHandle<()> {
    pause();
    tokio::spawn(async {
        for _ in 0..MAX_YIELDS {
            tokio::task::yield_now().await;
        }
    })
}

async fn settle() {
    for _ in 0..SETTLED {
        tokio::task::yield_now().await;
    }
}

/// What the agent does, its agent if it has one, and the notification or request that shows that it
/// does it.
fn children() -> Vec<(&'static str, Vec<Value>, Vec<Value>)> {
    let silent = json!({ "steps": [{ "delay_ms": 600_000 }, { "message": "late" }] });
    let escalated = calls(
        "exec_command",
        json!({ "cmd": "touch made", "sandbox_permissions": "require_escalated",
            "justification": "It must." }),
    );
    let question = json!({ "id": "q", "header": "Header", "question": "Which one?",
        "options": [{ "label": "A", "description": "One." }, { "label": "B", "description": "Two." }] });
    let delegates = vec![spawn("Work."), wait(&["Basil"], 600_000), says("Done.")];
    vec![
        ("thread/status/changed", vec![silent.clone()], Vec::new()),
        ("item/commandExecution/requestApproval", vec![escalated, says("Done.")], Vec::new()),
        (
            "item/tool/requestUserInput",
            vec![calls("request_user_input", json!({ "questions": [question] })), says("Done.")],
            Vec::new(),
        ),
        ("item/started", delegates, vec![silent]),
        ("item/started", vec![runs("sleep 600"), says("Done.")], Vec::new()),
    ]
}

#[tokio::test]
async fn a_wait_ends_within_its_time_whatever_its_agents_do() {
    for (number, (shown_by, agent, its_agent)) in children().into_iter().enumerate() {
        let row = format!("{number}: {shown_by}");
        // The wait begins when the agent is busy: after the input of the user that follows.
        let parent = vec![spawn("Work."), says("Begun."), wait(&["Ada"], TIMEOUT), says("Over.")];
        let mut environment = environment(vec![parent, agent, its_agent]).await;
        // Idle connections do not survive the jump in time.
        environment.config_overrides.extend(
            ["model_providers.scripted.request_max_retries=3", "agents.max_depth=2"]
                .map(str::to_owned),
        );
        let server = environment.start();
        let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
        let thread = peer.start_thread(json!({ "approvalPolicy": "on-request" })).await;
        peer.run_turn(&thread, "Begin.").await;
        let agent = parsed(&outputs(&environment, &thread)[0])["agent_id"].clone();
        let agent = agent.as_str().unwrap();
        let resumed = peer.call("thread/resume", json!({ "threadId": agent })).await;
        assert_eq!(resumed["thread"]["status"]["type"], "active", "{row}");

        let clock = stop_clock();
        let turn = peer.start_turn(&thread, "Wait for it.").await;
        let waits = |params: &Value| {
            params["threadId"] == thread.as_str() && params["item"]["tool"] == "wait"
        };
        peer.expect_where("item/started", waits).await;
        settle().await;
        let start = Instant::now();
        // Timers have a resolution of 1 ms, so the call may take one more.
        advance(Duration::from_millis(TIMEOUT + SLACK)).await;
        let ended = peer.expect_where("item/completed", waits).await;
        let took = start.elapsed();
        assert!(took <= Duration::from_millis(TIMEOUT + SLACK), "{row}: {took:?}");
        let state = &ended["item"]["agentsStates"][agent];
        assert_eq!(
            (&ended["item"]["status"], &state["status"]),
            (&json!("completed"), &json!("running")),
            "{row}"
        );
        clock.abort();
        resume();
        assert_eq!(peer.turn_end(&turn).await["status"], "completed", "{row}");
        let waited = outputs(&environment, &thread).pop().unwrap();
        assert_eq!(parsed(&waited), json!({ "status": {}, "timed_out": true }), "{row}");
    }
}
