//! `session/load`: the whole history, in order, before the answer.

use serde_json::json;
use testkit::assert_lines;

use crate::harness::{Bench, idles, patches, runs, says};

#[tokio::test]
async fn a_load_shows_the_history_before_its_answer() {
    let patch = "*** Begin Patch\n*** Add File: b.txt\n+new\n*** End Patch\n";
    let bench = Bench::new(json!([
        { "steps": [
            { "reasoning": { "summary": ["Hm."] } },
            { "function_call": { "name": "exec_command", "arguments": { "cmd": "echo hi" } } },
        ] },
        patches(patch),
        says("One."),
        says("Two."),
    ]))
    .await;
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    editor.run(&session, "First.").await;
    editor.run(&session, "Second.").await;
    let message =
        editor.update_where("agent_message_chunk", |update| update["content"]["text"] == "Two.");
    let live = message.await["messageId"].clone();

    let mut editor = bench.editor().await;
    let place = json!({ "sessionId": session, "cwd": bench.work(), "mcpServers": [] });
    let loaded = editor.call("session/load", place).await;
    assert_eq!(loaded["configOptions"][0]["id"], "mode");
    editor.update("available_commands_update").await;
    assert_lines(
        &editor.take_log(),
        r#"
        > session/load
        * user_message_chunk "First."
        * agent_thought_chunk "Hm."
        * tool_call echo hi execute completed ["```\nhi\n```"]
        * tool_call Add b.txt edit completed [diff $WORK/b.txt null -> "new\n"]
        * agent_message_chunk "One."
        * user_message_chunk "Second."
        * agent_message_chunk "Two."
        < session/load
        * available_commands_update
        "#,
    );
    let same = editor.update_where("agent_message_chunk", |update| update["messageId"] == live);
    assert_eq!(same.await["content"]["text"], "Two.", "an id stays the same");
}

#[tokio::test]
async fn a_long_history_is_read_in_pages() {
    let bench = Bench::new(json!([says("Yes."), says("Yes.")])).await;
    let mut editor = bench.editor().await;
    let mut responses = Vec::new();
    for _ in 0..35 {
        responses.push(says("Yes."));
    }
    drop(bench);
    let bench = Bench::new(json!(responses)).await;
    drop(editor);
    editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    for number in 0..35 {
        editor.run(&session, &format!("Message {number}.")).await;
    }
    let mut editor = bench.editor().await;
    let place = json!({ "sessionId": session, "cwd": bench.work(), "mcpServers": [] });
    editor.call("session/load", place).await;
    let log = editor.take_log();
    assert_eq!(log.len(), 72, "{log:?}");
    for number in 0..35 {
        assert_eq!(log[1 + 2 * number], format!("* user_message_chunk \"Message {number}.\""));
    }
}

#[tokio::test]
async fn a_session_moves_to_the_folder_that_the_client_names() {
    let bench = Bench::new(json!([says("One."), runs("pwd"), says("Two.")])).await;
    let other = bench.env.root().join("other");
    std::fs::create_dir(&other).unwrap();
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    editor.run(&session, "Go.").await;
    editor.leave().await;
    editor.ended().await.unwrap();
    let mut editor = bench.editor().await;
    let place = json!({ "sessionId": session, "cwd": other, "mcpServers": [] });
    editor.call("session/load", place).await;
    editor.run(&session, "Where?").await;
    let is_pwd = |update: &serde_json::Value| update["content"].to_string().contains("other");
    editor.update_where("tool_call_update", is_pwd).await;

    for (session, cwd, code) in [
        (&session[..], "relative", -32602),
        ("unknown", &bench.work()[..], -32002),
        ("", &bench.work()[..], -32002),
    ] {
        let place = json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
        let error = editor.refused("session/load", place).await;
        assert_eq!(error.code, code, "{error:?}");
    }
}

#[tokio::test]
async fn a_load_during_a_turn_of_another_client_shows_the_rest_as_it_comes() {
    let bench = Bench::new(json!([idles(), says("Later.")])).await;
    let mut first = bench.editor().await;
    let session = first.new_session(&bench.work()).await;
    let prompt = first.prompt(&session, "Go.").await;
    first.update("agent_message_chunk").await;

    let mut second = bench.editor().await;
    let place = json!({ "sessionId": session, "cwd": bench.work(), "mcpServers": [] });
    second.call("session/load", place).await;
    first.notify("session/cancel", json!({ "sessionId": session })).await;
    assert_eq!(first.answer_to(prompt).await.unwrap()["stopReason"], "cancelled");
    let message = second.update("agent_message_chunk").await;
    assert_eq!(message["content"]["text"], "I begin.");

    // What the first asks next, the second sees, with the question.
    assert_eq!(first.run(&session, "Once more.").await, "end_turn");
    let asked = |update: &serde_json::Value| update["content"]["text"] == "Once more.";
    second.update_where("user_message_chunk", asked).await;
    let said = |update: &serde_json::Value| update["content"]["text"] == "Later.";
    second.update_where("agent_message_chunk", said).await;
}
