//! What an editor must not send gets an error, and the connection goes on.

use acp::{Ended, Options};
use jsonrpc::{Client, Connection, Limits};
use serde_json::{Value, json};

use crate::harness::{Bench, idles, says};

#[tokio::test]
async fn a_second_prompt_is_refused_while_the_first_runs() {
    let bench = Bench::new(json!([idles(), says("Again.")])).await;
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    let first = editor.prompt(&session, "Go.").await;
    let second = editor.prompt(&session, "Go too.").await;
    let error = editor.answer_to(second).await.unwrap_err();
    assert_eq!(error.code, -32600);
    assert!(error.message.contains("another prompt of this session is running"), "{error:?}");
    let place = json!({ "sessionId": session, "cwd": bench.work(), "mcpServers": [] });
    assert_eq!(editor.refused("session/load", place).await.code, -32600);
    // The model has begun: the next turn gets its next response.
    editor.update("agent_message_chunk").await;
    editor.notify("session/cancel", json!({ "sessionId": session })).await;
    assert_eq!(editor.answer_to(first).await.unwrap()["stopReason"], "cancelled");
    // Two sessions do not hold each other up.
    let other = editor.new_session(&bench.work()).await;
    let waiting = editor.prompt(&other, "Go.").await;
    assert_eq!(editor.run(&session, "Go.").await, "end_turn");
    editor.notify("session/cancel", json!({ "sessionId": other })).await;
    assert_eq!(editor.answer_to(waiting).await.unwrap()["stopReason"], "cancelled");
}

#[tokio::test]
async fn lines_that_are_no_messages_get_errors_and_the_connection_goes_on() {
    let bench = Bench::new(json!([says("Hello.")])).await;
    let mut editor = bench.editor().await;
    let lines: [(&[u8], i64); 7] = [
        (b"garbage", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":", -32700),
        (b"\xff\xfe", -32700),
        (b"[1,2]", -32600),
        (b"42", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"session/list\"}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"session/list\"}", -32600),
    ];
    for (line, code) in lines {
        editor.send_line(line).await;
        assert_eq!(editor.stray_error().await.code, code, "{}", String::from_utf8_lossy(line));
    }
    editor.send_line(b"").await;
    editor.send_line(b"  ").await;
    let session = editor.new_session(&bench.work()).await;
    assert_eq!(editor.run(&session, "Go.").await, "end_turn");
}

#[tokio::test]
async fn unknown_methods_and_answers_to_nothing() {
    let bench = Bench::new(json!([says("Hello.")])).await;
    let mut editor = bench.editor().await;
    for method in ["session/unknown", "_vendor/thing", "", "initialized"] {
        let id = editor.send_unchecked(method, json!({})).await;
        assert_eq!(editor.answer_to(id).await.unwrap_err().code, -32601, "{method}");
    }
    for line in [
        json!({ "jsonrpc": "2.0", "method": "session/unknown", "params": {} }),
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "session": 1 } }),
        json!({ "jsonrpc": "2.0", "method": "$/unknown" }),
        json!({ "jsonrpc": "2.0", "id": 77, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": "x", "error": { "code": 1, "message": "m" } }),
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": 1, "message": "m" } }),
    ] {
        editor.send_line(line.to_string().as_bytes()).await;
    }
    let session = editor.new_session(&bench.work()).await;
    assert_eq!(editor.run(&session, "Go.").await, "end_turn");
}

#[tokio::test]
async fn wrong_parameters_are_named() {
    let bench = Bench::new(json!([says("Hello.")])).await;
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    let mut check = async |method: &str, params: Value, expect: &str| {
        let id = editor.send_unchecked(method, params).await;
        let error = editor.answer_to(id).await.unwrap_err();
        assert!(error.code == -32602 && error.message.contains(expect), "{method}: {error:?}");
    };
    check("session/new", json!({ "mcpServers": [] }), "`cwd`").await;
    check("session/new", json!({ "cwd": "work", "mcpServers": [] }), "not an absolute path").await;
    check("session/new", json!({ "cwd": 5 }), "`cwd`").await;
    check("session/new", json!([]), "must be an object").await;
    check("session/prompt", json!({ "sessionId": session, "prompt": [] }), "`prompt` is empty")
        .await;
    let audio = json!([{ "type": "audio", "data": "", "mimeType": "audio/wav" }]);
    check("session/prompt", json!({ "sessionId": session, "prompt": audio }), "no audio").await;
    let unknown = json!([{ "type": "hologram" }]);
    check("session/prompt", json!({ "sessionId": session, "prompt": unknown }), "hologram").await;
    check("session/set_mode", json!({ "sessionId": session }), "`modeId`").await;
    let long = json!([{ "type": "text", "text": "x".repeat(2 << 20) }]);
    check("session/prompt", json!({ "sessionId": session, "prompt": long }), "characters").await;
    assert_eq!(editor.run(&session, "Go.").await, "end_turn");
}

#[tokio::test]
async fn a_request_with_the_id_of_a_running_one_is_refused() {
    let bench = Bench::new(json!([idles()])).await;
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    let prompt = editor.prompt(&session, "Go.").await;
    editor.update("agent_message_chunk").await;
    let message = json!({ "jsonrpc": "2.0", "id": prompt, "method": "session/list", "params": {} });
    editor.send_line(message.to_string().as_bytes()).await;
    let error = editor.stray_error().await;
    assert!(error.message.contains("runs already"), "{error:?}");
    editor.notify("session/cancel", json!({ "sessionId": session })).await;
    assert_eq!(editor.answer_to(prompt).await.unwrap()["stopReason"], "cancelled");
}

/// A server that accepts the connection and says nothing.
#[tokio::test(start_paused = true)]
async fn a_mute_server_is_given_up() {
    let limits = Limits::default();
    let (ours, _theirs) = Connection::pair(limits);
    let (editor, agent) = Connection::pair(limits);
    let (editor, mut events) = Client::new(editor, &limits);
    let serving = tokio::spawn(acp::serve(agent, ours, options(limits), std::future::pending()));
    let hello = json!({ "protocolVersion": 1, "clientCapabilities": {} });
    let error = editor.request_raw("initialize", &hello).await.unwrap_err();
    assert!(error.to_string().contains("did not answer"), "{error}");
    let error = serving.await.unwrap().unwrap_err();
    assert!(error.contains("did not answer"), "{error}");
    assert!(events.next().await.is_none());

    // An editor that leaves meanwhile, and a program that is asked to end.
    let (ours, _theirs) = Connection::pair(limits);
    let (_editor, agent) = Connection::pair(limits);
    let ended = acp::serve(agent, ours, options(limits), std::future::ready(())).await;
    assert_eq!(ended, Ok(Ended::Editor));
}

fn options(limits: Limits) -> Options {
    Options {
        limits,
        version: "0.0.0".to_owned(),
        model: None,
        model_provider: None,
        speaks_v2: false,
        browse: Box::new(|_| false),
    }
}
