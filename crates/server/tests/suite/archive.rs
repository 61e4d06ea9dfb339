//! Naming, archiving, unarchiving and deleting threads, and invalid requests to do so
//! (specification: Threads, Thread archival).

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, assert_lines};

use crate::{runs, says};

fn talkative() -> Value {
    json!({ "responses": [says("Yes: {{last_user_text}}")], "on_exhausted": "repeat_last" })
}

async fn listed(peer: &mut Peer, params: Value) -> Vec<String> {
    let page = peer.call("thread/list", params).await;
    let rows = page["data"].as_array().unwrap();
    rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

fn id(thread: &str) -> Value {
    json!({ "threadId": thread })
}

#[tokio::test]
async fn an_archived_thread_is_hidden_until_it_is_unarchived() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let mut other = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let fault = peer.refused("thread/archive", id(&thread)).await;
    assert!(fault.message.contains("has no turns"), "{fault:?}");
    peer.run_turn(&thread, "One.").await;
    peer.settled().await;
    peer.forget();
    assert_eq!(peer.call("thread/archive", id(&thread)).await, json!({}));
    peer.expect("thread/archived").await;
    other.expect("thread/archived").await;
    assert_lines(
        peer.transcript(),
        "> thread/archive
         < thread/archive
         * thread/status/changed notLoaded
         * thread/archived",
    );
    assert_eq!(listed(&mut peer, json!({})).await, [""; 0]);
    assert_eq!(listed(&mut peer, json!({ "archived": true })).await, std::slice::from_ref(&thread));
    assert_eq!(peer.call("thread/archive", id(&thread)).await, json!({}), "once more is good");
    let fault = peer.refused("thread/resume", id(&thread)).await;
    assert!(fault.message.contains("thread/unarchive"), "{fault:?}");
    let turns = peer.call("thread/turns/list", id(&thread)).await;
    assert_eq!(turns["data"].as_array().unwrap().len(), 1, "it can still be read");

    let back = peer.call("thread/unarchive", id(&thread)).await;
    assert_eq!(back["thread"]["preview"], "One.");
    other.expect("thread/unarchived").await;
    assert_eq!(listed(&mut peer, json!({})).await, std::slice::from_ref(&thread));
    peer.call("thread/resume", id(&thread)).await;
    assert_eq!(peer.run_turn(&thread, "Two.").await["status"], "completed");
    assert_eq!(peer.call("thread/unarchive", id(&thread)).await["thread"]["id"], thread);
}

#[tokio::test]
async fn archiving_ends_what_runs() {
    let env = TestEnvironment::with_responses(json!([runs("touch made"), says("Never.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({ "approvalPolicy": "unlessTrusted" })).await;
    let turn = peer.start_turn(&thread, "Begin.").await;
    peer.asked("item/commandExecution/requestApproval").await;
    peer.call("thread/archive", id(&thread)).await;
    assert_eq!(peer.turn_end(&turn).await["status"], "interrupted");
    peer.expect("thread/archived").await;
    let turns = peer.call("thread/turns/list", id(&thread)).await;
    assert_eq!(turns["data"][0]["status"], "interrupted");
}

#[tokio::test]
async fn a_deleted_thread_is_gone() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "The secret is plum.").await;
    let fork = peer.call("thread/fork", id(&thread)).await;
    let fork = fork["thread"]["id"].as_str().unwrap().to_owned();
    assert_eq!(peer.call("thread/delete", id(&thread)).await, json!({}));
    peer.expect("thread/deleted").await;
    for method in ["thread/read", "thread/resume", "thread/delete", "thread/archive", "turn/start"]
    {
        let mut params = id(&thread);
        if method == "turn/start" {
            params["input"] = json!([{ "type": "text", "text": "x" }]);
        }
        let fault = peer.refused(method, params).await;
        assert_eq!(fault.message, format!("thread not found: {thread}"), "{method}");
    }
    assert_eq!(listed(&mut peer, json!({})).await, std::slice::from_ref(&fork));
    // A fork keeps the turns that it shows.
    let read = peer.call("thread/read", json!({ "threadId": fork, "includeTurns": true })).await;
    assert_eq!(read["thread"]["turns"][0]["items"][1]["text"], "Yes: The secret is plum.");
    peer.call("thread/delete", id(&fork)).await;
    let ephemeral = peer.start_thread(json!({ "ephemeral": true })).await;
    peer.call("thread/delete", id(&ephemeral)).await;
    server.stop().await;
    let bytes = std::fs::read(env.home().join("threads.db")).unwrap();
    assert!(!bytes.windows(4).any(|part| part == b"plum"), "nothing is left in the file");
}

#[tokio::test]
async fn names_are_set_announced_and_searched() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let mut other = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "One.").await;
    let name = |thread: &str, name: &str| json!({ "threadId": thread, "name": name });
    assert_eq!(peer.call("thread/name/set", name(&thread, "  Straßenbahn ")).await, json!({}));
    let notice = other.expect("thread/name/updated").await;
    assert_eq!(notice, json!({ "threadId": thread, "threadName": "Straßenbahn" }));
    assert_eq!(listed(&mut peer, json!({ "searchTerm": "STRASSEN" })).await, [""; 0]);
    assert_eq!(
        listed(&mut peer, json!({ "searchTerm": "straße" })).await,
        std::slice::from_ref(&thread)
    );
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect().await;
    // This also works on a thread that is not loaded.
    peer.call("thread/name/set", name(&thread, "Tram")).await;
    assert_eq!(peer.call("thread/loaded/list", json!({})).await["data"], json!([]));
    let resumed = peer.call("thread/resume", id(&thread)).await;
    assert_eq!(resumed["thread"]["name"], "Tram");
    for bad in [String::new(), "  ".to_owned(), "x".repeat(1 << 20)] {
        let fault = peer.refused("thread/name/set", name(&thread, &bad)).await;
        assert_eq!(fault.code, -32602);
        assert!(fault.message.contains("`name`"), "{fault:?}");
    }
    let read = peer.call("thread/read", id(&thread)).await;
    assert_eq!(read["thread"]["name"], "Tram");
    peer.refused("thread/name/set", name("unknown", "x")).await;
}

#[tokio::test]
async fn metadata_distinguishes_omitted_from_null() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let update = async |peer: &mut Peer, git: Value| {
        let params = json!({ "threadId": thread, "gitInfo": git });
        peer.call("thread/metadata/update", params).await["thread"]["gitInfo"].clone()
    };
    let first = update(&mut peer, json!({ "sha": "abc", "branch": "main" })).await;
    assert_eq!(first, json!({ "sha": "abc", "branch": "main", "originUrl": null }));
    let second = update(&mut peer, json!({ "branch": null, "originUrl": "https://x/y" })).await;
    assert_eq!(second, json!({ "sha": "abc", "branch": null, "originUrl": "https://x/y" }));
    assert_eq!(update(&mut peer, json!({})).await, second);
    peer.call("thread/metadata/update", json!({ "threadId": thread })).await;
    peer.run_turn(&thread, "So that it lasts.").await;
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect().await;
    assert_eq!(peer.call("thread/read", id(&thread)).await["thread"]["gitInfo"], second);
    let cleared = json!({ "sha": null, "originUrl": null });
    assert_eq!(update(&mut peer, cleared).await, Value::Null);
    let bad = json!({ "threadId": thread, "gitInfo": { "branch": "x".repeat(5000) } });
    let fault = peer.refused("thread/metadata/update", bad).await;
    assert!(fault.message.contains("gitInfo.branch"), "{fault:?}");
}

#[tokio::test]
async fn bad_pages_are_refused_by_name() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    for number in 0..3 {
        let thread = peer.start_thread(json!({})).await;
        peer.run_turn(&thread, &format!("{number}")).await;
    }
    let page = peer.call("thread/list", json!({ "limit": 1 })).await;
    let (cursor, thread) = (&page["nextCursor"], &page["data"][0]["id"]);
    let turns = json!({ "threadId": thread, "limit": 1 });
    let turn_cursor = peer.call("thread/turns/list", turns).await["backwardsCursor"].clone();
    let list = "thread/list";
    for (method, params, member) in [
        (list, json!({ "limit": -1 }), "limit"),
        (list, json!({ "cursor": "rubbish" }), "`cursor`"),
        (list, json!({ "cursor": turn_cursor }), "`cursor`"),
        (list, json!({ "cursor": cursor, "searchTerm": "x" }), "`cursor`"),
        (list, json!({ "cursor": cursor, "archived": true }), "`cursor`"),
        (list, json!({ "cursor": cursor, "sortKey": "updated_at" }), "`cursor`"),
        (list, json!({ "cursor": cursor, "cwd": "/" }), "`cursor`"),
        ("thread/turns/list", json!({ "threadId": thread, "cursor": cursor }), "`cursor`"),
        ("thread/items/list", json!({ "threadId": thread, "cursor": turn_cursor }), "`cursor`"),
    ] {
        let fault = peer.refused(method, params.clone()).await;
        assert_eq!(fault.code, -32602, "{params}: {fault:?}");
        assert!(fault.message.contains(member), "{params}: {fault:?}");
    }
    let long = "x".repeat(1 << 20);
    let fault = peer.refused("thread/read", id(&long)).await;
    assert!(fault.message.len() < 200, "what was sent is not sent back whole");
}

#[tokio::test]
async fn items_are_paged() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer.start_thread(json!({})).await;
    let mut turns = Vec::new();
    for text in ["a", "b", "c"] {
        turns.push(peer.run_turn(&thread, text).await["id"].as_str().unwrap().to_owned());
    }
    let mut found = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let params = json!({ "threadId": thread, "limit": 2, "cursor": cursor,
            "sortDirection": "asc" });
        let page = peer.call("thread/items/list", params).await;
        for entry in page["data"].as_array().unwrap() {
            found.push((entry["turnId"].clone(), entry["item"]["type"].clone()));
        }
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    let expected: Vec<(Value, Value)> = turns
        .iter()
        .flat_map(|turn| {
            [(json!(turn), json!("userMessage")), (json!(turn), json!("agentMessage"))]
        })
        .collect();
    assert_eq!(found, expected);
    let params = json!({ "threadId": thread, "turnId": turns[1] });
    let page = peer.call("thread/items/list", params).await;
    assert_eq!(page["data"][0]["item"]["text"], "Yes: b", "newest first");
    let params = json!({ "threadId": thread, "turnId": "nothing" });
    let fault = peer.refused("thread/items/list", params).await;
    assert!(fault.message.contains("turn not found"), "{fault:?}");
}
