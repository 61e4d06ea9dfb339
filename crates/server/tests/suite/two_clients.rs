//! Two clients of one thread: changes of the one do not lose those of the other, each learns what the other
//! changed, and a thread that is being archived or deleted says so.

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, assert_lines};

use crate::says;

fn talkative() -> Value {
    json!({ "responses": [says("Yes.")], "on_exhausted": "repeat_last" })
}

fn experimental() -> Value {
    json!({ "experimentalApi": true })
}

#[tokio::test]
async fn changes_of_different_members_of_metadata_are_both_kept() {
    for loaded in [true, false] {
        let env = TestEnvironment::with_script(&talkative()).await;
        let mut server = env.start();
        let mut one = server.connect().await;
        let thread = one.start_thread(json!({})).await;
        one.run_turn(&thread, "Hi.").await;
        if !loaded {
            server.stop().await;
            server = env.start();
        }
        let (mut one, mut two) = (server.connect().await, server.connect().await);
        for round in 0..50 {
            let update = |member: &str| json!({ "threadId": thread, "gitInfo": { member: format!("{member}{round}") } });
            let first = one.send("thread/metadata/update", update("sha")).await;
            let second = two.send("thread/metadata/update", update("branch")).await;
            one.response(first).await.unwrap();
            two.response(second).await.unwrap();
            let read = one.call("thread/read", json!({ "threadId": thread })).await;
            let info = &read["thread"]["gitInfo"];
            let expected = (json!(format!("sha{round}")), json!(format!("branch{round}")));
            assert_eq!((&info["sha"], &info["branch"]), (&expected.0, &expected.1), "{round}");
        }
    }
}

#[tokio::test]
async fn other_clients_learn_of_settings_metadata_and_rollbacks() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut one = server.connect_with(experimental()).await;
    let thread = one.start_thread(json!({})).await;
    let mut two = server.connect_with(experimental()).await;
    let mut stable = server.connect().await;
    for peer in [&mut two, &mut stable] {
        peer.call("thread/resume", json!({ "threadId": thread })).await;
    }
    let input = json!([{ "type": "text", "text": "Plan." }]);
    let plan = json!({ "mode": "plan", "settings": { "model": "gpt-5" } });
    for changed in [true, false] {
        let mut params = json!({ "threadId": thread, "input": input, "approvalPolicy": "never",
            "effort": "low", "summary": "concise", "collaborationMode": plan });
        if !changed {
            params = json!({ "threadId": thread, "input": input, "effort": "low" });
        }
        one.run_turn_with(params).await;
        for peer in [&mut one, &mut two] {
            peer.settled().await;
            let updates: Vec<Value> = notices(peer, "thread/settings/updated");
            assert_eq!(updates.len(), 1, "once, and not when nothing changed: {updates:?}");
            let settings = &updates[0]["threadSettings"];
            assert_eq!(updates[0]["threadId"], thread);
            assert_eq!(
                (&settings["approvalPolicy"], &settings["effort"]),
                (&json!("never"), &json!("low"))
            );
            assert_eq!(
                (&settings["model"], &settings["summary"]),
                (&json!("gpt-5"), &json!("concise"))
            );
            assert_eq!(settings["collaborationMode"]["mode"], "plan");
            assert_eq!(settings["sandboxPolicy"]["type"], "readOnly");
        }
    }
    let metadata = json!({ "threadId": thread, "gitInfo": { "branch": "b" } });
    one.forget();
    one.call("thread/metadata/update", metadata).await;
    one.expect("thread/metadata/updated").await;
    let updated = two.expect("thread/metadata/updated").await;
    assert_eq!(
        (&updated["threadId"], &updated["gitInfo"]["branch"]),
        (&json!(thread), &json!("b"))
    );
    one.call("thread/rollback", json!({ "threadId": thread, "numTurns": 1 })).await;
    one.expect("thread/rolledBack").await;
    assert_eq!(two.expect("thread/rolledBack").await, json!({ "threadId": thread, "numTurns": 1 }));
    // Each after the response.
    assert_lines(
        one.transcript(),
        "> thread/metadata/update
         < thread/metadata/update
         * thread/metadata/updated
         > thread/rollback
         < thread/rollback
         * thread/rolledBack",
    );
    stable.settled().await;
    for name in ["thread/settings/updated", "thread/metadata/updated", "thread/rolledBack"] {
        assert_eq!(notices(&stable, name), [json!(null); 0], "{name} is experimental");
    }
}

fn notices(peer: &Peer, method: &str) -> Vec<Value> {
    let read = |line: &String| serde_json::from_str::<Value>(line).unwrap();
    let messages = peer.raw_lines().iter().map(read);
    messages.filter(|it| it["method"] == method).map(|it| it["params"].clone()).collect()
}

/// A thread whose end waits for the file `gate`.
async fn slow_to_end() -> TestEnvironment {
    let env = TestEnvironment::with_script(&talkative()).await;
    let workspace = env.workspace();
    let (begun, gate) = (workspace.join("begun"), workspace.join("gate"));
    let command = format!(
        "touch '{}'; until [ -e '{}' ]; do sleep 0.01; done",
        begun.display(),
        gate.display()
    );
    let hooks = json!({ "SessionEnd": [{ "hooks": [{ "type": "command", "command": command }] }] });
    std::fs::write(env.home().join("hooks.json"), json!({ "hooks": hooks }).to_string()).unwrap();
    let config = env.home().join("config.toml");
    let before = std::fs::read_to_string(&config).unwrap();
    std::fs::write(config, format!("{before}\n[features]\ncodex_hooks = true\n")).unwrap();
    env
}

#[tokio::test]
async fn a_thread_that_is_being_archived_or_deleted_says_so() {
    for (method, expected) in
        [("thread/archive", "is being archived"), ("thread/delete", "is being deleted")]
    {
        let env = slow_to_end().await;
        let server = env.start();
        let mut one = server.connect_with(experimental()).await;
        let mut two = server.connect_with(experimental()).await;
        let thread = one.start_thread(json!({})).await;
        one.run_turn(&thread, "Hi.").await;
        let ending = one.send(method, json!({ "threadId": thread })).await;
        let begun = env.workspace().join("begun");
        while !begun.exists() {
            tokio::task::yield_now().await;
        }
        let input = json!([{ "type": "text", "text": "Go on." }]);
        for (method, mut params) in [
            ("turn/start", json!({ "input": input })),
            ("turn/steer", json!({ "input": input, "expectedTurnId": "t" })),
            ("turn/interrupt", json!({ "turnId": "t" })),
            ("thread/shellCommand", json!({ "command": "true" })),
            ("thread/compact/start", json!({})),
            ("thread/rollback", json!({ "numTurns": 1 })),
            ("thread/inject_items", json!({ "items": [] })),
            ("review/start", json!({ "target": { "type": "custom", "instructions": "Look." } })),
        ] {
            params["threadId"] = json!(thread);
            let fault = two.refused(method, params).await;
            assert!(fault.message.contains(expected), "{method}: {fault:?}");
            for wrong in ["shutting down", "thread/resume"] {
                assert!(!fault.message.contains(wrong), "{method}: {fault:?}");
            }
        }
        std::fs::write(env.workspace().join("gate"), "").unwrap();
        one.response(ending).await.unwrap();
        let params = json!({ "threadId": thread, "input": input });
        let fault = two.refused("turn/start", params).await;
        let after = if method == "thread/archive" { "is archived" } else { "not found" };
        assert!(fault.message.contains(after), "{fault:?}");
    }
}
