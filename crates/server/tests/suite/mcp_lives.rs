//! MCP servers that end, are started again, and change with the configuration, between and during turns.

use serde_json::{Value, json};
use testkit::Peer;

use crate::mcp_turns::{Bench, reads, wait_for};
use crate::{calls, says};

const STATUS: &str = "mcpServer/startupStatus/updated";

async fn status(peer: &mut Peer, name: &str, status: &str) {
    let fits = |sent: &Value| sent["name"] == name && sent["status"] == status;
    peer.expect_where(STATUS, fits).await;
}

#[tokio::test]
async fn a_server_that_is_down_keeps_its_tools() {
    let responses = json!([
        calls("mcp__one__crash", json!({})),
        says("One."),
        calls("mcp__one__read", json!({})),
        says("Two."),
        calls("mcp__one__read", json!({})),
        says("Three."),
        says("Four."),
    ]);
    let bench = Bench::new(responses, &[reads("crash"), reads("read")]).await;
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({})).await;
    bench.write("tools.down", &[]);
    let turn = peer.start_turn(&thread, "Go.").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    status(&mut peer, "one", "failed").await;
    // A wish for it changes nothing about that.
    peer.call("config/mcpServer/reload", json!({})).await;
    // The call tries to start it, and says what keeps it from running.
    let turn = peer.start_turn(&thread, "Go on.").await;
    let item = peer.expect_where("item/completed", |item| item["item"]["tool"] == "read").await;
    let message = item["item"]["error"]["message"].as_str().unwrap();
    assert!(message.contains("the MCP server `one` is not running"), "{message}");
    assert!(message.contains("exit code 4; it is started again"), "{message}");
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    // It comes back with a further tool, which follows with the next turn.
    bench.write("tools", &[reads("crash"), reads("more"), reads("read")]);
    std::fs::remove_file(bench.env.root().join("tools.down")).unwrap();
    let turn = peer.start_turn(&thread, "Go on.").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    assert_eq!(bench.output(5), "done");
    let turn = peer.start_turn(&thread, "Go on.").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    let mut offered = bench.offered().await;
    let last = offered.pop().unwrap();
    assert!(offered.iter().all(|tools| *tools == offered[0]), "{offered:?}");
    assert_eq!(last.split_last().unwrap(), (&"mcp__one__more".to_owned(), &*offered[0]));
}

#[tokio::test]
async fn a_reload_starts_changes_and_ends_servers_at_once() {
    let responses = json!([
        calls("mcp__one__steps", json!({})),
        calls("mcp__two__read", json!({})),
        calls("mcp__one__read", json!({})),
        says("One."),
        calls("mcp__two__read", json!({})),
        calls("mcp__one__read", json!({})),
        says("Two."),
    ]);
    let bench = Bench::new(responses, &[reads("read"), reads("steps")]).await;
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({})).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    peer.expect("item/mcpToolCall/progress").await;
    // One server is added and another one changed while a turn runs.
    let paths = ["server.sh", "second.log", "tools"].map(|name| bench.env.root().join(name));
    let [script, log, tools] = &paths;
    let write = |key: &str, value: Value| json!({ "keyPath": key, "value": value, "mergeStrategy": "replace" });
    let two = json!({ "command": "sh", "args": [script, log, tools] });
    for change in
        [write("mcp_servers.two", two), write("mcp_servers.one.tool_timeout_sec", json!(50))]
    {
        assert_eq!(peer.call("config/value/write", change).await["status"], "ok");
    }
    peer.call("config/mcpServer/reload", json!({})).await;
    status(&mut peer, "two", "ready").await;
    status(&mut peer, "one", "ready").await;
    // The call is still that of the process that it began at, which ends after it.
    assert!(!bench.log().contains("ended"), "{}", bench.log());
    bench.write("tools.go", &[]);
    let item = peer.item("mcpToolCall").await;
    assert_eq!((&item["tool"], &item["status"]), (&json!("steps"), &json!("completed")));
    wait_for(&bench, "ended").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    let turn = peer.start_turn(&thread, "Go on.").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    let offered = bench.offered().await;
    assert!(
        bench.output(2).as_str().unwrap().contains("there is no tool"),
        "a turn keeps its tools"
    );
    // Nor is it given those of a server that is defined otherwise by now.
    assert!(bench.output(3).as_str().unwrap().contains("has changed since the turn began"));
    let (before, added) = offered[4].split_at(offered[0].len());
    assert_eq!(before, &*offered[0]);
    assert_eq!(added, ["mcp__two__read", "mcp__two__steps"]);
    assert_eq!((bench.output(5), bench.output(6)), (json!("done"), json!("done")));
    // A removed one ends without a turn.
    let remove = write("mcp_servers.two", Value::Null);
    assert_eq!(peer.call("config/value/write", remove).await["status"], "ok");
    peer.call("config/mcpServer/reload", json!({})).await;
    status(&mut peer, "two", "cancelled").await;
    while !std::fs::read_to_string(log).unwrap().contains("ended") {
        // tidy: sleep processes of others report nothing
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn arguments_reach_the_server_as_the_model_wrote_them() {
    let responses = json!([
        calls("mcp__one__read", json!(r#"{"z": 123456789012345678901234567890, "a": 1.50}"#)),
        calls("mcp__one__read", json!(r#"{"a":1,"a":2}"#)),
        calls("mcp__one__read", json!(r#""x""#)),
        calls("read_tool_output", json!(r#"{"output_id":1,"offset":1.5}"#)),
        says("Done."),
    ]);
    let bench = Bench::new(responses, &[reads("read")]).await;
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({})).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    let sent = r#""arguments":{"z":123456789012345678901234567890,"a":1.50}"#;
    assert!(bench.log().contains(sent), "{}", bench.log());
    for (request, why) in [
        (2, "the arguments name `a` twice"),
        (3, "the arguments must be a JSON object, not `\"x\"`"),
        (4, "`offset` is `1.5`; give a whole number"),
    ] {
        let output = bench.output(request);
        assert!(output.as_str().unwrap().contains(why), "{output}");
    }
}
