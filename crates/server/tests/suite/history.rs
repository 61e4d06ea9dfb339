//! Requests to the model: settings that persist and one that does not, and a history whose
//! beginning never changes, not even after a restart of the server.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::{patches, runs, says};

fn turn(thread: &str, more: Value) -> Value {
    let mut params = json!({ "threadId": thread, "input": [{ "type": "text", "text": "Go." }] });
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    params
}

/// The input items of each request, unchanged.
fn inputs(env: &TestEnvironment) -> Vec<Vec<String>> {
    let requests = env.model().raw_requests();
    let input = |body: &String| {
        let body: BTreeMap<String, Box<RawValue>> = serde_json::from_str(body).unwrap();
        let items: Vec<Box<RawValue>> = serde_json::from_str(body["input"].get()).unwrap();
        items.iter().map(|item| item.get().to_owned()).collect()
    };
    requests.iter().map(input).collect()
}

fn assert_each_continues_the_one_before(env: &TestEnvironment) {
    let inputs = inputs(env);
    for (index, pair) in inputs.windows(2).enumerate() {
        assert!(pair[1].len() > pair[0].len(), "request {} adds nothing", index + 1);
        assert_eq!(pair[0], pair[1][..pair[0].len()], "request {} rewrites history", index + 1);
    }
    let requests = env.model().requests();
    for request in &requests {
        for member in ["instructions", "tools", "prompt_cache_key"] {
            assert_eq!(request[member], requests[0][member], "{member}");
        }
    }
}

#[tokio::test]
async fn overrides_stick_and_the_output_schema_does_not() {
    let env =
        TestEnvironment::with_responses(json!([says("1"), says("2"), says("3"), says("4")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    let overrides = json!({ "model": "gpt-5-mini", "effort": "low", "summary": "concise",
        "outputSchema": schema });
    for params in [json!({}), overrides, json!({})] {
        peer.run_turn_with(turn(&thread, params)).await;
    }
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let resumed = peer.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(resumed["model"], "gpt-5-mini");
    assert_eq!(resumed["reasoningEffort"], "low");
    peer.run_turn_with(turn(&thread, json!({}))).await;
    let requests = env.model().requests();
    let models: Vec<&Value> = requests.iter().map(|request| &request["model"]).collect();
    assert_eq!(models, ["gpt-5", "gpt-5-mini", "gpt-5-mini", "gpt-5-mini"]);
    for request in &requests[1..] {
        assert_eq!(request["reasoning"], json!({ "effort": "low", "summary": "concise" }));
    }
    let formats: Vec<&Value> = requests.iter().map(|request| &request["text"]["format"]).collect();
    assert_eq!(formats[1]["schema"], schema);
    assert_eq!([formats[0], formats[2], formats[3]], [&Value::Null; 3]);
}

#[tokio::test]
async fn the_sandbox_and_the_approval_policy_stick() {
    let env =
        TestEnvironment::with_responses(json!([says("1"), runs("touch made"), says("3")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread =
        peer.start_thread(json!({ "sandbox": "readOnly", "approvalPolicy": "never" })).await;
    let params = json!({ "approvalPolicy": "onRequest",
        "sandboxPolicy": { "type": "workspaceWrite", "writableRoots": [], "networkAccess": false } });
    peer.run_turn_with(turn(&thread, params)).await;
    peer.run_turn_with(turn(&thread, json!({}))).await;
    assert!(env.workspace().join("made").exists());
    let resumed = peer.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(resumed["approvalPolicy"], "onRequest");
    assert_eq!(resumed["sandbox"]["type"], "workspaceWrite");
}

#[tokio::test]
async fn the_working_folder_of_a_turn_sticks() {
    let env = TestEnvironment::with_responses(json!([says("1"), runs("pwd"), says("3")])).await;
    let below = env.workspace().join("below");
    std::fs::create_dir(&below).unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let cwd = below.display().to_string();
    peer.run_turn_with(turn(&thread, json!({ "cwd": cwd }))).await;
    peer.run_turn_with(turn(&thread, json!({}))).await;
    let item = peer.item("commandExecution").await;
    assert_eq!(item["cwd"], cwd);
    assert_eq!(item["aggregatedOutput"], format!("{cwd}\n"));
}

#[tokio::test]
async fn the_prefix_of_the_history_never_changes() {
    let env = TestEnvironment::with_responses(json!([
        runs("echo one"),
        patches("*** Add File: a.txt\n+a"),
        says("Done."),
        says("Two."),
        runs("cat a.txt"),
        says("Three."),
    ]))
    .await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({ "sandbox": "workspaceWrite" })).await;
    peer.run_turn(&thread, "First.").await;
    peer.run_turn(&thread, "Second.").await;
    server.stop().await;
    // Another day, in another process.
    env.clock.advance(86_400_000);
    let server = env.start();
    let mut peer = server.connect().await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    peer.run_turn(&thread, "Third.").await;
    assert_eq!(env.model().requests().len(), 6);
    assert_each_continues_the_one_before(&env);
}

#[tokio::test]
async fn an_interrupted_turn_stays_in_the_history_as_it_was() {
    let half = json!({ "steps": [{ "message": { "chunks": ["Half"] } }, "idle"] });
    let env = TestEnvironment::with_responses(json!([says("One."), half, says("Three.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "First.").await;
    let second = peer.start_turn(&thread, "Second.").await;
    peer.expect_where("item/agentMessage/delta", |notice| notice["delta"] == "Half").await;
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": second })).await;
    peer.run_turn(&thread, "Third.").await;
    assert_each_continues_the_one_before(&env);
    let last = inputs(&env).pop().unwrap().join("\n");
    for text in ["First.", "One.", "Second.", "Third."] {
        assert!(last.contains(text), "{text} is missing in {last}");
    }
}

#[tokio::test]
async fn a_request_is_complete() {
    let env = TestEnvironment::with_responses(json!([says("One.")])).await;
    std::fs::write(env.workspace().join("AGENTS.md"), "Be brief.\n").unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let params =
        json!({ "developerInstructions": "Speak plainly.", "baseInstructions": "Be good." });
    let thread = peer.start_thread(params).await;
    let image = json!({ "type": "image", "url": testkit::png_url(2, 2) });
    let input = json!([{ "type": "text", "text": "Look." }, image]);
    peer.run_turn_with(json!({ "threadId": thread, "input": input })).await;
    let request = env.model().requests().remove(0);
    assert_eq!(request["model"], "gpt-5");
    assert_eq!(request["instructions"], "Be good.");
    assert_eq!(request["stream"], true);
    assert_eq!(request["store"], false);
    assert_eq!(request["tool_choice"], "auto");
    assert_eq!(request["prompt_cache_key"], thread);
    assert_eq!(request["include"], json!(["reasoning.encrypted_content"]));
    let tools = request["tools"].as_array().unwrap().iter();
    let names: Vec<&Value> = tools.filter_map(|tool| tool.get("name")).collect();
    assert_eq!(
        names,
        [
            "exec_command",
            "write_stdin",
            "update_plan",
            "apply_patch",
            "view_image",
            "request_user_input",
            "request_permissions",
            "spawn_agent",
            "send_input",
            "resume_agent",
            "wait_agent",
            "close_agent",
            "spawn_agents_on_csv"
        ]
    );
    let search = json!({ "type": "web_search", "external_web_access": false });
    assert_eq!(request["tools"].as_array().unwrap().last(), Some(&search));
    let whole = request["input"].to_string();
    let cwd = env.workspace().display().to_string();
    for text in
        ["Speak plainly.", "Be brief.", "2026-01-01", "Etc/UTC", "Look.", "png;base64,iVBOR", &cwd]
    {
        assert!(whole.contains(text), "{text} is missing in {whole}");
    }
}

#[tokio::test]
async fn an_image_file_of_the_user_is_read_when_the_turn_starts() {
    let env = TestEnvironment::with_responses(json!([says("Nice.")])).await;
    let path = env.root().join("picture.jpg");
    // The contents count, not the name.
    std::fs::write(&path, testkit::png(2, 2)).unwrap();
    let path = path.display().to_string();
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let input = json!([{ "type": "localImage", "path": path }]);
    peer.run_turn_with(json!({ "threadId": thread, "input": input })).await;
    assert_eq!(peer.item("userMessage").await["content"], input);
    let request = env.model().requests()[0]["input"].to_string();
    assert!(request.contains("data:image/png;base64,iVBOR"), "{request}");
}
