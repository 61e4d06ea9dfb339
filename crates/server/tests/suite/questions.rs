//! Questions of the model to the user (experimental; specification: User input): who is asked,
//! which answers count, and what the model learns without an answer.

use serde_json::{Value, json};
use testkit::{Peer, ReceivedRequest, TestEnvironment, TestServer, assert_lines};

use crate::{calls, says, tool_outputs};

const ASKS: &str = "item/tool/requestUserInput";

fn experimental() -> Value {
    json!({ "experimentalApi": true })
}

fn question(changes: Value) -> Value {
    let mut question = json!({ "id": "db", "header": "Database", "question": "Which one?",
        "options": [{ "label": "SQLite", "description": "A file." },
            { "label": "Redis\u{202e}", "description": "A server." }] });
    for (member, value) in changes.as_object().unwrap() {
        question[member] = value.clone();
    }
    question
}

async fn asking(questions: &[Value]) -> TestEnvironment {
    let call = calls("request_user_input", json!({ "questions": questions }));
    TestEnvironment::with_responses(json!([call, says("Done.")])).await
}

async fn open(server: &TestServer) -> (Peer, String) {
    let mut peer = server.connect_with(experimental()).await;
    let thread = peer.start_thread(json!({ "approvalPolicy": "on-request" })).await;
    peer.forget();
    (peer, thread)
}

async fn join(server: &TestServer, thread: &str) -> Peer {
    let mut peer = server.connect_with(experimental()).await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    peer
}

async fn answer(peer: &mut Peer, asked: &ReceivedRequest, answers: Value) {
    peer.answer(asked, json!({ "answers": answers })).await;
}

#[tokio::test]
async fn the_user_is_asked_and_the_model_gets_the_answer() {
    let env = asking(&[question(json!({}))]).await;
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(ASKS).await;
    assert_eq!(
        asked.params["questions"],
        json!([{ "id": "db", "header": "Database", "question": "Which one?", "isOther": false,
            "isSecret": false, "options": [{ "label": "SQLite", "description": "A file." },
                { "label": "Redis\\u{202e}", "description": "A server." }] }])
    );
    answer(&mut peer, &asked, json!({ "db": { "answers": ["Redis\\u{202e}"] } })).await;
    peer.turn_end(&turn).await;
    peer.expect_where("thread/status/changed", |notice| notice["status"]["type"] == "idle").await;
    assert_lines(
        peer.transcript(),
        r#"
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Go."
        * item/completed item1 userMessage "Go."
        * item/started item2 dynamicToolCall
        * thread/status/changed active waitingOnUserInput
        ? item/tool/requestUserInput item2
        > answer {"answers":{"db":{"answers":["Redis\\u{202e}"]}}}
        * serverRequest/resolved
        * item/completed item2 dynamicToolCall
        * thread/status/changed active
        * item/started item3 agentMessage ""
        * item/agentMessage/delta item3 "Done."
        * item/completed item3 agentMessage "Done."
        * turn/completed turn1 completed
        * thread/status/changed idle
        "#,
    );
    let answers = "{\"answers\":{\"db\":{\"answers\":[\"Redis\u{202e}\"]}}}";
    assert_eq!(tool_outputs(&env), [answers]);
}

#[tokio::test]
async fn the_first_answer_that_fits_counts_and_the_others_learn_of_it() {
    let env = asking(&[question(json!({}))]).await;
    let server = env.start();
    let (mut first, thread) = open(&server).await;
    let mut second = join(&server, &thread).await;
    let mut plain = server.connect().await;
    plain.call("thread/resume", json!({ "threadId": thread })).await;
    let turn = first.start_turn(&thread, "Go.").await;
    let asked = first.asked(ASKS).await;
    assert_eq!(second.asked(ASKS).await.id, asked.id);
    // A client that joins later is asked too.
    let mut third = join(&server, &thread).await;
    assert_eq!(third.asked(ASKS).await.id, asked.id);
    answer(&mut first, &asked, json!({ "db": { "answers": ["Oracle"] } })).await;
    let warning = first.expect("warning").await["message"].as_str().unwrap().to_owned();
    for part in [ASKS, "question `db` is not one of its options", "The request stays open"] {
        assert!(warning.contains(part), "{part} in {warning}");
    }
    answer(&mut second, &asked, json!({ "db": { "answers": ["SQLite"] } })).await;
    for peer in [&mut first, &mut second, &mut third] {
        let resolved = peer.expect("serverRequest/resolved").await;
        assert_eq!(resolved["requestId"], asked.id);
    }
    // An answer after that is ignored.
    answer(&mut third, &asked, json!({ "db": { "answers": ["Redis"] } })).await;
    assert_eq!(third.turn_end(&turn).await["status"], "completed");
    third.settled().await;
    assert!(!third.raw_lines().iter().any(|line| line.contains("\"warning\"")));
    assert_eq!(tool_outputs(&env), [r#"{"answers":{"db":{"answers":["SQLite"]}}}"#]);
    plain.turn_end(&turn).await;
    let is_about = |line: &String| line.contains(ASKS) || line.contains("serverRequest/resolved");
    let seen = plain.raw_lines().iter().any(is_about);
    assert!(!seen, "a client without the capability is not asked, and learns of no answer");
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_refused_to_its_sender() {
    let long = "x".repeat(65_537);
    for (answers, why) in [
        (json!({ "answers": { "db": { "answers": ["Oracle"] } } }), "not one of its options"),
        (json!({ "answers": { "dB": { "answers": [] } } }), "no question `dB`"),
        (json!({ "answers": { "db": { "answers": "SQLite" } } }), "invalid type"),
        (json!({ "answers": { "db": "SQLite" } }), "invalid type"),
        (json!({ "answers": {}, "zork": 1 }), "unknown member `zork`"),
        (
            json!({ "answers": { "db": { "answers": ["SQLite"], "note": "x" } } }),
            "unknown member `note`",
        ),
        (json!({ "answers": ["SQLite"] }), "invalid type"),
        (json!({ "answers": null }), "invalid type"),
        (json!({ "answer": {} }), "answers"),
        (json!("SQLite"), "not an object"),
        (json!({ "answers": { "db": { "answers": [long] } } }), "longer than 65536"),
    ] {
        let env = asking(&[question(json!({}))]).await;
        let server = env.start();
        let (mut peer, thread) = open(&server).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let asked = peer.asked(ASKS).await;
        peer.answer(&asked, answers).await;
        let warning = peer.expect("warning").await["message"].as_str().unwrap().to_owned();
        assert!(warning.contains(why) && warning.contains("the model gets no answer"), "{warning}");
        assert_eq!(peer.item("dynamicToolCall").await["status"], "failed");
        assert_eq!(peer.turn_end(&turn).await["status"], "completed");
        let output = &tool_outputs(&env)[0];
        assert!(output.starts_with("not answered: ") && output.contains(why), "{output}");
    }
}

#[tokio::test]
async fn a_client_that_does_not_know_the_request_leaves_it_to_the_others() {
    for another_answers in [true, false] {
        let env = asking(&[question(json!({}))]).await;
        let server = env.start();
        let (mut peer, thread) = open(&server).await;
        let mut other = if another_answers { Some(join(&server, &thread).await) } else { None };
        let turn = peer.start_turn(&thread, "Go.").await;
        let asked = peer.asked(ASKS).await;
        let error = json!({ "code": -32601, "message": "Method not found" });
        peer.send_line(json!({ "id": asked.id, "error": error }).to_string().as_bytes()).await;
        let expected = match &mut other {
            Some(other) => {
                let asked = other.asked(ASKS).await;
                answer(other, &asked, json!({ "db": { "answers": ["SQLite"] } })).await;
                "SQLite"
            }
            None => {
                "not answered: the client cannot ask the user (Method not found); decide yourself"
            }
        };
        assert_eq!(peer.turn_end(&turn).await["status"], "completed");
        let output = &tool_outputs(&env)[0];
        assert!(output.contains(expected), "{output}");
        let warned = peer.raw_lines().iter().any(|line| line.contains("\"warning\""));
        assert!(!warned, "a client that handles no such requests knows it");
    }
}

#[tokio::test]
async fn without_a_client_that_can_answer_the_model_learns_it_at_once() {
    let env = asking(&[question(json!({}))]).await;
    let server = env.start();
    let mut plain = server.connect().await;
    let thread = plain.start_thread(json!({ "approvalPolicy": "on-request" })).await;
    plain.run_turn(&thread, "Go.").await;
    let output = &tool_outputs(&env)[0];
    assert!(output.contains("no client that can answer is connected"), "{output}");
}

#[tokio::test]
async fn under_never_only_an_unattended_run_answers_itself() {
    let plan = json!({ "mode": "plan", "settings": { "model": "gpt-5" } });
    for (attended, mode) in
        [(true, None), (true, Some(plan.clone())), (false, None), (false, Some(plan))]
    {
        let env = asking(&[question(json!({}))]).await;
        let server = env.start();
        let capabilities = if attended { experimental() } else { json!({}) };
        let mut peer = server.connect_with(capabilities).await;
        let thread = peer.start_thread(json!({ "approvalPolicy": "never" })).await;
        let mut params =
            json!({ "threadId": thread, "input": [{ "type": "text", "text": "Go." }] });
        if let Some(mode) = mode {
            params["collaborationMode"] = mode;
        }
        let started = peer.call("turn/start", params).await;
        if attended {
            let asked = peer.asked(ASKS).await;
            let id = asked.params["questions"][0]["id"].as_str().unwrap().to_owned();
            peer.answer(&asked, json!({ "answers": { id: { "answers": ["SQLite"] } } })).await;
        }
        peer.turn_end(started["turn"]["id"].as_str().unwrap()).await;
        let output = &tool_outputs(&env)[0];
        let expected = if attended { "SQLite" } else { "no client that can answer is connected" };
        assert!(output.contains(expected), "{output}");
    }
}

#[tokio::test]
async fn a_question_waits_a_while_for_a_client_that_left() {
    for returns in [true, false] {
        let mut env = asking(&[question(json!({}))]).await;
        // The scripted model's idle connections do not survive the jump in time.
        env.config_overrides.push("model_providers.scripted.request_max_retries=3".to_owned());
        let server = env.start();
        let (mut peer, thread) = open(&server).await;
        let mut plain = server.connect().await;
        plain.call("thread/resume", json!({ "threadId": thread })).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let asked = peer.asked(ASKS).await;
        peer.call("thread/unsubscribe", json!({ "threadId": thread })).await;
        drop(peer);
        let mut back = if returns { Some(join(&server, &thread).await) } else { None };
        tokio::time::pause();
        tokio::time::advance(std::time::Duration::from_secs(31)).await;
        tokio::time::resume();
        let expected = match &mut back {
            Some(peer) => {
                assert_eq!(peer.asked(ASKS).await.id, asked.id);
                answer(peer, &asked, json!({})).await;
                r#"{"answers":{"db":{"answers":[]}}}"#
            }
            None => "every client that could answer has disconnected",
        };
        let ended = plain.turn_end(&turn).await;
        assert_eq!(ended["status"], "completed", "{ended}");
        let output = &tool_outputs(&env)[0];
        assert!(output.contains(expected), "{output}");
    }
}

#[tokio::test]
async fn an_interruption_withdraws_the_question() {
    let env = asking(&[question(json!({}))]).await;
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(ASKS).await;
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    assert_eq!(peer.expect("serverRequest/resolved").await["requestId"], asked.id);
    assert_eq!(peer.turn_end(&turn).await["status"], "interrupted");
    // An answer to a question that was withdrawn is ignored, as one to an approval is.
    answer(&mut peer, &asked, json!({ "db": { "answers": ["SQLite"] } })).await;
    peer.run_turn(&thread, "Again.").await;
    assert_eq!(tool_outputs(&env), ["not answered: the turn was interrupted"]);
}

#[tokio::test]
async fn a_secret_answer_reaches_the_model_and_is_stored_nowhere() {
    const SECRET: &str = "hunter2-the-secret";
    let secret = question(json!({ "id": "token", "options": null, "isSecret": true }));
    let env = asking(&[secret]).await;
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    let mut bad = join(&server, &thread).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(ASKS).await;
    bad.asked(ASKS).await;
    assert_eq!(asked.params["questions"][0]["isSecret"], true);
    answer(&mut bad, &asked, json!({ "token": SECRET })).await;
    let warning = bad.expect("warning").await["message"].as_str().unwrap().to_owned();
    assert!(!warning.contains(SECRET), "{warning}");
    answer(&mut peer, &asked, json!({ "token": { "answers": [SECRET] } })).await;
    let item = peer.item("dynamicToolCall").await;
    assert!(item["contentItems"][0]["text"].as_str().unwrap().contains("[secret, not stored]"));
    peer.turn_end(&turn).await;
    assert!(tool_outputs(&env)[0].contains(SECRET), "the model gets it");
    peer.run_turn(&thread, "Again.").await;
    assert!(tool_outputs(&env)[0].contains(SECRET), "also in the next turn");
    server.stop().await;
    let mut files = vec![env.home().to_owned()];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        let found = bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
        assert!(!found, "{} holds the secret", path.display());
    }
    let server = env.start();
    let mut peer = join(&server, &thread).await;
    peer.run_turn(&thread, "Once more.").await;
    assert!(tool_outputs(&env)[0].contains("[secret, not stored]"));
}
