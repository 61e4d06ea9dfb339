//! Sessions that several clients have open, and requests that cross each other.

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::harness::{Bench, Editor, escalates, idles, runs, says};

/// An answer that is streamed word by word for a while.
fn words() -> (Value, String) {
    let words: Vec<String> = (0..40).map(|number| format!("w{number} ")).collect();
    let message = json!({ "chunks": words, "chunk_delay_ms": 100, "phase": "final_answer" });
    (json!({ "steps": [{ "message": message }] }), words.concat())
}

/// What came of the agent's messages until one ends in `end`.
async fn text_until(editor: &mut Editor, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        let chunk = editor.update("agent_message_chunk").await;
        text.push_str(chunk["content"]["text"].as_str().unwrap());
    }
    text
}

fn place(bench: &Bench, session: &str) -> Value {
    json!({ "sessionId": session, "cwd": bench.work(), "mcpServers": [] })
}

#[tokio::test]
async fn a_session_that_is_loaded_in_the_middle_of_a_message_shows_all_of_it_once() {
    let (response, whole) = words();
    let bench = Bench::new(json!([response])).await;
    let mut first = bench.editor().await;
    let session = first.new_session(&bench.work()).await;
    let prompt = first.prompt(&session, "Count.").await;
    first.update("agent_message_chunk").await;

    let mut second = bench.editor().await;
    second.call("session/load", place(&bench, &session)).await;
    let asked = second.update("user_message_chunk").await;
    assert_eq!(asked["content"]["text"], "Count.");
    let mut third = bench.editor_v2(json!({})).await;
    third.call("session/resume", json!({ "sessionId": session, "cwd": bench.work() })).await;
    first.answer_to(prompt).await.unwrap();
    assert_eq!(text_until(&mut second, "w39 ").await, whole);
    // A session that is resumed has what follows, without a gap.
    let rest = text_until(&mut third, "w39 ").await;
    assert!(whole.ends_with(&rest) && rest.len() < whole.len(), "{rest}");
    third.update_where("state_update", |update| update["state"] == "idle").await;
}

#[tokio::test]
async fn a_session_that_is_closed_while_it_is_opened_answers_both() {
    let responses: Vec<Value> = (0..35).map(|_| says("Yes.")).collect();
    let bench = Bench::new(json!(responses)).await;
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    for _ in 0..35 {
        editor.run(&session, "Go.").await;
    }
    for method in ["session/close", "session/delete"] {
        let mut editor = bench.editor().await;
        let load = editor.send("session/load", place(&bench, &session)).await;
        let again = editor.refused("session/load", place(&bench, &session)).await;
        assert!(again.message.contains("is being opened"), "{again:?}");
        editor.update("user_message_chunk").await;
        editor.call(method, json!({ "sessionId": session })).await;
        // The history may have been shown by then.
        if let Err(error) = editor.answer_to(load).await {
            assert_eq!(error.code, -32800, "{error:?}");
        }
    }
}

#[tokio::test]
async fn each_client_works_in_the_folder_that_it_named() {
    let responses = json!([runs("pwd"), says("One."), idles(), runs("pwd"), says("Two.")]);
    let bench = Bench::new(responses).await;
    let other = bench.env.root().join("other");
    std::fs::create_dir(&other).unwrap();
    let mut first = bench.editor().await;
    let session = first.new_session(&bench.work()).await;
    let mut second = bench.editor().await;
    let elsewhere = json!({ "sessionId": session, "cwd": other, "mcpServers": [] });
    // Without a turn there is nothing to load.
    assert_eq!(first.run(&session, "Where?").await, "end_turn");
    second.call("session/resume", elsewhere.clone()).await;
    let prompt = first.prompt(&session, "Wait.").await;
    let said = |update: &Value| update["content"]["text"] == "I begin.";
    first.update_where("agent_message_chunk", said).await;
    let mut third = bench.editor().await;
    let error = third.refused("session/resume", elsewhere).await;
    assert_eq!(error.code, -32602, "{error:?}");
    assert!(error.message.contains("the session works in"), "{error:?}");
    first.notify("session/cancel", json!({ "sessionId": session })).await;
    first.answer_to(prompt).await.unwrap();
    let prompt = second.prompt(&session, "And here?").await;
    second.answer_to(prompt).await.unwrap();
    let in_folder = |folder: &str| {
        let folder = format!("{folder}\n");
        move |update: &Value| {
            update["content"].to_string().contains(&*folder.escape_debug().to_string())
        }
    };
    first.update_where("tool_call_update", in_folder(&bench.work())).await;
    second.update_where("tool_call_update", in_folder(&other.display().to_string())).await;
}

#[tokio::test]
async fn a_session_that_is_resumed_keeps_what_was_chosen() {
    let bench = Bench::new(json!([says("One.")])).await;
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    editor.run(&session, "Go.").await;
    let mode = json!({ "sessionId": session, "modeId": "read-only" });
    editor.call("session/set_mode", mode).await;
    let resumed = editor.call("session/resume", place(&bench, &session)).await;
    assert_eq!(resumed["modes"]["currentModeId"], "read-only");
}

#[tokio::test]
async fn prompts_of_version_2_follow_each_other_whenever_they_come() {
    let mut responses: Vec<Value> = (0..24).map(|_| says("Yes.")).collect();
    responses.insert(0, escalates("true"));
    let bench = Bench::new(json!(responses)).await;
    let mut editor = bench.editor_v2(json!({})).await;
    let opened = editor.call("session/new", json!({ "cwd": bench.work() })).await;
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    // Before the first has begun.
    let (one, two) = (editor.prompt(&session, "One.").await, editor.prompt(&session, "Two.").await);
    let asked = editor.asked("session/request_permission").await;
    // While the turn is cancelled.
    editor.notify("session/cancel", json!({ "sessionId": session })).await;
    let three = editor.prompt(&session, "Three.").await;
    drop(asked);
    editor.answer_to(one).await.unwrap();
    if let Err(error) = editor.answer_to(two).await {
        assert_eq!(error.code, -32800, "{error:?}");
    }
    editor.answer_to(three).await.unwrap();
    // About when a turn ends.
    for number in 0..10 {
        let prompt = editor.prompt(&session, &format!("Message {number}.")).await;
        editor.answer_to(prompt).await.unwrap();
    }
}

#[tokio::test]
async fn a_failed_request_is_told_to_every_client() {
    let cut = json!({ "steps": [{ "message": { "chunks": ["Half"] } }, { "cut": "data: {\"ty" }] });
    let mut env = TestEnvironment::with_responses(json!([cut, says("Whole.")])).await;
    env.config_overrides.push("model_providers.scripted.stream_max_retries=1".to_owned());
    let bench = Bench::of(env);
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    assert_eq!(editor.run(&session, "Go.").await, "end_turn");
    let warned = |update: &Value| {
        let title = update["title"].as_str().unwrap_or_default();
        title.starts_with("Warning: The request to the model failed and is repeated")
    };
    // It is no word of the agent.
    let call = editor.update_where("tool_call", warned).await;
    assert_eq!((&call["status"], &call["kind"]), (&json!("completed"), &json!("other")));
}
