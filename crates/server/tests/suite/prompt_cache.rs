//! The provider's prompt cache matches the beginning of a request: each request of a thread begins
//! with all that the one before held.

use serde_json::{Value, json};
use testkit::{Peer, ReceivedRequest, TestEnvironment};

use crate::{calls, runs, says};

/// A request up to the end of its history. What follows does not matter to the cache.
fn cached(body: &str) -> &str {
    let input = body.find(r#","input":["#).unwrap();
    let request: Value = serde_json::from_str(body).unwrap();
    let items = request["input"].as_array().unwrap();
    // The history is the member's value without its closing bracket.
    let start = input + r#","input":["#.len();
    let mut items_read =
        serde_json::Deserializer::from_str(&body[start - 1..]).into_iter::<Value>();
    assert_eq!(items_read.next().unwrap().unwrap(), json!(items));
    &body[..start - 1 + items_read.byte_offset() - 1]
}

/// Where two texts differ first, for a message.
fn difference(long: &str, short: &str) -> String {
    let at = long.bytes().zip(short.bytes()).take_while(|(a, b)| a == b).count();
    let around = |text: &str| {
        let end = text.len().min(at + 80);
        String::from_utf8_lossy(&text.as_bytes()[at.saturating_sub(80)..end]).into_owned()
    };
    format!("at byte {at}:\n… {}\n… {}", around(long), around(short))
}

/// Checks that each request begins with the one before.
pub(crate) fn assert_grow(bodies: &[String]) {
    for (at, pair) in bodies.windows(2).enumerate() {
        let (short, long) = (cached(&pair[0]), cached(&pair[1]));
        assert!(long.len() > short.len(), "request {} is not longer", at + 1);
        assert!(long.starts_with(short), "request {}: {}", at + 1, difference(long, short));
    }
}

#[tokio::test]
async fn each_request_begins_with_the_one_before() {
    let reply = || vec![runs("echo one"), calls("update_plan", json!({ "plan": [] })), says("So.")];
    let mut responses: Vec<Value> = (0..8).flat_map(|_| reply()).collect();
    responses.push(runs("touch made"));
    responses.extend((0..20).map(|_| says("Good.")));
    let environment = TestEnvironment::with_responses(Value::from(responses)).await;
    let mut server = environment.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({ "approvalPolicy": "on-request" })).await;
    for turn in 0..8 {
        let end = peer.run_turn(&thread, &format!("Turn {turn}.")).await;
        assert_eq!(end["status"], "completed", "{end}");
        if turn == 3 {
            // A configuration that changes nothing for the model.
            let path = environment.home().join("config.toml");
            let config = std::fs::read_to_string(&path).unwrap();
            environment.write_config(&format!("hide_agent_reasoning = true\n{config}# More.\n"));
        }
        if turn == 5 {
            drop(peer);
            server.stop().await;
            server = environment.start();
            peer = server.connect().await;
            peer.call("thread/resume", json!({ "threadId": thread })).await;
        }
    }
    // Steered while it waits.
    let ask = json!({ "threadId": thread, "approvalPolicy": "unlessTrusted",
        "input": [{ "type": "text", "text": "Ask." }] });
    let turn = peer.call("turn/start", ask).await["turn"]["id"].as_str().unwrap().to_owned();
    let asked = peer.asked("item/commandExecution/requestApproval").await;
    let steer = json!({ "threadId": thread, "expectedTurnId": turn,
        "input": [{ "type": "text", "text": "And quick." }] });
    peer.call("turn/steer", steer).await;
    peer.decide(&asked, "decline").await;
    peer.turn_end(&turn).await;
    peer.run_turn(&thread, "Once more.").await;
    let bodies = environment.model().raw_requests();
    assert_eq!(bodies.len(), 27);
    assert_grow(&bodies);
}

#[tokio::test]
async fn a_compaction_begins_with_the_request_before_it() {
    let noise = format!("echo {}", "x".repeat(3_000));
    let responses = vec![
        runs("echo one"),
        says("Hello."),
        says("SUMMARY one"),
        // Two outputs exceed the limit in the middle of a turn.
        runs(&noise),
        runs(&noise),
        says("SUMMARY two"),
        says("Done."),
    ];
    let environment = TestEnvironment::with_responses(Value::from(responses)).await;
    let path = environment.home().join("config.toml");
    let config = std::fs::read_to_string(&path).unwrap();
    environment.write_config(&format!("model_auto_compact_token_limit = 5300\n{config}"));
    let server = environment.start();
    let mut peer = server.connect().await;
    let params = json!({ "approvalPolicy": "never", "sandbox": "danger-full-access" });
    let thread = peer.start_thread(params).await;
    peer.run_turn(&thread, "Hello.").await;
    peer.call("thread/compact/start", json!({ "threadId": thread })).await;
    peer.item("contextCompaction").await;
    peer.expect("turn/completed").await;
    assert_eq!(peer.run_turn(&thread, "Much noise.").await["status"], "completed");
    let bodies = environment.model().raw_requests();
    let is_compaction = |body: &String| body.contains("will be replaced by your summary");
    let compactions: Vec<usize> =
        (0..bodies.len()).filter(|at| is_compaction(&bodies[*at])).collect();
    let [first, second] = compactions[..] else { panic!("{compactions:?}") };
    assert_eq!(first, 2);
    assert_grow(&bodies[..=first]);
    assert_grow(&bodies[first + 1..=second]);
}

#[tokio::test]
async fn an_agent_with_the_context_of_its_parent_begins_with_the_parents_request() {
    let spawn = calls("spawn_agent", json!({ "message": "Go on.", "fork_context": true }));
    let wait = calls("wait_agent", json!({ "targets": ["Ada"], "timeout_ms": 10_000 }));
    let parent = [says("Hello."), spawn, wait, says("Done.")];
    let agent = [runs("echo one"), says("Went on.")];
    let responses = crate::agents::of(0, parent).into_iter().chain(crate::agents::of(1, agent));
    let environment =
        TestEnvironment::with_responses(Value::from(responses.collect::<Vec<_>>())).await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Hello.").await;
    peer.run_turn(&thread, "Have it done.").await;
    let bodies = environment.model().raw_requests();
    let is_own = |body: &String| body.contains(&format!(r#""prompt_cache_key":"{thread}""#));
    let (own, agents): (Vec<String>, Vec<String>) = bodies.into_iter().partition(is_own);
    assert_eq!((own.len(), agents.len()), (4, 2));
    assert_grow(&own);
    assert_grow(&agents);
    // The request in answer to which the agent was started.
    let (short, long) = (cached(&own[1]), cached(&agents[0]));
    assert!(long.starts_with(short), "{}", difference(long, short));
}

/// Something that adds to the history of a thread whose turn waits for an approval.
type Addition = fn(&str, &str) -> (&'static str, Value);

/// Ways to add to the history while a call runs.
const ADDITIONS: [(&str, Addition); 4] = [
    ("steered", |thread, turn| {
        let input = json!([{ "type": "text", "text": "EXTRA" }]);
        ("turn/steer", json!({ "threadId": thread, "expectedTurnId": turn, "input": input }))
    }),
    ("joined", |thread, _| {
        let input = json!([{ "type": "text", "text": "EXTRA" }]);
        ("turn/start", json!({ "threadId": thread, "input": input }))
    }),
    ("injected", |thread, _| {
        let content = json!([{ "type": "input_text", "text": "EXTRA" }]);
        let items = json!([{ "type": "message", "role": "user", "content": content }]);
        ("thread/inject_items", json!({ "threadId": thread, "items": items }))
    }),
    ("the user's command", |thread, _| {
        ("thread/shellCommand", json!({ "threadId": thread, "command": "echo EXTRA" }))
    }),
];

fn two_commands() -> Value {
    let command = |text: &str| {
        let arguments = json!({ "cmd": format!("touch {text}") });
        json!({ "function_call": { "name": "exec_command", "arguments": arguments } })
    };
    json!({ "steps": [command("one"), command("two")] })
}

/// A thread whose turn waits for an approval of its first call, and has been given more since.
async fn added_during_a_call(peer: &mut Peer, add: Addition) -> (String, String, ReceivedRequest) {
    let thread = peer.start_thread(json!({ "approvalPolicy": "unlessTrusted" })).await;
    let turn = peer.start_turn(&thread, "Begin.").await;
    let asked = peer.asked("item/commandExecution/requestApproval").await;
    let (method, params) = add(&thread, &turn);
    peer.call(method, params).await;
    if method == "thread/shellCommand" {
        peer.expect_where("item/completed", |it| it["item"]["source"] == "userShell").await;
    }
    (thread, turn, asked)
}

#[tokio::test]
async fn what_is_added_during_a_call_keeps_its_place_after_a_restart_and_in_a_fork() {
    for (way, add) in ADDITIONS {
        for (calls, first) in [runs("touch one"), two_commands()].into_iter().enumerate() {
            let mut responses = vec![first, runs("touch three")];
            responses.extend((0..4).map(|_| says("Good.")));
            let environment = TestEnvironment::with_responses(Value::from(responses)).await;
            let server = environment.start();
            let mut peer = server.connect().await;
            let (thread, turn, asked) = added_during_a_call(&mut peer, add).await;
            peer.decide(&asked, "decline").await;
            for _ in 0..=calls {
                let asked = peer.asked("item/commandExecution/requestApproval").await;
                peer.decide(&asked, "decline").await;
            }
            peer.turn_end(&turn).await;
            drop(peer);
            server.stop().await;
            let server = environment.start();
            let mut peer = server.connect().await;
            let fork = peer.call("thread/fork", json!({ "threadId": thread })).await;
            peer.start_turn(fork["thread"]["id"].as_str().unwrap(), "Go on.").await;
            // The script begins anew for another thread.
            peer.asked("item/commandExecution/requestApproval").await;
            let mut bodies = environment.model().raw_requests();
            assert_eq!(bodies.len(), 4, "{way}");
            assert!(bodies[1].matches("EXTRA").count() >= 1, "{way}: {}", bodies[1]);
            assert_grow(&bodies);
            bodies.pop();
            peer.call("thread/resume", json!({ "threadId": thread })).await;
            peer.run_turn(&thread, "Go on.").await;
            bodies.extend(environment.model().raw_requests().pop());
            assert_grow(&bodies);
        }
    }
}

#[tokio::test]
async fn what_is_added_during_a_call_survives_a_crash_before_the_model_receives_it() {
    // A turn that starts withdraws the approval that the call waits for, so that the model receives it at once.
    for (way, add) in ADDITIONS.into_iter().filter(|(way, _)| *way != "joined") {
        let responses = vec![runs("touch one"), says("So."), says("Good.")];
        let mut environment = TestEnvironment::with_responses(Value::from(responses)).await;
        let server = environment.start();
        let mut peer = server.connect().await;
        let (thread, ..) = added_during_a_call(&mut peer, add).await;
        environment.crash();
        for at in [1, 2] {
            let server = environment.start();
            let mut peer = server.connect().await;
            peer.call("thread/resume", json!({ "threadId": thread })).await;
            peer.run_turn(&thread, "Go on.").await;
            server.stop().await;
            let request = &environment.model().requests()[at];
            let items: Vec<String> =
                request["input"].as_array().unwrap().iter().map(Value::to_string).collect();
            let place = |text: &str| {
                let at = items.iter().position(|item| item.contains(text));
                at.unwrap_or_else(|| panic!("{way}: {text} is missing in {items:#?}"))
            };
            assert!(place("function_call_output") < place("EXTRA"), "{way}: {items:#?}");
            assert!(place("EXTRA") < place("Go on."), "{way}: {items:#?}");
            let extras = items.iter().filter(|item| item.contains("EXTRA")).count();
            assert_eq!(extras, 1, "{way}: {items:#?}");
        }
        assert_grow(&environment.model().raw_requests());
    }
}
