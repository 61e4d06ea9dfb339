//! The same turns on every wire: clients get the same items, and the model the same history.

use serde_json::{Value, json};
use testkit::{TestEnvironment, wire as model_wire};

use super::{WIRES, configure, model, origin};
use crate::says;

/// A conversation with reasoning, parallel calls, a patch, an image, refusals and a cut stream, an interruption and a
/// compaction.
fn script() -> Value {
    let call = |name: &str, arguments: Value| json!({ "function_call": { "name": name, "arguments": arguments } });
    let patch = "*** Begin Patch\n*** Add File: notes.md\n+One \"quoted\" line.\n*** End Patch\n";
    json!([
        { "steps": [
            { "reasoning": "**Looking around**\n\nThe notes come first." },
            { "message": "I write the notes." },
            call("exec_command", json!({ "cmd": "echo one; echo zwei \u{e9}\u{1f600}" })),
            call("apply_patch", json!({ "input": patch })),
            call("update_plan", json!({ "plan": [{ "step": "Write", "status": "completed" }] })),
        ] },
        { "steps": [{ "error": { "status": 503, "code": "server_is_overloaded", "message": "Later." } }] },
        { "steps": [{ "message": { "chunks": ["Par"] } }, { "cut": {} }] },
        { "steps": [{ "reasoning": "And a picture." }, call("view_image", json!({ "path": "dot.png" }))] },
        says("The notes are written."),
        { "steps": [{ "message": { "chunks": ["Half"] } }, "idle"] },
        says("SUMMARY: the notes are written."),
        { "steps": [call("exec_command", json!({ "cmd": "cat notes.md" })), call("no_such_tool", json!({}))] },
        says("They hold one line."),
    ])
}

/// An item without ids and times. Reasoning is one text, since not every wire has summaries.
fn shown(item: &Value) -> String {
    let texts = |name: &str| -> Vec<&str> {
        item[name].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    };
    match item["type"].as_str().unwrap() {
        "reasoning" => {
            format!("reasoning {}", [texts("summary"), texts("content")].concat().join("\n\n"))
        }
        kind => {
            let names =
                ["text", "content", "command", "status", "aggregatedOutput", "exitCode", "path"];
            let members: Vec<String> = names
                .iter()
                .filter(|name| !item[**name].is_null())
                .map(|name| format!("{name}={}", item[*name]))
                .collect();
            format!("{kind} {}", members.join(" "))
        }
    }
}

/// The history in a request, one line for each text, call and output. Ids, reasoning and what the server adds for the
/// model's information differ between wires.
fn history(wire: &str, body: &str) -> Vec<String> {
    let kind = model_wire::Wire::from_name(wire).unwrap();
    let (request, _) = model_wire::read_request(kind, model(wire), body.as_bytes()).unwrap();
    let target = model_wire::Target { model: "m".into(), ..model_wire::Target::default() };
    let written =
        model_wire::write_request(model_wire::Wire::Responses, &request, &target).unwrap().body;
    let written: Value = serde_json::from_str(&written).unwrap();
    let mut lines = Vec::new();
    for item in written["input"].as_array().unwrap() {
        let parts = |content: &Value| -> Vec<String> {
            let part = |part: &Value| match part["text"].as_str() {
                Some(text) => text.to_owned(),
                None => "(image)".to_owned(),
            };
            match content.as_array() {
                Some(list) => list.iter().map(part).collect(),
                None => vec![content.as_str().unwrap_or_default().to_owned()],
            }
        };
        match item["type"].as_str().unwrap_or("message") {
            "message" if matches!(item["role"].as_str(), Some("developer" | "system")) => {}
            "message" => {
                let own = |text: &String| !text.starts_with("<system-reminder>");
                let texts = parts(&item["content"]).into_iter().filter(own);
                lines.extend(texts.map(|text| format!("{}: {text}", item["role"])));
            }
            "function_call" => {
                let arguments: Value =
                    serde_json::from_str(item["arguments"].as_str().unwrap()).unwrap();
                lines.push(format!("call {} {arguments}", item["name"]));
            }
            "function_call_output" => {
                let parts = parts(&item["output"]);
                lines.extend(
                    parts
                        .into_iter()
                        .filter(|text| !text.is_empty())
                        .map(|text| format!("output {text}")),
                );
            }
            _ => {}
        }
    }
    lines
}

/// Runs the conversation. Returns the items of its turns, and the history in the last request.
async fn run(wire: &str) -> (Vec<String>, Vec<String>) {
    let env = TestEnvironment::with_responses(script()).await;
    std::fs::write(env.workspace().join("dot.png"), testkit::png(8, 8)).unwrap();
    let more = "request_max_retries = 2\nstream_max_retries = 2";
    // Models of Messages and Gemini show no reasoning that was not asked for.
    let top = "show_raw_agent_reasoning = true\nmodel_reasoning_effort = \"medium\"\n\
               model_reasoning_summary = \"detailed\"";
    configure(&env, wire, &origin(&env), top, more);
    let server = env.start();
    let mut peer = server.connect().await;
    let params = json!({ "approvalPolicy": "never", "sandbox": "danger-full-access" });
    let thread = peer.start_thread(params).await;
    let image = json!({ "type": "image", "url": testkit::png_url(8, 8) });
    let input = json!([{ "type": "text", "text": "Write notes." }, image]);
    let turn = peer.run_turn_with(json!({ "threadId": thread, "input": input })).await;
    assert_eq!(turn["status"], "completed", "{wire}: {turn}");
    let turn = peer.start_turn(&thread, "Talk.").await;
    peer.expect_where("item/agentMessage/delta", |it| it["delta"] == "Half").await;
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    assert_eq!(peer.turn_end(&turn).await["status"], "interrupted", "{wire}");
    peer.call("thread/compact/start", json!({ "threadId": thread })).await;
    peer.item("contextCompaction").await;
    peer.expect("turn/completed").await;
    let turn = peer.run_turn(&thread, "What do they hold?").await;
    assert_eq!(turn["status"], "completed", "{wire}: {turn}");
    let read = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    let turns = read["thread"]["turns"].as_array().unwrap().iter();
    // A signature of Gemini is reasoning without a text.
    let items = turns.flat_map(|turn| turn["items"].as_array().unwrap()).map(shown);
    let items = items.filter(|item| item != "reasoning ").collect();
    let root = env.root().display().to_string();
    let masked =
        |lines: Vec<String>| lines.iter().map(|line| line.replace(&root, "$ROOT")).collect();
    let last = env.model().raw_requests().pop().unwrap();
    (masked(items), masked(history(wire, &last)))
}

#[tokio::test]
async fn items_and_history_are_the_same_on_every_wire() {
    let (items, history) = run("responses").await;
    assert!(items.iter().any(|item| item.contains("imageView")), "{items:#?}");
    assert!(history.iter().any(|line| line.contains("SUMMARY")), "{history:#?}");
    assert!(
        history.iter().any(|line| line.contains("output") && line.contains("quoted")),
        "{history:#?}"
    );
    for wire in &WIRES[1..] {
        let (other_items, other_history) = run(wire).await;
        assert_eq!(other_items, items, "{wire}");
        assert_eq!(other_history, history, "{wire}");
    }
}

/// A model that answers for another one is named, of the families that the catalog knows.
#[tokio::test]
async fn a_model_that_answers_for_another_one_is_named() {
    for wire in WIRES {
        let steps = json!([{ "fault": "other_model" }, { "message": "Hello." }]);
        let env = TestEnvironment::with_responses(json!([{ "steps": steps }])).await;
        configure(&env, wire, &origin(&env), "", "");
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed", "{wire}");
        let is_named = |line: &&String| line.contains("\"model/rerouted\"");
        let named = peer.raw_lines().iter().filter(is_named).count();
        // Of `some-model` nothing is known.
        assert_eq!(named, usize::from(wire != "chat"), "{wire}");
    }
}

/// A response that ends in the middle, because a tool of the provider ran long, goes on with the next request.
#[tokio::test]
async fn a_pause_of_the_provider_goes_on() {
    use super::streams::{Answer, block, front, message_end, message_start, sse, text_block};
    let search = block(
        1,
        json!({ "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {} }),
        &[json!({ "type": "input_json_delta", "partial_json": "{\"query\":\"x\"}" })],
    );
    let events =
        [vec![message_start()], text_block(0, "I look."), search, message_end("pause_turn")]
            .concat();
    let env = TestEnvironment::with_responses(json!([says("Unused.")])).await;
    let found = super::streams::says("messages", "Found.");
    let answers = vec![Answer::stream(&sse(&events)), Answer::stream(&found)];
    let (address, left) = front(answers, &origin(&env)).await;
    configure(&env, "messages", &address, "", "");
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.run_turn(&thread, "Search.").await;
    assert_eq!(turn["status"], "completed", "{turn}");
    let read = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    assert_eq!(super::last_message(&read["thread"]["turns"][0]), "Found.");
    assert!(left.lock().unwrap().is_empty());
}
