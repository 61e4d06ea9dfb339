//! Starting, resuming, reading, listing and leaving threads, also after a restart of the server
//! (specification: Threads).

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, assert_lines};

use crate::says;

fn talkative() -> Value {
    json!({ "responses": [says("Yes: {{last_user_text}}")], "on_exhausted": "repeat_last" })
}

async fn listed(peer: &mut Peer, params: Value) -> Vec<String> {
    let page = peer.call("thread/list", params).await;
    ids(&page)
}

fn ids(page: &Value) -> Vec<String> {
    let data = page["data"].as_array().unwrap();
    data.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_start_is_answered_before_it_is_announced() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let started = peer.call("thread/start", json!({})).await;
    let thread = &started["thread"];
    assert_eq!(thread["sessionId"], thread["id"]);
    assert_eq!(thread["preview"], "");
    assert_eq!(thread["ephemeral"], false);
    assert_eq!(thread["turns"], json!([]));
    assert_eq!(thread["status"], json!({ "type": "idle" }));
    assert_eq!(thread["createdAt"], 1_767_225_600);
    assert_eq!(started["model"], "gpt-5");
    assert_eq!(started["modelProvider"], "scripted");
    assert_eq!(started["cwd"], env.workspace().display().to_string());
    let notice = peer.expect("thread/started").await;
    assert_eq!(&notice["thread"], thread);
    assert_lines(peer.transcript(), "> thread/start\n< thread/start\n* thread/started thread1");
}

#[tokio::test]
async fn a_thread_is_read_without_loading_it() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Is it so?").await;
    let loaded =
        peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let read = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    assert_eq!(read["thread"]["status"], json!({ "type": "notLoaded" }));
    assert_eq!(read["thread"]["turns"], loaded["thread"]["turns"]);
    assert_eq!(read["thread"]["preview"], "Is it so?");
    let items = read["thread"]["turns"][0]["items"].as_array().unwrap();
    let texts: Vec<&Value> = items.iter().map(|item| &item["type"]).collect();
    assert_eq!(texts, ["userMessage", "agentMessage"]);
    assert_eq!(items[1]["text"], "Yes: Is it so?");
    assert_eq!(peer.call("thread/loaded/list", json!({})).await["data"], json!([]));
    assert!(peer.settled().await.is_empty());
    let without = peer.call("thread/read", json!({ "threadId": thread })).await;
    assert_eq!(without["thread"]["turns"], json!([]));
}

#[tokio::test]
async fn a_turn_updates_the_thread_and_resuming_does_not() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "One.").await;
    let before = peer.call("thread/read", json!({ "threadId": thread })).await;
    env.clock.advance(60_000);
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let resumed = peer.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(resumed["thread"]["updatedAt"], before["thread"]["updatedAt"]);
    assert_eq!(resumed["thread"]["status"]["type"], "idle");
    assert_eq!(peer.call("thread/loaded/list", json!({})).await["data"], json!([thread]));
    peer.run_turn(&thread, "Two.").await;
    let after = peer.call("thread/read", json!({ "threadId": thread })).await;
    let seconds = |thread: &Value| thread["thread"]["updatedAt"].as_i64().unwrap();
    assert_eq!(seconds(&after), seconds(&before) + 60);
    assert_eq!(after["thread"]["createdAt"], before["thread"]["createdAt"]);
}

#[tokio::test]
async fn an_ephemeral_thread_leaves_nothing() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({ "ephemeral": true })).await;
    assert_eq!(peer.run_turn(&thread, "Psst.").await["status"], "completed");
    assert!(listed(&mut peer, json!({})).await.is_empty());
    let read = peer.call("thread/read", json!({ "threadId": thread })).await;
    assert_eq!(read["thread"]["ephemeral"], true);
    let fault =
        peer.refused("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    assert!(fault.message.contains("ephemeral"), "{fault:?}");
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect().await;
    peer.refused("thread/read", json!({ "threadId": thread })).await;
    peer.refused("thread/resume", json!({ "threadId": thread })).await;
}

#[tokio::test]
async fn lists_are_sorted_and_paged() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let mut made = Vec::new();
    for number in 0..7 {
        let thread = peer.start_thread(json!({})).await;
        peer.run_turn(&thread, &format!("Number {number}.")).await;
        made.push(thread);
        env.clock.advance(1_000);
    }
    // A thread without turns is not listed.
    peer.start_thread(json!({})).await;
    let newest: Vec<String> = made.iter().rev().cloned().collect();
    assert_eq!(listed(&mut peer, json!({})).await, newest);
    peer.run_turn(&made[2], "Later.").await;
    assert_eq!(listed(&mut peer, json!({})).await, newest);
    let by_update = listed(&mut peer, json!({ "sortKey": "updated_at" })).await;
    assert_eq!(by_update[0], made[2]);
    let mut paged = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let page = peer.call("thread/list", json!({ "limit": 3, "cursor": cursor })).await;
        assert!(ids(&page).len() <= 3);
        paged.extend(ids(&page));
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(paged, newest);
}

#[tokio::test]
async fn lists_are_filtered_before_they_are_paged() {
    let mut env = TestEnvironment::with_script(&talkative()).await;
    let below = env.workspace().join("below");
    std::fs::create_dir(&below).unwrap();
    let below = below.display().to_string();
    let server = env.start();
    let mut peer = server.connect().await;
    let plain = peer.start_thread(json!({})).await;
    peer.run_turn(&plain, "Paint the fence.").await;
    let elsewhere = peer.start_thread(json!({ "cwd": below })).await;
    peer.run_turn(&elsewhere, "Mow the lawn.").await;
    let offline = json!({ "modelProvider": "offline", "model": "echo" });
    let offline = peer.start_thread(offline).await;
    peer.run_turn(&offline, "Water the plants.").await;
    server.stop().await;
    env.session_source = "exec".to_owned();
    let server = env.start();
    let mut peer = server.connect().await;
    let exec = peer.start_thread(json!({})).await;
    peer.run_turn(&exec, "Feed the fence.").await;
    let all = [&offline, &elsewhere, &plain];
    for (params, expected) in [
        (json!({}), &all[..]),
        (json!({ "sourceKinds": [] }), &all[..]),
        (json!({ "sourceKinds": ["exec"] }), &[&exec]),
        (json!({ "sourceKinds": ["exec", "cli"] }), &[&exec, &offline, &elsewhere, &plain]),
        (json!({ "cwd": below }), &[&elsewhere]),
        (json!({ "cwd": "/nowhere" }), &[]),
        (json!({ "modelProviders": ["offline"] }), &[&offline]),
        (json!({ "modelProviders": [] }), &all[..]),
        (json!({ "searchTerm": "fence" }), &[&plain]),
        (json!({ "searchTerm": "fence", "sourceKinds": ["exec", "cli"], "limit": 1 }), &[&exec]),
        (json!({ "archived": true }), &[]),
    ] {
        let expected: Vec<String> = expected.iter().map(|id| (*id).clone()).collect();
        assert_eq!(listed(&mut peer, params.clone()).await, expected, "{params}");
    }
}

#[tokio::test]
async fn turns_are_listed_in_both_directions() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let mut made = Vec::new();
    for number in 0..5 {
        let turn = peer.run_turn(&thread, &format!("{number}")).await;
        made.push(turn["id"].as_str().unwrap().to_owned());
    }
    let page = |more: Value| {
        let mut params = json!({ "threadId": thread, "limit": 2 });
        for (name, value) in more.as_object().unwrap() {
            params[name] = value.clone();
        }
        params
    };
    let first = peer.call("thread/turns/list", page(json!({}))).await;
    assert_eq!(ids(&first), [made[4].clone(), made[3].clone()]);
    let next = json!({ "cursor": first["nextCursor"] });
    let second = peer.call("thread/turns/list", page(next)).await;
    assert_eq!(ids(&second), [made[2].clone(), made[1].clone()]);
    let newer = peer.run_turn(&thread, "newer").await;
    let back = json!({ "cursor": first["backwardsCursor"], "sortDirection": "asc" });
    let back = peer.call("thread/turns/list", page(back)).await;
    assert!(ids(&back).contains(&newer["id"].as_str().unwrap().to_owned()), "{back}");
    for (view, items) in [("notLoaded", 0), ("summary", 2), ("full", 2)] {
        let turns = peer.call("thread/turns/list", page(json!({ "itemsView": view }))).await;
        assert_eq!(turns["data"][0]["items"].as_array().unwrap().len(), items, "{view}");
        assert_eq!(turns["data"][0]["itemsView"], view);
    }
    let fault = peer.refused("thread/turns/list", json!({ "threadId": "unknown" })).await;
    assert_eq!((fault.code, fault.message.as_str()), (-32600, "thread not found: unknown"));
}

#[tokio::test]
async fn a_summary_holds_the_first_question_and_the_last_answer() {
    let steps = json!({ "steps": [{ "message": "Hm." }, { "function_call":
        { "name": "exec_command", "arguments": { "cmd": "true" } } }] });
    let env = TestEnvironment::with_responses(json!([steps, says("So.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Well?").await;
    let turns = peer.call("thread/turns/list", json!({ "threadId": thread })).await;
    let items = turns["data"][0]["items"].as_array().unwrap();
    assert_eq!(items.len(), 2);
    assert_eq!((&items[0]["type"], &items[1]["text"]), (&json!("userMessage"), &json!("So.")));
}

#[tokio::test]
async fn a_client_that_unsubscribes_gets_no_more_events() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let mut other = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let unsubscribe = json!({ "threadId": thread });
    for (who, expected) in [(&mut other, "notSubscribed"), (&mut peer, "unsubscribed")] {
        let answer = who.call("thread/unsubscribe", unsubscribe.clone()).await;
        assert_eq!(answer["status"], expected);
    }
    let answer = peer.call("thread/unsubscribe", unsubscribe).await;
    assert_eq!(answer["status"], "notSubscribed");
    let answer = peer.call("thread/unsubscribe", json!({ "threadId": "unknown" })).await;
    assert_eq!(answer["status"], "notLoaded");
    other.call("thread/resume", json!({ "threadId": thread })).await;
    peer.settled().await;
    peer.forget();
    other.run_turn(&thread, "Psst.").await;
    assert_eq!(peer.settled().await, [""; 0]);
}

#[tokio::test]
async fn a_thread_without_subscribers_is_unloaded_after_half_an_hour() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "One.").await;
    minutes(31).await;
    assert_eq!(peer.call("thread/loaded/list", json!({})).await["data"], json!([thread]));
    peer.call("thread/unsubscribe", json!({ "threadId": thread })).await;
    minutes(29).await;
    assert_eq!(peer.call("thread/loaded/list", json!({})).await["data"], json!([thread]));
    peer.settled().await;
    peer.forget();
    minutes(31).await;
    peer.expect("thread/closed").await;
    assert_lines(
        peer.transcript(),
        "* thread/status/changed notLoaded
         * thread/closed",
    );
    assert_eq!(peer.call("thread/loaded/list", json!({})).await["data"], json!([]));
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(peer.run_turn(&thread, "Two.").await["status"], "completed");
}

#[tokio::test]
async fn forty_threads_are_unloaded_together_despite_visitors_and_readers() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut owner = server.connect().await;
    let mut reader = server.connect().await;
    let visited = reader.start_thread(json!({})).await;
    let mut threads = Vec::new();
    for _ in 0..40 {
        threads.push(owner.start_thread(json!({})).await);
    }
    drop(owner);
    // Long before they are answered, the server knows that the owner has left.
    read_all(&mut reader, &threads).await;
    for _ in 0..2 {
        minutes(9).await;
        read_all(&mut reader, &threads).await;
    }
    let mut visitor = server.connect().await;
    visitor.call("thread/resume", json!({ "threadId": visited })).await;
    drop(visitor);
    minutes(11).await;
    read_all(&mut reader, &threads).await;
    let loaded = reader.call("thread/loaded/list", json!({})).await;
    assert_eq!(loaded["data"].as_array().unwrap().len(), 41);
    minutes(2).await;
    for thread in &threads {
        reader.expect_where("thread/closed", |notice| notice["threadId"] == **thread).await;
    }
    let loaded = reader.call("thread/loaded/list", json!({})).await;
    assert_eq!(loaded["data"], json!([visited]));
}

/// Everything that reads threads.
async fn read_all(reader: &mut Peer, threads: &[String]) {
    for thread in threads {
        let read = reader.call("thread/read", json!({ "threadId": thread })).await;
        assert_eq!(read["thread"]["status"]["type"], "idle");
    }
    reader.call("thread/list", json!({})).await;
    reader.call("thread/loaded/list", json!({})).await;
}

#[tokio::test]
async fn activity_postpones_the_unloading_of_its_own_thread_only() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let (active, idle) = (peer.start_thread(json!({})).await, peer.start_thread(json!({})).await);
    for thread in [&active, &idle] {
        peer.call("thread/unsubscribe", json!({ "threadId": thread })).await;
    }
    minutes(20).await;
    peer.call("thread/name/set", json!({ "threadId": active, "name": "Kept" })).await;
    minutes(11).await;
    peer.expect_where("thread/closed", |notice| notice["threadId"] == idle).await;
    minutes(18).await;
    let loaded = peer.call("thread/loaded/list", json!({})).await;
    assert_eq!(loaded["data"], json!([active]));
    minutes(2).await;
    peer.expect_where("thread/closed", |notice| notice["threadId"] == active).await;
}

/// Advances the time of the timers by this much at once.
async fn minutes(count: u64) {
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(count * 60)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn home_and_store_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let env = TestEnvironment::with_script(&talkative()).await;
    std::fs::remove_dir_all(env.home()).unwrap();
    let config = ["model=\"echo\"", "model_provider=\"offline\""];
    let mut env = env;
    env.config_overrides.extend(config.map(str::to_owned));
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Psst.").await;
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(env.home()), 0o700);
    let mut folders = vec![env.home().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
}
