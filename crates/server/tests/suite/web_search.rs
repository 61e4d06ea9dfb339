//! Searches that the provider carries out: their items, and what later requests hold of them.

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::prompt_cache::assert_grow;
use crate::says;

#[tokio::test]
async fn the_three_actions_are_items_and_part_of_later_requests() {
    let actions = [
        json!({ "type": "search", "query": "rust 2024", "queries": ["rust 2024", "edition"] }),
        json!({ "type": "open_page", "url": "https://a.example/doc" }),
        json!({ "type": "find_in_page", "url": "https://a.example/doc", "pattern": "let chains" }),
    ];
    let search = |action: &Value| json!({ "web_search": { "query": "", "action": action } });
    let mut steps: Vec<Value> = actions.iter().map(search).collect();
    steps.push(json!({ "message": "Found." }));
    let responses = json!([{ "steps": steps }, says("More."), says("After a restart.")]);
    let environment = TestEnvironment::with_responses(responses).await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.start_turn(&thread, "Search.").await;
    let expected = [
        (
            "rust 2024",
            json!({ "type": "search", "query": "rust 2024",
            "queries": ["rust 2024", "edition"] }),
        ),
        ("https://a.example/doc", json!({ "type": "openPage", "url": "https://a.example/doc" })),
        (
            "https://a.example/doc",
            json!({ "type": "findInPage", "url": "https://a.example/doc",
            "pattern": "let chains" }),
        ),
    ];
    let mut items = Vec::new();
    for (query, action) in &expected {
        let item = peer.item("webSearch").await;
        assert_eq!((&item["query"], &item["action"]), (&json!(query), action));
        items.push(item);
    }
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    peer.run_turn(&thread, "More.").await;
    server.stop().await;
    let server = environment.start();
    let mut peer = server.connect().await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    let read = json!({ "threadId": thread, "includeTurns": true });
    let read = peer.call("thread/read", read).await;
    let stored = read["thread"]["turns"][0]["items"].as_array().unwrap();
    let stored: Vec<&Value> = stored.iter().filter(|item| item["type"] == "webSearch").collect();
    assert_eq!(stored, items.iter().collect::<Vec<_>>());
    peer.run_turn(&thread, "Again.").await;
    assert_grow(&environment.model().raw_requests());
    let last = environment.model().requests().pop().unwrap();
    let sent = last["input"].as_array().unwrap().iter();
    let sent = sent.filter(|item| item["type"] == "web_search_call").map(|item| &item["action"]);
    assert_eq!(sent.collect::<Vec<_>>(), actions.iter().collect::<Vec<_>>());
}
