//! Items of the model's API that a client adds (specification: `thread/inject_items`).

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::says;

fn message(text: &str) -> Value {
    json!({ "type": "message", "role": "assistant",
        "content": [{ "type": "output_text", "text": text }] })
}

#[tokio::test]
async fn injected_items_are_sent_as_they_are_and_last() {
    let env =
        TestEnvironment::with_responses(json!([says("One."), says("Two."), says("Three.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let inject = |items: Value| json!({ "threadId": thread, "items": items });
    assert_eq!(
        peer.call("thread/inject_items", inject(json!([message("BEFORE")]))).await,
        json!({})
    );
    peer.run_turn(&thread, "first").await;
    let extra = json!([message("BETWEEN"), { "type": "message", "role": "user", "id": "kept as it is",
        "content": [{ "type": "input_text", "text": "AND THIS" }] }]);
    peer.call("thread/inject_items", inject(extra.clone())).await;
    peer.run_turn(&thread, "second").await;
    let sent = env.model().requests();
    let input = sent[1]["input"].as_array().unwrap();
    let at = input.iter().position(|item| *item == extra[0]).unwrap();
    assert_eq!(input[at + 1], extra[1]);
    assert!(sent[0]["input"].as_array().unwrap().contains(&message("BEFORE")));
    let read = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    assert_eq!(read["thread"]["turns"].as_array().unwrap().len(), 2, "clients see turns only");
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let fault = peer.refused("thread/inject_items", inject(json!([message("x")]))).await;
    assert!(fault.message.contains("thread/resume"), "{fault:?}");
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    for bad in [json!([]), json!([{ "type": "message", "role": "x", "content": [] }]), json!(["x"])]
    {
        let fault = peer.refused("thread/inject_items", inject(bad)).await;
        assert_eq!(fault.code, -32602);
        assert!(fault.message.contains("items"), "{fault:?}");
    }
    peer.run_turn(&thread, "third").await;
    let sent = env.model().requests();
    let (before, after) = (&sent[1]["input"], &sent[2]["input"]);
    let length = before.as_array().unwrap().len();
    assert_eq!(after.as_array().unwrap()[..length], before.as_array().unwrap()[..]);
}
