//! Tools that the client runs (experimental; specification: Dynamic tool call).

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::{calls, says};

fn experimental() -> Value {
    json!({ "experimentalApi": true })
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "description": "Asks the ticket system.",
        "inputSchema": { "type": "object", "properties": { "id": { "type": "string" } } } })
}

#[tokio::test]
async fn the_client_runs_its_tool() {
    let call = || calls("lookup_ticket", json!({ "id": "T-1" }));
    let env =
        TestEnvironment::with_responses(json!([call(), says("Seen."), call(), says("Again.")]))
            .await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let thread = peer.start_thread(json!({ "dynamicTools": [tool("lookup_ticket")] })).await;
    peer.forget();
    let turn = peer.start_turn(&thread, "Look.").await;
    let asked = peer.asked("item/tool/call").await;
    assert_eq!(asked.params["tool"], "lookup_ticket");
    assert_eq!(asked.params["arguments"], json!({ "id": "T-1" }));
    let answer = json!({ "contentItems": [{ "type": "inputText", "text": "Open since May." }],
        "success": true });
    peer.answer(&asked, answer).await;
    let item = peer.item("dynamicToolCall").await;
    assert_eq!((&item["status"], &item["success"]), (&json!("completed"), &json!(true)));
    assert_eq!(item["contentItems"][0]["text"], "Open since May.");
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    let lines: Vec<String> = peer
        .transcript()
        .iter()
        .filter(|line| line.contains("dynamicToolCall") || line.contains("equest"))
        .cloned()
        .collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[1].contains("serverRequest/resolved"), "resolved before it is final: {lines:?}");
    let requests = env.model().requests();
    let offered = requests[0]["tools"].as_array().unwrap();
    assert!(offered.iter().any(|tool| tool["name"] == "lookup_ticket"));
    let output = requests[1]["input"].as_array().unwrap().last().unwrap()["output"].clone();
    assert_eq!(output, json!([{ "type": "input_text", "text": "Open since May." }]));

    // The thread keeps the tool after a restart; a client that does not support it answers with an
    // error.
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    let turn = peer.start_turn(&thread, "Look again.").await;
    let asked = peer.asked("item/tool/call").await;
    let line = json!({ "id": asked.id, "error": { "code": -32601, "message": "no such tool" } });
    peer.send_line(line.to_string().as_bytes()).await;
    let item = peer.item("dynamicToolCall").await;
    assert_eq!((&item["status"], &item["success"]), (&json!("failed"), &json!(false)));
    assert!(item["contentItems"][0]["text"].is_string(), "the reason: {item}");
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
}

#[tokio::test]
async fn a_thread_that_is_resumed_takes_other_tools_unless_it_is_loaded() {
    let responses = json!({ "responses": [says("Fine.")], "on_exhausted": "repeat_last" });
    let env = TestEnvironment::with_script(&responses).await;
    let resume = |thread: &str, tools: Value| json!({ "threadId": thread, "dynamicTools": tools, "serviceName": "other" });
    let offered = |env: &TestEnvironment| {
        let request = env.model().requests().pop().unwrap();
        let names = request["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone());
        let own = ["lookup_ticket", "close_ticket"];
        names.filter(|name| own.contains(&name.as_str().unwrap_or_default())).collect::<Vec<_>>()
    };
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let params = json!({ "dynamicTools": [tool("lookup_ticket")], "serviceName": "one" });
    let thread = peer.start_thread(params).await;
    peer.run_turn(&thread, "One.").await;
    assert_eq!(offered(&env), ["lookup_ticket"]);
    let other = json!([tool("close_ticket")]);
    let fault = peer.refused("thread/resume", resume(&thread, other.clone())).await;
    assert!(fault.message.contains("is loaded, with other `dynamicTools`"), "{fault:?}");
    peer.call("thread/resume", resume(&thread, json!([tool("lookup_ticket")]))).await;
    let bad = resume(&thread, json!([tool("python")]));
    let fault = peer.refused("thread/resume", bad).await;
    assert!(fault.message.contains("reserved by the model API"), "{fault:?}");
    server.stop().await;
    // Stored, so that a later load without them has them, too.
    for (tools, expected) in [
        (Some(other), vec!["close_ticket"]),
        (None, vec!["close_ticket"]),
        (Some(json!([])), vec![]),
        (None, vec![]),
    ] {
        let server = env.start();
        let mut peer = server.connect_with(experimental()).await;
        let params = match tools {
            Some(tools) => resume(&thread, tools),
            None => json!({ "threadId": thread }),
        };
        peer.call("thread/resume", params).await;
        peer.run_turn(&thread, "Again.").await;
        assert_eq!(offered(&env), expected);
        server.stop().await;
    }
}

#[tokio::test]
async fn a_tool_call_without_an_answer_is_interrupted() {
    let call = calls("lookup_ticket", json!({}));
    let env = TestEnvironment::with_responses(json!([call, says("x")])).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let mut plain = server.connect().await;
    let thread = peer.start_thread(json!({ "dynamicTools": [tool("lookup_ticket")] })).await;
    plain.call("thread/resume", json!({ "threadId": thread })).await;
    let turn = peer.start_turn(&thread, "Look.").await;
    peer.asked("item/tool/call").await;
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    assert_eq!(peer.item("dynamicToolCall").await["status"], "failed");
    assert_eq!(peer.turn_end(&turn).await["status"], "interrupted");
    plain.turn_end(&turn).await;
    let seen = plain.raw_lines().iter().any(|line| line.contains("item/tool/call"));
    assert!(!seen, "a client without the capability is not asked");
}

#[tokio::test]
async fn tools_that_cannot_be_offered_are_refused_by_name() {
    let env = TestEnvironment::with_responses(json!([says("x")])).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let with = |changes: Value| {
        let mut one = tool("fine");
        for (name, value) in changes.as_object().unwrap() {
            one[name] = value.clone();
        }
        one
    };
    for (tools, expected) in [
        (json!([with(json!({ "name": "no spaces" }))]), "no spaces"),
        (json!([with(json!({ "name": "" }))]), "letters"),
        (json!([with(json!({ "name": "mcp__x" }))]), "reserved"),
        (json!([with(json!({ "namespace": "mcp" }))]), "reserved"),
        (json!([with(json!({ "name": "exec_command" }))]), "the name of a built-in tool"),
        (json!([with(json!({ "namespace": "exec_command" }))]), "the name of a built-in tool"),
        (json!([with(json!({ "name": "python" }))]), "`python` is reserved by the model API"),
        (json!([with(json!({ "name": "multi_tool_use" }))]), "`functions`"),
        (json!([with(json!({ "namespace": "functions" }))]), "`functions` is reserved"),
        (json!([with(json!({ "namespace": "image_gen" }))]), "as are `api_tool`, `browser`"),
        (json!([tool("a"), tool("a")]), "another tool"),
        (json!([with(json!({ "name": "x".repeat(65) }))]), "longer"),
        (json!([with(json!({ "inputSchema": 5 }))]), "inputSchema"),
        (json!([with(json!({ "inputSchema": { "type": "array" } }))]), "not `\"array\"`"),
        (
            json!([with(json!({ "inputSchema": { "type": ["object", "null"] } }))]),
            "type `\"object\"`",
        ),
        (json!([with(json!({ "inputSchema": { "type": null } }))]), "not `null`"),
        (json!([with(json!({ "inputSchema": { "properties": [] } }))]), "`properties`"),
        (json!([with(json!({ "inputSchema": { "required": [1] } }))]), "`required`"),
        (json!([with(json!({ "name": "tool_search" }))]), "reserved by the model API"),
        (json!([with(json!({ "deferLoading": "yes" }))]), "deferLoading"),
    ] {
        let fault = peer.refused("thread/start", json!({ "dynamicTools": tools })).await;
        assert!(fault.message.contains(expected), "{fault:?}");
        assert!(fault.message.contains("dynamicTools"), "{fault:?}");
    }
    let mut plain = server.connect().await;
    let fault = plain.refused("thread/start", json!({ "dynamicTools": [tool("a")] })).await;
    assert!(fault.message.contains("requires experimentalApi capability"), "{fault:?}");
}

/// The forms of newer clients: a function, and a namespace with functions.
#[tokio::test]
async fn tools_come_as_functions_and_in_namespaces() {
    let schema = json!({ "type": "object" });
    let function = |name: &str| json!({ "type": "function", "name": name, "description": "Looks.", "inputSchema": schema });
    let call = calls("tickets__find", json!({}));
    let env = TestEnvironment::with_responses(json!([call, says("x")])).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let namespace = |tools: Value| json!({ "type": "namespace", "name": "tickets", "description": "Of the desk.", "tools": tools });
    let tools = json!([function("own"), namespace(json!([function("find")]))]);
    let thread = peer.start_thread(json!({ "dynamicTools": tools })).await;
    let turn = peer.start_turn(&thread, "Look.").await;
    let asked = peer.asked("item/tool/call").await;
    assert_eq!(
        (&asked.params["namespace"], &asked.params["tool"]),
        (&json!("tickets"), &json!("find"))
    );
    let answer = json!({ "contentItems": [{ "type": "inputText", "text": "x" }], "success": true });
    peer.answer(&asked, answer).await;
    peer.turn_end(&turn).await;
    let offered = env.model().requests()[0]["tools"].as_array().unwrap().clone();
    let described = |name: &str| {
        let found = offered.iter().find(|tool| tool["name"] == name);
        found.unwrap()["description"].as_str().unwrap().to_owned()
    };
    assert_eq!(described("own"), "Looks.");
    assert_eq!(described("tickets__find"), "Of the desk.\n\nLooks.");
    for (tools, expected) in [
        (json!([namespace(json!(null))]), "missing field `tools`"),
        (json!([namespace(json!([namespace(json!([]))]))]), "cannot have a namespace"),
        (
            json!([namespace(json!([{ "name": "a", "description": "" }]))]),
            "missing field `inputSchema`",
        ),
        (json!([{ "type": "group", "name": "a" }]), "unknown variant `group`"),
        (
            json!([{ "type": "namespace", "name": "n", "description": "x".repeat(65 << 10),
                "tools": [function("a")] }]),
            "`description` and `inputSchema` must have at most 65536 bytes",
        ),
        (
            json!([{ "type": "namespace", "name": "n", "description": "x".repeat(60 << 10),
                "tools": (0..300).map(|at| function(&format!("t{at}"))).collect::<Vec<_>>() }]),
            "of all tools must have at most",
        ),
    ] {
        let fault = peer.refused("thread/start", json!({ "dynamicTools": tools })).await;
        assert!(fault.message.contains(expected), "{fault:?}");
        assert!(fault.message.contains("dynamicTools"), "{fault:?}");
    }
}
