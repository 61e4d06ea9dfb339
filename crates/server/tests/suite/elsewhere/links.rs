//! The connections between servers: stopped and cut ones, and those of clients that leave.

use std::collections::BTreeSet;

use jsonrpc::{CloseReason, Connection};
use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, TestServer};

use super::road::Road;
use super::{COMMAND, methods, two};
use crate::{runs, says};

/// A thread of the first server, a client of it, and a way to it for a second server.
struct Open {
    env: TestEnvironment,
    first: TestServer,
    here: Peer,
    thread: String,
    road: Road,
}

impl Open {
    async fn with(responses: Value, params: Value) -> Self {
        let env = TestEnvironment::with_responses(responses).await;
        let first = env.start();
        let mut here = first.connect().await;
        let thread = here.start_thread(params).await;
        here.run_turn(&thread, "Begin.").await;
        here.forget();
        let road = Road::before_the_door(&env);
        Self { env, first, here, thread, road }
    }

    /// A thread whose command waits for an approval.
    async fn asking() -> Self {
        let responses = json!([says("One."), runs("touch made"), says("Two."), says("Three.")]);
        let params = json!({ "approvalPolicy": "unlessTrusted", "sandbox": "readOnly" });
        Self::with(responses, params).await
    }

    fn resume(&self) -> Value {
        json!({ "threadId": self.thread })
    }

    fn rename(&self, name: &str) -> Value {
        json!({ "threadId": self.thread, "name": name })
    }

    async fn join(&self, peer: &mut Peer) {
        peer.call("thread/resume", self.resume()).await;
        peer.forget();
    }
}

fn cursors() -> Value {
    json!({ "experimentalApi": true, "eventCursor": true })
}

/// The responses in what a client has received to the request with this id.
fn responses_to(peer: &Peer, id: i64) -> usize {
    let is_response = |line: &&String| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["id"] == id && line["method"].is_null()
    };
    peer.raw_lines().iter().filter(is_response).count()
}

#[tokio::test]
async fn long_reads_from_another_server_keep_no_others_waiting() {
    let open = Open::with(two(), json!({})).await;
    let second = open.env.start();
    let (mut there, mut other) = (second.connect().await, second.connect().await);
    open.join(&mut there).await;
    let own = other.start_thread(json!({})).await;
    other.run_turn(&own, "Mine.").await;
    open.road.hold_present();
    let mut reads = Vec::new();
    for _ in 0..3 {
        let read = json!({ "threadId": open.thread, "includeTurns": true });
        reads.push(there.send("thread/read", read).await);
    }
    open.road.requested("thread/read").await;
    // Of the same client, and of another one that needs a permit as well.
    there.call("thread/loaded/list", json!({})).await;
    let read = json!({ "threadId": own, "includeTurns": true });
    other.call("thread/read", read).await;
    open.road.let_go();
    for read in reads {
        let read = there.response(read).await.unwrap();
        assert_eq!(read["thread"]["turns"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_request_to_a_server_that_is_stopped_ends_and_one_that_takes_long_does_not() {
    let open = Open::with(two(), json!({})).await;
    let second = open.env.start();
    let mut there = second.connect().await;
    open.join(&mut there).await;

    // It gives signs of life on other connections.
    open.road.hold_present();
    let long = there.send("thread/name/set", open.rename("Long")).await;
    open.road.arrived(2).await;
    open.road.present(1).await;
    assert_eq!(responses_to(&there, long), 0);
    open.road.let_go();
    there.response(long).await.unwrap();

    open.road.hold();
    let id = there.send("thread/name/set", open.rename("Late")).await;
    open.road.requested("Late").await;
    tokio::time::pause();
    let fault = there.response(id).await.unwrap_err();
    tokio::time::resume();
    assert!(fault.message.contains("does not answer"), "{fault:?}");
    assert!(fault.message.contains("may have had an effect"), "{fault:?}");

    // The server goes on. Its late response is no second one, and the client is still connected to the thread.
    open.road.let_go();
    there.expect_where("thread/name/updated", |it| it["threadName"] == "Late").await;
    there.call("thread/name/set", open.rename("Again")).await;
    assert_eq!(responses_to(&there, id), 1);
}

#[tokio::test]
async fn a_server_of_one_client_ends_while_another_server_is_stopped() {
    let open = Open::with(two(), json!({})).await;
    let second = open.env.start();
    let (client, connection) = Connection::pair(server::connection_limits());
    let server = second.server().clone();
    let serving = tokio::spawn(async move { server.serve_only(connection).await });
    let (client, _events) = jsonrpc::Client::new(client, &server::connection_limits());
    let info = json!({ "clientInfo": { "name": "test", "version": "1" } });
    client.request_raw("initialize", &info).await.unwrap();
    client.request_raw("thread/resume", &open.resume()).await.unwrap();
    open.road.hold();
    let rename = open.rename("Late");
    let asked = client.request_raw("thread/name/set", &rename);
    let left = async {
        open.road.requested("Late").await;
        tokio::time::pause();
        client.outbox().close(CloseReason::Finished);
    };
    let (asked, ()) = tokio::join!(asked, left);
    assert!(asked.is_err());
    serving.await.unwrap();
}

#[tokio::test]
async fn a_connection_that_is_cut_is_made_again() {
    let mut open = Open::asking().await;
    let second = open.env.start();
    let (mut plain, mut replaying) = (second.connect().await, second.connect_with(cursors()).await);
    for there in [&mut plain, &mut replaying] {
        open.join(there).await;
    }
    let turn = open.here.start_turn(&open.thread, "Run it.").await;
    let mut asked = Vec::new();
    for there in [&mut plain, &mut replaying] {
        there.expect("turn/started").await;
        asked.push(there.asked(COMMAND).await);
    }
    open.road.cut();
    for (there, asked) in [&mut plain, &mut replaying].into_iter().zip(asked) {
        let resolved = there.expect("serverRequest/resolved").await;
        assert_eq!(resolved["requestId"], asked.id);
        assert_ne!(there.asked(COMMAND).await.id, asked.id);
    }
    // The end of the turn is missed, and learned.
    open.road.hold_present();
    let asked = open.here.asked(COMMAND).await;
    open.here.decide(&asked, "decline").await;
    open.here.turn_end(&turn).await;
    open.road.cut();
    for there in [&mut plain, &mut replaying] {
        assert_eq!(there.turn_end(&turn).await["status"], "completed");
    }
    plain.expect_where("warning", |it| it["message"].to_string().contains("made again")).await;
    plain.expect_where("thread/status/changed", |it| it["status"]["type"] == "idle").await;
    assert_eq!(replaying.item("agentMessage").await["text"], "Two.");
    let turn = plain.start_turn(&open.thread, "Go on.").await;
    for there in [&mut plain, &mut replaying] {
        assert_eq!(there.turn_end(&turn).await["status"], "completed");
        let seen = methods(there);
        let ends = seen.iter().filter(|method| *method == "turn/completed").count();
        assert_eq!(ends, 2, "{seen:?}");
        assert!(!seen.contains(&"thread/closed".to_owned()), "{seen:?}");
    }
}

#[tokio::test]
async fn requests_wait_while_a_connection_is_made_again() {
    let open = Open::with(two(), json!({})).await;
    let second = open.env.start();
    let mut there = second.connect().await;
    open.join(&mut there).await;
    open.road.hold();
    open.road.cut();
    open.road.arrived(2).await;
    let input = json!([{ "type": "text", "text": "Now." }]);
    let start = json!({ "threadId": open.thread, "input": input });
    let turn = there.send("turn/start", start).await;
    let read = there.send("thread/read", open.resume()).await;
    open.road.let_go();
    let turn = there.response(turn).await.unwrap()["turn"]["id"].clone();
    there.response(read).await.unwrap();
    there.turn_end(turn.as_str().unwrap()).await;
}

#[tokio::test]
async fn a_connection_that_ends_after_the_handshake_is_not_used() {
    let open = Open::with(two(), json!({})).await;
    let second = open.env.start();
    let mut there = second.connect().await;
    open.road.cut_after("userAgent");
    // The request may have been sent before that was noticed.
    if let Err(fault) = there.try_call("thread/resume", open.resume()).await {
        assert!(fault.message.contains("ended before it answered"), "{fault:?}");
    }
    open.join(&mut there).await;
    assert_eq!(there.run_turn(&open.thread, "Go on.").await["status"], "completed");
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_ends_its_request() {
    let open = Open::with(two(), json!({})).await;
    let second = open.env.start();
    let mut there = second.connect().await;
    open.join(&mut there).await;
    open.road.change("\"turn\"", |line| line[..line.len() / 2].to_owned());
    let input = json!([{ "type": "text", "text": "Now." }]);
    let start = json!({ "threadId": open.thread, "input": input });
    let fault = there.refused("turn/start", start).await;
    assert!(fault.message.contains("ended before it answered"), "{fault:?}");
    there.expect_where("warning", |it| it["message"].to_string().contains("made again")).await;
    there.call("thread/name/set", open.rename("Named")).await;
}

#[tokio::test]
async fn an_answer_longer_than_any_line_of_a_client_arrives() {
    let open = Open::with(two(), json!({})).await;
    let second = open.env.start();
    let mut there = second.connect().await;
    open.join(&mut there).await;
    // As text between the members, which the client does not get.
    open.road.change("\"result\"", |line| {
        let blank = " ".repeat(server::LINE_BYTES + 1);
        line.replacen('{', &format!("{{{blank}"), 1)
    });
    there.call("thread/name/set", open.rename("Named")).await;
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_connections_to_other_servers() {
    let open = Open::with(two(), json!({})).await;
    let second = open.env.start();
    // While a request waits.
    let (mut there, leave) = second.connect_and_leave(Value::Null).await;
    open.join(&mut there).await;
    open.road.hold_present();
    there.send("thread/name/set", open.rename("Late")).await;
    open.road.requested("Late").await;
    leave();
    open.road.present(0).await;
    open.road.let_go();
    // While a connection is made again.
    let (mut there, leave) = second.connect_and_leave(Value::Null).await;
    open.join(&mut there).await;
    open.road.hold();
    let before = open.road.so_far();
    open.road.cut();
    open.road.arrived(before + 1).await;
    leave();
    drop(there);
    // Its server has forgotten it when another client has been served.
    let mut other = second.connect().await;
    other.call("thread/loaded/list", json!({})).await;
    open.road.let_go();
    open.road.present(0).await;
}

#[tokio::test]
async fn a_thread_that_is_open_elsewhere_needs_no_joining() {
    let mut open = Open::with(two(), json!({})).await;
    let second = open.env.start();
    let mut visitor = second.connect().await;
    let turn = visitor.start_turn(&open.thread, "From there.").await;
    assert_eq!(open.here.turn_end(&turn).await["status"], "completed");
    let target = json!({ "type": "custom", "instructions": "Look." });
    let review = json!({ "threadId": open.thread, "target": target });
    let review = visitor.call("review/start", review).await;
    open.here.turn_end(review["turn"]["id"].as_str().unwrap()).await;
    // One that is open nowhere is not opened by that.
    open.first.stop().await;
    let input = json!([{ "type": "text", "text": "Now." }]);
    let start = json!({ "threadId": open.thread, "input": input });
    let fault = visitor.refused("turn/start", start).await;
    assert!(fault.message.contains("thread not loaded"), "{fault:?}");
    let seen: BTreeSet<_> = methods(&visitor).into_iter().collect();
    assert!(!seen.iter().any(|method| method.starts_with("turn/")), "{seen:?}");
}
