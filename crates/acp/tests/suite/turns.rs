//! Turns as transcripts: what an editor receives, in order.

use serde_json::{Value, json};
use testkit::assert_lines;

use crate::harness::{Bench, patches, runs, says};

/// Runs one prompt, and compares what was received.
async fn check(responses: Value, capabilities: Value, expected: &str) {
    let bench = Bench::new(responses).await;
    std::fs::write(bench.env.workspace().join("a.txt"), "one\ntwo\nthree\n").unwrap();
    let mut editor = bench.editor_with(capabilities).await;
    let session = editor.new_session(&bench.work()).await;
    editor.run(&session, "Go.").await;
    assert_lines(&editor.take_log(), expected);
}

#[tokio::test]
async fn messages_thoughts_and_commands() {
    let responses = json!([
        { "steps": [
            { "reasoning": { "summary": ["**First**", "**Second**"], "chunk_chars": 3 } },
            { "message": { "text": "I \"look\".", "phase": "commentary", "chunk_chars": 2 } },
            { "function_call": { "name": "exec_command", "arguments": { "cmd": "cat a.txt" } } },
        ] },
        { "steps": [{ "message": { "text": "Done.", "phase": "final_answer", "chunk_chars": 1 } }] },
    ]);
    check(
        responses,
        json!({}),
        r#"
        > session/prompt
        * agent_thought_chunk "**First**\n\n**Second**"
        * agent_message_chunk "I \"look\"."
        * tool_call cat a.txt read in_progress
        * tool_call_update cat a.txt read completed ["```\none\ntwo\nthree\n```"]
        * agent_message_chunk "Done."
        < session/prompt end_turn
        "#,
    )
    .await;
}

#[tokio::test]
async fn patches_have_diffs_with_old_and_new_text() {
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+2\n three\n*** Add File: b.txt\n+new\n\
                 *** End Patch\n";
    check(
        json!([patches(patch), says("Done.")]),
        json!({}),
        r#"
        > session/prompt
        * tool_call Change a.txt, b.txt edit in_progress [diff $WORK/a.txt "one\ntwo\nthree\n" -> "one\n2\nthree\n"][diff $WORK/b.txt null -> "new\n"]
        * tool_call_update Change a.txt, b.txt edit completed [diff $WORK/a.txt "one\ntwo\nthree\n" -> "one\n2\nthree\n"][diff $WORK/b.txt null -> "new\n"]
        * agent_message_chunk "Done."
        < session/prompt end_turn
        "#,
    )
    .await;
}

#[tokio::test]
async fn plans_and_failures_of_commands() {
    let plan = json!({ "plan": [
        { "step": "Look", "status": "completed" }, { "step": "Write", "status": "in_progress" },
        { "step": "Test", "status": "pending" },
    ] });
    let plan =
        json!({ "steps": [{ "function_call": { "name": "update_plan", "arguments": plan } }] });
    check(
        json!([plan, runs("echo no; exit 3"), says("Done.")]),
        json!({}),
        r#"
        > session/prompt
        * plan "completed" "Look", "in_progress" "Write", "pending" "Test"
        * tool_call echo no; exit 3 execute in_progress
        * tool_call_update echo no; exit 3 execute failed ["```\nno\n```"]["Exit code 3"]
        * agent_message_chunk "Done."
        < session/prompt end_turn
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_turn_that_fails_is_an_error_with_its_reason() {
    let fails =
        json!({ "steps": [{ "error": { "status": 500, "code": "boom", "message": "Broken." } }] });
    let bench = Bench::new(json!([fails, says("Again.")])).await;
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    let id = editor.prompt(&session, "Go.").await;
    let error = editor.answer_to(id).await.unwrap_err();
    assert_eq!(error.code, -32603);
    assert!(error.message.contains("Broken."), "{error:?}");
    assert_eq!(editor.run(&session, "Go.").await, "end_turn", "the session goes on");
}

#[tokio::test]
async fn a_full_context_is_a_stop_reason() {
    let error = json!({ "code": "context_length_exceeded", "message": "too long" });
    let bench = Bench::new(json!([{ "steps": [{ "error": error }] }])).await;
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    assert_eq!(editor.run(&session, "Go.").await, "max_tokens");
}

#[tokio::test]
async fn usage_and_cost_are_reported() {
    let usage = json!({ "usage": { "input_tokens": 1000, "output_tokens": 234 } });
    let response = json!({ "steps": [{ "message": "Done." }, usage] });
    let bench = Bench::new(json!([response])).await;
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    editor.run(&session, "Go.").await;
    let update = editor.update("usage_update").await;
    assert_eq!(update["used"], 1234);
    assert!(update["size"].as_u64().unwrap() > 100_000, "{update}");
}

#[tokio::test]
async fn long_output_is_shown_while_the_command_runs() {
    let script = "echo begin; while [ ! -e go ]; do :; done; echo end";
    let bench = Bench::new(json!([runs(script), says("Done.")])).await;
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    let prompt = editor.prompt(&session, "Go.").await;
    let has_begun = |update: &Value| update["content"].to_string().contains("begin");
    let update = editor.update_where("tool_call_update", has_begun).await;
    assert_eq!(update.get("status"), None, "{update}");
    std::fs::write(bench.env.workspace().join("go"), "").unwrap();
    editor.answer_to(prompt).await.unwrap();
    let has_ended = |update: &Value| update["content"].to_string().contains("end\\n");
    let update = editor.update_where("tool_call_update", has_ended).await;
    assert_eq!(update["status"], "completed");
}

#[tokio::test]
async fn a_prompt_has_images_and_resources() {
    let bench = Bench::new(json!([says("Seen."), says("Seen.")])).await;
    let file = bench.env.workspace().join("open.rs");
    let uri = format!("file://{}", file.display());
    let image = testkit::png_url(2, 2);
    let data = image.split_once(',').unwrap().1;
    let prompt = json!([
        { "type": "text", "text": "Look." },
        { "type": "image", "mimeType": "image/png", "data": data },
        { "type": "resource", "resource": { "uri": "file:///x/emb.rs", "text": "EMBEDDED" } },
        { "type": "resource_link", "name": "open.rs", "uri": uri },
    ]);
    let request = |bench: &Bench| bench.env.model().raw_requests().last().unwrap().clone();

    let mut editor = bench.editor_with(json!({ "fs": { "readTextFile": true } })).await;
    let session = editor.new_session(&bench.work()).await;
    let params = json!({ "sessionId": session, "prompt": prompt });
    let id = editor.send("session/prompt", params.clone()).await;
    let asked = editor.asked("fs/read_text_file").await;
    assert_eq!(asked.params["path"], json!(file));
    editor.answer(&asked, "fs/read_text_file", json!({ "content": "UNSAVED" })).await;
    editor.answer_to(id).await.unwrap();
    let sent = request(&bench);
    for part in ["EMBEDDED", "UNSAVED", "data:image/png;base64,"] {
        assert!(sent.contains(part), "{part} in {sent}");
    }

    // Without the capability the model gets the path alone.
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    editor.call("session/prompt", json!({ "sessionId": session, "prompt": prompt })).await;
    let sent = request(&bench);
    assert!(sent.contains("open.rs") && !sent.contains("UNSAVED"), "{sent}");
}

#[tokio::test]
async fn commands_of_the_program_and_skills() {
    let bench = Bench::new(json!([says("Hello."), says("Checked."), says("Linted.")])).await;
    let skill = bench.env.home().join("skills/lint");
    std::fs::create_dir_all(&skill).unwrap();
    let text = "---\nname: lint\ndescription: Lints the code.\n---\nLint it.\n";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    let mut editor = bench.editor().await;
    editor.call("session/new", json!({ "cwd": bench.work(), "mcpServers": [] })).await;
    let update = editor.update("available_commands_update").await;
    let names: Vec<&str> = update["availableCommands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|command| command["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"compact") && names.contains(&"lint"), "{names:?}");

    let session = editor.new_session(&bench.work()).await;
    assert_eq!(editor.run(&session, "Hi.").await, "end_turn");
    assert_eq!(editor.run(&session, "/rename A new title").await, "end_turn");
    assert_eq!(editor.update("session_info_update").await["title"], "A new title");
    editor.take_log();
    assert_eq!(editor.run(&session, "/review the tests").await, "end_turn");
    let log = editor.take_log().join("\n");
    assert!(log.contains("Checked."), "{log}");
    assert_eq!(editor.run(&session, "/lint src").await, "end_turn");
    let sent = bench.env.model().raw_requests().last().unwrap().clone();
    assert!(sent.contains("$lint src") && sent.contains("Lint it."), "{sent}");
    let error = editor.prompt(&session, "/undo").await;
    let error = editor.answer_to(error).await.unwrap_err();
    assert!(error.message.contains("undo"), "{error:?}");
}

#[tokio::test]
async fn a_compaction_is_a_turn() {
    let bench = Bench::new(json!([says("Hello."), says("A summary."), says("A summary.")])).await;
    let mut editor = bench.editor_with(json!({ "session": { "compaction": {} } })).await;
    let session = editor.new_session(&bench.work()).await;
    editor.run(&session, "Hi.").await;
    editor.take_log();
    assert_eq!(editor.run(&session, "/compact").await, "end_turn");
    assert_lines(
        &editor.take_log(),
        r#"
        > session/prompt
        * compaction_update "in_progress"
        * compaction_update "completed"
        < session/prompt end_turn
        "#,
    );
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    editor.run(&session, "Hi.").await;
    editor.take_log();
    editor.run(&session, "/compact").await;
    let log = editor.take_log().join("\n");
    assert!(log.contains("* tool_call_update completed"), "{log}");
}
