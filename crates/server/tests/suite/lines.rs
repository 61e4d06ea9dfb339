//! Lines that are not messages, and messages that are not requests of this protocol: each is
//! answered, and the connection stays open.

use jsonrpc::Limits;
use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, png_url};

use crate::says;

async fn check_alive(peer: &mut Peer) {
    peer.call("thread/loaded/list", json!({})).await;
}

#[tokio::test]
async fn a_malformed_line_is_answered_and_the_connection_stays_open() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let deep = "[".repeat(100_000);
    let lines: &[(&[u8], i64, Value)] = &[
        (b"{", -32700, Value::Null),
        (b"nonsense", -32700, Value::Null),
        (b"\xff\xfe{}", -32700, Value::Null),
        (deep.as_bytes(), -32700, Value::Null),
        (b"[]", -32600, Value::Null),
        (b"[{\"method\":\"thread/list\",\"id\":1}]", -32600, Value::Null),
        (b"null", -32600, Value::Null),
        (b"42", -32600, Value::Null),
        (b"{}", -32600, Value::Null),
        (b"{\"id\":7}", -32600, json!(7)),
        (b"{\"method\":5,\"id\":8}", -32600, json!(8)),
        (b"{\"method\":\"thread/list\",\"id\":9,\"params\":3}", -32602, json!(9)),
        (b"{\"method\":\"thread/list\",\"id\":{},\"params\":{}}", -32600, Value::Null),
        (b"{\"method\":\"no/such\",\"id\":\"text\"}", -32601, json!("text")),
    ];
    for (line, code, id) in lines {
        peer.send_line(line).await;
        let shown = String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned();
        let fault = peer.answer_to(id).await.unwrap_err();
        assert_eq!(fault.code, *code, "{shown}: {fault:?}");
        check_alive(&mut peer).await;
    }
}

#[tokio::test]
async fn empty_lines_and_odd_framing_are_no_error() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    peer.send_bytes(b"\n\r\n  \n").await;
    for piece in [&b"{\"jsonrpc\":\"2.0\",\"method\":\"thre"[..], b"ad/list\",\"id\":", b"70}\r\n"]
    {
        peer.send_bytes(piece).await;
    }
    // An answer without a request.
    peer.send_line(b"{\"id\":99,\"result\":{\"decision\":\"accept\"}}").await;
    // An unknown notification.
    peer.send_line(b"{\"method\":\"no/such\",\"params\":{}}").await;
    check_alive(&mut peer).await;
    assert!(peer.settled().await.is_empty());
}

#[tokio::test]
async fn a_line_that_is_too_long_is_skipped() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let server = env.start();
    let mut peer = server.open(Limits { line_bytes: 4096, ..Limits::default() });
    peer.initialize(Value::Null).await;
    peer.send_line(format!("{{\"id\":5,\"method\":\"{}\"}}", "x".repeat(1 << 20)).as_bytes()).await;
    let fault = peer.answer_to(&Value::Null).await.unwrap_err();
    assert_eq!(fault.code, -32600);
    assert!(fault.message.contains("4096 bytes"), "{}", fault.message);
    check_alive(&mut peer).await;
}

#[tokio::test]
async fn the_largest_image_fits_on_a_line_and_excess_input_is_refused() {
    const MIB: usize = 1 << 20;
    let env = TestEnvironment::with_responses(json!([says("A picture."), says("A text.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let text = json!({ "type": "text", "text": "\u{1}".repeat(MIB - 1000) });
    // Three bytes a pixel: a little less than 20 MiB.
    let image = json!({ "type": "image", "url": png_url(2640, 2640) });
    let input = json!([text, image]);
    let turn = peer.run_turn_with(json!({ "threadId": thread, "input": input })).await;
    assert_eq!(turn["status"], "completed");
    let all = vec![json!({ "type": "image", "url": png_url(1110, 1110) }); 11];
    let fault = peer.refused("turn/start", json!({ "threadId": thread, "input": all })).await;
    assert_eq!(fault.code, -32602);
    assert!(fault.message.contains("52 MiB as base64, 48 MiB at most"), "{}", fault.message);
    let long = |chars: usize| json!([{ "type": "text", "text": "x".repeat(chars) }]);
    let params = json!({ "threadId": thread, "input": long(MIB + 1) });
    let fault = peer.refused("turn/start", params).await;
    assert!(fault.message.contains("1048577 characters in total"), "{}", fault.message);
    assert!(fault.message.contains("at most 1048576"), "{}", fault.message);
    let longest = json!({ "threadId": thread, "input": long(MIB) });
    assert_eq!(peer.run_turn_with(longest).await["status"], "completed");
}

#[tokio::test]
async fn bad_parameters_are_named() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    for (method, params, named) in [
        ("thread/start", json!({ "model": 5 }), "model"),
        ("thread/start", json!({ "approvalPolicy": "sometimes" }), "approvalPolicy"),
        ("thread/start", json!({ "sandbox": "sandy" }), "sandbox"),
        ("thread/start", json!({ "cwd": "relative" }), "cwd"),
        ("thread/start", json!({ "cwd": "/no/such/folder" }), "cwd"),
        ("thread/start", json!({ "modelProvider": "unknown" }), "modelProvider"),
        ("thread/start", json!({ "config": { "model": 3 } }), "model"),
        ("thread/resume", json!({}), "threadId"),
        ("thread/read", json!({ "threadId": 5 }), "threadId"),
        ("thread/list", json!({ "limit": -1 }), "limit"),
        ("thread/list", json!({ "cursor": "rubbish" }), "cursor"),
        ("thread/list", json!({ "sourceKinds": ["martian"] }), "sourceKinds"),
        ("turn/start", json!({ "threadId": thread }), "input"),
        ("turn/start", json!({ "threadId": thread, "input": [{ "type": "smell" }] }), "input"),
        ("turn/start", json!({ "threadId": thread, "input": [{ "type": "text" }] }), "text"),
        (
            "turn/start",
            json!({ "threadId": thread, "input": [{ "type": "text", "text": "x" }],
                    "sandboxPolicy": { "type": "workspaceWrite", "writableRoots": ["not/absolute"] } }),
            "writableRoots",
        ),
        (
            "turn/start",
            json!({ "threadId": thread, "input": [{ "type": "text", "text": "x" }],
                    "outputSchema": "none" }),
            "outputSchema",
        ),
        (
            "turn/start",
            json!({ "threadId": thread,
                    "input": [{ "type": "localImage", "path": "/no/such/image.png" }] }),
            "/no/such/image.png",
        ),
        ("turn/steer", json!({ "threadId": thread, "input": [] }), "expectedTurnId"),
        ("turn/interrupt", json!({ "threadId": thread }), "turnId"),
    ] {
        let fault = peer.refused(method, params.clone()).await;
        assert_eq!(fault.code, -32602, "{method} {params}: {fault:?}");
        assert!(fault.message.contains(named), "{method} {params}: {}", fault.message);
    }
    // No part of it started a turn.
    let status = peer.call("thread/read", json!({ "threadId": thread })).await;
    assert_eq!(status["thread"]["status"]["type"], "idle");
}

#[tokio::test]
async fn an_unknown_thread_and_an_empty_input_do_not_fit_the_state() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let input = json!([{ "type": "text", "text": "x" }]);
    for (method, params, said) in [
        ("thread/read", json!({ "threadId": "unknown" }), "thread not found: unknown"),
        ("thread/resume", json!({ "threadId": "unknown" }), "thread not found: unknown"),
        (
            "turn/start",
            json!({ "threadId": "unknown", "input": input }),
            "thread not found: unknown",
        ),
        ("turn/start", json!({ "threadId": thread, "input": [] }), "input must not be empty"),
        (
            "turn/interrupt",
            json!({ "threadId": thread, "turnId": "x" }),
            "no active turn to interrupt",
        ),
        (
            "turn/steer",
            json!({ "threadId": thread, "input": input, "expectedTurnId": "x" }),
            "no active turn to steer",
        ),
    ] {
        let fault = peer.refused(method, params).await;
        assert_eq!((fault.code, fault.message.as_str()), (-32600, said), "{method}");
    }
}
