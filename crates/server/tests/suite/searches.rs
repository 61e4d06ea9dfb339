//! Search in what was said (experimental): messages, commands and names of files, and one thread.

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::{patches, runs, says};

fn experimental() -> Value {
    json!({ "experimentalApi": true })
}

async fn search(peer: &mut Peer, term: &str) -> Vec<(Value, Value)> {
    let found = peer.call("thread/search", json!({ "searchTerm": term })).await;
    assert_eq!(found["indexing"], false);
    let rows = found["data"].as_array().unwrap().iter();
    rows.map(|row| (row["thread"]["id"].clone(), row["snippet"].clone())).collect()
}

#[tokio::test]
async fn messages_commands_and_file_names_are_found() {
    let mut responses = [
        runs("echo needle-in-command"),
        patches("*** Add File: haystack_file.txt\n+content is not searched"),
        says("The answer mentions Zürich."),
        says("Nothing special."),
    ];
    for (response, conversation) in responses.iter_mut().zip([0, 0, 0, 1]) {
        response["conversation"] = conversation.into();
    }
    let env = TestEnvironment::with_responses(json!(responses)).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let open = json!({ "sandbox": "dangerFullAccess", "approvalPolicy": "never" });
    let thread = peer.start_thread(open).await;
    peer.run_turn(&thread, "Please look for the lost parser").await;
    let other = peer.start_thread(json!({})).await;
    peer.run_turn(&other, "A parser of another kind").await;
    for term in ["lost pars", "needle", "haystack_file", "haystack file txt", "ZÜRICH"] {
        let found = search(&mut peer, term).await;
        assert_eq!(found.len(), 1, "{term}: {found:?}");
        assert_eq!(found[0].0, thread, "{term}");
    }
    assert_eq!(search(&mut peer, "zürich").await[0].1, "The answer mentions Zürich.");
    assert_eq!(search(&mut peer, "content is not searched").await, []);
    let both: Vec<Value> = search(&mut peer, "parser").await.into_iter().map(|row| row.0).collect();
    assert!(both.contains(&json!(thread)) && both.contains(&json!(other)), "{both:?}");
    let streamed = peer.call("thread/search/stream", json!({ "searchTerm": "needle" })).await;
    assert_eq!(streamed["data"][0]["thread"]["id"], thread);
    let part = peer.expect("thread/search/partial").await;
    assert_eq!(part["data"], streamed["data"]);
    // What is dropped or deleted is no longer found.
    peer.call("thread/rollback", json!({ "threadId": thread, "numTurns": 1 })).await;
    assert_eq!(search(&mut peer, "needle").await, []);
    peer.call("thread/delete", json!({ "threadId": other })).await;
    assert_eq!(search(&mut peer, "parser").await, []);
}

#[tokio::test]
async fn occurrences_in_a_thread_are_literal() {
    let env =
        TestEnvironment::with_responses(json!([says("a.b and A.B"), says("axb"), says("none")]))
            .await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = peer.start_thread(json!({})).await;
    let first = peer.run_turn(&thread, "say a.b").await;
    peer.run_turn(&thread, "two").await;
    peer.run_turn(&thread, "three").await;
    let mut params = json!({ "threadId": thread, "searchTerm": "A.b", "limit": 1 });
    let page = peer.call("thread/searchOccurrences", params.clone()).await;
    let found = &page["data"][0];
    assert_eq!(found["snippet"], "a.b and A.B");
    assert_eq!(found["snippetMatchRange"], json!({ "start": 0, "end": 3 }));
    assert_eq!(found["turnId"], first["id"]);
    let turns = json!({ "threadId": thread, "cursor": found["turnCursor"], "limit": 1 });
    let turns = peer.call("thread/turns/list", turns).await;
    assert_eq!(turns["data"][0]["id"], first["id"]);
    params["cursor"] = page["nextCursor"].clone();
    let page = peer.call("thread/searchOccurrences", params).await;
    assert_eq!(page["data"][0]["snippet"], "say a.b");
}

#[tokio::test]
async fn bad_terms_are_refused() {
    let env = TestEnvironment::with_responses(json!([says("x")])).await;
    let server = env.start();
    let mut plain = server.connect().await;
    let fault = plain.refused("thread/search", json!({ "searchTerm": "x" })).await;
    assert_eq!(fault.message, "thread/search requires experimentalApi capability");
    let mut peer = server.connect_with(experimental()).await;
    let fault = peer.refused("thread/search", json!({ "searchTerm": " " })).await;
    assert_eq!(fault.message, "thread/search requires a non-empty searchTerm");
    let long = json!({ "searchTerm": "x".repeat(1001) });
    assert!(peer.refused("thread/search", long).await.message.contains("`searchTerm`"));
    let unknown = json!({ "threadId": "none", "searchTerm": "x" });
    let fault = peer.refused("thread/searchOccurrences", unknown).await;
    assert!(fault.message.starts_with("thread not found"), "{fault:?}");
}

#[tokio::test]
async fn a_stream_reports_threads_as_they_are_found() {
    let env = TestEnvironment::with_responses(json!(vec![says("the parser"); 12])).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    for _ in 0..12 {
        let thread = peer.start_thread(json!({})).await;
        peer.run_turn(&thread, "look").await;
    }
    let params = json!({ "searchTerm": "parser" });
    let whole = peer.call("thread/search", params.clone()).await;
    let id = peer.send("thread/search/stream", params).await;
    let mut partial = Vec::new();
    for count in [10, 2] {
        let part = peer.expect("thread/search/partial").await;
        assert_eq!(part["requestId"], json!(id));
        assert_eq!(part["data"].as_array().unwrap().len(), count);
        partial.extend(part["data"].as_array().unwrap().clone());
    }
    let streamed = peer.response(id).await.unwrap();
    assert_eq!(streamed, whole);
    assert_eq!(streamed["data"], json!(partial));
    // Within a limit, and from there on.
    let params = json!({ "searchTerm": "parser", "limit": 11 });
    let page = peer.call("thread/search/stream", params).await;
    assert_eq!(page["data"].as_array().unwrap()[..], partial[..11]);
    let params = json!({ "searchTerm": "parser", "cursor": page["nextCursor"] });
    let rest = peer.call("thread/search/stream", params).await;
    assert_eq!(rest["data"], json!(partial[11..]));
}

#[tokio::test]
async fn a_search_that_is_unknown_or_has_ended_can_be_cancelled() {
    let env = TestEnvironment::with_responses(json!([says("x")])).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    for method in ["thread/search/cancel", "thread/search/stream/cancel"] {
        for id in [json!(77), json!("none")] {
            assert_eq!(peer.call(method, json!({ "requestId": id })).await, json!({}));
        }
    }
    let mut plain = server.connect().await;
    for method in ["thread/search/stream", "thread/search/cancel", "thread/search/stream/cancel"] {
        let fault = plain.refused(method, json!({ "searchTerm": "x", "requestId": 1 })).await;
        assert_eq!(fault.message, format!("{method} requires experimentalApi capability"));
    }
    let fault = peer.refused("thread/search/stream", json!({ "searchTerm": "" })).await;
    assert_eq!(fault.message, "thread/search/stream requires a non-empty searchTerm");
}
