//! The prompt cache of a long thread: nearly all of each request is the beginning of the one before, byte by byte, and
//! the marks of Messages make it cheap.

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use super::{WIRES, configure, origin, total_usage};
use crate::says;

const TURNS: usize = 50;
/// The turn with many calls in one response: more than the provider looks back from a mark.
const MANY: usize = 20;

/// A response with reasoning, a message and calls of a tool that runs nothing.
fn plans(turn: usize, calls: usize) -> Value {
    let step = format!(
        "Look at part {turn} of the list, and write down what it says about its neighbours."
    );
    let call = |at: usize| {
        let plan = json!([{ "step": format!("{step} ({at})"), "status": "in_progress" }]);
        json!({ "function_call": { "name": "update_plan", "arguments": { "plan": plan } } })
    };
    let mut steps = vec![
        json!({ "reasoning": format!("**Part {turn}**\n\nThe list has more parts, of which this is one.") }),
        json!({ "message": format!("I look at part {turn}.") }),
    ];
    steps.extend((0..calls).map(call));
    json!({ "steps": steps })
}

fn script() -> Value {
    let turn = |turn: usize| {
        let calls = if turn == MANY { 30 } else { 1 + turn % 3 };
        [plans(turn, calls), says(&format!("Part {turn} is like the others, and needs no change."))]
    };
    (0..TURNS).flat_map(turn).collect()
}

async fn run(peer: &mut Peer, env: &TestEnvironment) {
    let thread = peer.start_thread(json!({})).await;
    for turn in 0..TURNS {
        let mut input = json!([{ "type": "text", "text": format!("Go on with part {turn}.") }]);
        if turn % 16 == 3 {
            let image = json!({ "type": "image", "url": testkit::png_url(8, 8) });
            input.as_array_mut().unwrap().push(image);
        }
        let end = peer.run_turn_with(json!({ "threadId": thread, "input": input })).await;
        assert_eq!(end["status"], "completed", "turn {turn}: {end}");
    }
    assert_eq!(env.model().raw_requests().len(), 2 * TURNS);
}

pub(super) fn without_marks(body: &str) -> String {
    let body = body.replace(",\"cache_control\":{\"type\":\"ephemeral\",\"ttl\":\"1h\"}", "");
    body.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "")
}

fn common(short: &str, long: &str) -> usize {
    short.bytes().zip(long.bytes()).take_while(|(a, b)| a == b).count()
}

/// After the history only brackets and the key of the cache follow.
const TAIL: usize = 100;

#[tokio::test]
async fn nearly_all_of_a_request_is_that_before_on_every_wire() {
    for wire in WIRES {
        let env = TestEnvironment::with_responses(script()).await;
        configure(&env, wire, &origin(&env), "", "");
        let server = env.start();
        let mut peer = server.connect().await;
        run(&mut peer, &env).await;
        let bodies: Vec<String> =
            env.model().raw_requests().iter().map(|body| without_marks(body)).collect();
        let (mut stable, mut all) = (0, 0);
        for (at, pair) in bodies.windows(2).enumerate() {
            let same = common(&pair[0], &pair[1]);
            assert!(same + TAIL >= pair[0].len(), "{wire}: request {} does not go on", at + 1);
            stable += same;
            all += pair[1].len();
        }
        let percent = stable * 100 / all;
        assert!(percent >= 95, "{wire}: {percent} %");
    }
}

/// The tokens of a thread on Messages: fresh, written and read, and all of them.
async fn tokens(more: &str) -> [f64; 4] {
    let env = TestEnvironment::with_responses(script()).await;
    // The model thinks where it is asked to.
    let top = "model_reasoning_effort = \"low\"\nmodel_reasoning_summary = \"auto\"";
    configure(&env, "messages", &origin(&env), top, more);
    let server = env.start();
    let mut peer = server.connect().await;
    run(&mut peer, &env).await;
    let usage = total_usage(&peer);
    let count = |name: &str| usage[name].as_f64().unwrap_or_default();
    let (all, read) = (count("inputTokens"), count("cachedInputTokens"));
    let written = count("cacheWriteInputTokens");
    [all - read - written, written, read, all]
}

// Effect of `model_providers.<id>.prompt_cache`.
#[tokio::test]
async fn marks_make_a_long_thread_cheap() {
    // Prices relative to other input.
    let cost =
        |[fresh, written, read, _]: [f64; 4], write: f64| fresh + written * write + read * 0.1;
    let marked = tokens("").await;
    let [fresh, written, read, all] = marked;
    assert!(read / all > 0.9, "{marked:?}");
    // Each token is written once: also those of the turn with many calls are found again.
    // The braces and names of JSON are no part of it.
    assert!(written < 0.02 * all && fresh < 0.1 * all, "{marked:?}");
    let share = cost(marked, 1.25) / all;
    assert!(share < 0.2, "{share}: {marked:?}");
    let plain = tokens("prompt_cache = \"off\"").await;
    assert_eq!(plain[1..3], [0.0, 0.0]);
    assert!((cost(plain, 1.25) / plain[3] - 1.0).abs() < 0.01, "{plain:?}");
    let hour = tokens("prompt_cache = \"1h\"").await;
    assert!(hour[2] / hour[3] > 0.9, "{hour:?}");
}

/// The blocks of a body with a mark, as their text.
fn marked(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap().iter();
    let blocks = messages.flat_map(|message| message["content"].as_array().unwrap());
    let marked = body["system"].as_array().unwrap().iter().chain(blocks);
    marked.filter(|block| block["cache_control"].is_object()).map(Value::to_string).collect()
}

#[tokio::test]
async fn the_summary_of_a_compaction_is_marked_also_after_a_restart() {
    let responses = json!([
        plans(0, 2),
        says("One."),
        says("SUMMARY"),
        plans(1, 2),
        says("Two."),
        says("Three."),
        says("Four.")
    ]);
    let env = TestEnvironment::with_responses(responses).await;
    configure(&env, "messages", &origin(&env), "", "");
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "first").await;
    peer.call("thread/compact/start", json!({ "threadId": thread })).await;
    peer.item("contextCompaction").await;
    peer.expect("turn/completed").await;
    peer.run_turn(&thread, "second").await;
    peer.run_turn(&thread, "third").await;
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect().await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    peer.run_turn(&thread, "fourth").await;
    let bodies = env.model().requests();
    assert_eq!(bodies.len(), 7);
    // The request for the summary reads what the thread has, and writes nothing of its own.
    assert!(
        marked(&bodies[2]).iter().all(|block| !block.contains("will be replaced by your summary"))
    );
    assert!(!marked(&bodies[2]).is_empty());
    for body in &bodies[3..] {
        let marks = marked(body);
        assert!(marks.len() <= 4, "{marks:#?}");
        let of_summary = marks.iter().filter(|block| block.contains("SUMMARY"));
        assert_eq!(of_summary.count(), 1, "{marks:#?}");
    }
}

#[tokio::test]
async fn a_thread_that_pauses_is_kept_for_an_hour_where_the_provider_takes_that() {
    let minutes = |minutes: i64| minutes * 60_000;
    for (more, expect) in [
        // A host that is not known to keep a prefix for an hour.
        ("", [0, 0, 0, 0]),
        ("prompt_cache = \"1h\"", [1, 1, 2, 2]),
        ("prompt_cache = \"5m\"", [0, 0, 0, 0]),
    ] {
        let responses: Vec<Value> = (0..4).map(|_| says("Good.")).collect();
        let env = TestEnvironment::with_responses(responses.into()).await;
        configure(&env, "messages", &origin(&env), "", more);
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        for pause in [0, 1, 10, 1] {
            env.clock.advance(minutes(pause));
            peer.run_turn(&thread, "Go on.").await;
        }
        let long = |body: &Value| {
            marked(body).iter().filter(|block| block.contains("\"ttl\":\"1h\"")).count()
        };
        let marks: Vec<usize> = env.model().requests().iter().map(long).collect();
        assert_eq!(marks, expect, "{more}");
    }
}
