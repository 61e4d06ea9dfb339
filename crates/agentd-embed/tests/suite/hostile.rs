//! Servers that end, write garbage, or are of another version: an error by kind, and nothing hangs.

use std::time::Duration;

use agentd_embed::protocol::ThreadStartParams;
use agentd_embed::{Agent, AgentBuilder, Decision, Error, RefusalKind, TurnEvent};
use serde_json::{Value, json};

use crate::fake::{Fake, begun, completed, is_pending, list, lost, opened, started, turn};

#[tokio::test]
async fn garbage_is_named() {
    for line in [
        "not JSON",
        "5",
        "null",
        "[1]",
        r#"{"method": 5}"#,
        r#"{"method": "x", "params": [1]}"#,
        r#"{"method": "x", "params": ""}"#,
        r#"{"method": "x", "id": {}}"#,
        r#"{"id": [1], "result": 1}"#,
    ] {
        let (agent, mut fake) = started(Agent::builder()).await;
        let (result, ()) = tokio::join!(list(&agent), fake.write(line));
        let message = lost(result);
        assert!(message.contains("not the protocol"), "{line}: {message}");
        assert_eq!(lost(list(&agent).await), message, "{line}");
    }
}

#[tokio::test]
async fn a_result_of_another_shape_is_named() {
    let (agent, mut fake) = started(Agent::builder()).await;
    let (result, ()) = tokio::join!(list(&agent), fake.answer(json!({ "data": 5 })));
    let error = result.unwrap_err();
    assert!(matches!(error, Error::UnreadableResult { .. }), "{error:?}");
    assert!(
        error.to_string().starts_with("the result of `thread/list` cannot be read: "),
        "{error}"
    );
    // The connection goes on.
    let page = json!({ "data": [], "nextCursor": null });
    let (result, ()) = tokio::join!(list(&agent), fake.answer(page));
    result.unwrap();
}

#[tokio::test]
async fn an_event_without_its_content_is_named() {
    for method in ["item/agentMessage/delta", "turn/completed"] {
        let (agent, mut turn, mut fake) = turn().await;
        let event = json!({ "method": method, "params": { "threadId": "t", "turnId": "u", "turn": { "id": "u" } } });
        fake.write(&event.to_string()).await;
        for _ in 0..2 {
            let message = lost(turn.result().await);
            assert!(message.contains(&format!("not the protocol: `{method}`")), "{message}");
        }
        assert!(turn.next().await.is_none());
        lost(list(&agent).await);
    }
}

#[tokio::test]
async fn items_of_a_later_version_are_passed_on() {
    let (_agent, mut turn, mut fake) = turn().await;
    for method in ["item/started", "item/completed", "thread/tokenUsage/updated"] {
        let item = json!({ "type": "hologram", "id": "i" });
        let params = json!({ "threadId": "t", "turnId": "u", "item": item, "completedAtMs": 1 });
        fake.write(&json!({ "method": method, "params": params }).to_string()).await;
        let Some(Ok(TurnEvent::Other(event))) = turn.next().await else { panic!("{method}") };
        assert_eq!(event.method, method);
    }
    let ended = json!({ "id": "u", "status": "completed", "error": null });
    let params = json!({ "threadId": "t", "turn": ended });
    fake.write(&json!({ "method": "turn/completed", "params": params }).to_string()).await;
    assert!(turn.result().await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_server_that_ends_ends_every_call() {
    let (agent, mut turn, fake) = turn().await;
    drop(fake);
    assert_eq!(lost(turn.result().await), "the server closed the connection");
    assert_eq!(lost(list(&agent).await), "the server closed the connection");
}

#[tokio::test]
async fn an_agent_that_is_closed_ends_its_turns() {
    let (agent, mut turn, fake) = turn().await;
    drop(agent);
    assert_eq!(lost(turn.result().await), "the connection was closed");
    assert_eq!(lost(turn.interrupt().await), "the connection was closed");
    drop(fake);
}

#[tokio::test]
async fn other_versions_are_refused() {
    for (user_agent, version) in
        [("x/1.0.0 (linux)", "1.0.0"), ("x/0.0.9 (linux)", "0.0.9"), ("nonsense", "unknown")]
    {
        let (connection, mut fake) = Fake::new();
        let starting = Agent::builder().over(connection);
        let (agent, ()) = tokio::join!(starting, fake.hello(user_agent));
        match agent.err() {
            Some(Error::VersionMismatch { server, .. }) => assert_eq!(server, version),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_server_without_a_handshake_is_given_up() {
    let (connection, fake) = Fake::new();
    let starting = Agent::builder().start_timeout(Duration::from_millis(50)).over(connection);
    let message = lost(starting.await.map(|_| ()));
    assert_eq!(message, "the handshake took longer than 50ms");
    drop(fake);
}

#[tokio::test]
async fn refusals_have_kinds() {
    let (agent, mut fake) = started(Agent::builder().overload_retries(0)).await;
    for (code, expected) in [
        (-32600, RefusalKind::InvalidRequest),
        (-32601, RefusalKind::MethodNotFound),
        (-32602, RefusalKind::InvalidParams),
        (-32603, RefusalKind::Internal),
        (-32001, RefusalKind::Overloaded),
        (7, RefusalKind::Other),
    ] {
        let refusing = async {
            let id = fake.receive().await["id"].clone();
            let error = json!({ "code": code, "message": "no" });
            fake.write(&json!({ "id": id, "error": error }).to_string()).await;
        };
        let (result, ()) = tokio::join!(list(&agent), refusing);
        let error = result.unwrap_err();
        assert_eq!(error.to_string(), "thread/list: no");
        assert!(matches!(error, Error::Refused { kind, .. } if kind == expected), "{error:?}");
    }
}

#[tokio::test]
async fn the_server_is_answered_whatever_a_callback_does() {
    let builder = Agent::builder().approve(|approval| async move {
        assert_ne!(approval.reason(), Some("panic"), "the callback panics");
        Decision::AcceptForSession
    });
    let (_agent, mut fake) = started(builder).await;
    let permissions = json!({ "network": { "enabled": true } });
    let mut ask = async |method: &str, reason: &str| {
        let params = json!({
            "threadId": "t", "turnId": "u", "itemId": "i", "startedAtMs": 1, "reason": reason, "cwd": "/",
            "permissions": permissions,
        });
        fake.write(&json!({ "id": "q", "method": method, "params": params }).to_string()).await;
        fake.receive().await
    };
    let command = "item/commandExecution/requestApproval";
    assert_eq!(ask(command, "").await["result"]["decision"], "acceptForSession");
    assert_eq!(
        ask("item/fileChange/requestApproval", "").await["result"]["decision"],
        "acceptForSession"
    );
    let granted = ask("item/permissions/requestApproval", "").await;
    assert_eq!(granted["result"], json!({ "permissions": permissions, "scope": "session" }));
    assert_eq!(ask(command, "panic").await["error"]["code"], -32603);
    assert_eq!(ask("item/tool/call", "").await["error"]["code"], -32602);
    assert_eq!(ask("some/question", "").await["error"]["code"], -32601);
    assert_eq!(ask("item/tool/requestUserInput", "").await["error"]["code"], -32601);
    assert_eq!(ask("mcpServer/elicitation/request", "").await["result"]["action"], "decline");
}

#[tokio::test]
async fn events_of_other_turns_and_unknown_notifications_are_left_out() {
    let (_agent, mut turn, mut fake) = turn().await;
    let delta = |turn: &str, text: &str| {
        let params = json!({ "threadId": "t", "turnId": turn, "itemId": "i", "delta": text });
        json!({ "method": "item/agentMessage/delta", "params": params }).to_string()
    };
    fake.write(r#"{"method":"some/news","params":{"threadId":5}}"#).await;
    fake.write(&delta("other", "no")).await;
    fake.write(&delta("u", "yes")).await;
    fake.write(r#"{"method":"some/news","params":{"threadId":"t","turnId":"u"}}"#).await;
    assert!(matches!(turn.next().await, Some(Ok(TurnEvent::Text(text))) if text == "yes"));
    let Some(Ok(TurnEvent::Other(news))) = turn.next().await else { panic!() };
    assert_eq!(news.method, "some/news");
    let ended = json!({ "id": "u", "status": "interrupted", "error": null });
    let params = json!({ "threadId": "t", "turn": ended });
    fake.write(&json!({ "method": "turn/completed", "params": params }).to_string()).await;
    assert!(matches!(turn.result().await, Err(Error::TurnInterrupted(_))));
}

#[tokio::test]
async fn what_cannot_be_reached_is_named() {
    let start = async |builder: AgentBuilder| builder.start().await.err().unwrap();
    let error = start(Agent::builder().program("/nowhere/agentd")).await;
    assert!(
        matches!(&error, Error::ProgramNotFound(why) if why.starts_with("/nowhere/agentd cannot be started"))
    );
    for address in ["http://host", "ws://127.0.0.1:1#a", "wss://user@127.0.0.1:1"] {
        let error = start(Agent::builder().address(address)).await;
        assert!(matches!(error, Error::InvalidAddress(_)), "{error}");
    }
    let error = start(Agent::builder().address("ws://127.0.0.1:1").token("secret\n")).await;
    assert!(matches!(error, Error::InvalidToken(_)), "{error}");
    let error = start(Agent::builder().config("model_provider", Value::Null)).await;
    assert!(
        matches!(&error, Error::InvalidConfig { key, .. } if key == "model_provider"),
        "{error}"
    );
    #[cfg(unix)]
    for address in ["unix:///nowhere.sock", "ws://127.0.0.1:1"] {
        let error = start(Agent::builder().address(address)).await;
        assert!(matches!(error, Error::ConnectionLost(_)), "{error}");
    }
}

/// A program with this body, in a folder of its own.
#[cfg(unix)]
fn program(body: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("agentd");
    std::fs::write(&program, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    (folder, program)
}

#[cfg(unix)]
#[tokio::test]
async fn a_server_that_ends_leaves_its_last_words() {
    let (_folder, program) = program("read line\necho 'out of memory' >&2\nexit 3");
    let error = Agent::builder().program(program).start().await.map(|_| ());
    assert_eq!(lost(error), "the server ended with 3; it said:\n  out of memory");
}

#[cfg(unix)]
#[tokio::test]
async fn a_working_folder_that_is_missing_is_named() {
    let (folder, program) = program("exit 3");
    let missing = folder.path().join("missing");
    let error = Agent::builder().program(program).cwd(&missing).start().await.err().unwrap();
    let expected = format!("the working folder {} is not there", missing.display());
    assert!(matches!(&error, Error::FolderNotFound(why) if why.starts_with(&expected)), "{error}");
}

/// A server that says nothing and stays when its input ends is killed at the limit of the start, and when
/// the future of the start is dropped.
#[cfg(unix)]
#[tokio::test]
async fn a_mute_server_is_not_left() {
    use tokio::net::unix::pipe;

    for is_dropped in [false, true] {
        let (folder, program) =
            program("trap '' TERM\nexec 3> \"$SIGN\"\necho >&3\nwhile :; do read line; done");
        let sign = folder.path().join("sign");
        rustix::fs::mkfifoat(rustix::fs::CWD, &sign, rustix::fs::Mode::RWXU).unwrap();
        let mut living = pipe::OpenOptions::new().open_receiver(&sign).unwrap();
        let limit = Duration::from_secs(if is_dropped { 3600 } else { 1 });
        let mut starting = Box::pin(
            Agent::builder().program(&program).env("SIGN", &sign).start_timeout(limit).start(),
        );
        let began = std::time::Instant::now();
        if is_dropped {
            // Its first line: it runs.
            let mut line = [0; 1];
            let running = tokio::io::AsyncReadExt::read_exact(&mut living, &mut line);
            tokio::select! {
                _ = &mut starting => panic!("it says nothing"),
                read = running => assert_eq!(read.unwrap(), 1),
            }
        } else {
            let message = lost((&mut starting).await.map(|_| ()));
            assert_eq!(message, "the handshake took longer than 1s");
            // Less than the time that a server has to end by itself.
            assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        }
        drop(starting);
        // The pipe ends with the process.
        let mut rest = Vec::new();
        let ended = tokio::io::AsyncReadExt::read_to_end(&mut living, &mut rest);
        tokio::time::timeout(Duration::from_secs(30), ended).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_turn_waits_for_the_one_before_it_also_when_that_was_dropped() {
    let (agent, turn, mut fake) = turn().await;
    drop(turn);
    let opening = agent.thread(ThreadStartParams::default());
    // The same thread, by another object.
    let (thread, ()) = tokio::join!(opening, fake.answer(opened()));
    let thread = thread.unwrap();
    let mut second = Box::pin(thread.run("second"));
    let mut third = Box::pin(thread.run("third"));
    // Nothing but the request of the test itself is sent before the end of the first turn.
    assert!(is_pending(&mut second).await);
    assert!(is_pending(&mut third).await);
    let page = json!({ "data": [], "nextCursor": null });
    let listing = async {
        let request = fake.receive().await;
        assert_eq!(request["method"], "thread/list");
        fake.write(&json!({ "id": request["id"], "result": page }).to_string()).await;
    };
    let (listed, ()) = tokio::join!(list(&agent), listing);
    listed.unwrap();
    fake.write(&completed("other")).await;
    fake.write(&completed("u")).await;
    let mut serving = async |text: &str, turn: &str| {
        let request = fake.receive().await;
        assert_eq!(request["params"]["input"][0]["text"], text);
        fake.write(&json!({ "id": request["id"], "result": begun(turn) }).to_string()).await;
    };
    // Its future is dropped with the request under way: the turn runs all the same.
    tokio::select! {
        _ = &mut second => panic!("the turn has not ended"),
        () = serving("second", "v") => {}
    }
    drop(second);
    assert!(is_pending(&mut third).await);
    fake.write(&completed("v")).await;
    let ending = async {
        let request = fake.receive().await;
        assert_eq!(request["params"]["input"][0]["text"], "third");
        fake.write(&json!({ "id": request["id"], "result": begun("w") }).to_string()).await;
        fake.write(&completed("w")).await;
    };
    let (result, ()) = tokio::join!(third, ending);
    assert_eq!(result.unwrap().turn.id, "w");
}

#[tokio::test]
async fn whoever_waits_for_a_turn_learns_of_a_refusal_and_of_the_end() {
    let (agent, mut fake) = started(Agent::builder()).await;
    let opening = agent.thread(ThreadStartParams::default());
    let (thread, ()) = tokio::join!(opening, fake.answer(opened()));
    let thread = thread.unwrap();
    let refusing = async {
        let id = fake.receive().await["id"].clone();
        let error = json!({ "code": -32600, "message": "no" });
        fake.write(&json!({ "id": id, "error": error }).to_string()).await;
        fake.answer(begun("u")).await;
    };
    let (first, second, ()) = tokio::join!(thread.turn("a"), thread.turn("b"), refusing);
    assert!(matches!(first.err(), Some(Error::Refused { .. })));
    assert_eq!(second.unwrap().id(), "u");
    let mut third = Box::pin(thread.turn("c"));
    assert!(is_pending(&mut third).await);
    drop(fake);
    assert_eq!(lost(third.await.map(|_| ())), "the server closed the connection");
}

#[tokio::test]
async fn a_turn_that_joins_another_client_s_has_its_answer() {
    let (_agent, mut turn, mut fake) = turn().await;
    let mut say = async |method: &str, turn: &str, item: Value| {
        let params = json!({
            "threadId": "t", "turnId": turn, "item": item, "startedAtMs": 1, "completedAtMs": 1,
            "itemId": "i", "delta": item["text"], "turn": null,
        });
        fake.write(&json!({ "method": method, "params": params }).to_string()).await;
    };
    let message = |text: &str| json!({ "type": "agentMessage", "id": "i", "text": text });
    // What the other client's turn said before the input joined it.
    say("item/completed", "host", message("before")).await;
    say("turn/started", "u", Value::Null).await;
    say("item/completed", "earlier", message("of a turn that is over")).await;
    say("item/started", "host", message("")).await;
    say("item/agentMessage/delta", "host", message("both")).await;
    say("item/completed", "host", message("both")).await;
    fake.write(&completed("host")).await;
    fake.write(&completed("u")).await;
    assert_eq!(turn.next_text().await.unwrap().as_deref(), Some("both"));
    let result = turn.result().await.unwrap();
    assert_eq!((result.text.as_str(), result.turn.id.as_str()), ("both", "u"));
    assert_eq!(result.items.len(), 1);
}

#[tokio::test]
async fn a_compaction_has_ended_when_it_returns() {
    for status in ["completed", "failed", "interrupted"] {
        let (agent, mut fake) = started(Agent::builder()).await;
        let opening = agent.thread(ThreadStartParams::default());
        let (thread, ()) = tokio::join!(opening, fake.answer(opened()));
        let thread = thread.unwrap();
        let event = |method: &str, turn: &str, kind: &str| {
            let turn = json!({ "id": turn, "status": status, "error": null });
            let item = json!({ "type": kind, "id": "i" });
            let params =
                json!({ "threadId": "t", "turnId": turn["id"], "turn": turn, "item": item });
            json!({ "method": method, "params": params }).to_string()
        };
        let serving = async {
            let request = fake.receive().await;
            assert_eq!(request["method"], "thread/compact/start");
            // A turn of another client, which compacts by itself.
            for (method, kind) in [
                ("turn/started", ""),
                ("item/started", "userMessage"),
                ("item/started", "contextCompaction"),
                ("turn/completed", ""),
            ] {
                fake.write(&event(method, "other", kind)).await;
            }
            fake.write(&json!({ "id": request["id"], "result": {} }).to_string()).await;
            fake.write(&event("turn/started", "c", "")).await;
            fake.write(&event("item/started", "c", "contextCompaction")).await;
            // A turn is asked for meanwhile: only the end of the compaction lets it begin.
            fake.write(&event("turn/completed", "c", "")).await;
            let request = fake.receive().await;
            assert_eq!(request["method"], "turn/start");
            fake.write(&json!({ "id": request["id"], "result": begun("u") }).to_string()).await;
        };
        let (compacted, turn, ()) = tokio::join!(thread.compact(), thread.turn("go"), serving);
        turn.unwrap();
        match (status, compacted) {
            ("completed", Ok(()))
            | ("failed", Err(Error::TurnFailed(_)))
            | ("interrupted", Err(Error::TurnInterrupted(_))) => {}
            (_, other) => panic!("{status}: {other:?}"),
        }
    }
}
