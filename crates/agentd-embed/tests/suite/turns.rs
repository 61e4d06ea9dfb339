//! Turns: texts, errors, budgets, and threads that are busy.

use std::time::Duration;

use agentd_embed::protocol::ReasoningEffort;
use agentd_embed::{Agent, Error, OnBusy, TurnEvent, TurnOptions};
use serde_json::{Value, json};

use crate::fake::{begun, lasting_turn, resumed, turn};

fn usage(total: u64, cost: Value) -> Value {
    let tokens = |total| {
        json!({
            "totalTokens": total, "inputTokens": total, "cachedInputTokens": 0, "outputTokens": 0,
            "reasoningOutputTokens": 0,
        })
    };
    json!({ "tokenUsage": { "total": tokens(total), "last": tokens(10), "modelContextWindow": null, "cost": cost } })
}

fn cost(turn: &str) -> Value {
    json!({ "currency": "USD", "last": turn, "turn": turn, "turnWithAgents": turn, "thread": turn })
}

#[tokio::test]
async fn errors_say_how_far_a_turn_came() {
    for how in ["failed", "interrupted", "lost"] {
        let (agent, mut turn, mut fake) = turn().await;
        let item =
            json!({ "type": "agentMessage", "id": "c", "text": "Looking", "phase": "commentary" });
        fake.say("item/started", "e.1", json!({ "item": item, "startedAtMs": 1 })).await;
        let looking = json!({ "itemId": "c", "delta": "Looking" });
        fake.say("item/agentMessage/delta", "e.2", looking).await;
        fake.say("item/completed", "e.3", json!({ "item": item, "completedAtMs": 1 })).await;
        fake.say("thread/tokenUsage/updated", "e.4", usage(30, cost("0.01"))).await;
        fake.say("thread/tokenUsage/updated", "e.5", usage(50, cost("0.02"))).await;
        fake.delta("e.6", "Half").await;
        match how {
            "lost" => drop(fake),
            status => fake.end("e.7", status).await,
        }
        let mut commentary = Vec::new();
        let mut texts = Vec::new();
        while let Some(Ok(event)) = turn.next().await {
            match event {
                TurnEvent::Commentary(text) => commentary.push(text),
                TurnEvent::Text(text) => texts.push(text),
                _ => {}
            }
        }
        assert_eq!((commentary.concat(), texts.concat()), ("Looking".into(), "Half".into()));
        let error = turn.result().await.unwrap_err();
        let is_expected = matches!(
            (how, &error),
            ("failed", Error::TurnFailed(_))
                | ("interrupted", Error::TurnInterrupted(_))
                | ("lost", Error::ConnectionLost(_))
        );
        assert!(is_expected, "{how}: {error:?}");
        let progress = error.progress().unwrap();
        assert_eq!((progress.thread_id.as_str(), progress.turn_id.as_str()), ("t", "u"));
        assert_eq!(
            (progress.text.as_str(), &*progress.commentary),
            ("Half", &["Looking".to_owned()][..])
        );
        assert_eq!(progress.items.len(), 1);
        assert_eq!(progress.turn_usage.unwrap().total_tokens, 30);
        assert_eq!(progress.cost.as_ref().unwrap().turn.as_deref(), Some("0.02"));
        assert_eq!(turn.thread().usage().unwrap().total.total_tokens, 50);
        drop(agent);
    }
}

#[tokio::test]
async fn a_turn_that_costs_too_much_is_interrupted() {
    for (reports, expected) in [
        (vec![cost("0.5")], None),
        (
            vec![cost("0.5"), cost("0.50001")],
            Some("the turn cost 0.50001 USD, more than its `max_cost` of 0.5"),
        ),
        (vec![Value::Null, cost("0.1")], None),
        (vec![Value::Null, Value::Null], Some("the server reports no costs")),
        (
            vec![
                json!({ "currency": "USD", "last": null, "turn": null, "turnWithAgents": null, "thread": null }),
            ],
            Some("the price of its model is not known"),
        ),
    ] {
        let (_agent, first, mut fake) = turn().await;
        let thread = first.thread().clone();
        fake.end("e.1", "completed").await;
        let options = TurnOptions::new("go").max_cost("0.50".parse().unwrap());
        let (second, ()) = tokio::join!(thread.turn_with(options), fake.answer(begun("u")));
        let mut second = second.unwrap();
        for report in &reports {
            fake.say("thread/tokenUsage/updated", "e.2", usage(30, report.clone())).await;
        }
        if expected.is_some() {
            let asked = fake.answer_to("turn/interrupt", json!({})).await;
            assert_eq!(asked, json!({ "threadId": "t", "turnId": "u" }));
        }
        fake.end("e.3", if expected.is_some() { "interrupted" } else { "completed" }).await;
        match (second.result().await, expected) {
            (Ok(_), None) => {}
            (Err(Error::BudgetExceeded { why, .. }), Some(expected)) => {
                assert!(why.starts_with(expected), "{why}");
            }
            (other, _) => panic!("{reports:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_busy_thread_is_joined_or_refused() {
    let (_agent, turn, mut fake, _fakes) = lasting_turn(Agent::builder()).await;
    let thread = turn.thread().clone();
    let error = |options: TurnOptions| {
        let thread = thread.clone();
        async move { thread.turn_with(options).await.err() }
    };
    // It is this agent's own.
    let refused = error(TurnOptions::new("more").on_busy(OnBusy::Error)).await;
    assert!(matches!(refused, Some(Error::ThreadBusy(_))), "{refused:?}");

    let turns = json!([{ "id": "u", "status": "inProgress", "error": null, "items": [] }]);
    let serving = async {
        let asked =
            fake.answer_to("thread/resume", resumed("e.0", Value::Null, turns.clone())).await;
        assert_eq!(asked["eventCursor"], Value::Null);
        fake.answer_to("turn/steer", json!({ "turnId": "u" })).await
    };
    let joining = thread.turn_with(TurnOptions::new("also").on_busy(OnBusy::Join));
    let (joined, steered) = tokio::join!(joining, serving);
    let mut joined = joined.unwrap();
    assert_eq!((joined.id(), steered["expectedTurnId"].as_str()), ("u", Some("u")));

    let limited = TurnOptions::new("also").on_busy(OnBusy::Join).max_cost("1".parse().unwrap());
    let serving = fake.answer_to("thread/resume", resumed("e.0", Value::Null, turns));
    let (refused, _) = tokio::join!(error(limited), serving);
    assert!(matches!(refused, Some(Error::ThreadBusy(_))), "{refused:?}");

    fake.delta("e.1", "To both").await;
    fake.end("e.2", "completed").await;
    assert_eq!(joined.result().await.unwrap().text, "To both");

    // Nothing runs: `running`, `steer` and `interrupt` say so.
    let idle = resumed("e.2", Value::Null, json!([]));
    let (running, _) =
        tokio::join!(thread.running(), fake.answer_to("thread/resume", idle.clone()));
    assert!(running.unwrap().is_none());
    let (steered, _) =
        tokio::join!(thread.steer("x"), fake.answer_to("thread/resume", idle.clone()));
    assert!(!steered.unwrap());
    let (stopped, _) = tokio::join!(thread.interrupt(), fake.answer_to("thread/resume", idle));
    assert!(!stopped.unwrap());
}

/// Starts a second turn in the thread of the first, which has ended.
async fn second(options: TurnOptions) -> (Agent, agentd_embed::Turn, crate::fake::Fake) {
    let (agent, first, mut fake) = turn().await;
    let thread = first.thread().clone();
    fake.end("e.1", "completed").await;
    let (second, ()) = tokio::join!(thread.turn_with(options), fake.answer(begun("u")));
    (agent, second.unwrap(), fake)
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_takes_too_long_is_interrupted() {
    for (confirms, expected) in [
        (Some("interrupted"), "of 60s; it was interrupted"),
        (Some("completed"), ""),
        (None, "of 60s; the server did not confirm its interruption within 5s"),
    ] {
        let options = TurnOptions::new("go").timeout(Duration::from_secs(60));
        let (_agent, mut second, mut fake) = second(options).await;
        fake.delta("e.2", "Half").await;
        let began = tokio::time::Instant::now();
        let serving = async {
            let asked = fake.answer_to("turn/interrupt", json!({})).await;
            assert_eq!(asked, json!({ "threadId": "t", "turnId": "u" }));
            assert_eq!(began.elapsed().as_secs(), 60);
            if let Some(status) = confirms {
                fake.end("e.3", status).await;
            }
            &fake
        };
        let (result, _fake) = tokio::join!(second.result(), serving);
        match result {
            Ok(result) => assert_eq!((result.text.as_str(), expected), ("Half", "")),
            Err(error) => {
                assert!(matches!(error, Error::TurnTimeout { .. }), "{error:?}");
                assert!(!expected.is_empty() && error.to_string().ends_with(expected), "{error}");
                let progress = error.progress().unwrap();
                assert_eq!((progress.text.as_str(), progress.turn_id.as_str()), ("Half", "u"));
            }
        }
        let again = second.result().await;
        assert_eq!(again.is_err(), !expected.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_turn_counts_the_wait_for_an_earlier_one() {
    let (_agent, first, mut fake) = turn().await;
    let thread = first.thread().clone();
    let late = thread.run_with(TurnOptions::new("go").timeout(Duration::from_secs(9))).await;
    let error = late.unwrap_err();
    assert!(matches!(&error, Error::TurnTimeout { progress: None, .. }), "{error:?}");
    assert!(error.to_string().contains("an earlier one of the thread still runs"), "{error}");
    // It was not asked for, and the thread is free after the first one.
    fake.end("e.1", "completed").await;
    let limit = TurnOptions::new("go").timeout(Duration::MAX);
    let (third, ()) = tokio::join!(thread.turn_with(limit), fake.answer(begun("v")));
    assert_eq!(third.unwrap().id(), "v");
}

#[tokio::test]
async fn a_turn_that_is_dropped_is_interrupted_if_that_was_asked_for() {
    let asked = TurnOptions::new("go").interrupt_on_drop(true);
    // While it runs.
    let (_agent, running, mut fake) = second(asked.clone()).await;
    std::thread::spawn(move || drop(running)).join().unwrap();
    let params = fake.answer_to("turn/interrupt", json!({})).await;
    assert_eq!(params, json!({ "threadId": "t", "turnId": "u" }));

    // While it is started: the future is gone when the answer comes.
    let (agent, first, mut fake) = turn().await;
    let thread = first.thread().clone();
    fake.end("e.1", "completed").await;
    let mut starting = Box::pin(thread.run_with(asked.clone()));
    let request = tokio::select! {
        request = fake.receive() => request,
        _ = &mut starting => panic!("it has no answer"),
    };
    drop(starting);
    fake.write(&json!({ "id": request["id"], "result": begun("w") }).to_string()).await;
    assert_eq!(fake.answer_to("turn/interrupt", json!({})).await["turnId"], "w");

    // Neither one that has ended, read or not, nor one without the option.
    let (agent_two, mut ended, mut fake_two) = second(asked).await;
    fake_two.end("e.3", "completed").await;
    ended.result().await.unwrap();
    drop(ended);
    let page = json!({ "data": [], "nextCursor": null });
    let (listed, _) = tokio::join!(
        crate::fake::list(&agent_two),
        fake_two.answer_to("thread/list", page.clone())
    );
    listed.unwrap();
    let (agent_three, plain, mut fake_three) = second(TurnOptions::new("go")).await;
    drop(plain);
    let (listed, _) =
        tokio::join!(crate::fake::list(&agent_three), fake_three.answer_to("thread/list", page));
    listed.unwrap();
    drop(agent);
}

#[tokio::test]
async fn settings_of_a_turn_are_sent() {
    let (_agent, first, mut fake) = turn().await;
    let thread = first.thread().clone();
    fake.end("e.1", "completed").await;
    let options = TurnOptions::new("go")
        .model("m")
        .effort(ReasoningEffort::High)
        .cwd("/w")
        .max_total_tokens(9);
    let (started, params) =
        tokio::join!(thread.turn_with(options), fake.answer_to("turn/start", begun("u")));
    started.unwrap();
    assert_eq!(params["input"][0]["text"], "go");
    let sent = ["threadId", "model", "effort", "cwd", "maxTotalTokens"].map(|name| &params[name]);
    assert_eq!(json!(sent), json!(["t", "m", "high", "/w", 9]));
}

/// The answer to the first request of `OnBusy::Join` does not come.
#[tokio::test(start_paused = true)]
async fn the_time_of_a_turn_counts_every_request() {
    let (_agent, first, mut fake) = turn().await;
    let thread = first.thread().clone();
    let options = TurnOptions::new("go").on_busy(OnBusy::Join).timeout(Duration::from_secs(9));
    let silent = async {
        let request = fake.receive().await;
        assert_eq!(request["method"], "thread/resume");
    };
    let (late, ()) = tokio::join!(thread.turn_with(options), silent);
    assert!(matches!(late.err(), Some(Error::TurnTimeout { progress: None, .. })));
}
