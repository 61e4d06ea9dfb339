//! Additional input for a running turn, and interrupts (specification: Turns and review).

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, assert_lines};

use crate::{runs, says};

const COMMAND: &str = "item/commandExecution/requestApproval";

/// A thread with a turn that waits for an approval, so that it can continue later.
async fn waiting(peer: &mut Peer) -> (String, String, testkit::ReceivedRequest) {
    let thread = peer.start_thread(json!({ "approvalPolicy": "unlessTrusted" })).await;
    peer.forget();
    let turn = peer.start_turn(&thread, "Begin.").await;
    peer.item("userMessage").await;
    let asked = peer.asked(COMMAND).await;
    (thread, turn, asked)
}

fn input(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

/// The texts of the user's messages in the last request to the model.
fn user_texts(env: &TestEnvironment) -> Vec<String> {
    let requests = env.model().requests();
    let items = requests.last().unwrap()["input"].as_array().unwrap().clone();
    let messages = items.iter().filter(|item| item["role"] == "user");
    let texts = messages.flat_map(|item| item["content"].as_array().unwrap().clone());
    let texts = texts.filter_map(|part| part["text"].as_str().map(str::to_owned));
    texts.filter(|text| !text.contains("<environment_context>")).collect()
}

#[tokio::test]
async fn steering_reaches_the_model_with_its_next_request() {
    let env = TestEnvironment::with_responses(json!([runs("touch made"), says("Done.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let (thread, turn, asked) = waiting(&mut peer).await;
    let params =
        json!({ "threadId": thread, "expectedTurnId": turn, "input": input("And quick.") });
    let steered = peer.call("turn/steer", params).await;
    assert_eq!(steered, json!({ "turnId": turn }));
    peer.item("userMessage").await;
    peer.decide(&asked, "decline").await;
    peer.turn_end(&turn).await;
    assert_eq!(user_texts(&env), ["Begin.", "And quick."]);
    assert_lines(
        peer.transcript(),
        r#"
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Begin."
        * item/completed item1 userMessage "Begin."
        * item/started item2 commandExecution inProgress "touch made"
        * thread/status/changed active waitingOnApproval
        ? item/commandExecution/requestApproval item2
        > turn/steer
        < turn/steer
        * item/started item3 userMessage "And quick."
        * item/completed item3 userMessage "And quick."
        > answer {"decision":"decline"}
        * serverRequest/resolved
        * item/completed item2 commandExecution declined "touch made"
        * thread/status/changed active
        * item/started item4 agentMessage ""
        * item/agentMessage/delta item4 "Done."
        * item/completed item4 agentMessage "Done."
        * turn/completed turn1 completed
        "#,
    );
}

#[tokio::test]
async fn steering_needs_the_active_turn() {
    let env = TestEnvironment::with_responses(json!([runs("touch made"), says("Done.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let (thread, turn, asked) = waiting(&mut peer).await;
    let steer =
        |id: &str, text: Value| json!({ "threadId": thread, "expectedTurnId": id, "input": text });
    let fault = peer.refused("turn/steer", steer("another", input("x"))).await;
    assert_eq!(fault.code, -32600);
    assert!(fault.message.contains("another") && fault.message.contains(&turn), "{fault:?}");
    let fault = peer.refused("turn/steer", steer(&turn, json!([]))).await;
    assert_eq!(fault.message, "input must not be empty");
    peer.decide(&asked, "decline").await;
    peer.turn_end(&turn).await;
    let fault = peer.refused("turn/steer", steer(&turn, input("x"))).await;
    assert_eq!(fault.message, "no active turn to steer");
    assert_eq!(user_texts(&env), ["Begin."]);
}

/// The answer is about the input of both turns: the model forgets it with the input that it follows.
#[tokio::test]
async fn a_rollback_of_a_joined_turn_drops_what_the_model_said_since() {
    let script = json!([runs("touch made"), says("To both."), says("Next.")]);
    let env = TestEnvironment::with_responses(script).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let (thread, turn, asked) = waiting(&mut peer).await;
    let joined = peer.start_turn(&thread, "Also.").await;
    peer.item("userMessage").await;
    peer.decide(&asked, "decline").await;
    peer.turn_end(&turn).await;
    peer.turn_end(&joined).await;
    let back = json!({ "threadId": thread, "numTurns": 1 });
    let rolled = peer.call("thread/rollback", back).await;
    let turns = rolled["thread"]["turns"].as_array().unwrap();
    assert_eq!(turns.iter().map(|turn| &turn["id"]).collect::<Vec<_>>(), [&json!(turn)]);
    let last = turns[0]["items"].as_array().unwrap().last().unwrap();
    assert_eq!(last["text"], "To both.", "what happened is shown");
    peer.run_turn(&thread, "Go on.").await;
    assert_eq!(user_texts(&env), ["Begin.", "Go on."]);
    let request = env.model().requests().pop().unwrap();
    let input = request["input"].as_array().unwrap();
    let of = |kind: &str| input.iter().filter(|item| item["type"] == kind).count();
    assert_eq!((of("function_call"), of("function_call_output")), (1, 1), "{request}");
    assert!(!request["input"].to_string().contains("To both."), "{request}");
}

#[tokio::test]
async fn a_turn_started_while_one_runs_joins_it() {
    let env = TestEnvironment::with_responses(json!([runs("touch made"), says("Done.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let (thread, turn, _) = waiting(&mut peer).await;
    let joined = peer.start_turn(&thread, "Also.").await;
    assert_ne!(joined, turn);
    peer.item("userMessage").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    assert_eq!(peer.turn_end(&joined).await["status"], "completed");
    assert_eq!(user_texts(&env), ["Begin.", "Also."]);
    assert_lines(
        peer.transcript(),
        r#"
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Begin."
        * item/completed item1 userMessage "Begin."
        * item/started item2 commandExecution inProgress "touch made"
        * thread/status/changed active waitingOnApproval
        ? item/commandExecution/requestApproval item2
        > turn/start
        < turn/start
        * turn/started turn2 inProgress
        * item/started item3 userMessage "Also."
        * item/completed item3 userMessage "Also."
        * serverRequest/resolved
        * item/completed item2 commandExecution declined "touch made" output "not approved: the request was withdrawn, because the user sent a new message; it follows"
        * thread/status/changed active
        * item/started item4 agentMessage ""
        * item/agentMessage/delta item4 "Done."
        * item/completed item4 agentMessage "Done."
        * turn/completed turn1 completed
        * turn/completed turn2 completed
        "#,
    );
    let read = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    let turns = read["thread"]["turns"].as_array().unwrap().clone();
    let ids: Vec<&Value> = turns.iter().map(|turn| &turn["id"]).collect();
    assert_eq!(ids, [&json!(turn), &json!(joined)]);
}

#[tokio::test]
async fn an_interrupt_ends_a_turn_in_the_middle_of_a_message() {
    let steps = json!([{ "message": { "chunks": ["Half"] } }, "idle"]);
    let env = TestEnvironment::with_responses(json!([{ "steps": steps }, says("Whole.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.forget();
    let turn = peer.start_turn(&thread, "Talk.").await;
    peer.expect("item/agentMessage/delta").await;
    let interrupt = json!({ "threadId": thread, "turnId": turn });
    assert_eq!(peer.call("turn/interrupt", interrupt.clone()).await, json!({}));
    assert_eq!(peer.turn_end(&turn).await["status"], "interrupted");
    peer.expect_where("thread/status/changed", |notice| notice["status"]["type"] == "idle").await;
    let fault = peer.refused("turn/interrupt", interrupt).await;
    assert_eq!(fault.message, "no active turn to interrupt");
    assert_lines(
        peer.transcript(),
        r#"
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Talk."
        * item/completed item1 userMessage "Talk."
        * item/started item2 agentMessage ""
        * item/agentMessage/delta item2 "Half"
        > turn/interrupt
        * item/completed item2 agentMessage "Half"
        < turn/interrupt
        * turn/completed turn1 interrupted
        * thread/status/changed idle
        > turn/interrupt
        < turn/interrupt -32600: no active turn to interrupt
        "#,
    );
    assert_eq!(peer.run_turn(&thread, "Again.").await["status"], "completed");
}

#[tokio::test]
async fn an_interrupt_names_the_turn() {
    let env = TestEnvironment::with_responses(json!([{ "steps": ["idle"] }])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.start_turn(&thread, "Wait.").await;
    let wrong = json!({ "threadId": thread, "turnId": "another" });
    let fault = peer.refused("turn/interrupt", wrong).await;
    assert!(fault.message.contains("another") && fault.message.contains(&turn), "{fault:?}");
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    assert_eq!(peer.turn_end(&turn).await["status"], "interrupted");
}

#[tokio::test]
async fn the_end_of_the_server_interrupts_turns_and_reports_it() {
    let env = TestEnvironment::with_responses(json!([{ "steps": ["idle"] }])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.start_turn(&thread, "Wait.").await;
    server.stop().await;
    assert_eq!(peer.turn_end(&turn).await["status"], "interrupted");
}

#[tokio::test]
async fn a_review_and_a_compaction_take_no_input() {
    let slow = || json!({ "steps": [{ "delay_ms": 60_000 }, { "message": "late" }] });
    for (method, params, kind) in [
        ("thread/compact/start", json!({}), "compact"),
        ("review/start", json!({ "target": { "type": "custom", "instructions": "x" } }), "review"),
    ] {
        let env =
            TestEnvironment::with_responses(json!([says("One."), slow(), says("Two.")])).await;
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        peer.run_turn(&thread, "first").await;
        peer.forget();
        let mut started = params;
        started["threadId"] = json!(thread);
        peer.call(method, started).await;
        let turn = peer.expect("turn/started").await["turn"]["id"].as_str().unwrap().to_owned();
        let steer = json!({ "threadId": thread, "expectedTurnId": turn, "input": input("x") });
        let start = json!({ "threadId": thread, "input": input("x") });
        for (method, params) in [("turn/steer", steer), ("turn/start", start)] {
            let fault = peer.refused(method, params).await;
            assert_eq!(fault.code, -32600, "{fault:?}");
            assert!(fault.message.contains("takes no input"), "{fault:?}");
            let info = json!({ "ActiveTurnNotSteerable": { "turnKind": kind } });
            assert_eq!(fault.data["agentErrorInfo"], info, "{fault:?}");
            assert_eq!(fault.data["message"], json!(fault.message));
        }
        peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
        peer.turn_end(&turn).await;
        assert_eq!(peer.run_turn(&thread, "second").await["status"], "completed");
        assert_eq!(user_texts(&env).iter().filter(|text| *text == "x").count(), 0);
    }
}

#[tokio::test]
async fn input_during_a_review_or_a_compaction_goes_to_later_turns() {
    let slow = || json!({ "steps": [{ "delay_ms": 300 }, { "message": "The result." }] });
    let injected = json!({ "type": "message", "role": "assistant",
        "content": [{ "type": "output_text", "text": "INJECTED" }] });
    for (method, params) in [
        ("thread/compact/start", json!({})),
        ("review/start", json!({ "target": { "type": "custom", "instructions": "x" } })),
    ] {
        let env =
            TestEnvironment::with_responses(json!([says("One."), slow(), says("Two.")])).await;
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        peer.run_turn(&thread, "first").await;
        let mut started = params;
        started["threadId"] = json!(thread);
        peer.forget();
        peer.call(method, started).await;
        let turn = peer.expect("turn/started").await["turn"]["id"].as_str().unwrap().to_owned();
        let inject = json!({ "threadId": thread, "items": [injected] });
        peer.call("thread/inject_items", inject).await;
        let command = json!({ "threadId": thread, "command": "echo SHELLED" });
        peer.call("thread/shellCommand", command).await;
        peer.item("commandExecution").await;
        assert_eq!(peer.turn_end(&turn).await["status"], "completed");
        assert_eq!(env.model().requests().len(), 2, "{method}: nothing more is asked");
        let said = peer.transcript().iter().filter(|line| line.contains("item/completed"));
        let said = said.filter(|line| line.contains("agentMessage")).count();
        assert_eq!(said, usize::from(method == "review/start"), "{method}");
        peer.run_turn(&thread, "from memory").await;
        server.stop().await;
        let server = env.start();
        let mut peer = server.connect().await;
        peer.call("thread/resume", json!({ "threadId": thread })).await;
        peer.run_turn(&thread, "from the store").await;
        for request in [2, 3] {
            let sent = &env.model().requests()[request]["input"];
            let sent = sent.as_array().unwrap();
            assert!(sent.contains(&injected), "{method}: {sent:?}");
            let shelled = sent.iter().filter(|item| item.to_string().contains("SHELLED"));
            assert_eq!(shelled.count(), 1, "{method}: {sent:?}");
        }
        let asked = env.model().requests()[1]["input"].to_string();
        assert!(!asked.contains("INJECTED") && !asked.contains("SHELLED"), "{asked}");
    }
}
