//! Hundreds of almost valid lines: each request is answered, nothing hangs, and the server still
//! works afterwards.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::says;

const LINES: usize = 600;

/// One change of a message. No text names an existing file or program.
#[derive(Clone, Debug)]
enum Mutation {
    Drop(Index),
    Set(Index, Value),
    Add(String, Value),
    Wrap,
}

fn values() -> impl Strategy<Value = Value> {
    let texts = prop::sample::select(vec!["", "x", "THREAD", "-1", "\u{0}é\u{1f600}", "\"\\"]);
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        texts.prop_map(Value::from),
        (1..20_000_usize).prop_map(|length| Value::from("y".repeat(length))),
        Just(json!([])),
        Just(json!(["x", 1, null])),
        Just(json!({})),
        Just(json!({ "type": "x", "x": { "x": [] } })),
        Just(json!([{ "type": "text", "text": "x" }])),
    ]
}

fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    let one = prop_oneof![
        any::<Index>().prop_map(Mutation::Drop),
        (any::<Index>(), values()).prop_map(|(at, value)| Mutation::Set(at, value)),
        ("[a-zA-Z]{0,12}", values()).prop_map(|(name, value)| Mutation::Add(name, value)),
        Just(Mutation::Wrap),
    ];
    prop::collection::vec(one, 0..4)
}

fn mutate(value: &mut Value, mutation: &Mutation) {
    let Some(members) = value.as_object_mut() else { return };
    let name = |at: &Index| members.keys().nth(at.index(members.len().max(1))).cloned();
    match mutation {
        Mutation::Drop(at) => {
            if let Some(name) = name(at) {
                members.remove(&name);
            }
        }
        Mutation::Set(at, new) => {
            if let Some(name) = name(at) {
                members.insert(name, new.clone());
            }
        }
        Mutation::Add(name, new) => {
            members.insert(name.clone(), new.clone());
        }
        Mutation::Wrap => *value = json!([value.take()]),
    }
}

/// Methods that could act outside the test's environment get only their smallest parameters.
fn is_harmless(method: &str) -> bool {
    !["fs/", "command/", "process/"].iter().any(|prefix| method.starts_with(prefix))
}

#[tokio::test]
async fn nearly_valid_requests_are_answered_and_the_server_survives() {
    let script = json!({ "responses": [says("Yes.")], "on_exhausted": "repeat_last" });
    let env = TestEnvironment::with_script(&script).await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer.start_thread(json!({})).await;
    let mut runner = TestRunner::deterministic();
    let mut sent = Vec::new();
    let (methods, mutations) = (any::<Index>(), mutations());
    for number in 0..LINES {
        let method = methods.new_tree(&mut runner).unwrap().current().get(protocol::METHODS);
        let mut params = protocol::generate::minimal_params(method.name).unwrap();
        if params.get("threadId").is_some() && number % 2 == 0 {
            params["threadId"] = json!(thread);
        }
        for mutation in mutations.new_tree(&mut runner).unwrap().current() {
            if is_harmless(method.name) {
                mutate(&mut params, &mutation);
            }
        }
        let params = params.to_string().replace("THREAD", &thread);
        sent.push(peer.send(method.name, serde_json::from_str(&params).unwrap()).await);
    }
    for id in sent {
        // Any answer is accepted, but there must be one.
        let _ = peer.response(id).await;
    }
    let other = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&other, "Still there?").await["status"], "completed");
    let mut fresh = server.connect().await;
    fresh.call("thread/list", json!({})).await;
}

#[tokio::test]
async fn the_server_survives_invalid_lines() {
    let env = TestEnvironment::with_responses(json!([says("Yes.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let mut runner = TestRunner::deterministic();
    let good = br#"{"id":7,"method":"thread/list","params":{"limit":1,"cursor":null}}"#;
    let edits = prop::collection::vec((any::<Index>(), any::<u8>()), 0..6);
    for _ in 0..LINES {
        let mut line = good.to_vec();
        for (at, byte) in edits.new_tree(&mut runner).unwrap().current() {
            // The message remains one line, and is not an answer to a request of the server.
            let byte = if byte == b'\n' { b' ' } else { byte };
            *at.get_mut(&mut line) = byte;
        }
        peer.send_line(&line).await;
    }
    let thread = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&thread, "Still there?").await["status"], "completed");
}
