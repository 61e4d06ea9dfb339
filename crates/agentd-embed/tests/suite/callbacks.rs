//! Callbacks and tools: their threads, their context, and what becomes of their failures.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agentd_embed::protocol::ThreadStartParams;
use agentd_embed::{Agent, CallbackError, Tool, ToolError, TurnOptions};
use serde_json::{Value, json};

use crate::fake::{Fake, begun, opened, started};

fn tool_call(id: u32, tool: &str, turn: &str) -> String {
    let params = json!({
        "threadId": "t", "turnId": turn, "callId": format!("c{id}"), "tool": tool, "arguments": {},
    });
    json!({ "id": id, "method": "item/tool/call", "params": params }).to_string()
}

fn approval(id: u32) -> String {
    let params = json!({ "threadId": "t", "turnId": "u", "itemId": "i", "startedAtMs": 1 });
    json!({ "id": id, "method": "item/commandExecution/requestApproval", "params": params })
        .to_string()
}

async fn end(fake: &mut Fake) {
    fake.end("e", "completed").await;
}

#[tokio::test]
async fn fifty_blocking_callbacks_delay_no_other() {
    let quick =
        Tool::new("quick", "Quick.", json!({}), |_: Value| async { Ok::<_, ToolError>("here") });
    let (ended, all_ended) = std::sync::mpsc::channel();
    let builder = Agent::builder().tool(quick).approve_blocking(move |_, context| {
        let is_cancelled = context.wait_cancelled(Duration::from_secs(60));
        ended.send(is_cancelled && context.is_cancelled()).unwrap();
        true
    });
    let (_agent, mut fake) = started(builder).await;
    for id in 0..50 {
        fake.write(&approval(id)).await;
    }
    let began = Instant::now();
    fake.write(&tool_call(99, "quick", "u")).await;
    let answer = fake.receive().await;
    assert_eq!(
        (&answer["id"], &answer["result"]["contentItems"][0]["text"]),
        (&json!(99), &json!("here"))
    );
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    // All of them end with their turn.
    let began = Instant::now();
    end(&mut fake).await;
    let waiting = tokio::task::spawn_blocking(move || {
        (0..50).all(|_| all_ended.recv_timeout(Duration::from_secs(30)) == Ok(true))
    });
    assert!(waiting.await.unwrap());
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_callback_beyond_the_bound_fails_clearly() {
    let failures: Arc<Mutex<Vec<CallbackError>>> = Arc::default();
    let seen = failures.clone();
    let builder = Agent::builder()
        .approve_blocking(|_, context| context.wait_cancelled(Duration::from_secs(60)))
        .on_error(move |error, _| seen.lock().unwrap().push(error.clone()));
    let (_agent, mut fake) = started(builder).await;
    for id in 0..513 {
        fake.write(&approval(id)).await;
    }
    let answer = fake.receive().await;
    assert_eq!(answer["error"]["message"], "the client's callback failed");
    assert_eq!(*failures.lock().unwrap(), [CallbackError::TooMany]);
    end(&mut fake).await;
}

#[tokio::test]
async fn the_model_does_not_read_what_a_tool_fails_with() {
    let secret = "password hunter2";
    for (how, is_blocking, sends, text, reported) in [
        ("tool error", false, false, Some("no such order"), 0),
        ("tool error", true, false, Some("no such order"), 0),
        ("other", false, false, Some("The tool failed."), 1),
        ("other", true, false, Some("The tool failed."), 1),
        ("other", false, true, Some(secret), 1),
        ("panic", false, false, None, 1),
        ("panic", true, false, Some("The tool failed."), 1),
    ] {
        let failures: Arc<Mutex<Vec<CallbackError>>> = Arc::default();
        let seen = failures.clone();
        let tool = match (how, is_blocking) {
            ("tool error", false) => Tool::new("x", "", json!({}), |_: Value| async {
                Err::<(), _>(ToolError::new("no such order"))
            }),
            ("tool error", true) => Tool::blocking("x", "", json!({}), |_: Value, _| {
                Err::<(), _>(ToolError::new("no such order"))
            }),
            ("other", false) => {
                Tool::new("x", "", json!({}), move |_: Value| async move { Err::<(), _>(secret) })
            }
            ("other", true) => {
                Tool::blocking("x", "", json!({}), move |_: Value, _| Err::<(), _>(secret))
            }
            (_, false) => Tool::new("x", "", json!({}), |arguments: Value| async move {
                assert!(arguments.is_null(), "a panic of the test");
                Ok::<_, ToolError>(())
            }),
            (_, true) => Tool::blocking("x", "", json!({}), |arguments: Value, _| {
                assert!(arguments.is_null(), "a panic of the test");
                Ok::<_, ToolError>(())
            }),
        };
        let builder = Agent::builder().tool(tool).send_tool_errors(sends);
        let builder = builder.on_error(move |error, context| {
            assert_eq!(context.call_id(), Some("c1"));
            seen.lock().unwrap().push(error.clone());
        });
        let (_agent, mut fake) = started(builder).await;
        fake.write(&tool_call(1, "x", "u")).await;
        let answer = fake.receive().await;
        match text {
            Some(text) => {
                assert_eq!(answer["result"]["success"], false, "{answer}");
                assert_eq!(answer["result"]["contentItems"][0]["text"], text, "{how}");
            }
            None => assert_eq!(answer["error"]["message"], "the client's callback failed"),
        }
        assert_eq!(failures.lock().unwrap().len(), reported, "{how}");
    }
}

#[tokio::test]
async fn callbacks_have_the_value_of_their_user() {
    let who = Tool::in_context("who", "", json!({}), |_: Value, context| async move {
        let user =
            context.user::<String>().map_or_else(|| "none".to_owned(), |user| (*user).clone());
        let place = (context.thread_id().unwrap(), context.turn_id().unwrap());
        Ok::<_, ToolError>(format!("{user} of {place:?}"))
    });
    let (agent, mut fake) = started(Agent::builder().tool(who)).await;
    let opening = agent.context("Ada".to_owned()).thread(ThreadStartParams::default());
    let (thread, ()) = tokio::join!(opening, fake.answer(opened()));
    let thread = thread.unwrap();
    let options = TurnOptions::new("go").context("Grace".to_owned());
    let (turn, ()) = tokio::join!(thread.turn_with(options), fake.answer(begun("u")));
    let turn = turn.unwrap();
    let mut ask = async |id: u32, turn: &str| {
        fake.write(&tool_call(id, "who", turn)).await;
        fake.receive().await["result"]["contentItems"][0]["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(ask(1, "u").await, r#"Grace of ("t", "u")"#);
    assert_eq!(ask(2, "of another client").await, r#"Ada of ("t", "of another client")"#);
    drop((thread, turn));
}
