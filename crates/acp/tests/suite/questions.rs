//! Approvals as permissions, questions as elicitations.

use serde_json::{Value, json};
use testkit::assert_lines;

use crate::harness::{Bench, escalates, patches, says};

const PERMISSION: &str = "session/request_permission";
const ELICITATION: &str = "elicitation/create";

#[tokio::test]
async fn a_permission_shows_the_whole_command_and_its_answer_counts() {
    let command = format!("touch made; : {}", "x".repeat(5000));
    for (option, made, end) in [
        ("accept", true, "end_turn"),
        ("decline", false, "end_turn"),
        ("cancel", false, "cancelled"),
    ] {
        let bench = Bench::new(json!([escalates(&command), says("Done.")])).await;
        let mut editor = bench.editor().await;
        let session = editor.new_session(&bench.work()).await;
        let prompt = editor.prompt(&session, "Go.").await;
        let asked = editor.asked(PERMISSION).await;
        let call = &asked.params["toolCall"];
        assert_eq!(call["title"], json!(command));
        assert_eq!(call["rawInput"]["command"], json!(command));
        let text = call["content"][0]["content"]["text"].as_str().unwrap();
        for part in [&command[..], &format!("Folder: {}", bench.work()), "Reason: to make it"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let started = editor.update("tool_call").await;
        assert_eq!(started["toolCallId"], call["toolCallId"]);
        editor.choose(&asked, option).await;
        assert_eq!(editor.answer_to(prompt).await.unwrap()["stopReason"], end, "{option}");
        assert_eq!(bench.env.workspace().join("made").exists(), made, "{option}");
    }
}

#[tokio::test]
async fn an_approval_for_the_session_is_remembered() {
    let bench =
        Bench::new(json!([escalates("touch made"), escalates("touch made"), says("Done.")])).await;
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    let prompt = editor.prompt(&session, "Go.").await;
    let asked = editor.asked(PERMISSION).await;
    editor.choose(&asked, "acceptForSession").await;
    assert_eq!(editor.answer_to(prompt).await.unwrap()["stopReason"], "end_turn");
    let asked: Vec<String> =
        editor.take_log().into_iter().filter(|line| line.starts_with('?')).collect();
    assert_eq!(asked.len(), 1, "{asked:?}");
}

#[tokio::test]
async fn a_change_of_files_is_asked_about_with_its_diff() {
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n+new\n*** End Patch\n";
    let bench = Bench::new(json!([patches(patch), says("Done.")])).await;
    let file = bench.env.workspace().join("a.txt");
    std::fs::write(&file, "old\n").unwrap();
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    editor.call("session/set_mode", json!({ "sessionId": session, "modeId": "read-only" })).await;
    editor.update("config_option_update").await;
    editor.take_log();
    let prompt = editor.prompt(&session, "Go.").await;
    let asked = editor.asked(PERMISSION).await;
    let content = &asked.params["toolCall"]["content"];
    let diff = content.as_array().unwrap().iter().find(|it| it["type"] == "diff").unwrap();
    assert_eq!((&diff["oldText"], &diff["newText"]), (&json!("old\n"), &json!("new\n")));
    assert_eq!(diff["path"], json!(file));
    editor.choose(&asked, "accept").await;
    editor.answer_to(prompt).await.unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "new\n");
    assert_lines(
        &editor.take_log(),
        r#"
        > session/prompt
        * tool_call Change a.txt edit in_progress [diff $WORK/a.txt "old\n" -> "new\n"]
        ? session/request_permission "Change a.txt" accept,acceptForSession,decline,cancel
        * tool_call_update Change a.txt edit in_progress [diff $WORK/a.txt "old\n" -> "new\n"]
        * tool_call_update Change a.txt edit completed [diff $WORK/a.txt "old\n" -> "new\n"]
        * agent_message_chunk "Done."
        < session/prompt end_turn
        "#,
    );
}

#[tokio::test]
async fn an_answer_that_is_no_consent_declines() {
    let answers = [
        json!({ "result": { "outcome": { "outcome": "selected", "optionId": "yes-to-all" } } }),
        json!({ "error": { "code": -32601, "message": "no" } }),
        json!({ "result": { "surprise": true } }),
        json!({ "result": {}, "error": { "code": 1, "message": "both" } }),
        json!({}),
    ];
    for answer in answers {
        let bench = Bench::new(json!([escalates("touch made"), says("Done.")])).await;
        let mut editor = bench.editor().await;
        let session = editor.new_session(&bench.work()).await;
        let prompt = editor.prompt(&session, "Go.").await;
        let asked = editor.asked(PERMISSION).await;
        let mut message = json!({ "jsonrpc": "2.0", "id": asked.id });
        message.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
        editor.send_line(message.to_string().as_bytes()).await;
        assert_eq!(editor.answer_to(prompt).await.unwrap()["stopReason"], "end_turn", "{answer}");
        assert!(!bench.env.workspace().join("made").exists(), "{answer}");
    }
}

fn asks_user(is_other: bool) -> Value {
    let options = json!([{ "label": "SQLite", "description": "A file." }, { "label": "Postgres", "description": "A server." }]);
    let question = json!({
        "id": "db", "header": "Database", "question": "Which one?", "isOther": is_other, "options": options,
    });
    let arguments = json!({ "questions": [question] });
    json!({ "steps": [{ "function_call": { "name": "request_user_input", "arguments": arguments } }] })
}

async fn question_bench() -> Bench {
    let responses = json!({ "responses": [asks_user(false), says("Done.")] });
    let mut env = testkit::TestEnvironment::with_script(&responses).await;
    env.config_overrides.push("features.default_mode_request_user_input=true".to_owned());
    Bench::of(env)
}

#[tokio::test]
async fn a_question_of_the_agent_is_a_form() {
    let bench = question_bench().await;
    let mut editor = bench.editor_with(json!({ "elicitation": { "form": {} } })).await;
    let session = editor.new_session(&bench.work()).await;
    let prompt = editor.prompt(&session, "Go.").await;
    let asked = editor.asked(ELICITATION).await;
    assert_eq!(
        (&asked.params["mode"], &asked.params["sessionId"]),
        (&json!("form"), &json!(session))
    );
    let field = &asked.params["requestedSchema"]["properties"]["db"];
    assert_eq!(field["title"], "Database");
    let answer = json!({ "action": "accept", "content": { "db": "SQLite" } });
    editor.answer(&asked, ELICITATION, answer).await;
    assert_eq!(editor.answer_to(prompt).await.unwrap()["stopReason"], "end_turn");
    let sent = bench.env.model().raw_requests().pop().unwrap();
    assert!(sent.contains("SQLite"), "{sent}");
}

#[tokio::test]
async fn without_forms_a_question_is_skipped_and_the_client_told() {
    let bench = question_bench().await;
    let mut editor = bench.editor_with(json!({ "session": { "notices": {} } })).await;
    let session = editor.new_session(&bench.work()).await;
    assert_eq!(editor.run(&session, "Go.").await, "end_turn");
    let notice = editor.update("notice").await;
    assert_eq!(notice["title"], "A question of the agent was skipped");
    // The model gets the sentence that it gets where no client can ask.
    let sent = bench.env.model().raw_requests().pop().unwrap();
    let why =
        "not answered: the client cannot ask the user (this client shows no forms of elicitations)";
    assert!(sent.contains(why) && sent.contains("decide yourself"), "{sent}");
}

#[tokio::test]
async fn a_form_that_the_editor_fails_to_show_leaves_the_question_to_the_model() {
    let bench = question_bench().await;
    let mut editor = bench.editor_with(json!({ "elicitation": { "form": {} } })).await;
    let session = editor.new_session(&bench.work()).await;
    let prompt = editor.prompt(&session, "Go.").await;
    let asked = editor.asked(ELICITATION).await;
    let error = json!({ "code": -32603, "message": "no window" });
    let message = json!({ "jsonrpc": "2.0", "id": asked.id, "error": error });
    editor.send_line(message.to_string().as_bytes()).await;
    assert_eq!(editor.answer_to(prompt).await.unwrap()["stopReason"], "end_turn");
    let sent = bench.env.model().raw_requests().pop().unwrap();
    assert!(sent.contains("not answered: the client cannot ask the user"), "{sent}");
}
