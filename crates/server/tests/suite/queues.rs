//! Queues of messages (experimental): order, pauses, several clients, crashes, and bounds.

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::{runs, says};

fn experimental() -> Value {
    json!({ "experimentalApi": true })
}

/// A response that does not end by itself.
fn waits() -> Value {
    json!({ "steps": [{ "message": { "chunks": ["Half"] } }, "idle"] })
}

async fn add(peer: &mut Peer, thread: &str, text: &str) -> String {
    let params = json!({
        "threadId": thread,
        "input": [{ "type": "text", "text": text }],
        "clientUserMessageId": format!("client-{text}"),
    });
    let added = peer.call("thread/queue/add", params).await;
    added["queuedSubmission"]["id"].as_str().unwrap().to_owned()
}

async fn list(peer: &mut Peer, thread: &str) -> Value {
    peer.call("thread/queue/list", json!({ "threadId": thread })).await
}

fn texts(listed: &Value) -> Vec<String> {
    let messages = listed["data"].as_array().unwrap().iter();
    messages.map(|message| message["input"][0]["text"].as_str().unwrap().to_owned()).collect()
}

/// Waits for the user's message of a turn.
async fn said(peer: &mut Peer, text: &str) -> Value {
    let is_it = |params: &Value| params["item"]["content"][0]["text"] == text;
    peer.expect_where("item/completed", is_it).await
}

async fn answered(peer: &mut Peer, text: &str) {
    peer.expect_where("item/completed", |params| params["item"]["text"] == text).await;
}

async fn interrupt(peer: &mut Peer, thread: &str, turn: &str) {
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    peer.turn_end(turn).await;
}

#[tokio::test]
async fn the_capability_is_needed() {
    let env = TestEnvironment::with_responses(json!([says("x")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    for method in ["add", "list", "update", "delete", "reorder", "start"] {
        let method = format!("thread/queue/{method}");
        let fault = peer.refused(&method, json!({ "threadId": "x" })).await;
        assert_eq!(fault.message, format!("{method} requires experimentalApi capability"));
    }
}

#[tokio::test]
async fn messages_get_a_turn_each_in_order() {
    let env =
        TestEnvironment::with_responses(json!([runs("touch x"), says("1"), says("2"), says("3")]))
            .await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = peer.start_thread(json!({ "approvalPolicy": "unlessTrusted" })).await;
    let first = peer.start_turn(&thread, "begin").await;
    let asked = peer.asked("item/commandExecution/requestApproval").await;
    let (b, c) = (add(&mut peer, &thread, "b").await, add(&mut peer, &thread, "c").await);
    let changed = peer.expect_where("thread/queue/changed", |params| params["length"] == 2).await;
    assert_eq!(changed, json!({ "threadId": thread, "length": 2, "pause": null }));
    let busy = peer.refused("thread/queue/start", json!({ "threadId": thread })).await;
    assert!(busy.message.starts_with("thread already has an active or pending turn"), "{busy:?}");
    let order = json!({ "threadId": thread, "queuedSubmissionIds": [c, b] });
    assert_eq!(peer.call("thread/queue/reorder", order).await, json!({}));
    let listed = list(&mut peer, &thread).await;
    assert_eq!((texts(&listed), &listed["pause"]), (vec!["c".into(), "b".into()], &Value::Null));
    peer.decide(&asked, "decline").await;
    assert_eq!(peer.turn_end(&first).await["status"], "completed");
    assert_eq!(said(&mut peer, "c").await["item"]["clientId"], "client-c");
    answered(&mut peer, "2").await;
    said(&mut peer, "b").await;
    answered(&mut peer, "3").await;
    peer.expect_where("thread/queue/changed", |params| params["length"] == 0).await;
    assert!(texts(&list(&mut peer, &thread).await).is_empty());
}

#[tokio::test]
async fn a_message_to_an_idle_thread_starts_at_once() {
    let env = TestEnvironment::with_responses(json!([says("done")])).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = peer.start_thread(json!({})).await;
    add(&mut peer, &thread, "now").await;
    said(&mut peer, "now").await;
    answered(&mut peer, "done").await;
}

#[tokio::test]
async fn clients_share_a_queue() {
    let env = TestEnvironment::with_responses(json!([waits()])).await;
    let server = env.start();
    let mut one = server.connect_with(experimental()).await;
    let thread = one.start_thread(json!({})).await;
    one.run_until_half(&thread).await;
    let mut two = server.connect_with(experimental()).await;
    two.call("thread/resume", json!({ "threadId": thread })).await;
    let id = add(&mut one, &thread, "a").await;
    two.expect_where("thread/queue/changed", |params| params["length"] == 1).await;
    // One that subscribes later is sent the state.
    let mut three = server.connect_with(experimental()).await;
    three.call("thread/resume", json!({ "threadId": thread })).await;
    let state = json!({ "threadId": thread, "length": 1, "pause": null });
    assert_eq!(three.expect("thread/queue/changed").await, state);
    // The same message again, as after a lost response.
    assert_eq!(add(&mut one, &thread, "a").await, id);
    let update = json!({
        "threadId": thread, "queuedSubmissionId": id, "input": [{ "type": "text", "text": "b" }],
    });
    let updated = two.call("thread/queue/update", update.clone()).await;
    assert_eq!(updated["queuedSubmission"]["clientUserMessageId"], "client-a");
    one.expect_where("thread/queue/changed", |params| params["length"] == 1).await;
    assert_eq!(texts(&list(&mut one, &thread).await), ["b"]);
    let delete = json!({ "threadId": thread, "queuedSubmissionId": id });
    assert_eq!(two.call("thread/queue/delete", delete.clone()).await, json!({ "deleted": true }));
    assert_eq!(one.call("thread/queue/delete", delete).await, json!({ "deleted": false }));
    let gone = one.refused("thread/queue/update", update).await;
    assert!(gone.message.starts_with("queued submission not found"), "{gone:?}");
}

#[tokio::test]
async fn an_interrupt_pauses_the_queue_until_it_is_started() {
    let env = TestEnvironment::with_responses(json!([waits(), says("B"), says("A")])).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.run_until_half(&thread).await;
    add(&mut peer, &thread, "a").await;
    let b = add(&mut peer, &thread, "b").await;
    interrupt(&mut peer, &thread, &turn).await;
    let paused = |params: &Value| params["pause"]["reason"] == "interrupted";
    peer.expect_where("thread/queue/changed", paused).await;
    let listed = list(&mut peer, &thread).await;
    assert_eq!(listed["pause"], json!({ "reason": "interrupted" }));
    // The pause is stored, and so it survives the server.
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    assert_eq!(list(&mut peer, &thread).await, listed);
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    peer.settled().await;
    assert_eq!(list(&mut peer, &thread).await, listed);
    let start = json!({ "threadId": thread, "queuedSubmissionId": b });
    let started = peer.call("thread/queue/start", start).await;
    assert_eq!(started["turn"]["status"], "inProgress");
    // The rest follows.
    answered(&mut peer, "B").await;
    said(&mut peer, "a").await;
    answered(&mut peer, "A").await;
}

#[tokio::test]
async fn a_failed_turn_pauses_the_queue() {
    let fails = json!({ "steps": [{ "error": { "status": 400, "code": "no", "message": "no" } }] });
    let env = TestEnvironment::with_responses(json!([runs("touch x"), fails])).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = peer.start_thread(json!({ "approvalPolicy": "unlessTrusted" })).await;
    let turn = peer.start_turn(&thread, "begin").await;
    let asked = peer.asked("item/commandExecution/requestApproval").await;
    add(&mut peer, &thread, "a").await;
    peer.decide(&asked, "decline").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "failed");
    peer.expect_where("thread/queue/changed", |params| params["pause"]["reason"] == "failed").await;
    assert_eq!(texts(&list(&mut peer, &thread).await), ["a"]);
}

#[tokio::test]
async fn a_message_that_cannot_start_pauses_the_queue_and_stays() {
    let env = TestEnvironment::with_responses(json!([says("fixed")])).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = peer.start_thread(json!({})).await;
    let missing = json!({
        "threadId": thread, "clientUserMessageId": "c",
        "input": [{ "type": "localImage", "path": "/no/such/image.png" }],
    });
    let added = peer.call("thread/queue/add", missing).await;
    let changed =
        peer.expect_where("thread/queue/changed", |it| it["pause"]["reason"] == "notStarted").await;
    let message = changed["pause"]["message"].as_str().unwrap();
    assert!(message.contains("/no/such/image.png"), "{message}");
    let id = &added["queuedSubmission"]["id"];
    let update = json!({
        "threadId": thread, "queuedSubmissionId": id, "input": [{ "type": "text", "text": "x" }],
    });
    peer.call("thread/queue/update", update).await;
    peer.call("thread/queue/start", json!({ "threadId": thread })).await;
    answered(&mut peer, "fixed").await;
}

#[tokio::test]
async fn a_crash_neither_loses_nor_repeats_a_message() {
    let mut env =
        TestEnvironment::with_responses(json!([waits(), waits(), says("B"), says("C")])).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_until_half(&thread).await;
    add(&mut peer, &thread, "a").await;
    env.crash();
    // The turn is interrupted by the crash, which is no wish of the user: the queue goes on.
    let server_two = env.start();
    let mut peer = server_two.connect_with(experimental()).await;
    assert_eq!(texts(&list(&mut peer, &thread).await), ["a"]);
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    peer.expect("item/agentMessage/delta").await;
    add(&mut peer, &thread, "b").await;
    env.crash();
    // The turn of `a` had begun: only `b` waits.
    let server_three = env.start();
    let mut peer = server_three.connect_with(experimental()).await;
    assert_eq!(texts(&list(&mut peer, &thread).await), ["b"]);
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    answered(&mut peer, "B").await;
    let read = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    let turns = read["thread"]["turns"].as_array().unwrap();
    let users: Vec<&Value> =
        turns.iter().map(|turn| &turn["items"][0]["content"][0]["text"]).collect();
    assert_eq!(users, ["Talk.", "a", "b"]);
    drop(server);
}

#[tokio::test]
async fn archiving_pauses_a_queue_and_forks_have_none() {
    let env = TestEnvironment::with_responses(json!([says("one"), waits()])).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "one").await;
    peer.run_until_half(&thread).await;
    add(&mut peer, &thread, "a").await;
    let fork = peer.call("thread/fork", json!({ "threadId": thread })).await;
    let fork = fork["thread"]["id"].as_str().unwrap().to_owned();
    assert!(texts(&list(&mut peer, &fork).await).is_empty());
    peer.call("thread/archive", json!({ "threadId": thread })).await;
    let refused = peer.refused("thread/queue/start", json!({ "threadId": thread })).await;
    assert!(refused.message.contains("archived"), "{refused:?}");
    peer.call("thread/unarchive", json!({ "threadId": thread })).await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    let listed = list(&mut peer, &thread).await;
    assert_eq!(
        (texts(&listed), &listed["pause"]["reason"]),
        (vec!["a".into()], &json!("archived"))
    );
    peer.call("thread/delete", json!({ "threadId": thread })).await;
    let gone = peer.refused("thread/queue/list", json!({ "threadId": thread })).await;
    assert!(gone.message.starts_with("thread not found"), "{gone:?}");
}

#[tokio::test]
async fn bad_requests_are_refused_by_name() {
    let env = TestEnvironment::with_responses(json!([waits()])).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_until_half(&thread).await;
    let text = json!([{ "type": "text", "text": "x" }]);
    let picture = json!([{ "type": "image", "url": "http://host/picture.png" }]);
    for (input, client, expected) in [
        (json!([]), "c".to_owned(), "only user input can be added"),
        (picture, "c".to_owned(), "`input[0].url`: an image cannot have a `http:` URL"),
        (text.clone(), String::new(), "`clientUserMessageId`"),
        (text.clone(), "c".repeat(129), "`clientUserMessageId`"),
    ] {
        let params = json!({ "threadId": thread, "input": input, "clientUserMessageId": client });
        let fault = peer.refused("thread/queue/add", params).await;
        assert!(fault.message.contains(expected), "{fault:?}");
    }
    add(&mut peer, &thread, "a").await;
    let wrong = json!({ "threadId": thread, "queuedSubmissionIds": [] });
    let fault = peer.refused("thread/queue/reorder", wrong).await;
    let expected = "queue reorder must include every queued submission exactly once";
    assert_eq!(fault.message, expected);
    let page = peer.call("thread/queue/list", json!({ "threadId": thread, "limit": 1 })).await;
    assert_eq!(page["nextCursor"], Value::Null);
    let cursor = json!({ "threadId": thread, "cursor": "none" });
    assert!(peer.refused("thread/queue/list", cursor).await.message.contains("`cursor`"));
}

trait RunUntilHalf {
    /// Starts a turn whose response does not end; returns its id.
    async fn run_until_half(&mut self, thread: &str) -> String;
}

impl RunUntilHalf for Peer {
    async fn run_until_half(&mut self, thread: &str) -> String {
        let turn = self.start_turn(thread, "Talk.").await;
        self.expect("item/agentMessage/delta").await;
        turn
    }
}
