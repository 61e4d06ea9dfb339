//! Cancellation: of turns, requests and questions.

use serde_json::{Value, json};

use crate::harness::{Bench, escalates, idles, says};

const PERMISSION: &str = "session/request_permission";

#[tokio::test]
async fn a_cancelled_prompt_is_answered_and_the_session_goes_on() {
    let bench = Bench::new(json!([idles(), says("Again.")])).await;
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    let of = json!({ "sessionId": session });
    let prompt = editor.prompt(&session, "Go.").await;
    editor.update("agent_message_chunk").await;
    editor.notify("session/cancel", of.clone()).await;
    assert_eq!(editor.answer_to(prompt).await.unwrap()["stopReason"], "cancelled");
    // What has ended, or never was, is not cancelled again.
    editor.notify("session/cancel", of.clone()).await;
    editor.notify("session/cancel", json!({ "sessionId": "never" })).await;
    editor.notify("$/cancel_request", json!({ "requestId": prompt })).await;
    editor.notify("$/cancel_request", json!({ "requestId": "never" })).await;
    assert_eq!(editor.run(&session, "Go.").await, "end_turn");
}

#[tokio::test]
async fn a_prompt_that_has_not_begun_is_cancelled_too() {
    let bench = Bench::new(json!([idles(), says("Again.")])).await;
    let mut editor = bench.editor_with(json!({ "fs": { "readTextFile": true } })).await;
    let session = editor.new_session(&bench.work()).await;
    let of = json!({ "sessionId": session });
    // The request and its cancellation arrive together.
    let prompt = editor.prompt(&session, "Go.").await;
    editor.notify("session/cancel", of).await;
    assert_eq!(editor.answer_to(prompt).await.unwrap()["stopReason"], "cancelled");
    // Whether the model has been asked by then is open, so that the rest is another session.
    let session = editor.new_session(&bench.work()).await;
    let of = json!({ "sessionId": session });
    // The client does not answer for a file.
    let link = json!([{ "type": "resource_link", "name": "a", "uri": "file:///a" }]);
    let params = json!({ "sessionId": session, "prompt": link });
    let prompt = editor.send("session/prompt", params).await;
    let asked = editor.asked("fs/read_text_file").await;
    editor.notify("session/cancel", of).await;
    assert_eq!(editor.answer_to(prompt).await.unwrap()["stopReason"], "cancelled");
    assert_eq!(editor.notified("$/cancel_request").await["requestId"], asked.id);
    editor.answer(&asked, "fs/read_text_file", json!({ "content": "late" })).await;
    let prompt = editor.prompt(&session, "Go.").await;
    editor.update("agent_message_chunk").await;
    editor.notify("$/cancel_request", json!({ "requestId": prompt })).await;
    assert_eq!(editor.answer_to(prompt).await.unwrap()["stopReason"], "cancelled");
    assert_eq!(editor.run(&session, "Go.").await, "end_turn");
}

#[tokio::test]
async fn a_permission_that_is_never_answered_does_not_hold_a_cancellation() {
    let bench = Bench::new(json!([escalates("touch made"), says("Again.")])).await;
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    let prompt = editor.prompt(&session, "Go.").await;
    let asked = editor.asked(PERMISSION).await;
    editor.notify("session/cancel", json!({ "sessionId": session })).await;
    assert_eq!(editor.answer_to(prompt).await.unwrap()["stopReason"], "cancelled");
    assert_eq!(editor.notified("$/cancel_request").await["requestId"], asked.id);
    // A late consent changes nothing.
    editor.choose(&asked, "accept").await;
    assert_eq!(editor.run(&session, "Go.").await, "end_turn");
    assert!(!bench.env.workspace().join("made").exists());
}

#[tokio::test]
async fn a_client_that_answers_cancelled_ends_the_turn() {
    let bench = Bench::new(json!([escalates("touch made"), says("Again.")])).await;
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    let prompt = editor.prompt(&session, "Go.").await;
    let asked = editor.asked(PERMISSION).await;
    editor.notify("session/cancel", json!({ "sessionId": session })).await;
    let outcome = json!({ "outcome": { "outcome": "cancelled" } });
    editor.answer(&asked, PERMISSION, outcome).await;
    assert_eq!(editor.answer_to(prompt).await.unwrap()["stopReason"], "cancelled");
    assert!(!bench.env.workspace().join("made").exists());
}

#[tokio::test]
async fn closing_a_session_cancels_its_prompt() {
    let bench = Bench::new(json!([idles()])).await;
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    let prompt = editor.prompt(&session, "Go.").await;
    editor.update("agent_message_chunk").await;
    editor.call("session/close", json!({ "sessionId": session })).await;
    assert_eq!(editor.answer_to(prompt).await.unwrap()["stopReason"], "cancelled");
    let mut peer = bench.server.connect().await;
    let turns = json!({ "threadId": session });
    let ended = peer.call("thread/turns/list", turns).await["data"][0]["status"].clone();
    assert!(["interrupted", "inProgress"].iter().any(|status| ended == *status), "{ended}");
}

/// An editor that leaves, and one whose program is asked to end, in the middle of a turn.
#[tokio::test]
async fn an_editor_that_leaves_interrupts_its_turn() {
    for leaves in [true, false] {
        let bench = Bench::new(json!([idles()])).await;
        let mut editor = bench.editor().await;
        let session = editor.new_session(&bench.work()).await;
        editor.prompt(&session, "Go.").await;
        editor.update("agent_message_chunk").await;
        match leaves {
            true => editor.leave().await,
            false => editor.stop(),
        }
        assert_eq!(editor.ended().await, Ok(acp::Ended::Editor));
        let mut peer = bench.server.connect().await;
        let turns = peer.call("thread/turns/list", json!({ "threadId": session })).await;
        assert_eq!(turns["data"][0]["status"], "interrupted", "{turns}");
    }
}

#[tokio::test]
async fn a_server_that_ends_is_an_error_for_every_request() {
    let bench = Bench::new(json!([idles()])).await;
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    let prompt = editor.prompt(&session, "Go.").await;
    editor.update("agent_message_chunk").await;
    bench.server.server().close().await;
    let ended = editor.answer_to(prompt).await;
    match ended {
        Err(error) => assert!(error.message.contains("was lost"), "{error:?}"),
        // The interruption of the turn was first.
        Ok(result) => assert_eq!(result["stopReason"], Value::from("cancelled")),
    }
    assert_eq!(editor.ended().await, Ok(acp::Ended::ServerLost));
}

#[tokio::test]
async fn a_call_that_another_client_approves_is_no_longer_pending() {
    let bench = Bench::new(json!([escalates("touch made"), says("Done.")])).await;
    let mut first = bench.editor().await;
    let session = first.new_session(&bench.work()).await;
    let prompt = first.prompt(&session, "Go.").await;
    let asked = first.asked(PERMISSION).await;
    let mut second = bench.editor().await;
    let place = json!({ "sessionId": session, "cwd": bench.work(), "mcpServers": [] });
    second.call("session/load", place).await;
    let also_asked = second.asked(PERMISSION).await;
    first.take_log();
    second.choose(&also_asked, "accept").await;
    assert_eq!(first.notified("$/cancel_request").await["requestId"], asked.id);
    let shown = first.update("tool_call_update").await;
    assert_eq!(shown["status"], "in_progress", "{shown}");
    assert_eq!(first.answer_to(prompt).await.unwrap()["stopReason"], "end_turn");
    assert!(bench.env.workspace().join("made").exists());
}
