//! Events and questions that reach a client through its server from another one.

use serde_json::{Value, json};
use testkit::TestEnvironment;

use super::road::Road;
use super::{COMMAND, joined, methods, two};
use crate::{runs, says};

fn asks_twice() -> Value {
    json!([says("One."), runs("touch made"), says("Two."), runs("touch more"), says("Three.")])
}

fn asking() -> Value {
    json!({ "approvalPolicy": "unlessTrusted", "sandbox": "readOnly" })
}

#[tokio::test]
async fn a_question_of_any_thread_is_withdrawn() {
    let env = TestEnvironment::with_responses(asks_twice()).await;
    let first = env.start();
    let mut here = first.connect().await;
    let thread = here.start_thread(asking()).await;
    here.run_turn(&thread, "Begin.").await;
    let road = Road::before_the_door(&env);
    let second = env.start();
    let mut there = second.connect().await;
    there.call("thread/resume", json!({ "threadId": thread })).await;
    here.start_turn(&thread, "Run it.").await;
    let asked = there.asked(COMMAND).await;
    // As of an agent that the thread has started.
    let mut params = asked.params.clone();
    params["threadId"] = json!("00000000-0000-7000-8000-00000000ffff");
    road.say(&json!({ "id": 900_001, "method": COMMAND, "params": params }));
    let of_agent = there.asked(COMMAND).await;
    assert_ne!(of_agent.id, asked.id);
    let resolved = json!({ "threadId": params["threadId"], "requestId": 900_001 });
    road.say(&json!({ "method": "serverRequest/resolved", "params": resolved }));
    let resolved = there.expect("serverRequest/resolved").await;
    assert_eq!(resolved["requestId"], of_agent.id);
    assert_eq!(resolved["threadId"], params["threadId"]);
}

#[tokio::test]
async fn a_question_keeps_its_id_and_is_open_until_it_is_resolved() {
    let env = TestEnvironment::with_responses(asks_twice()).await;
    let (first, second) = (env.start(), env.start());
    let (mut here, mut there, thread) = joined(&first, &second, asking()).await;
    // Ids of the two servers differ.
    let mut other = second.connect().await;
    other.call("thread/resume", json!({ "threadId": thread })).await;
    let turn = here.start_turn(&thread, "Run it.").await;
    let asked = there.asked(COMMAND).await;
    other.asked(COMMAND).await;
    // As when it were connected there: the same question comes again.
    there.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(there.asked(COMMAND).await, asked);
    // An answer that cannot be used does not count, and the next one does.
    there.answer(&asked, json!({ "decision": 7 })).await;
    let warning = there.expect_where("warning", |it| it["threadId"] == thread.as_str()).await;
    assert!(warning.to_string().contains("stays open"), "{warning}");
    there.decide(&asked, "decline").await;
    assert_eq!(there.expect("serverRequest/resolved").await["requestId"], asked.id);
    for peer in [&mut here, &mut there] {
        assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    }
    let asked = methods(&there).into_iter().filter(|method| method == COMMAND).count();
    assert_eq!(asked, 2);
}

#[tokio::test]
async fn a_client_that_reconnects_learns_the_ids_of_open_questions() {
    let env = TestEnvironment::with_responses(asks_twice()).await;
    let (first, second) = (env.start(), env.start());
    let (mut here, _there, thread) = joined(&first, &second, asking()).await;
    let capabilities = json!({ "experimentalApi": true, "eventCursor": true });
    let mut before = second.connect_with(capabilities.clone()).await;
    before.call("thread/resume", json!({ "threadId": thread })).await;
    here.start_turn(&thread, "Run it.").await;
    let asked = before.asked(COMMAND).await;
    let cursor = before.cursor(&thread).unwrap().to_owned();
    drop(before);
    let mut back = second.connect_with(capabilities).await;
    let params = json!({ "threadId": thread, "eventCursor": cursor });
    let resumed = back.call("thread/resume", params).await;
    let again = back.asked(COMMAND).await;
    assert_eq!(resumed["eventReplay"]["openRequestIds"], json!([again.id]));
    assert_eq!(again.params, asked.params);
    back.decide(&again, "decline").await;
    assert_eq!(back.expect("serverRequest/resolved").await["requestId"], again.id);
}

#[tokio::test]
async fn a_detached_review_is_seen() {
    let env = TestEnvironment::with_responses(two()).await;
    let (first, second) = (env.start(), env.start());
    let (_here, mut there, thread) = joined(&first, &second, json!({})).await;
    let review = json!({ "threadId": thread, "delivery": "detached",
        "target": { "type": "custom", "instructions": "Look." } });
    let started = there.call("review/start", review).await;
    let review = &started["reviewThreadId"];
    assert_eq!(there.expect("thread/started").await["thread"]["id"], *review);
    assert_eq!(there.expect("turn/started").await["threadId"], *review);
    let ended = there.expect("turn/completed").await;
    assert_eq!((&ended["threadId"], &ended["turn"]["id"]), (review, &started["turn"]["id"]));
    let interrupt = json!({ "threadId": review, "turnId": started["turn"]["id"] });
    if let Err(fault) = there.try_call("turn/interrupt", interrupt).await {
        assert!(!fault.message.contains("not loaded"), "{fault:?}");
    }
}

#[tokio::test]
async fn opting_out_changes_what_a_client_gets_and_nothing_else() {
    let steps = json!({ "steps": [{ "delay_ms": 600_000 }, { "message": "Late." }] });
    let env = TestEnvironment::with_responses(json!([says("One."), steps, says("On.")])).await;
    let first = env.start();
    let mut here = first.connect().await;
    let thread = here.start_thread(json!({})).await;
    here.run_turn(&thread, "Begin.").await;
    let road = Road::before_the_door(&env);
    let second = env.start();
    let opted_out = json!(["turn/started", "thread/closed", "thread/status/changed"]);
    let capabilities = json!({ "optOutNotificationMethods": opted_out });
    let mut there = second.connect_with(capabilities).await;
    there.call("thread/resume", json!({ "threadId": thread })).await;
    let turn = here.start_turn(&thread, "Never ends.").await;
    there.expect("item/started").await;
    // Its server knows which turn ran when the connection to the other one is cut.
    road.hold_present();
    here.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    here.turn_end(&turn).await;
    road.cut();
    assert_eq!(there.turn_end(&turn).await["status"], "interrupted");
    assert_eq!(there.run_turn(&thread, "Go on.").await["status"], "completed");
    let got = methods(&there);
    let unwanted = |method: &String| opted_out.as_array().unwrap().contains(&json!(method));
    assert!(!got.iter().any(unwanted), "{got:?}");
}

#[tokio::test]
async fn what_follows_a_request_and_what_is_about_no_thread_arrives() {
    let env = TestEnvironment::with_responses(two()).await;
    let first = env.start();
    let mut here = first.connect().await;
    let thread = here.start_thread(json!({})).await;
    here.run_turn(&thread, "Begin.").await;
    let road = Road::before_the_door(&env);
    let second = env.start();
    let mut visitor = second.connect().await;
    visitor.call("thread/name/set", json!({ "threadId": thread, "name": "Ours" })).await;
    visitor.expect_where("thread/name/updated", |it| it["threadName"] == "Ours").await;
    let login = json!({ "name": "server", "success": true, "error": null });
    road.say(&json!({ "method": "mcpServer/oauthLogin/completed", "params": login }));
    assert_eq!(visitor.expect("mcpServer/oauthLogin/completed").await["name"], "server");

    let mut there = second.connect().await;
    there.call("thread/resume", json!({ "threadId": thread })).await;
    there.call("thread/archive", json!({ "threadId": thread })).await;
    let status = there.expect("thread/status/changed").await;
    assert_eq!(status["status"]["type"], "notLoaded");
    assert_eq!(there.expect("thread/archived").await["threadId"], thread.as_str());
    // It is open nowhere now, and is opened here.
    there.call("thread/unarchive", json!({ "threadId": thread })).await;
    first.stop().await;
    there.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(there.run_turn(&thread, "Go on.").await["status"], "completed");
}

#[tokio::test]
async fn a_thread_has_its_turns_for_a_client_that_gets_them_with_it() {
    let env = TestEnvironment::with_responses(two()).await;
    let first = env.start();
    let mut here = first.connect().await;
    let thread = here.start_thread(json!({})).await;
    here.run_turn(&thread, "Begin.").await;
    let road = Road::before_the_door(&env);
    let second = env.start();
    let mut there = second.connect().await;
    let resume = json!({ "threadId": thread });
    let resumed = there.call("thread/resume", resume.clone()).await;
    assert_eq!(resumed["thread"]["turns"], json!([]));
    // As the server of a client whose dialect has turns there.
    road.tell(&json!({ "method": "server/turnsWithThread", "params": {} })).await;
    let resumed = there.call("thread/resume", resume).await;
    assert_eq!(resumed["thread"]["turns"].as_array().unwrap().len(), 1);
}
