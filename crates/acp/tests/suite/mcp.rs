//! MCP servers that the client names.

use serde_json::json;

use crate::harness::{Bench, says};

/// A server over standard input and output, as a script of the shell's tools.
const SERVER: &str = r#"#!/bin/sh
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}\n' "$id" ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"greet","description":"Greets.","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
    *'"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"Hello %s"}]}}\n' "$id" "$WHO" ;;
  esac
done
"#;

#[tokio::test]
async fn a_server_of_the_client_is_used_with_permission() {
    use std::os::unix::fs::PermissionsExt as _;

    let call = json!({ "function_call": { "name": "mcp__greeter__greet", "arguments": {} } });
    let bench = Bench::new(json!([says("Ready."), { "steps": [call] }, says("Done.")])).await;
    let program = bench.env.root().join("server.sh");
    std::fs::write(&program, SERVER).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let server = json!({
        "name": "greeter", "command": program, "args": [],
        "env": [{ "name": "WHO", "value": "editor" }],
    });
    let mut editor = bench.editor().await;
    let params = json!({ "cwd": bench.work(), "mcpServers": [server] });
    let opened = editor.call("session/new", params).await;
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    // A server that becomes ready during a turn joins with the next one.
    let mut peer = bench.server.connect_with(json!({ "experimentalApi": true })).await;
    peer.call("mcpServerStatus/list", json!({ "threadId": session, "start": true })).await;
    editor.run(&session, "Get ready.").await;

    let prompt = editor.prompt(&session, "Greet.").await;
    let asked = editor.asked("session/request_permission").await;
    assert_eq!(asked.params["toolCall"]["title"], "greeter: greet");
    editor.choose(&asked, "accept").await;
    assert_eq!(editor.answer_to(prompt).await.unwrap()["stopReason"], "end_turn");
    let done = editor.update_where("tool_call_update", |update| update["status"] == "completed");
    assert_eq!(done.await["content"][0]["content"]["text"], "Hello editor");
}

#[tokio::test]
async fn a_server_that_cannot_be_used_is_refused() {
    let bench = Bench::new(json!([says("Ready.")])).await;
    let mut editor = bench.editor().await;
    for (server, expect) in [
        (json!({ "type": "sse", "name": "s", "url": "http://h/", "headers": [] }), "`sse`"),
        (json!({ "type": "http", "name": "s", "url": "no address", "headers": [] }), "url"),
    ] {
        let params = json!({ "cwd": bench.work(), "mcpServers": [server] });
        let error = editor.refused("session/new", params).await;
        assert!(error.message.contains(expect), "{error:?}");
    }
}
