//! Stored facts about a thread that cannot be read: the thread is listed and can be deleted, and is
//! not used without them.

use rusqlite::Connection;
use serde_json::json;
use testkit::TestEnvironment;

use crate::says;

#[tokio::test]
async fn a_thread_whose_facts_cannot_be_read_is_not_loaded_as_another() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Hi.").await;
    server.stop().await;
    let database = Connection::open(env.home().join("threads.db")).unwrap();
    database.execute("UPDATE thread SET extra = '{\"agent\":{\"parent\":\"p\"}}'", []).unwrap();
    drop(database);

    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let named = json!({ "threadId": thread });
    for (method, params) in [("thread/resume", named.clone()), ("thread/fork", named.clone())] {
        let fault = peer.refused(method, params).await;
        let expected = format!("the stored facts of thread {thread} cannot be read: ");
        assert!(fault.message.contains(&expected), "{method}: {}", fault.message);
        assert_eq!(fault.code, -32603, "{method}");
    }
    let list = peer.call("thread/list", json!({})).await;
    assert_eq!(list["data"][0]["id"], json!(thread));
    let read = json!({ "threadId": thread, "includeTurns": true });
    let read = peer.call("thread/read", read).await;
    assert_eq!(read["thread"]["turns"][0]["status"], "completed");
    peer.call("thread/delete", named).await;
}
