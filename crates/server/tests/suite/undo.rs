//! Undo of what turns change in files (`features.undo`, `thread/rollback` with `restoreFiles`).

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::agents::of;
use crate::{calls, runs, says};

const ON: &str = "[features]\nundo = true\n";

fn experimental() -> Value {
    json!({ "experimentalApi": true })
}

async fn environment(responses: Value) -> TestEnvironment {
    let env = TestEnvironment::with_responses(responses).await;
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!("{config}\n{ON}"));
    env
}

fn back(thread: &str, turns: u32, more: Value) -> Value {
    let mut params = json!({ "threadId": thread, "numTurns": turns, "restoreFiles": true });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params
}

async fn writer(peer: &mut Peer) -> String {
    peer.start_thread(json!({ "sandbox": "workspaceWrite", "approvalPolicy": "never" })).await
}

// Effect of `features.undo`.
#[tokio::test]
async fn a_turn_is_undone_with_its_files() {
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** Add File: new/b.txt\n+b\n*** End Patch";
    let patched =
        json!({ "steps": [{ "custom_tool_call": { "name": "apply_patch", "input": patch } }] });
    let env = environment(json!([
        patched,
        runs("chmod 700 script && rm gone && ln -s a.txt link && mkdir -p deep/er && echo x > deep/er/x"),
        says("Done."),
    ]))
    .await;
    let at = |name: &str| env.workspace().join(name);
    std::fs::write(at("a.txt"), "one\n").unwrap();
    std::fs::write(at("gone"), [0, 159, 146]).unwrap();
    std::fs::write(at("script"), "").unwrap();
    std::fs::set_permissions(at("script"), PermissionsExt::from_mode(0o640)).unwrap();
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = writer(&mut peer).await;
    assert_eq!(peer.run_turn(&thread, "Go.").await["status"], "completed");
    assert!(at("new/b.txt").exists() && at("deep/er/x").exists() && !at("gone").exists());

    let shown = peer.call("thread/rollback", back(&thread, 1, json!({ "dryRun": true }))).await;
    let diff = shown["files"]["diff"].as_str().unwrap();
    for part in [
        "-two\n+one\n",
        "deleted file mode",
        "old mode 700\nnew mode 640",
        "a link to a.txt becomes nothing",
    ] {
        assert!(diff.contains(part), "{part} is not in {diff}");
    }
    assert_eq!(shown["files"]["conflicts"], json!([]));
    assert_eq!(shown["thread"]["turns"].as_array().unwrap().len(), 1, "nothing has happened");
    assert!(at("new/b.txt").exists());

    let done = peer.call("thread/rollback", back(&thread, 1, json!({}))).await;
    assert_eq!(done["thread"]["turns"], json!([]));
    assert_eq!(done["files"]["restored"].as_array().unwrap().len(), 9, "{done}");
    assert_eq!(std::fs::read(at("a.txt")).unwrap(), b"one\n");
    assert_eq!(std::fs::read(at("gone")).unwrap(), [0, 159, 146]);
    assert_eq!(at("script").metadata().unwrap().permissions().mode() & 0o777, 0o640);
    for name in ["new", "deep", "link"] {
        assert!(at(name).symlink_metadata().is_err(), "{name}");
    }
}

#[tokio::test]
async fn changes_from_elsewhere_stop_it_unless_they_are_to_be_lost() {
    let env = environment(json!([runs("echo two > a; echo two > b"), says("Done.")])).await;
    let at = |name: &str| env.workspace().join(name);
    for name in ["a", "b"] {
        std::fs::write(at(name), "one\n").unwrap();
    }
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = writer(&mut peer).await;
    peer.run_turn(&thread, "Go.").await;
    std::fs::write(at("a"), "the user's\n").unwrap();

    let fault = peer.refused("thread/rollback", back(&thread, 1, json!({}))).await;
    assert!(fault.message.contains("was changed after the turn"), "{fault:?}");
    assert!(fault.message.contains("overwriteChanges"), "{fault:?}");
    assert_eq!(std::fs::read(at("b")).unwrap(), b"two\n", "nothing was restored");
    let shown = peer.call("thread/rollback", back(&thread, 1, json!({ "dryRun": true }))).await;
    let conflict = &shown["files"]["conflicts"][0];
    assert!(conflict["path"].as_str().unwrap().ends_with("/a"), "{shown}");

    let lost = json!({ "overwriteChanges": true });
    peer.call("thread/rollback", back(&thread, 1, lost)).await;
    assert_eq!(std::fs::read(at("a")).unwrap(), b"one\n");
    assert_eq!(std::fs::read(at("b")).unwrap(), b"one\n");
}

#[tokio::test]
async fn what_agents_change_belongs_to_the_turn() {
    let responses = [
        of(
            0,
            [
                calls("spawn_agent", json!({ "message": "Write." })),
                calls("wait_agent", json!({ "targets": ["Ada"], "timeout_ms": 30_000 })),
                runs("echo parent > parent"),
                says("Done."),
            ],
        ),
        of(1, [runs("echo child > child"), says("Written.")]),
    ];
    let env = environment(responses.concat().into()).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = writer(&mut peer).await;
    peer.run_turn(&thread, "Go.").await;
    let at = |name: &str| env.workspace().join(name);
    assert!(at("child").exists() && at("parent").exists(), "{:?}", peer.transcript());
    let done = peer.call("thread/rollback", back(&thread, 1, json!({}))).await;
    assert!(!at("child").exists() && !at("parent").exists(), "{done}");
}

#[tokio::test]
async fn records_survive_the_server_and_end_with_the_thread() {
    let env = environment(json!([runs("echo two > a"), says("Done.")])).await;
    let at = |name: &str| env.workspace().join(name);
    std::fs::write(at("a"), "one\n").unwrap();
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = writer(&mut peer).await;
    peer.run_turn(&thread, "Go.").await;
    server.stop().await;

    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    peer.call("thread/rollback", back(&thread, 1, json!({}))).await;
    assert_eq!(std::fs::read(at("a")).unwrap(), b"one\n");
    peer.call("thread/delete", json!({ "threadId": thread })).await;
    let conn = rusqlite::Connection::open(env.home().join("undo.sqlite")).unwrap();
    let events: u32 = conn.query_row("SELECT count(*) FROM event", [], |row| row.get(0)).unwrap();
    assert_eq!(events, 0);
}

/// A fork shows turns whose changes belong to its parent.
#[tokio::test]
async fn a_fork_undoes_its_own_turns_only() {
    let env = environment(json!([
        runs("echo one > a"),
        says("Done."),
        runs("echo two > b"),
        says("Done."),
    ]))
    .await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = writer(&mut peer).await;
    let turn = peer.run_turn(&thread, "Go.").await;
    let fork = peer.call("thread/fork", json!({ "threadId": thread })).await;
    let fork = fork["thread"]["id"].as_str().unwrap().to_owned();
    let fault = peer.refused("thread/rollback", back(&fork, 1, json!({}))).await;
    let expected = format!("turn {} ran in thread {thread}", turn["id"].as_str().unwrap());
    assert_eq!(fault.code, -32600, "{fault:?}");
    assert!(fault.message.contains(&expected), "{fault:?}");
    assert!(fault.message.contains("a rollback of that thread"), "{fault:?}");
    peer.run_turn(&fork, "Go on.").await;
    let done = peer.call("thread/rollback", back(&fork, 1, json!({}))).await;
    assert_eq!(done["thread"]["turns"].as_array().unwrap().len(), 1, "{done}");
    assert!(env.workspace().join("a").exists() && !env.workspace().join("b").exists());
    peer.call("thread/rollback", back(&thread, 1, json!({}))).await;
    assert!(!env.workspace().join("a").exists());
}

#[tokio::test]
async fn requests_that_cannot_be_carried_out_say_why() {
    let env = TestEnvironment::with_responses(json!([runs("echo two > a"), says("Done.")])).await;
    let server = env.start();
    let mut plain = server.connect().await;
    let mut peer = server.connect_with(experimental()).await;
    let thread = writer(&mut peer).await;
    peer.run_turn(&thread, "Go.").await;
    assert!(!env.home().join("undo.sqlite").exists(), "the feature is off");
    let fault = plain.refused("thread/rollback", back(&thread, 1, json!({}))).await;
    assert!(fault.message.contains("experimentalApi"), "{fault:?}");
    let cases = [
        (back(&thread, 1, json!({})), "before undo was switched on"),
        (back(&thread, 1, json!({ "restoreFiles": false, "dryRun": true })), "`restoreFiles`"),
        (back(&thread, 0, json!({})), "`numTurns`"),
        (back(&thread, 1, json!({ "dryrunn": true })), "dryrunn"),
    ];
    for (params, part) in cases {
        let fault = peer.refused("thread/rollback", params).await;
        assert!(fault.message.contains(part), "{fault:?}");
    }
    assert!(env.workspace().join("a").exists());
    let kept = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    assert_eq!(kept["thread"]["turns"].as_array().unwrap().len(), 1, "the turn stays");
}

#[tokio::test]
async fn a_database_that_cannot_be_used_stops_no_turn() {
    let env = environment(json!([runs("echo two > a"), says("Done.")])).await;
    std::fs::write(env.home().join("undo.sqlite"), "this is no database, but long enough for one")
        .unwrap();
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = writer(&mut peer).await;
    assert_eq!(peer.run_turn(&thread, "Go.").await["status"], "completed");
    assert!(env.workspace().join("a").exists());
    let warned = peer.raw_lines().iter().any(|line| line.contains("not recorded for undo"));
    assert!(warned, "{:?}", peer.raw_lines());
}
