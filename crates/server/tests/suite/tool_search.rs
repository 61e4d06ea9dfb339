//! Tools whose definitions are not in the request until a search finds them.

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::prompt_cache::assert_grow;
use crate::{calls, says};

/// Tools `group_n__act_n` about a subject of their own, with a description as long as real ones.
fn tools(count: usize) -> Vec<Value> {
    let tool = |at: usize| {
        let words = "Reads the records that belong to it, and reports what changed. ".repeat(4);
        json!({ "namespace": format!("group_{}", at / 10), "name": format!("act_{at}"),
            "description": format!("Handles subject{at}. {words}"),
            "inputSchema": { "type": "object", "properties": { "id": { "type": "string",
                "description": "Which record." } }, "required": ["id"] } })
    };
    (0..count).map(tool).collect()
}

fn deferred(mut tool: Value) -> Value {
    tool["deferLoading"] = true.into();
    tool
}

fn lookup() -> Value {
    json!({ "name": "lookup_ticket", "description": "Asks the ticket system.",
        "deferLoading": true,
        "inputSchema": { "type": "object", "properties": { "number": { "type": "string" } } } })
}

async fn connect(server: &testkit::TestServer) -> Peer {
    server.connect_with(json!({ "experimentalApi": true })).await
}

/// Gives the thread's model `native` searches.
pub(crate) fn search_natively(env: &TestEnvironment) {
    let catalog = json!([{ "id": "gpt-5", "tool_search": "native" }]);
    std::fs::write(env.home().join("models.json"), catalog.to_string()).unwrap();
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!("model_catalog_json = \"models.json\"\n{config}"));
}

fn search(query: &str) -> Value {
    calls("tool_search", json!({ "query": query }))
}

fn native_search(query: &str) -> Value {
    json!({ "steps": [{ "tool_search_call": { "arguments": { "query": query, "limit": 2 } } }] })
}

/// The names of the tools of a request; the type of those without one.
fn offered(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().or(tool["type"].as_str()).unwrap()).collect()
}

/// Runs a turn in which the model calls tools of the client, and returns their names.
async fn run_turn(peer: &mut Peer, thread: &str, client_calls: usize) -> Vec<String> {
    let turn = peer.start_turn(thread, "Go.").await;
    let mut called = Vec::new();
    for _ in 0..client_calls {
        let asked = peer.asked("item/tool/call").await;
        let content = json!([{ "type": "inputText", "text": "Done." }]);
        peer.answer(&asked, json!({ "contentItems": content, "success": true })).await;
        called.push(asked.params["tool"].as_str().unwrap().to_owned());
    }
    let end = peer.turn_end(&turn).await;
    assert_eq!(end["status"], "completed", "{end}");
    called
}

#[tokio::test]
async fn a_found_tool_is_offered_from_the_next_request_on() {
    let call = calls("lookup_ticket", json!({ "number": "7" }));
    let env = TestEnvironment::with_responses(json!([
        search("tickets"),
        call,
        says("Seen."),
        says("After a restart."),
        says("SUMMARY"),
        says("After a compaction."),
    ]))
    .await;
    let server = env.start();
    let mut peer = connect(&server).await;
    let thread = peer.start_thread(json!({ "dynamicTools": [lookup()] })).await;
    assert_eq!(run_turn(&mut peer, &thread, 1).await, ["lookup_ticket"]);
    server.stop().await;
    let server = env.start();
    let mut peer = connect(&server).await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    run_turn(&mut peer, &thread, 0).await;
    peer.call("thread/compact/start", json!({ "threadId": thread })).await;
    peer.expect("turn/completed").await;
    run_turn(&mut peer, &thread, 0).await;
    let requests = env.model().requests();
    let first = offered(&requests[0]);
    assert!(first.contains(&"tool_search") && !first.contains(&"lookup_ticket"), "{first:?}");
    assert!(!requests[0].to_string().contains("ticket system"));
    let found = requests[1]["input"].as_array().unwrap().last().unwrap()["output"].clone();
    assert!(found.as_str().unwrap().contains(r#""name":"lookup_ticket""#), "{found}");
    for at in [1, 2, 3, 5] {
        let later = offered(&requests[at]);
        assert_eq!(later[..first.len()], first, "request {at} lists the same tools first");
        assert_eq!(later[first.len()..], ["lookup_ticket"], "request {at}");
    }
    assert!(requests[5]["input"].to_string().contains("SUMMARY"), "it was compacted");
}

/// Runs a turn with `model`, in which the model calls so many tools of the client.
async fn run_turn_of(peer: &mut Peer, thread: &str, model: &str, client_calls: usize) {
    let input = json!([{ "type": "text", "text": "Go." }]);
    let params = json!({ "threadId": thread, "model": model, "input": input });
    let started = peer.call("turn/start", params).await;
    for _ in 0..client_calls {
        let asked = peer.asked("item/tool/call").await;
        let content = json!([{ "type": "inputText", "text": "Done." }]);
        peer.answer(&asked, json!({ "contentItems": content, "success": true })).await;
    }
    let end = peer.turn_end(started["turn"]["id"].as_str().unwrap()).await;
    assert_eq!(end["status"], "completed", "{end}");
}

#[tokio::test]
async fn a_native_search_is_a_function_for_a_model_that_has_it_as_one() {
    let env = TestEnvironment::with_responses(json!([
        native_search("tickets"),
        says("Found."),
        calls("lookup_ticket", json!({ "number": "7" })),
        says("Seen."),
        says("SUMMARY"),
    ]))
    .await;
    let catalog = json!([
        { "id": "native", "tool_search": "native" },
        { "id": "plain", "tool_search": "function" },
    ]);
    std::fs::write(env.home().join("models.json"), catalog.to_string()).unwrap();
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!("model_catalog_json = \"models.json\"\n{config}"));
    let server = env.start();
    let mut peer = connect(&server).await;
    let thread = peer.start_thread(json!({ "dynamicTools": [lookup()] })).await;
    run_turn_of(&mut peer, &thread, "native", 0).await;
    run_turn_of(&mut peer, &thread, "plain", 1).await;
    let requests = env.model().requests();
    let types = |request: &Value| -> Vec<String> {
        let input = request["input"].as_array().unwrap().iter();
        input.filter_map(|item| Some(item["type"].as_str()?.to_owned())).collect()
    };
    assert!(types(&requests[1]).contains(&"tool_search_output".to_owned()));
    for request in &requests[2..] {
        let types = types(request);
        assert!(types.iter().all(|kind| !kind.starts_with("tool_search")), "{types:?}");
        let input = request["input"].as_array().unwrap();
        let call = input.iter().find(|item| item["name"] == "tool_search").unwrap();
        assert!(call["arguments"].as_str().unwrap().contains("tickets"), "{call}");
        let is_output = |item: &&Value| {
            item["type"] == "function_call_output" && item["call_id"] == call["call_id"]
        };
        let output = input.iter().find(is_output).unwrap()["output"].as_str().unwrap();
        assert!(output.contains(r#""name":"lookup_ticket""#), "{output}");
        let offered = offered(request);
        assert!(offered.contains(&"lookup_ticket") && offered.contains(&"tool_search"));
    }
    // The request for a summary too.
    peer.call("thread/compact/start", json!({ "threadId": thread })).await;
    peer.expect("turn/completed").await;
    let requests = env.model().requests();
    assert_eq!(requests.len(), 5);
    let kinds = types(&requests[4]);
    assert!(kinds.iter().all(|kind| !kind.starts_with("tool_search")), "{kinds:?}");
}

#[tokio::test]
async fn requests_with_found_tools_begin_as_those_before() {
    let call = || calls("lookup_ticket", json!({ "number": "7" }));
    let env = TestEnvironment::with_responses(json!([
        native_search("tickets"),
        call(),
        says("Seen."),
        native_search("act_3"),
        says("None."),
        call(),
        says("SUMMARY"),
        call(),
        says("After a compaction."),
    ]))
    .await;
    search_natively(&env);
    let server = env.start();
    let mut peer = connect(&server).await;
    let all: Vec<Value> = std::iter::once(lookup()).chain(tools(60)).collect();
    let thread = peer.start_thread(json!({ "dynamicTools": all })).await;
    assert_eq!(run_turn(&mut peer, &thread, 1).await, ["lookup_ticket"]);
    run_turn(&mut peer, &thread, 0).await;
    server.stop().await;
    let server = env.start();
    let mut peer = connect(&server).await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    let turn = peer.start_turn(&thread, "Again.").await;
    let asked = peer.asked("item/tool/call").await;
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    assert_eq!(asked.params["tool"], "lookup_ticket");
    let bodies = env.model().raw_requests();
    assert_eq!(bodies.len(), 6);
    assert_grow(&bodies);
    let requests = env.model().requests();
    let offer = requests[0]["tools"].as_array().unwrap();
    let tool = offer.iter().find(|tool| tool["type"] == "tool_search").unwrap();
    assert_eq!(tool["execution"], "client");
    assert_eq!(tool["parameters"]["required"], json!(["query"]));
    assert_eq!(offer.len(), 38, "with the tools of a goal 40");
    let input = requests[1]["input"].as_array().unwrap();
    let [called, output] = input.last_chunk().unwrap();
    assert_eq!(called["type"], "tool_search_call");
    let definition = json!({ "type": "function", "name": "lookup_ticket",
        "description": "Asks the ticket system.", "strict": false, "defer_loading": true,
        "parameters": { "type": "object", "properties": { "number": { "type": "string" } } } });
    let expected = json!({ "type": "tool_search_output", "call_id": called["call_id"],
        "status": "completed", "execution": "client", "tools": [definition] });
    assert_eq!(*output, expected);

    // The search that stands for those before a compaction loads the same tools.
    peer.turn_end(&turn).await;
    peer.call("thread/compact/start", json!({ "threadId": thread })).await;
    peer.expect("turn/completed").await;
    assert_eq!(run_turn(&mut peer, &thread, 1).await, ["lookup_ticket"]);
    let requests = env.model().requests();
    let input = requests[7]["input"].as_array().unwrap();
    let mut outputs = input.iter().filter(|item| item["type"] == "tool_search_output");
    let loaded = &outputs.next().unwrap()["tools"];
    assert_eq!(loaded[0]["name"], "lookup_ticket", "{loaded}");
    assert!(outputs.next().is_none());
    assert_grow(&env.model().raw_requests()[7..]);
}

#[tokio::test]
async fn tools_that_do_not_fit_into_a_request_are_deferred() {
    let exact = calls("group_19__act_199", json!({ "id": "x" }));
    let unknown = calls("group_19__act_999", json!({ "id": "x" }));
    let large = [exact, unknown, search("subject150"), says("Many.")];
    let responses =
        crate::agents::of(0, [says("Few.")]).into_iter().chain(crate::agents::of(1, large));
    let env = TestEnvironment::with_responses(responses.collect()).await;
    let server = env.start();
    let mut peer = connect(&server).await;
    let few = peer.start_thread(json!({ "dynamicTools": tools(20) })).await;
    run_turn(&mut peer, &few, 0).await;
    let many = peer.start_thread(json!({ "dynamicTools": tools(200) })).await;
    // A tool that was not loaded runs, if its name is right.
    assert_eq!(run_turn(&mut peer, &many, 1).await, ["act_199"]);
    let requests = env.model().requests();
    let few = offered(&requests[0]);
    assert!(few.contains(&"group_1__act_19") && !few.contains(&"tool_search"), "{few:?}");
    let many = offered(&requests[1]);
    assert_eq!(many.len(), 38, "with the tools of a goal 40: {many:?}");
    assert!(many.contains(&"group_0__act_0") && many.contains(&"tool_search"), "{many:?}");
    // The output of the client's tool is a list of parts.
    let error = crate::tool_outputs(&env)[0].clone();
    assert!(error.contains("no tool `group_19__act_999`"), "{error}");
    assert!(error.contains("tool_search") && error.len() < 2_000, "{error}");
    let found = offered(requests.last().unwrap());
    assert_eq!(found[38], "group_15__act_150", "the best one is loaded first: {found:?}");
    let bytes = |request: &Value| request["tools"].to_string().len();
    let all: usize = tools(200).iter().map(|tool| tool.to_string().len()).sum();
    println!("200 tools: {all} bytes declared, {} bytes in a request", bytes(&requests[1]));
    assert!(bytes(&requests[1]) * 3 < all);
}

#[tokio::test]
async fn an_agent_with_the_history_of_its_parent_has_the_loaded_tools() {
    let spawn = calls("spawn_agent", json!({ "message": "Go on.", "fork_context": true }));
    let wait = calls("wait_agent", json!({ "targets": ["Ada"], "timeout_ms": 10_000 }));
    let parent = [search("tickets"), spawn, wait, says("Done.")];
    let responses = crate::agents::of(0, parent)
        .into_iter()
        .chain(crate::agents::of(1, [says("Went on.")]))
        .chain(crate::agents::of(2, [says("A fork.")]));
    let env = TestEnvironment::with_responses(responses.collect()).await;
    let server = env.start();
    let mut peer = connect(&server).await;
    let thread = peer.start_thread(json!({ "dynamicTools": [lookup()] })).await;
    run_turn(&mut peer, &thread, 0).await;
    let fork = peer.call("thread/fork", json!({ "threadId": thread })).await;
    run_turn(&mut peer, fork["thread"]["id"].as_str().unwrap(), 0).await;
    let requests = env.model().requests();
    let others: Vec<&Value> =
        requests.iter().filter(|request| request["prompt_cache_key"] != *thread).collect();
    assert_eq!(others.len(), 2);
    for request in others {
        assert_eq!(offered(request).last(), Some(&"lookup_ticket"));
    }
}

#[tokio::test]
async fn a_search_that_makes_no_sense_gets_the_reason() {
    let bad = [
        (json!({}), "`query` is missing"),
        (json!({ "query": "  " }), "`query` is empty"),
        (json!({ "query": "x".repeat(1 << 20) }), "`query` has 1048576 bytes"),
        (json!({ "query": "x", "limit": 0 }), "`limit` is 0"),
        (json!({ "query": "x", "limit": -1 }), "`limit` is `-1`"),
        (json!({ "query": "[.*]+(ticket" , "limit": 1e9 }), "lookup_ticket"),
        (json!({ "query": "nothing like this" }), "No tool fits"),
        (json!({ "query": null }), "`query` is missing"),
        (json!({ "query": "ticket", "limit": null, "more": 1 }), "lookup_ticket"),
    ];
    let mut responses: Vec<Value> =
        bad.iter().map(|(arguments, _)| calls("tool_search", arguments.clone())).collect();
    responses.push(says("So."));
    let env = TestEnvironment::with_responses(responses.into()).await;
    // The history would be compacted because of the long query.
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!("model_auto_compact_token_limit = 10000000\n{config}"));
    let server = env.start();
    let mut peer = connect(&server).await;
    let thread = peer.start_thread(json!({ "dynamicTools": [lookup()] })).await;
    run_turn(&mut peer, &thread, 0).await;
    let outputs = crate::tool_outputs(&env);
    for ((arguments, expected), output) in bad.iter().zip(&outputs) {
        let shown: String = arguments.to_string().chars().take(80).collect();
        assert!(output.contains(expected), "{shown}: {output}");
        assert!(output.len() < 2_000, "{shown}");
    }
    assert_eq!(outputs.len(), bad.len());
}

#[tokio::test]
async fn a_native_search_that_makes_no_sense_gets_the_reason() {
    let call =
        |arguments: Value| json!({ "steps": [{ "tool_search_call": { "arguments": arguments } }] });
    let bad = [json!({}), json!(null), json!("words"), json!([1]), json!({ "query": "" })];
    let mut responses: Vec<Value> = bad.into_iter().map(call).collect();
    let count = responses.len();
    responses.push(says("So."));
    let env = TestEnvironment::with_responses(responses.into()).await;
    search_natively(&env);
    let server = env.start();
    let mut peer = connect(&server).await;
    let thread = peer.start_thread(json!({ "dynamicTools": [lookup()] })).await;
    run_turn(&mut peer, &thread, 0).await;
    let requests = env.model().requests();
    let input = requests.last().unwrap()["input"].as_array().unwrap();
    let outputs = input.iter().filter(|item| item["type"] == "tool_search_output");
    assert_eq!(outputs.filter(|output| output["tools"] == json!([])).count(), count);
    let reason = |item: &&Value| {
        item["role"] == "developer"
            && item["content"][0]["text"].as_str().unwrap().starts_with("tool_search:")
    };
    assert_eq!(input.iter().filter(reason).count(), count, "{input:#?}");
}

#[tokio::test]
async fn ten_thousand_tools_are_searched_and_more_are_refused() {
    let env = TestEnvironment::with_responses(json!([search("subject7777"), says("x")])).await;
    let server = env.start();
    let mut peer = connect(&server).await;
    let thread = peer.start_thread(json!({ "dynamicTools": tools(10_000) })).await;
    run_turn(&mut peer, &thread, 0).await;
    let requests = env.model().requests();
    assert_eq!(offered(&requests[1])[38], "group_777__act_7777");
    let all: Vec<Value> = tools(10_001).into_iter().map(deferred).collect();
    let fault = peer.refused("thread/start", json!({ "dynamicTools": all })).await;
    assert!(fault.message.contains("10001 tools; at most 10000 are allowed"), "{fault:?}");
    let large = |at: usize| {
        let mut tool = tools(at + 1).pop().unwrap();
        tool["description"] = "x".repeat(60_000).into();
        tool
    };
    let all: Vec<Value> = (0..300).map(large).collect();
    let fault = peer.refused("thread/start", json!({ "dynamicTools": all })).await;
    assert!(fault.message.contains("of all tools must have at most"), "{fault:?}");
}
