//! Threads with a history from the client, and threads imported from a file (specification:
//! `thread/resume` with `history` and `path`, `thread/fork` with `path`).

use serde_json::{Value, json};
use store::{SqliteConfig, Store, transfer};
use testkit::{Peer, TestEnvironment};

use crate::forks::questions;
use crate::says;

fn message(role: &str, kind: &str, text: &str) -> Value {
    json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": text }] })
}

async fn env() -> TestEnvironment {
    TestEnvironment::with_script(
        &json!({ "responses": [says("Yes.")], "on_exhausted": "repeat_last" }),
    )
    .await
}

async fn experimental(server: &testkit::TestServer) -> Peer {
    server.connect_with(json!({ "experimentalApi": true })).await
}

/// Exports the thread to a file while no server runs.
async fn exported(env: &TestEnvironment, thread: &str) -> String {
    let store = Store::open(SqliteConfig::new(env.home(), 0, "export")).await.unwrap();
    let mut text = String::new();
    let written = transfer::export(&store, thread, |line| {
        text.push_str(line);
        text.push('\n');
        Ok(())
    });
    written.await.unwrap();
    store.close().await.unwrap();
    let path = env.root().join("thread.jsonl");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn a_given_history_becomes_a_stored_thread() {
    let env = env().await;
    let server = env.start();
    let mut peer = experimental(&server).await;
    let items = json!([
        message("user", "input_text", "What is the word?"),
        message("assistant", "output_text", "Xyzzy."),
    ]);
    let wish = json!({ "threadId": "anything", "history": items, "model": "gpt-5-mini" });
    let resumed = peer.call("thread/resume", wish).await;
    assert_eq!(resumed["model"], "gpt-5-mini");
    let thread = resumed["thread"]["id"].as_str().unwrap().to_owned();
    server.stop().await;

    let server = env.start();
    let mut peer = experimental(&server).await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    peer.run_turn(&thread, "And then?").await;
    let sent = env.model().requests();
    let input = sent[0]["input"].as_array().unwrap();
    let at = input.iter().position(|item| *item == items[0]).unwrap();
    assert_eq!(input[at + 1], items[1]);

    let listed = peer.call("thread/list", json!({})).await["data"].as_array().unwrap().len();
    for (bad, why) in [
        (json!({ "threadId": "x", "history": [] }), "`history` must hold"),
        (
            json!({ "threadId": "x", "history": [message("wizard", "input_text", "x")] }),
            "history[0]",
        ),
        (json!({ "threadId": "x", "history": items, "path": "/x" }), "exclude each other"),
    ] {
        let fault = peer.refused("thread/resume", bad).await;
        assert_eq!(fault.code, -32602);
        assert!(fault.message.contains(why), "{fault:?}");
    }
    let after = peer.call("thread/list", json!({})).await["data"].as_array().unwrap().len();
    assert_eq!(after, listed, "what is refused makes no thread");
}

#[tokio::test]
async fn a_thread_in_a_file_is_resumed_and_forked() {
    let old = env().await;
    let server = old.start();
    let mut peer = experimental(&server).await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "first").await;
    server.stop().await;
    let path = exported(&old, &thread).await;

    let new = env().await;
    let server = new.start();
    let mut peer = experimental(&server).await;
    let wish = json!({ "threadId": "anything", "path": path, "cwd": new.workspace() });
    let resumed = peer.call("thread/resume", wish.clone()).await;
    assert_eq!(resumed["thread"]["id"], thread);
    assert_eq!(questions(&mut peer, &thread).await, ["first"]);
    peer.run_turn(&thread, "second").await;
    // A thread that is already stored is resumed in its stored state.
    let again = peer.call("thread/resume", wish.clone()).await;
    assert_eq!(again["thread"]["id"], thread);
    assert_eq!(questions(&mut peer, &thread).await, ["first", "second"]);

    let wish = json!({ "threadId": "anything", "path": path, "cwd": new.workspace(),
        "threadSource": "mail-room" });
    let forked = peer.call("thread/fork", wish).await["thread"].clone();
    assert_ne!(forked["id"], thread);
    assert_eq!((&forked["forkedFromId"], &forked["sessionId"]), (&json!(thread), &json!(thread)));
    assert_eq!(forked["threadSource"], "mail-room", "a name of the client's own");
    let fork = forked["id"].as_str().unwrap();
    peer.run_turn(fork, "third").await;
    assert_eq!(questions(&mut peer, fork).await, ["first", "third"], "as the file has it");

    let torn = new.root().join("torn.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&torn, text[..text.len() - 9].replacen(&*thread, "another", 1)).unwrap();
    std::fs::write(new.root().join("empty"), "").unwrap();
    for (bad, why) in [
        (json!(torn), "line "),
        (json!(new.root().join("empty")), "no thread"),
        (json!(new.root()), "not a regular file"),
        (json!("/dev/zero"), "not a regular file"),
        (json!(new.root().join("nowhere")), "No such file"),
        (json!("relative.jsonl"), "absolute"),
    ] {
        for method in ["thread/resume", "thread/fork"] {
            let params = json!({ "threadId": "x", "path": bad });
            let fault = peer.refused(method, params).await;
            assert_eq!(fault.code, -32602, "{fault:?}");
            assert!(fault.message.contains(why), "{fault:?}");
        }
    }
    let params = json!({ "threadId": "x", "path": path, "ephemeral": true });
    let fault = peer.refused("thread/fork", params).await;
    assert!(fault.message.contains("exclude each other"), "{fault:?}");
    let fault = peer.refused("thread/resume", json!({ "threadId": "another" })).await;
    assert!(fault.message.contains("not found"), "nothing of a torn file is stored: {fault:?}");
}
