//! What clients get of MCP servers beside their tools: the servers of one thread, prompts, and resources
//! that an input mentions.

use serde_json::{Value, json};

use crate::mcp_servers::Bench;

fn experimental() -> Value {
    json!({ "experimentalApi": true })
}

#[tokio::test]
async fn the_servers_of_a_threads_own_configuration_are_listed() {
    let bench = Bench::new("").await;
    let server = bench.env.start();
    let mut peer = server.connect_with(experimental()).await;
    let own = json!({ "mcp_servers": { "own": bench.entry("own") } });
    let thread = peer.start_thread(json!({ "config": own })).await;
    let names = |listed: &Value| -> Vec<String> {
        let rows = listed["data"].as_array().unwrap().iter();
        rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&peer.call("mcpServerStatus/list", json!({})).await), ["one"]);
    let of_thread = json!({ "threadId": thread, "start": true });
    let listed = peer.call("mcpServerStatus/list", of_thread.clone()).await;
    assert_eq!(names(&listed), ["one", "own"]);
    assert!(listed["data"][1]["tools"]["echo"].is_object(), "{listed}");
    let read = json!({ "server": "own", "uri": "test://r", "threadId": thread });
    assert_eq!(peer.call("mcpServer/resource/read", read).await["contents"][0]["text"], "content");
    // The server is the thread's alone, and has no such resource.
    for (read, reason) in [
        (
            json!({ "server": "own", "uri": "test://r" }),
            "no MCP server `own` is enabled; the configuration has `one`",
        ),
        (
            json!({ "server": "one", "uri": "test://r", "threadId": "nope" }),
            "thread not found: nope",
        ),
    ] {
        let refused = peer.refused("mcpServer/resource/read", read).await;
        assert_eq!((refused.code, refused.message.as_str()), (-32600, reason));
    }
    let login = json!({ "name": "own", "threadId": thread });
    let refused = peer.refused("mcpServer/oauth/login", login).await;
    assert!(refused.message.contains("`own` is a program"), "{}", refused.message);
    let unknown = peer.refused("mcpServerStatus/list", json!({ "cursor": "nope" })).await;
    assert!(unknown.message.contains("not a cursor of this list"), "{unknown:?}");
    let behind = peer.call("mcpServerStatus/list", json!({ "cursor": "one", "limit": 0 })).await;
    assert_eq!(behind["data"], json!([]));
    let unknown = peer.refused("mcpServerStatus/list", json!({ "threadId": "nope" })).await;
    assert!(unknown.message.contains("nope"), "{}", unknown.message);
    let mut plain = server.connect().await;
    let refused = plain.refused("mcpServerStatus/list", of_thread).await;
    assert!(refused.message.contains("experimentalApi"), "{}", refused.message);
}

#[tokio::test]
async fn prompts_are_listed_and_expanded() {
    let bench = Bench::new("").await;
    let server = bench.env.start();
    let mut peer = server.connect_with(experimental()).await;
    let listed = peer.call("mcpServer/prompt/list", json!({ "server": "one" })).await;
    let prompt = &listed["data"][0];
    assert_eq!((&prompt["name"], &prompt["description"]), (&json!("p"), &json!("a\\u{200b}b")));
    assert_eq!(prompt["arguments"][0], json!({ "name": "topic", "required": true }));
    let get = json!({ "server": "one", "name": "p", "arguments": { "topic": "x" } });
    let expanded = peer.call("mcpServer/prompt/get", get).await;
    let message = json!({ "role": "user", "content": { "type": "text", "text": "About x." } });
    assert_eq!(expanded["messages"], json!([message]));
    let refused = json!({ "server": "one", "name": "none" });
    let refused = peer.refused("mcpServer/prompt/get", refused).await;
    assert!(refused.message.contains("no such prompt"), "{}", refused.message);
    let odd = json!({ "server": "one", "name": "p", "arguments": { "topic": 1 } });
    peer.refused("mcpServer/prompt/get", odd).await;
    let mut plain = server.connect().await;
    let refused = plain.refused("mcpServer/prompt/list", json!({ "server": "one" })).await;
    assert!(refused.message.contains("experimentalApi"), "{}", refused.message);
}

#[tokio::test]
async fn a_mentioned_resource_is_read_and_given_to_the_model() {
    let bench = Bench::new("").await;
    let server = bench.env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let mention = |name: &str, path: &str| {
        json!({ "threadId": thread, "input": [
            { "type": "text", "text": "Read this." },
            { "type": "mention", "name": name, "path": path },
        ] })
    };
    for (name, path, part) in [
        ("r", "test://other", "no MCP server of the thread lists the resource `test://other`"),
        ("r", "plain", "`plain` is not the URI"),
        ("one:r", "test://gone", "no such resource"),
    ] {
        let refused = peer.refused("turn/start", mention(name, path)).await;
        assert!(refused.message.contains(part), "{}", refused.message);
        assert!(refused.message.contains("input[1].path"), "{}", refused.message);
    }
    let many = json!({ "type": "mention", "name": "r", "path": "test://r" });
    let many = json!({ "threadId": thread, "input": vec![many; 21] });
    let refused = peer.refused("turn/start", many).await;
    assert!(refused.message.contains("at most 20"), "{}", refused.message);
    peer.run_turn_with(mention("r", "test://r")).await;
    let text = "<mcp_resource server=\"one\" uri=\"test://r\">\ncontent\n</mcp_resource>";
    let request = bench.env.model().requests().pop().unwrap();
    assert!(request["input"].to_string().contains(&json!(text).to_string()), "{request}");
    let read = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    let shown = &read["thread"]["turns"][0]["items"][0]["content"][1];
    assert_eq!(shown["text_elements"][0]["placeholder"], "@r", "{shown}");
    assert_eq!(shown["text_elements"][0]["byteRange"]["end"], text.len());
}

#[tokio::test]
async fn an_image_of_a_mentioned_resource_is_an_image_for_the_model() {
    let bench = Bench::new("").await;
    let url = testkit::png_url(8, 8);
    let png = url.split_once(',').unwrap().1;
    std::fs::write(bench.env.root().join("server.log.image"), png).unwrap();
    let server = bench.env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let mention = json!({ "type": "mention", "name": "one:image", "path": "test://image" });
    let params = json!({ "threadId": thread, "input": [mention] });
    let ended = peer.run_turn_with(params).await;
    assert_eq!(ended["status"], "completed", "{ended}");
    let requests = bench.env.model().requests();
    let input = requests[0]["input"].as_array().unwrap();
    let content = input.last().unwrap()["content"].as_array().unwrap();
    let text = content[0]["text"].as_str().unwrap();
    assert!(text.contains("bytes; an image, which follows]"), "{text}");
    assert!(text.contains("application/pdf, 3 bytes; no text: left out]"), "{text}");
    let shown = content[1]["image_url"].as_str().unwrap();
    assert!(content[1]["type"] == "input_image" && shown.starts_with("data:image/"), "{shown}");
}
