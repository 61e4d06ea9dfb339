//! When servers start, are shared, end and are started again, and how their era is found out.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcp::{ErrorKind, State};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::fake::*;

fn with_call(message: &Value) -> Option<Vec<String>> {
    earlier_era(message).or_else(|| Some(result(message, text("done"))))
}

#[tokio::test(start_paused = true)]
async fn fifty_holders_share_five_servers_which_end_after_the_last_holder() {
    let bench = Bench::new();
    let definitions: Vec<_> = (0..5)
        .map(|number| {
            let command = format!("s{number}");
            bench.fakes.add(&command, with_call);
            definition(&command)
        })
        .collect();
    let held: Vec<_> = (0..50)
        .map(|number| bench.pool.hold(&format!("t{number}"), Path::new("/"), definitions.clone()))
        .collect();
    for server in bench.pool.servers("t49") {
        server.ready().await.unwrap();
    }
    assert_eq!(bench.fakes.starts.load(Ordering::Relaxed), 5);
    drop(held);
    // tidy: sleep the clock is paused: it passes at once
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(bench.fakes.running.load(Ordering::Relaxed), 5);
    // A holder within the grace keeps its server.
    let kept = bench.pool.hold("late", Path::new("/"), definitions[..1].to_vec());
    // tidy: sleep the clock is paused: it passes at once
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(bench.fakes.running.load(Ordering::Relaxed), 1);
    // A changed configuration ends it at once.
    let mut changed = definitions[0].clone();
    changed.disabled_tools = vec!["echo".to_owned()];
    kept.update(Path::new("/"), vec![changed]);
    let catalog = kept.servers()[0].ready().await.unwrap();
    assert!(catalog.tools.is_empty());
    // tidy: sleep the clock is paused: it passes at once
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.fakes.running.load(Ordering::Relaxed), 1);
    bench.pool.close().await;
    // tidy: sleep the clock is paused: it passes at once
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.fakes.running.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_is_started_again_with_growing_pauses() {
    let bench = Bench::new();
    bench.fakes.add("crash", earlier_era);
    let held = bench.pool.hold("t", Path::new("/"), vec![definition("crash")]);
    let server = held.servers().remove(0);
    server.ready().await.unwrap();
    for pause in [1, 2, 4] {
        // The script ends at a call.
        let call = mcp::Call { tool: "echo".to_owned(), ..mcp::Call::default() };
        let error = server.call(call).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
        let begun = Instant::now();
        let starts = bench.fakes.starts.load(Ordering::Relaxed);
        while bench.fakes.starts.load(Ordering::Relaxed) == starts {
            // tidy: sleep the clock is paused: it passes at once
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let waited = begun.elapsed().as_millis();
        assert!((pause * 1000..=pause * 1000 + 300).contains(&waited), "{pause}: {waited}");
        server.ready().await.unwrap();
    }
    let states = bench.listener.states.lock().unwrap();
    let failed = states.iter().find_map(|(_, _, state)| match state {
        State::Failed(error) => Some(error.to_string()),
        _ => None,
    });
    assert!(failed.unwrap().contains("exit code 3"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_start_fails_with_the_reason() {
    let bench = Bench::new();
    bench.fakes.add("never", |_| Some(Vec::new()));
    bench.fakes.add("ends", |_| None);
    bench.fakes.add("prints", |_| Some(vec!["no message".to_owned(); 2000]));
    for (command, part) in [
        ("missing", "was not found"),
        ("never", "not ready within 10 s"),
        ("ends", "ended with exit code 3"),
        ("prints", "1000 lines that are no messages"),
    ] {
        let held = bench.pool.hold("t", Path::new("/"), vec![definition(command)]);
        let error = held.servers()[0].ready().await.unwrap_err().to_string();
        assert!(error.contains(part), "{command}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_era_is_probed_once_with_a_short_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    // A server that does not answer what it does not know.
    let silent = |message: &Value| match message["method"] == "server/discover" {
        true => Some(Vec::new()),
        false => with_call(message),
    };
    let bench = Bench::in_folder(folder);
    bench.fakes.add("silent", silent);
    let begun = Instant::now();
    let held = bench.pool.hold("t", Path::new("/"), vec![definition("silent")]);
    held.servers()[0].ready().await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 3);
    assert_eq!(bench.fakes.got("server/discover").len(), 1);
    bench.pool.close().await;

    let again = Bench::new();
    std::fs::copy(path.join("eras.json"), again.folder.path().join("eras.json")).unwrap();
    again.fakes.add("silent", silent);
    let begun = Instant::now();
    let held = again.pool.hold("t", Path::new("/"), vec![definition("silent")]);
    held.servers()[0].ready().await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 0);
    assert_eq!(again.fakes.got("server/discover").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_the_probe_with_anything_gets_the_handshake() {
    let bench = Bench::new();
    bench.fakes.add("any", |message| match message["method"] == "server/discover" {
        true => Some(result(message, json!({}))),
        false => with_call(message),
    });
    let held = bench.pool.hold("t", Path::new("/"), vec![definition("any")]);
    held.servers()[0].ready().await.unwrap();
    assert_eq!(bench.fakes.got("initialize").len(), 1);
}

fn new_era(message: &Value) -> Option<Vec<String>> {
    Some(match message["method"].as_str().unwrap_or_default() {
        "server/discover" => result(
            message,
            json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}}, "serverInfo": {"name": "new", "version": "1"},
                "ttlMs": 0, "cacheScope": "private",
            }),
        ),
        "initialize" => error(message, -32022, "Unsupported protocol version"),
        "tools/list" => result(
            message,
            json!({"resultType": "complete", "tools": [tool("echo")], "ttlMs": 0, "cacheScope": "private"}),
        ),
        "tools/call" if message["params"]["requestState"].is_null() => result(
            message,
            json!({
                "resultType": "input_required", "requestState": "opaque é\u{0}",
                "inputRequests": {"name": {"method": "elicitation/create", "params": {
                    "mode": "form", "message": "Who?\u{202e}",
                    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
                }}},
            }),
        ),
        "tools/call" => {
            let mut done = text("hello");
            done["resultType"] = "complete".into();
            result(message, done)
        }
        _ => Vec::new(),
    })
}

#[tokio::test(start_paused = true)]
async fn a_server_of_the_new_era_is_asked_without_a_handshake_and_gets_its_state_back() {
    let bench = Bench::new();
    bench.fakes.add("new", new_era);
    *bench.listener.answer.lock().unwrap() =
        Some(mcp::Answer { action: mcp::Action::Accept, content: Some(json!({"name": "Ada"})) });
    let held = bench.pool.hold("t", Path::new("/"), vec![definition("new")]);
    let server = held.servers().remove(0);
    server.ready().await.unwrap();
    let call = mcp::Call {
        tool: "echo".to_owned(),
        holder: Some("t".to_owned()),
        turn: Some("turn".to_owned()),
        ..mcp::Call::default()
    };
    let done = server.call(call).await.unwrap();
    assert_eq!(done["content"][0]["text"], "hello");
    assert!(bench.fakes.got("initialize").is_empty());
    let calls = bench.fakes.got("tools/call");
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[1]["requestState"], "opaque é\u{0}");
    let response = &calls[1]["inputResponses"]["name"];
    assert_eq!(*response, json!({"action": "accept", "content": {"name": "Ada"}}));
    assert_eq!(calls[0]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    let questions = bench.listener.questions.lock().unwrap();
    assert_eq!(questions[0].message, "Who?\\u{202e}");
    assert_eq!((questions[0].holders.len(), questions[0].turn.as_deref()), (1, Some("turn")));
}

#[tokio::test(start_paused = true)]
async fn a_program_that_ends_at_an_unknown_message_gets_a_handshake() {
    let bench = Bench::new();
    bench.fakes.add("strict", |message| match message["method"] == "server/discover" {
        true => None,
        false => earlier_era(message),
    });
    let held = bench.pool.hold("t", Path::new("/"), vec![definition("strict")]);
    held.servers()[0].ready().await.unwrap();
    assert_eq!(bench.fakes.got("server/discover").len(), 1);
    assert_eq!(bench.fakes.starts.load(Ordering::Relaxed), 2);
}
