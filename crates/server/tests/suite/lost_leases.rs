//! A loaded thread that another server takes over: it ends here with a reason, and nothing more of it
//! is stored.

use std::fs::File;

use rusqlite::Connection;
use serde_json::json;
use testkit::TestEnvironment;

use crate::background::{sleepers, until};
use crate::{runs, says};

/// A living server that has taken over all threads of `env`.
struct OtherServer {
    database: Connection,
    _lock: File,
}

impl OtherServer {
    fn takes_over(env: &TestEnvironment) -> Self {
        let lock = File::create(env.home().join("owners/other")).unwrap();
        lock.lock().unwrap();
        let database = Connection::open(env.home().join("threads.db")).unwrap();
        database.execute("UPDATE thread SET lease = 'other'", []).unwrap();
        Self { database, _lock: lock }
    }

    /// The stored rows: turns, items, parts of the history; and the lease.
    fn stored(&self) -> (u32, u32, u32, String) {
        let sql = "SELECT (SELECT count(*) FROM turn), (SELECT count(*) FROM item),
                       (SELECT count(*) FROM history), (SELECT min(lease) FROM thread)";
        let row =
            |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        self.database.query_row(sql, [], row).unwrap()
    }
}

fn assert_says_why(message: &str) {
    assert!(message.contains("another server has taken over thread"), "{message}");
    assert!(message.contains("call thread/resume"), "{message}");
}

#[tokio::test]
async fn a_request_to_a_thread_that_was_taken_over_is_refused_and_closes_it() {
    let env = TestEnvironment::with_responses(json!([says("Hello."), says("On.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let mut other_peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let untouched = peer.start_thread(json!({ "ephemeral": true })).await;
    peer.run_turn(&thread, "Hi.").await;
    other_peer.call("thread/resume", json!({ "threadId": thread })).await;
    let other = OtherServer::takes_over(&env);
    let before = other.stored();

    let input = json!([{ "type": "text", "text": "x" }]);
    let start = json!({ "threadId": thread, "input": input });
    let fault = peer.refused("turn/start", start.clone()).await;
    assert_says_why(&fault.message);
    for client in [&mut peer, &mut other_peer] {
        let warning = client.expect_where("warning", |notice| notice["threadId"] == thread).await;
        assert_says_why(warning["message"].as_str().unwrap());
        let closed = client.expect("thread/closed").await;
        assert_eq!(closed["threadId"], json!(thread));
    }
    for (method, params) in
        [("turn/start", start), ("thread/resume", json!({ "threadId": thread }))]
    {
        let fault = peer.refused(method, params).await;
        assert!(
            fault.message.contains("is open in another server (owner other)"),
            "{}",
            fault.message
        );
    }
    assert_eq!(other.stored(), before, "the lease is not taken back");
    assert_eq!(other.stored().3, "other");
    peer.call("thread/unsubscribe", json!({ "threadId": untouched })).await;

    // The other server ends: then the thread can be continued here.
    drop(other);
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(peer.run_turn(&thread, "Go on.").await["status"], "completed");
}

#[tokio::test]
async fn a_running_turn_and_its_command_end_with_the_lease() {
    let mark = format!("{}.5", 400_000 + std::process::id());
    let env =
        TestEnvironment::with_responses(json!([runs(&format!("sleep {mark}")), says("On.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let start = json!({ "approvalPolicy": "never", "sandbox": "dangerFullAccess" });
    let thread = peer.start_thread(start).await;
    let turn = peer.start_turn(&thread, "Begin.").await;
    peer.expect_where("item/started", |notice| notice["item"]["type"] == "commandExecution").await;
    until(|| sleepers(&mark) == 1).await;
    let other = OtherServer::takes_over(&env);
    let before = other.stored();

    let rename = json!({ "threadId": thread, "name": "x" });
    let fault = peer.refused("thread/name/set", rename).await;
    assert_says_why(&fault.message);
    let ended = peer.turn_end(&turn).await;
    assert_eq!(ended["status"], "failed");
    assert_says_why(ended["error"]["message"].as_str().unwrap());
    peer.expect("thread/closed").await;
    until(|| sleepers(&mark) == 0).await;
    assert_eq!(other.stored(), before);
    let ends = peer.transcript().iter().filter(|line| line.contains("turn/completed")).count();
    assert_eq!(ends, 1);

    drop(other);
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    let read = json!({ "threadId": thread, "includeTurns": true });
    let read = peer.call("thread/read", read).await;
    assert_eq!(read["thread"]["turns"][0]["status"], "interrupted");
    assert_eq!(peer.run_turn(&thread, "Go on.").await["status"], "completed");
}
