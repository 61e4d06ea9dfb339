//! Lost connections that are made again: nothing is lost, doubled, or asked twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agentd_embed::{Agent, Error, ThreadEvent, TurnEvent};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::fake::{Fake, is_pending, lasting, lasting_turn, list, lost, replay, resumed};

#[tokio::test]
async fn a_stream_goes_on_after_losses() {
    let (_agent, mut turn, mut fake, mut fakes) = lasting_turn(Agent::builder()).await;
    let mut texts = Vec::new();
    for (at, cursor) in [("e.1", "e.2"), ("e.3", "e.4"), ("e.5", "e.6")] {
        fake.delta(at, "one ").await;
        texts.push(turn.next_text().await.unwrap().unwrap());
        drop(fake);
        fake = Fake::next(&mut fakes).await;
        let asked =
            fake.answer_to("thread/resume", resumed(cursor, replay(1, &[]), json!([]))).await;
        assert_eq!(asked, json!({ "threadId": "t", "eventCursor": at }));
        fake.delta(cursor, "two ").await;
        texts.push(turn.next_text().await.unwrap().unwrap());
    }
    fake.end("e.7", "completed").await;
    let result = turn.result().await.unwrap();
    assert_eq!(
        (texts.concat(), result.text.as_str()),
        ("one two ".repeat(3), "one two one two one two ")
    );
    assert_eq!(turn.thread().cursor().as_deref(), Some("e.7"));
}

#[tokio::test]
async fn a_request_without_an_answer_is_not_sent_again_and_later_ones_wait() {
    let (agent, _turn, mut fake, mut fakes) = lasting_turn(Agent::builder()).await;
    let losing = async {
        assert_eq!(fake.receive().await["method"], "thread/list");
        drop(fake);
    };
    let (listed, ()) = tokio::join!(list(&agent), losing);
    assert_eq!(lost(listed), "the server closed the connection");
    let page = json!({ "data": [], "nextCursor": null });
    let serving = async {
        let mut fake = Fake::next(&mut fakes).await;
        // The threads that are awaited go on before anything else is asked.
        fake.answer_to("thread/resume", resumed("e.0", replay(0, &[]), json!([]))).await;
        fake.answer_to("thread/list", page).await;
        fake
    };
    let (listed, _fake) = tokio::join!(list(&agent), serving);
    listed.unwrap();
}

/// One that was resumed on a connection that was then lost, too, is resumed on the next as well.
#[tokio::test]
async fn a_loss_in_the_middle_of_coming_back_resumes_every_thread_again() {
    let (agent, mut turn, fake, mut fakes) = lasting_turn(Agent::builder()).await;
    let opening = turn.thread().clone();
    drop(fake);
    let mut fake = Fake::next(&mut fakes).await;
    // The answer arrives, but no event after it.
    fake.answer_to("thread/resume", resumed("e.1", replay(1, &[]), json!([]))).await;
    drop(fake);
    let mut fake = Fake::next(&mut fakes).await;
    let asked = fake.answer_to("thread/resume", resumed("e.1", replay(1, &[]), json!([]))).await;
    assert_eq!(asked["eventCursor"], "e.0");
    fake.delta("e.1", "all").await;
    fake.end("e.2", "completed").await;
    assert_eq!(turn.result().await.unwrap().text, "all");
    drop((agent, opening));
}

#[tokio::test]
async fn a_question_that_is_open_during_a_loss_is_asked_once() {
    for is_answered_meanwhile in [false, true] {
        let (asked, may_answer) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
        let (count, release) = (asked.clone(), may_answer.clone());
        let builder = Agent::builder().approve(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            let release = release.clone();
            async move {
                release.notified().await;
                true
            }
        });
        let (_agent, _turn, mut fake, mut fakes) = lasting_turn(builder).await;
        let question = json!({
            "id": 7, "method": "item/commandExecution/requestApproval",
            "params": { "threadId": "t", "turnId": "u", "itemId": "c", "startedAtMs": 1 },
        });
        fake.write(&question.to_string()).await;
        while asked.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        drop(fake);
        if is_answered_meanwhile {
            may_answer.notify_one();
        }
        let mut fake = Fake::next(&mut fakes).await;
        fake.answer_to("thread/resume", resumed("e.0", replay(0, &[7]), json!([]))).await;
        fake.write(&question.to_string()).await;
        may_answer.notify_one();
        let answer = fake.receive().await;
        assert_eq!((&answer["id"], &answer["result"]["decision"]), (&json!(7), &json!("accept")));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}

/// A function that waits is dropped once its answer is no longer wanted.
#[tokio::test]
async fn a_question_that_is_obsolete_drops_its_future() {
    struct Dropped(Arc<Notify>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    for how in ["resolved", "turn", "open ids", "another question", "closed"] {
        let (began, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (starts, ends) = (began.clone(), dropped.clone());
        let builder = Agent::builder().approve(move |_| {
            let guard = Dropped(ends.clone());
            starts.notify_one();
            async move {
                let _guard = guard;
                std::future::pending::<bool>().await
            }
        });
        let (agent, _turn, mut fake, mut fakes) = lasting_turn(builder).await;
        let mut question = json!({
            "id": 7, "method": "item/commandExecution/requestApproval",
            "params": { "threadId": "t", "turnId": "u", "itemId": "c", "startedAtMs": 1 },
        });
        fake.write(&question.to_string()).await;
        began.notified().await;
        let mut _agent = Some(agent);
        match how {
            "resolved" => {
                let resolved = json!({ "threadId": "t", "requestId": 7 });
                let event = json!({ "method": "serverRequest/resolved", "params": resolved });
                fake.write(&event.to_string()).await;
            }
            "turn" => fake.end("e.1", "completed").await,
            "open ids" => {
                drop(fake);
                fake = Fake::next(&mut fakes).await;
                fake.answer_to("thread/resume", resumed("e.0", replay(0, &[8]), json!([]))).await;
            }
            "another question" => {
                // A server that was restarted gives numbers again.
                question["params"]["itemId"] = "d".into();
                fake.write(&question.to_string()).await;
            }
            _ => _agent = None,
        }
        let waiting = tokio::time::timeout(Duration::from_secs(10), dropped.notified());
        assert!(waiting.await.is_ok(), "{how}");
    }
}

#[tokio::test]
async fn a_turn_whose_events_are_gone_is_replaced() {
    let (_agent, mut turn, mut fake, mut fakes) = lasting_turn(Agent::builder()).await;
    fake.delta("e.1", "One ").await;
    assert_eq!(turn.next_text().await.unwrap().as_deref(), Some("One "));
    drop(fake);
    let mut fake = Fake::next(&mut fakes).await;
    let message = json!({ "type": "agentMessage", "id": "i", "text": "One two " });
    let unknown = json!({ "type": "hologram", "id": "h" });
    let turns = |status: &str, items: Value| json!([{ "id": "u", "status": status, "error": null, "items": items }]);
    let snapshot = json!({
        "type": "snapshot", "reason": "reloaded", "fromTurnId": "u", "isComplete": true, "openRequestIds": [],
    });
    let answer = resumed("f.1", snapshot.clone(), turns("inProgress", json!([unknown, message])));
    fake.answer_to("thread/resume", answer).await;
    let Some(Ok(TurnEvent::Text(text))) = turn.next().await else { panic!() };
    assert_eq!(text, "two ");
    let Some(Ok(TurnEvent::Replaced(replaced))) = turn.next().await else { panic!() };
    assert_eq!(replaced.items.len(), 1);
    fake.delta("f.2", "three").await;
    assert_eq!(turn.next_text().await.unwrap().as_deref(), Some("three"));
    drop(fake);
    let mut fake = Fake::next(&mut fakes).await;
    // The snapshot lacks the turn: it is read as a whole.
    let asked = fake.answer_to("thread/resume", resumed("g.1", snapshot, json!([]))).await;
    assert_eq!(asked["eventCursor"], "f.2");
    let message = json!({ "type": "agentMessage", "id": "i", "text": "One two three." });
    let thread = json!({ "thread": { "id": "t", "turns": turns("completed", json!([message])) } });
    fake.answer_to("thread/read", thread).await;
    assert_eq!(turn.next_text().await.unwrap().as_deref(), Some("."));
    assert_eq!(turn.result().await.unwrap().text, "One two three.");
}

#[tokio::test]
async fn followers_with_different_cursors_get_each_event_once() {
    let (_agent, mut turn, mut fake, mut fakes) = lasting_turn(Agent::builder()).await;
    let thread = turn.thread().clone();
    for at in 1..=3 {
        fake.delta(&format!("e.{at}"), &at.to_string()).await;
        turn.next_text().await.unwrap();
    }
    let cursors = |events: Vec<ThreadEvent>| -> Vec<String> {
        events.iter().map(|event| event.cursor().unwrap().to_owned()).collect()
    };
    let mut readers = Vec::new();
    for since in [1_u64, 2] {
        let mut events = thread.events(Some(&format!("e.{since}")));
        let serving = async {
            let answer = resumed("e.3", replay(3 - since, &[]), json!([]));
            fake.answer_to("thread/resume", answer).await;
            for at in since + 1..=3 {
                fake.delta(&format!("e.{at}"), &at.to_string()).await;
            }
        };
        let (first, ()) = tokio::join!(events.next(), serving);
        readers.push((events, vec![first.unwrap().unwrap()]));
    }
    // One that is dropped in its replay leaves none of it to others.
    let mut dropped = thread.events(Some("e.0"));
    assert!(is_pending(&mut Box::pin(dropped.next())).await);
    drop(dropped);
    fake.answer_to("thread/resume", resumed("e.3", replay(3, &[]), json!([]))).await;
    for at in 1..=3 {
        fake.delta(&format!("e.{at}"), &at.to_string()).await;
    }
    fake.delta("e.4", "4").await;
    assert_eq!(turn.next_text().await.unwrap().as_deref(), Some("4"));
    // A loss opens the events of each again, after the last one that it handed out.
    for (events, seen) in &mut readers {
        let wanted = if seen.len() == 1 && cursors(seen.clone())[0] == "e.2" { 3 } else { 2 };
        while seen.len() < wanted {
            seen.push(events.next().await.unwrap().unwrap());
        }
    }
    drop(fake);
    let mut fake = Fake::next(&mut fakes).await;
    let asked = fake.answer_to("thread/resume", resumed("e.4", replay(0, &[]), json!([]))).await;
    assert_eq!(asked["eventCursor"], "e.4");
    for (events, seen) in &mut readers {
        let serving = async {
            let asked =
                fake.answer_to("thread/resume", resumed("e.5", replay(1, &[]), json!([]))).await;
            fake.delta("e.5", "5").await;
            asked["eventCursor"].as_str().unwrap().to_owned()
        };
        let (next, since) = tokio::join!(events.next(), serving);
        assert_eq!(since, "e.4");
        seen.push(next.unwrap().unwrap());
    }
    let seen: Vec<_> = readers.into_iter().map(|(_, seen)| cursors(seen)).collect();
    assert_eq!(seen, [vec!["e.2", "e.3", "e.4", "e.5"], vec!["e.3", "e.4", "e.5"]]);
    drop(turn);
}

#[tokio::test]
async fn what_cannot_come_back_is_over() {
    // Another version.
    let (_agent, mut turn, fake, mut fakes) = lasting_turn(Agent::builder()).await;
    drop(fake);
    fakes.recv().await.unwrap().hello("x/1.0.0 (linux)").await;
    let error = turn.result().await.unwrap_err();
    assert!(matches!(&error, Error::VersionMismatch { server, .. } if server == "1.0.0"));
    assert_eq!(error.progress().unwrap().turn_id, "u");

    // Nothing within the limit.
    let limit = Duration::from_millis(200);
    let builder = Agent::builder().reconnect_timeout(limit);
    let (_agent, mut turn, fake, fakes) = lasting_turn(builder).await;
    drop((fake, fakes));
    let message = lost(turn.result().await);
    assert!(
        message.starts_with("the server closed the connection; it was not made again: "),
        "{message}"
    );

    // Closed in the middle.
    let (agent, mut turn, fake, mut fakes) = lasting_turn(Agent::builder()).await;
    drop(fake);
    let _mute = fakes.recv().await.unwrap();
    drop(agent);
    assert_eq!(lost(turn.result().await), "the connection was closed");

    // Garbage.
    let (_agent, mut turn, mut fake, _fakes) = lasting_turn(Agent::builder()).await;
    fake.write("garbage").await;
    assert!(lost(turn.result().await).contains("not the protocol"));
}

#[tokio::test]
async fn a_dropped_turn_that_ended_during_a_loss_frees_its_thread() {
    let (_agent, turn, fake, mut fakes) = lasting_turn(Agent::builder()).await;
    let thread = turn.thread().clone();
    drop((turn, fake));
    let serving = async {
        let mut fake = Fake::next(&mut fakes).await;
        fake.answer_to("thread/resume", resumed("e.1", replay(1, &[]), json!([]))).await;
        fake.end("e.1", "completed").await;
        fake.answer_to("turn/start", crate::fake::begun("v")).await;
        fake
    };
    let (turn, _fake) = tokio::join!(thread.turn("next"), serving);
    assert_eq!(turn.unwrap().id(), "v");
}

#[tokio::test]
async fn an_overloaded_server_is_asked_again() {
    let (builder, mut fakes) = lasting(Agent::builder().overload_retries(2));
    let (agent, mut fake) = tokio::join!(builder.start(), Fake::next(&mut fakes));
    let agent = agent.unwrap();
    for refusals in [2, 3] {
        let serving = async {
            for _ in 0..refusals {
                let id = fake.receive().await["id"].clone();
                let error = json!({ "code": -32001, "message": "later" });
                fake.write(&json!({ "id": id, "error": error }).to_string()).await;
            }
            if refusals == 2 {
                fake.answer_to("thread/list", json!({ "data": [], "nextCursor": null })).await;
            }
        };
        let (listed, ()) = tokio::join!(list(&agent), serving);
        assert_eq!(listed.is_ok(), refusals == 2, "{listed:?}");
    }
}
