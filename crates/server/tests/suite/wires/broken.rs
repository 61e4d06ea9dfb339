//! Answers that break the rules of their wire: the turn goes on with another request where that helps, no call of a broken
//! answer runs, and the next turn of the thread completes. After the broken answer the scripted model answers, which
//! refuses requests that its provider would refuse.

use serde_json::{Value, json};
use testkit::TestEnvironment;

mod chat;
mod gemini;
mod messages;

use super::streams::{Answer, chunk, front, message_start, says, sse};
use super::{configure, last_message, origin};

/// What becomes of the turn with the broken answer.
#[derive(Clone, Debug)]
enum Ends {
    /// The answer is taken as it is: the turn ends with this text.
    Taken(&'static str),
    /// The request is sent again, and the turn ends with the scripted model's answer.
    Again,
    /// The turn fails with this error.
    Failed(Value),
}

/// An answer and what becomes of it.
struct Row {
    name: &'static str,
    answer: Answer,
    ends: Ends,
}

fn taken(name: &'static str, text: &'static str, answer: Answer) -> Row {
    Row { name, answer, ends: Ends::Taken(text) }
}

fn again(name: &'static str, answer: Answer) -> Row {
    Row { name, answer, ends: Ends::Again }
}

fn fails(name: &'static str, info: &str, answer: Answer) -> Row {
    Row { name, answer, ends: Ends::Failed(info.into()) }
}

const FINE: &str = "Fine.";
/// A command that leaves a file, as arguments that are complete.
const RUN: &str = r#"{"cmd":"touch ran"}"#;
/// A plan, which runs nothing.
const PLAN: &str = r#"{"plan":[{"step":"s","status":"pending"}]}"#;

/// Runs the turn with the broken answer, and the next one.
async fn check(wire: &str, row: Row) {
    let Row { name, answer, ends } = row;
    let name = &format!("{wire}: {name}");
    let responses: Vec<Value> = (0..8).map(|_| crate::says(FINE)).collect();
    let env = TestEnvironment::with_responses(responses.into()).await;
    let (address, left) = front(vec![answer], &origin(&env)).await;
    let more = "request_max_retries = 1\nstream_max_retries = 1\nstream_idle_timeout_ms = 2000";
    configure(&env, wire, &address, "", more);
    let server = env.start();
    let mut peer = server.connect().await;
    let params = json!({ "approvalPolicy": "never", "sandbox": "danger-full-access" });
    let thread = peer.start_thread(params).await;
    let turn = peer.run_turn(&thread, "Begin.").await;
    assert!(left.lock().unwrap().is_empty(), "{name}: the broken answer was sent");
    let items = || json!({ "threadId": thread, "includeTurns": true });
    let read = peer.call("thread/read", items()).await;
    let text = last_message(&read["thread"]["turns"][0]);
    match ends {
        Ends::Taken(expect) => {
            assert_eq!(
                (turn["status"].as_str(), &*text),
                (Some("completed"), expect),
                "{name}: {turn}"
            );
        }
        Ends::Again => {
            assert_eq!(
                (turn["status"].as_str(), &*text),
                (Some("completed"), FINE),
                "{name}: {turn}"
            );
            let retries =
                peer.raw_lines().iter().filter(|line| line.contains("\"willRetry\":true"));
            assert_eq!(retries.count(), 1, "{name}");
        }
        Ends::Failed(info) => {
            assert_eq!(turn["status"], "failed", "{name}: {turn}");
            assert_eq!(turn["error"]["agentErrorInfo"], info, "{name}: {turn}");
            assert!(env.model().raw_requests().is_empty(), "{name}: not sent again");
        }
    }
    assert!(!env.workspace().join("ran").exists(), "{name}: a call of a broken answer ran");
    let turn = peer.run_turn(&thread, "Go on.").await;
    assert_eq!(turn["status"], "completed", "{name}: the next turn: {turn}");
    let read = peer.call("thread/read", items()).await;
    assert_eq!(last_message(&read["thread"]["turns"][1]), FINE, "{name}");
    server.stop().await;
}

#[tokio::test]
async fn a_thread_goes_on_after_broken_answers_of_messages() {
    for row in messages::rows() {
        check("messages", row).await;
    }
}

#[tokio::test]
async fn a_thread_goes_on_after_broken_answers_of_chat_completions() {
    for row in chat::rows() {
        check("chat", row).await;
    }
}

#[tokio::test]
async fn a_thread_goes_on_after_broken_answers_of_gemini() {
    for row in gemini::rows() {
        check("gemini", row).await;
    }
}

/// Arguments that never end are cut at the bound of a response, and the thread goes on.
#[tokio::test]
async fn arguments_that_never_end_are_bounded() {
    let piece = "x".repeat(256 << 10);
    let delta = json!({ "type": "content_block_delta", "index": 0,
        "delta": { "type": "input_json_delta", "partial_json": piece } });
    let start = json!({ "type": "content_block_start", "index": 0,
        "content_block": { "type": "tool_use", "id": "t", "name": "exec_command", "input": {} } });
    let answer = Answer::stream(&sse(&[message_start(), start])).repeats(&sse(&[delta]));
    check("messages", again("arguments for ever", answer)).await;
    let call = json!({ "tool_calls": [{ "index": 0, "id": "c", "function": { "name": "f", "arguments": piece } }] });
    let answer = Answer::stream("").repeats(&sse(&[chunk(call, Value::Null)]));
    check("chat", again("arguments for ever", answer)).await;
}

/// The same streams without a fault are taken: what fails above fails for its fault.
#[tokio::test]
async fn whole_answers_are_taken_on_every_wire() {
    for wire in super::WIRES {
        let answer = Answer::stream(&says(wire, "Said."));
        check(wire, taken("a whole answer", "Said.", answer)).await;
    }
}
