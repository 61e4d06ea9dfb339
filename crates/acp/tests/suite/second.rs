//! Version 2 of the protocol: prompts that are answered when their message stands in the conversation, states,
//! patches, and what is left of version 1.

use serde_json::{Value, json};
use testkit::assert_lines;

use crate::harness::{Bench, Editor, escalates, idles, patches, says};

const PERMISSION: &str = "session/request_permission";
const STATE: &str = "state_update";

async fn session(bench: &Bench, editor: &mut Editor) -> String {
    let opened = editor.call("session/new", json!({ "cwd": bench.work() })).await;
    editor.update("available_commands_update").await;
    editor.take_log();
    opened["sessionId"].as_str().unwrap().to_owned()
}

/// The next state that is not `running`.
async fn rest(editor: &mut Editor) -> Value {
    editor.update_where(STATE, |update| update["state"] != "running").await
}

async fn idle(editor: &mut Editor) -> Value {
    editor.update_where(STATE, |update| update["state"] == "idle").await
}

#[tokio::test]
async fn a_turn_with_a_permission_a_plan_and_a_patch() {
    let plan = json!({ "plan": [{ "step": "Look", "status": "in_progress" }] });
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+2\n*** End Patch\n";
    let bench = Bench::new(json!([
        { "steps": [{ "function_call": { "name": "update_plan", "arguments": plan } }] },
        escalates("touch made"),
        patches(patch),
        says("Done."),
    ]))
    .await;
    std::fs::write(bench.env.workspace().join("a.txt"), "one\ntwo\n").unwrap();
    let mut editor = bench.editor_v2(json!({})).await;
    let session = session(&bench, &mut editor).await;
    let prompt = editor.prompt(&session, "Go.").await;
    let message = editor.answer_to(prompt).await.unwrap()["messageId"].clone();
    let asked = editor.asked(PERMISSION).await;
    assert_eq!(rest(&mut editor).await["state"], "requires_action");
    let description = asked.params["description"].as_str().unwrap();
    assert!(description.contains("touch made") && description.contains("to make it"));
    assert_eq!(asked.params["subject"]["toolCall"]["status"], "pending");
    editor.choose(&asked, "accept").await;
    assert_eq!(idle(&mut editor).await["stopReason"], "end_turn");
    let shown = editor.update("user_message_chunk").await;
    assert_eq!(shown["messageId"], message);
    assert_lines(
        &editor.take_log(),
        r#"
        > session/prompt
        * state_update running
        < session/prompt
        * user_message_chunk "Go."
        * plan_update "in_progress" "Look"
        * tool_call_update touch made execute pending
        ? session/request_permission "touch made" accept,acceptForSession,acceptWithPrefix,decline,cancel
        * state_update requires_action
        * state_update running
        * tool_call_update touch made execute in_progress
        * tool_call_update touch made execute completed
        * tool_call_update Change a.txt edit in_progress [diff [{"operation":"modify","path":"$WORK/a.txt"}] "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"]
        * tool_call_update Change a.txt edit completed [diff [{"operation":"modify","path":"$WORK/a.txt"}] "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"]
        * agent_message_chunk "Done."
        * state_update idle end_turn
        "#,
    );
}

/// A second prompt goes to the turn that runs, and both have messages of their own.
#[tokio::test]
async fn a_prompt_during_a_turn_steers_it() {
    let bench = Bench::new(json!([escalates("touch made"), says("Both.")])).await;
    let mut editor = bench.editor_v2(json!({})).await;
    let session = session(&bench, &mut editor).await;
    let first = editor.prompt(&session, "One.").await;
    let first = editor.answer_to(first).await.unwrap();
    let asked = editor.asked(PERMISSION).await;
    let second = editor.prompt(&session, "Two.").await;
    let error = editor.prompt(&session, "/compact").await;
    let error = editor.answer_to(error).await.unwrap_err();
    assert!(error.message.contains("a turn of this session is running"), "{error:?}");
    editor.choose(&asked, "accept").await;
    let second = editor.answer_to(second).await.unwrap();
    assert_ne!(first["messageId"], second["messageId"]);
    assert_eq!(idle(&mut editor).await["stopReason"], "end_turn");
    for (text, answer) in [("One.", first), ("Two.", second)] {
        let is_it = |update: &Value| update["content"]["text"] == text;
        let shown = editor.update_where("user_message_chunk", is_it).await;
        assert_eq!(shown["messageId"], answer["messageId"]);
    }
}

#[tokio::test]
async fn a_cancellation_ends_the_turn_and_what_was_not_inserted() {
    let bench = Bench::new(json!([escalates("touch made"), says("Again.")])).await;
    let mut editor = bench.editor_v2(json!({})).await;
    let session = session(&bench, &mut editor).await;
    let first = editor.prompt(&session, "One.").await;
    editor.answer_to(first).await.unwrap();
    editor.asked(PERMISSION).await;
    let second = editor.prompt(&session, "Two.").await;
    editor.notify("session/cancel", json!({ "sessionId": session })).await;
    // It may stand in the conversation before the cancellation arrives.
    match editor.answer_to(second).await {
        Ok(inserted) => assert!(inserted["messageId"].is_string(), "{inserted}"),
        Err(error) => assert_eq!(error.code, -32800, "{error:?}"),
    }
    assert_eq!(idle(&mut editor).await["stopReason"], "cancelled");
    let prompt = editor.prompt(&session, "Go.").await;
    editor.answer_to(prompt).await.unwrap();
    assert_eq!(idle(&mut editor).await["stopReason"], "end_turn");
    assert!(!bench.env.workspace().join("made").exists());
}

#[tokio::test]
async fn a_failure_is_the_reason_of_an_idle_session() {
    let fails =
        json!({ "steps": [{ "error": { "status": 500, "code": "boom", "message": "Broken." } }] });
    let bench = Bench::new(json!([fails, says("Again.")])).await;
    let mut editor = bench.editor_v2(json!({})).await;
    let session = session(&bench, &mut editor).await;
    let prompt = editor.prompt(&session, "Go.").await;
    editor.answer_to(prompt).await.unwrap();
    let ended = idle(&mut editor).await;
    assert_eq!(ended["stopReason"], "error");
    assert!(ended["error"]["message"].as_str().unwrap().contains("Broken."), "{ended}");
}

/// A prompt that the server refuses has no message.
#[tokio::test]
async fn a_turn_that_cannot_begin_refuses_its_prompt() {
    let bench = Bench::new(json!([says("Never.")])).await;
    let mut editor = bench.editor_v2(json!({})).await;
    let session = session(&bench, &mut editor).await;
    let params = json!({ "sessionId": session, "prompt": [{ "type": "audio", "data": "", "mimeType": "audio/wav" }] });
    let error = editor.refused("session/prompt", params).await;
    assert!(error.code == -32602 && error.message.contains("no audio"), "{error:?}");
    let mut other = bench.editor_v2(json!({})).await;
    other.call("session/delete", json!({ "sessionId": session })).await;
    // It is closed here then, or the server does not know it.
    let error = editor.prompt(&session, "Go.").await;
    assert_eq!(editor.answer_to(error).await.unwrap_err().code, -32002);
}

#[tokio::test]
async fn commands_are_messages_without_a_turn_of_the_model() {
    let bench = Bench::new(json!([says("Yes.")])).await;
    let mut editor = bench.editor_v2(json!({})).await;
    let session = session(&bench, &mut editor).await;
    let prompt = editor.prompt(&session, "/rename Better").await;
    let answer = editor.answer_to(prompt).await.unwrap();
    assert_eq!(editor.update("user_message_chunk").await["messageId"], answer["messageId"]);
    assert_eq!(idle(&mut editor).await["stopReason"], "end_turn");
    assert_eq!(editor.update("session_info_update").await["title"], "Better");
}

#[tokio::test]
async fn a_resumed_session_tells_its_state_before_the_answer() {
    let bench = Bench::new(json!([says("One."), idles()])).await;
    let mut first = bench.editor_v2(json!({})).await;
    let session = session(&bench, &mut first).await;
    let prompt = first.prompt(&session, "Go.").await;
    first.answer_to(prompt).await.unwrap();
    idle(&mut first).await;

    let place = json!({ "sessionId": session, "cwd": bench.work() });
    let mut replayed = place.clone();
    replayed["replayFrom"] = json!({ "type": "start" });
    let mut second = bench.editor_v2(json!({})).await;
    let resumed = second.call("session/resume", replayed.clone()).await;
    assert_eq!(resumed["configOptions"][0]["configId"], "mode");
    assert_lines(
        &second.take_log(),
        r#"
        > session/resume
        * user_message_chunk "Go."
        * agent_message_chunk "One."
        * state_update idle
        < session/resume
        "#,
    );
    let prompt = first.prompt(&session, "Wait.").await;
    first.answer_to(prompt).await.unwrap();
    first.update_where("agent_message_chunk", |it| it["content"]["text"] == "I begin.").await;
    // The turn of another client is seen, and can be cancelled.
    let mut third = bench.editor_v2(json!({})).await;
    third.call("session/resume", place).await;
    assert_lines(
        &third.take_log(),
        "
        > session/resume
        * state_update running
        < session/resume
        ",
    );
    third.notify("session/cancel", json!({ "sessionId": session })).await;
    assert_eq!(idle(&mut third).await["stopReason"], "cancelled");
    assert_eq!(idle(&mut first).await["stopReason"], "cancelled");

    let mut wrong = replayed;
    wrong["replayFrom"] = json!({ "type": "_middle" });
    let error = third.refused("session/resume", wrong).await;
    assert_eq!(error.code, -32602, "{error:?}");
}

#[tokio::test]
async fn sessions_are_configured_listed_closed_and_deleted() {
    let bench = Bench::new(json!([says("One.")])).await;
    let mut editor = bench.editor_v2(json!({})).await;
    let session = session(&bench, &mut editor).await;
    let choose =
        json!({ "sessionId": session, "configId": "mode", "type": "id", "value": "read-only" });
    let chosen = editor.call("session/set_config_option", choose).await;
    assert_eq!(chosen["configOptions"][0]["currentValue"], "read-only");
    let prompt = editor.prompt(&session, "Go.").await;
    editor.answer_to(prompt).await.unwrap();
    idle(&mut editor).await;
    let listed = editor.call("session/list", json!({})).await;
    assert_eq!(listed["sessions"][0]["sessionId"], session.as_str());
    editor.call("session/close", json!({ "sessionId": session })).await;
    let closed = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "Go." }] });
    assert_eq!(editor.refused("session/prompt", closed).await.code, -32002);
    editor.call("session/delete", json!({ "sessionId": session })).await;
    assert_eq!(editor.call("session/list", json!({})).await["sessions"], json!([]));
}

/// What only the other version has is unknown.
#[tokio::test]
async fn versions_are_negotiated_and_kept_apart() {
    let bench = Bench::new(json!([says("One.")])).await;
    let mut editor = bench.editor_v2(json!({ "auth": { "terminal": {} } })).await;
    for method in ["session/load", "session/set_mode", "authenticate", "logout"] {
        let id = editor.send_unchecked(method, json!({})).await;
        assert_eq!(editor.answer_to(id).await.unwrap_err().code, -32601, "{method}");
    }
    editor.call("auth/logout", json!({})).await;
    let error = editor.refused("auth/login", json!({ "methodId": "terminal" })).await;
    assert_eq!(error.code, -32602, "{error:?}");
    let mut editor = bench.editor().await;
    for method in ["auth/login", "auth/logout"] {
        let id = editor.send_unchecked(method, json!({})).await;
        assert_eq!(editor.answer_to(id).await.unwrap_err().code, -32601, "{method}");
    }
    // The latest that both know; before version 2, clients say otherwise who they are.
    let info = json!({ "name": "tests", "version": "1" });
    for (asked, spoken) in [(0, 1), (1, 1), (2, 2), (7, 2)] {
        let mut editor = bench.connect_with(None, true);
        editor.version = spoken;
        let params = json!({ "protocolVersion": asked, "info": info });
        let id = editor.send_unchecked("initialize", params).await;
        assert_eq!(editor.answer_to(id).await.unwrap()["protocolVersion"], spoken, "{asked}");
    }
}
