//! `agentd mcp-server` from outside: the real program and a scripted model, over standard input and
//! output, in both eras of the protocol.

use std::cell::RefCell;

use crate::common::{Running, TestEnvironment};
use serde_json::{Value, json};

/// Starts the server, with a script as the model. Each thread runs the script from its beginning.
fn start(env: &TestEnvironment, responses: &Value) -> Running {
    let model = format!("model={:?}", env.script(responses));
    let offline = r#"model_provider="offline""#;
    Running::start(&mut env.agentd(&["mcp-server", "-c", offline, "-c", &model]))
}

fn request(id: i64, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

fn response(server: &Running, id: i64) -> Value {
    server.message(|message| message["id"] == id && message.get("method").is_none())
}

/// The handshake of 2025-11-25.
fn shake_hands(server: &mut Running, capabilities: &Value) {
    let client = json!({ "name": "test", "version": "1" });
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client,
    });
    server.send(&request(0, "initialize", &hello));
    assert_eq!(response(server, 0)["result"]["protocolVersion"], "2025-11-25");
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": "p" } })
}

/// As [`call`], with the metadata of 2026-07-28.
fn modern(params: Value, capabilities: &Value) -> Value {
    let mut params = params;
    params["_meta"] = json!({
        "progressToken": "p",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    params
}

/// A turn that wants to run a command that needs an approval, in a folder without files.
fn asks_for_approval() -> Value {
    let arguments = json!({
        "cmd": "touch made", "sandbox_permissions": "require_escalated", "justification": "to make it",
    });
    json!([
        { "steps": [{ "function_call": { "name": "exec_command", "arguments": arguments } }] },
        { "steps": [{ "message": "Finished." }] },
    ])
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

#[test]
fn a_thread_is_started_and_continued_with_a_handshake() {
    let env = TestEnvironment::new();
    let script = json!([
        { "steps": [
            { "message": { "text": "I look.", "phase": "commentary" } },
            { "function_call": { "name": "exec_command", "arguments": { "cmd": "ls" } } },
        ] },
        { "steps": [{ "message": "You said: {{last_user_text}}" }] },
        { "steps": [{ "message": "Then: {{last_user_text}}" }] },
    ]);
    let mut server = start(&env, &script);
    shake_hands(&mut server, &json!({}));
    server.send(&request(1, "tools/list", &json!({})));
    let tools = &response(&server, 1)["result"]["tools"];
    assert_eq!((&tools[0]["name"], &tools[1]["name"]), (&json!("agent"), &json!("agent-reply")));
    assert_eq!(tools[0]["annotations"]["destructiveHint"], true);

    server.send(&request(2, "tools/call", &call("agent", &json!({ "prompt": "one" }))));
    let progress = RefCell::new(Vec::new());
    let answer = server.message(|message| {
        if message["method"] == "notifications/progress" {
            assert_eq!(message["params"]["progressToken"], "p");
            progress.borrow_mut().push(message["params"].clone());
        }
        message["id"] == 2
    });
    let result = &answer["result"];
    assert_eq!((text(result), &result["isError"]), ("You said: one", &json!(false)));
    let structured = &result["structuredContent"];
    assert_eq!(
        (&structured["status"], &structured["content"]),
        (&json!("completed"), &json!("You said: one"))
    );
    let progress = progress.into_inner();
    let steps: Vec<_> = progress.iter().map(|step| step["message"].as_str().unwrap()).collect();
    assert_eq!(steps, ["I look.", "Runs ls", "You said: one"]);
    assert!(progress.is_sorted_by(|a, b| a["progress"].as_f64() < b["progress"].as_f64()));

    let thread = structured["threadId"].as_str().unwrap();
    let reply = json!({ "threadId": thread, "prompt": "two" });
    server.send(&request(3, "tools/call", &call("agent-reply", &reply)));
    let result = &response(&server, 3)["result"];
    assert_eq!(
        (text(result), &result["structuredContent"]["threadId"]),
        ("Then: two", &json!(thread))
    );
    let (status, rest) = server.end();
    assert!(status.success() && rest.is_empty(), "{status}: {rest:?}");
}

#[test]
fn a_thread_is_started_without_a_handshake() {
    let env = TestEnvironment::new();
    let mut server = start(&env, &json!([{ "steps": [{ "message": "Hello." }] }]));
    server.send(&request(1, "server/discover", &modern(json!({}), &json!({}))));
    let discovered = &response(&server, 1)["result"];
    let versions = discovered["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")), "{discovered}");
    let params = modern(call("agent", &json!({ "prompt": "hi" })), &json!({}));
    server.send(&request(2, "tools/call", &params));
    let result = &response(&server, 2)["result"];
    assert_eq!((text(result), &result["resultType"]), ("Hello.", &json!("complete")));
    server.send(&request(3, "tools/list", &json!({})));
    assert_eq!(response(&server, 3)["error"]["code"], -32602, "the metadata is missing");
    assert!(server.end().0.success());
}

#[test]
fn wrong_calls_are_refused_with_the_reason_and_garbage_ends_nothing() {
    let env = TestEnvironment::new();
    let mut server = start(&env, &json!([{ "steps": [{ "message": "Hello." }] }]));
    // Before the handshake these would end a connection.
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    server.send(r#"{"jsonrpc":"2.0","id":9,"result":{}}"#);
    server.send("garbage");
    assert_eq!(server.message(|_| true)["error"]["code"], -32700);
    shake_hands(&mut server, &json!({}));
    let mut check = |params: &Value, expect: &str| {
        server.send(&request(1, "tools/call", params));
        let answer = response(&server, 1);
        let message = answer["error"]["message"].as_str().unwrap_or_else(|| {
            assert_eq!(answer["result"]["isError"], true, "{answer}");
            text(&answer["result"])
        });
        assert!(message.contains(expect), "{message} does not contain {expect}");
    };
    let call = |arguments: Value| call("agent", &arguments);
    check(&call(json!({ "prompt": "a", "promt": "b" })), "unknown field `promt`");
    check(&call(json!({ "prompt": "a", "cwd": "/does/not/exist" })), "/does/not/exist");
    check(&call(json!({ "prompt": "a", "profile": "none" })), "none");
    check(&call(json!({ "prompt": "a", "config": { "model": 1 } })), "`model` must be a string");
    check(&call(json!({})), "missing field `prompt`");
    check(&json!({ "name": "other" }), "unknown tool `other`");
    check(&json!({ "name": 5 }), "tools/call: the parameters do not have the shape");
    let nowhere = json!({ "threadId": "01a2060f-6d40-71b6-a2b3-6b892f193066", "prompt": "a" });
    check(&json!({ "name": "agent-reply", "arguments": nowhere }), "01a2060f");
    let unknown = json!({ "prompt": "hi", "config": { "no_such_key": 1 } });
    server.send(&request(2, "tools/call", &call(unknown)));
    let result = &response(&server, 2)["result"];
    assert_eq!(text(result), "Hello.");
    let warning = result["structuredContent"]["warnings"][0].as_str();
    assert!(warning.is_some_and(|warning| warning.contains("no_such_key")), "{result}");
    assert!(server.end().0.success());
}

#[test]
fn a_cancelled_call_interrupts_its_turn_and_frees_its_thread() {
    let env = TestEnvironment::new();
    let script = json!([
        { "steps": [{ "message": "Ready." }] },
        { "steps": [{ "message": "Waiting." }, "idle"] },
        { "steps": [{ "message": "Again." }] },
    ]);
    let mut server = start(&env, &script);
    shake_hands(&mut server, &json!({}));
    server.send(&request(1, "tools/call", &call("agent", &json!({ "prompt": "a" }))));
    let thread = response(&server, 1)["result"]["structuredContent"]["threadId"].clone();
    let reply = call("agent-reply", &json!({ "threadId": thread, "prompt": "b" }));
    server.send(&request(2, "tools/call", &reply));
    server.line_with("Waiting.");
    server.send(&request(3, "tools/call", &reply));
    let refused = &response(&server, 3)["result"];
    assert!(text(refused).contains("another call works on the thread"), "{refused}");
    let cancel = json!({ "requestId": 2 });
    server.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel })
            .to_string(),
    );
    // The thread is free once its turn has ended, which no message tells: the call is cancelled.
    let again = (4..).find_map(|id| {
        server.send(&request(id, "tools/call", &reply));
        let answer = server.message(|message| message["id"].is_i64());
        assert_eq!(answer["id"], id, "the cancelled call has no response");
        let result = answer["result"].clone();
        (!text(&result).contains("another call works")).then_some(result)
    });
    assert_eq!(text(&again.unwrap()), "Again.");
    assert!(server.end().0.success());
}

#[test]
fn the_end_of_the_input_interrupts_running_turns() {
    let env = TestEnvironment::new();
    let mut server = start(&env, &json!([{ "steps": [{ "message": "Waiting." }, "idle"] }]));
    shake_hands(&mut server, &json!({}));
    server.send(&request(1, "tools/call", &call("agent", &json!({ "prompt": "a" }))));
    server.line_with("Waiting.");
    let (status, rest) = server.end();
    assert!(status.success(), "{status}");
    let last: Value = serde_json::from_str(rest.last().unwrap()).unwrap();
    let structured = &last["result"]["structuredContent"];
    assert_eq!((&last["id"], &structured["status"]), (&json!(1), &json!("interrupted")));
    let thread = structured["threadId"].as_str().unwrap();
    let mut app = Running::server(&env, &[]);
    let params = json!({ "threadId": thread, "includeTurns": true });
    let read = app.call(1, "thread/read", params);
    assert_eq!(read["result"]["thread"]["turns"][0]["status"], "interrupted", "{read}");
}

#[test]
fn calls_run_at_once_on_different_threads() {
    let env = TestEnvironment::new();
    let mut server = start(&env, &json!([{ "steps": [{ "message": "Waiting." }, "idle"] }]));
    shake_hands(&mut server, &json!({}));
    for id in [1, 2] {
        server.send(&request(id, "tools/call", &call("agent", &json!({ "prompt": "a" }))));
    }
    server.line_with("Waiting.");
    server.line_with("Waiting.");
    assert!(server.end().0.success());
}

#[test]
fn approvals_are_asked_as_elicitations() {
    for (content, made) in
        [(json!({ "decision": "accept" }), true), (json!({ "decision": "decline" }), false)]
    {
        let env = TestEnvironment::new();
        let mut server = start(&env, &asks_for_approval());
        shake_hands(&mut server, &json!({ "elicitation": {} }));
        let arguments =
            json!({ "prompt": "a", "approvalPolicy": "on-request", "sandbox": "workspace-write" });
        server.send(&request(1, "tools/call", &call("agent", &arguments)));
        let asked = server.message(|message| message["method"] == "elicitation/create");
        let message = asked["params"]["message"].as_str().unwrap();
        assert!(
            message.contains("Command: touch made") && message.contains("Reason: to make it"),
            "{message}"
        );
        let result = json!({ "action": "accept", "content": content });
        server.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }).to_string());
        let result = &response(&server, 1)["result"];
        assert_eq!(text(result), "Finished.");
        assert_eq!(env.work().join("made").exists(), made);
        let declined = &result["structuredContent"]["declined"];
        assert_eq!(declined.is_null(), made, "{result}");
        assert!(server.end().0.success());
    }
}

#[test]
fn a_cancelled_call_withdraws_its_question() {
    let env = TestEnvironment::new();
    let mut server = start(&env, &asks_for_approval());
    shake_hands(&mut server, &json!({ "elicitation": {} }));
    let arguments =
        json!({ "prompt": "a", "approvalPolicy": "on-request", "sandbox": "workspace-write" });
    server.send(&request(1, "tools/call", &call("agent", &arguments)));
    let asked = server.message(|message| message["method"] == "elicitation/create");
    assert!(asked["params"]["requestedSchema"]["properties"]["decision"].get("default").is_none());
    let params = json!({ "requestId": 1 });
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
    server.send(&cancel.to_string());
    let withdrawn = server.message(|message| message["method"] == "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    // An answer all the same changes nothing.
    let result = json!({ "action": "accept", "content": { "decision": "accept" } });
    server.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }).to_string());
    assert!(server.end().0.success());
    assert!(!env.work().join("made").exists());
}

#[test]
fn a_further_call_than_64_is_refused() {
    let env = TestEnvironment::new();
    let mut server = start(&env, &json!([{ "steps": [{ "message": "Waiting." }, "idle"] }]));
    shake_hands(&mut server, &json!({}));
    for id in 1..=65 {
        server.send(&request(id, "tools/call", &call("agent", &json!({ "prompt": "a" }))));
    }
    let refused = server.message(|message| message["id"].is_i64());
    assert!(text(&refused["result"]).contains("64"), "{refused}");
    assert!(server.end().0.success());
}

#[test]
fn a_second_request_with_the_id_of_a_running_one_is_refused() {
    let env = TestEnvironment::new();
    let mut server = start(&env, &json!([{ "steps": [{ "message": "Waiting." }, "idle"] }]));
    shake_hands(&mut server, &json!({}));
    server.send(&request(1, "tools/call", &call("agent", &json!({ "prompt": "a" }))));
    server.line_with("Waiting.");
    server.send(&request(1, "tools/list", &json!({})));
    let refused = server.message(|message| message.get("error").is_some());
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(-32600)));
    // The first one keeps its answer.
    let (status, rest) = server.end();
    assert!(status.success(), "{status}");
    let last: Value = serde_json::from_str(rest.last().unwrap()).unwrap();
    assert_eq!((&last["id"], &last["result"]["isError"]), (&json!(1), &json!(true)));
}

#[test]
fn a_client_that_cannot_ask_its_user_learns_what_was_declined() {
    let env = TestEnvironment::new();
    let mut server = start(&env, &asks_for_approval());
    shake_hands(&mut server, &json!({}));
    let arguments =
        json!({ "prompt": "a", "approvalPolicy": "on-request", "sandbox": "workspace-write" });
    server.send(&request(1, "tools/call", &call("agent", &arguments)));
    let result = &response(&server, 1)["result"];
    let declined = result["structuredContent"]["declined"][0].as_str().unwrap();
    assert!(
        declined.starts_with("command `touch made`: declined, because this MCP client cannot ask"),
        "{declined}"
    );
    assert!(result["content"][1]["text"].as_str().unwrap().contains(declined), "{result}");
    assert!(!env.work().join("made").exists());
    assert!(server.end().0.success());
}

#[test]
fn approvals_are_asked_between_two_requests_without_a_handshake() {
    let env = TestEnvironment::new();
    let mut server = start(&env, &asks_for_approval());
    let capabilities = json!({ "elicitation": { "form": {} } });
    let arguments =
        json!({ "prompt": "a", "approvalPolicy": "on-request", "sandbox": "workspace-write" });
    let first = modern(call("agent", &arguments), &capabilities);
    server.send(&request(1, "tools/call", &first));
    let asked = response(&server, 1)["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let (key, input) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(input["method"], "elicitation/create");

    let answer = |state: &Value, decision: &str, prompt: &str| {
        let mut arguments = arguments.clone();
        arguments["prompt"] = json!(prompt);
        let mut params = modern(call("agent", &arguments), &capabilities);
        params["requestState"] = state.clone();
        params["inputResponses"] =
            json!({ key: { "action": "accept", "content": { "decision": decision } } });
        params
    };
    let state = &asked["requestState"];
    let mut refused = |params: &Value| {
        server.send(&request(2, "tools/call", params));
        let answer = response(&server, 2);
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    };
    refused(&answer(&json!("0000"), "accept", "a"));
    refused(&answer(state, "accept", "another call"));
    assert!(!env.work().join("made").exists());

    // An answer that is missing is asked for again, under a new state.
    let mut empty = answer(state, "accept", "a");
    empty["inputResponses"] = json!({});
    server.send(&request(3, "tools/call", &empty));
    let again = response(&server, 3)["result"].clone();
    assert_eq!(again["resultType"], "input_required", "{again}");
    let second = answer(&again["requestState"], "accept", "a");
    server.send(&request(4, "tools/call", &second));
    assert_eq!(text(&response(&server, 4)["result"]), "Finished.");
    assert!(env.work().join("made").exists());
    server.send(&request(5, "tools/call", &second));
    assert_eq!(response(&server, 5)["error"]["code"], -32602, "a state is used once");
    assert!(server.end().0.success());
}
