//! Turns without tools: messages, reasoning, plans and searches, with their events in order.

use serde_json::{Value, json};
use testkit::{TestEnvironment, assert_lines};

use crate::{calls, says};

async fn check(responses: Value, params: Value, expected: &str) {
    let env = TestEnvironment::with_responses(responses).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let config = json!({ "show_raw_agent_reasoning": true });
    let thread = peer.start_thread(json!({ "config": config })).await;
    peer.forget();
    let mut turn = json!({ "threadId": thread, "input": [{ "type": "text", "text": "Hi." }] });
    for (name, value) in params.as_object().unwrap() {
        turn[name] = value.clone();
    }
    peer.run_turn_with(turn).await;
    peer.expect_where("thread/status/changed", |notice| notice["status"]["type"] != "active").await;
    assert_lines(peer.transcript(), expected);
}

#[tokio::test]
async fn a_message() {
    let message = json!({ "text": "Hello there.", "phase": "final_answer", "chunk_chars": 5 });
    let usage = json!({ "input_tokens": 7, "output_tokens": 3 });
    check(
        json!([{ "steps": [{ "message": message }, { "usage": usage }] }]),
        json!({}),
        r#"
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Hi."
        * item/completed item1 userMessage "Hi."
        * item/started item2 agentMessage "final_answer" ""
        * item/agentMessage/delta item2 "Hello there."
        * item/completed item2 agentMessage "final_answer" "Hello there."
        * turn/completed turn1 completed
        * thread/status/changed idle
        "#,
    )
    .await;
}

#[tokio::test]
async fn reasoning_with_summary_and_raw_text() {
    let reasoning = json!({ "summary": ["First.", "Second."], "content": ["raw"] });
    check(
        json!([{ "steps": [{ "reasoning": reasoning }, { "message": "Done." }] }]),
        json!({}),
        r#"
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Hi."
        * item/completed item1 userMessage "Hi."
        * item/started item2 reasoning [] []
        * item/reasoning/textDelta item2[0] "raw"
        * item/reasoning/summaryPartAdded item2[0]
        * item/reasoning/summaryTextDelta item2[0] "First."
        * item/reasoning/summaryPartAdded item2[1]
        * item/reasoning/summaryTextDelta item2[1] "Second."
        * item/completed item2 reasoning ["First.","Second."] ["raw"]
        * item/started item3 agentMessage ""
        * item/agentMessage/delta item3 "Done."
        * item/completed item3 agentMessage "Done."
        * turn/completed turn1 completed
        * thread/status/changed idle
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_plan_tool_and_a_search() {
    let plan = json!({ "explanation": "Why.", "plan": [
        { "step": "Look", "status": "completed" },
        { "step": "Act", "status": "in_progress" },
        { "step": "Rest", "status": "pending" },
    ] });
    let mut first = calls("update_plan", plan);
    first["steps"].as_array_mut().unwrap().insert(0, json!({ "web_search": "rust" }));
    check(
        json!([first, says("Planned.")]),
        json!({}),
        r#"
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Hi."
        * item/completed item1 userMessage "Hi."
        * item/started item2 webSearch "rust"
        * item/completed item2 webSearch "rust"
        * turn/plan/updated "Why." [completed "Look", inProgress "Act", pending "Rest"]
        * item/started item3 agentMessage ""
        * item/agentMessage/delta item3 "Planned."
        * item/completed item3 agentMessage "Planned."
        * turn/completed turn1 completed
        * thread/status/changed idle
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_plan_in_plan_mode() {
    let text = "Look:\n<proposed_plan>\nPlan:\n1. Act\n</proposed_plan>\nSo?";
    let settings =
        json!({ "model": "gpt-5", "reasoning_effort": null, "developer_instructions": null });
    let mode = json!({ "mode": "plan", "settings": settings });
    check(
        json!([{ "steps": [{ "message": { "text": text, "chunk_chars": 6 } }] }]),
        json!({ "collaborationMode": mode }),
        r#"
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Hi."
        * item/completed item1 userMessage "Hi."
        * item/started item2 agentMessage ""
        * item/agentMessage/delta item2 "Look:\n"
        * item/started item3 plan ""
        * item/plan/delta item3 "\nPlan:\n1. Act\n"
        * item/completed item3 plan "Plan:\n1. Act"
        * item/agentMessage/delta item2 "\nSo?"
        * item/completed item2 agentMessage "Look:\n\nSo?"
        * turn/completed turn1 completed
        * thread/status/changed idle
        "#,
    )
    .await;
}

#[tokio::test]
async fn fifty_thousand_deltas_arrive_in_order() {
    let message = json!({ "chunks": ["0123456789"], "repeat": 50_000 });
    let env = TestEnvironment::with_responses(json!([{ "steps": [{ "message": message }] }])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let started = peer.start_turn(&thread, "Much.").await;
    peer.turn_end(&started).await;
    let text = peer.item("agentMessage").await["text"].as_str().unwrap().to_owned();
    assert_eq!(text.len(), 500_000);
    let mut streamed = String::new();
    for line in peer.raw_lines().iter().filter(|line| line.contains("agentMessage/delta")) {
        let message: Value = serde_json::from_str(line).unwrap();
        streamed.push_str(message["params"]["delta"].as_str().unwrap());
    }
    assert!(streamed == text);
}

#[tokio::test]
async fn two_turns_in_one_thread() {
    let env = TestEnvironment::with_responses(json!([says("One."), says("Two.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    for text in ["One.", "Two."] {
        assert_eq!(peer.run_turn(&thread, "Count.").await["status"], "completed");
        assert_eq!(peer.item("agentMessage").await["text"], text);
    }
}

#[tokio::test]
async fn token_usage_is_reported_and_summed() {
    let usage = json!({ "input_tokens": 100, "cached_input_tokens": 64, "cache_write_input_tokens": 7,
        "output_tokens": 20, "reasoning_output_tokens": 5, "total_tokens": 120 });
    let response = json!({ "steps": [{ "message": "Hm." }, { "usage": usage }] });
    let env = TestEnvironment::with_responses(json!([response, response])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    for times in 1..=2 {
        let turn = peer.run_turn(&thread, "Hi.").await;
        let notice = peer.expect("thread/tokenUsage/updated").await;
        assert_eq!((&notice["threadId"], &notice["turnId"]), (&json!(thread), &turn["id"]));
        for (part, times) in [("last", 1), ("total", times)] {
            let expected = json!({ "totalTokens": 120 * times, "inputTokens": 100 * times,
                "cachedInputTokens": 64 * times, "cacheWriteInputTokens": 7 * times, "outputTokens": 20 * times,
                "reasoningOutputTokens": 5 * times });
            assert_eq!(notice["tokenUsage"][part], expected, "{part}");
        }
        assert!(notice["tokenUsage"]["modelContextWindow"].as_i64().unwrap() > 0);
    }
}
