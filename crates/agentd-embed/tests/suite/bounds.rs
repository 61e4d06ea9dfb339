//! Events that are not read: bounded, merged, and held back at the server.

use std::time::{Duration, Instant};

use agentd_embed::{Agent, ReplacedReason, ThreadEvent, TurnEvent};
use serde_json::json;

use crate::fake::{Fake, lasting_turn, list};

fn line(at: usize, text: &str) -> String {
    let params =
        json!({ "threadId": "t", "turnId": "u", "itemId": format!("i{}", at % 2), "delta": text });
    let cursor = format!("e.{at}");
    json!({ "method": "item/agentMessage/delta", "params": params, "eventCursor": cursor })
        .to_string()
}

fn item(id: &str, text: &str) -> String {
    let item = json!({ "type": "agentMessage", "id": id, "text": text });
    let params = json!({ "threadId": "t", "turnId": "u", "item": item, "completedAtMs": 1 });
    json!({ "method": "item/completed", "params": params, "eventCursor": "f" }).to_string()
}

/// Writes deltas of two texts in turns, which cannot be merged.
async fn flood(fake: &mut Fake, count: usize) {
    for at in 0..count {
        fake.write(&line(at, "x")).await;
    }
}

/// A reader that takes nothing holds the server back.
#[tokio::test]
async fn unread_events_hold_the_server_back() {
    let (_agent, turn, mut fake, _fakes) = lasting_turn(Agent::builder()).await;
    // More than the queues hold: the writing waits.
    let writing = tokio::time::timeout(Duration::from_millis(800), flood(&mut fake, 20_000)).await;
    assert!(writing.is_err(), "the server was not held back");
    drop(turn);
}

#[tokio::test]
async fn a_text_is_whole_after_a_reduction() {
    let (agent, mut turn, mut fake, _fakes) = lasting_turn(Agent::builder()).await;
    let count = 30_000;
    let serving = async {
        // Requests are answered in front of what is not read, so that reading goes on.
        let id = fake.receive().await["id"].clone();
        flood(&mut fake, count).await;
        let page = json!({ "data": [], "nextCursor": null });
        fake.write(&json!({ "id": id, "result": page }).to_string()).await;
    };
    let (listed, ()) = tokio::join!(list(&agent), serving);
    listed.unwrap();
    let whole = "x".repeat(count / 2);
    for id in ["i0", "i1"] {
        fake.write(&item(id, &whole)).await;
    }
    fake.end("g", "completed").await;
    let mut written = 0;
    let mut events = 0;
    while let Some(event) = turn.next().await {
        events += 1;
        if let TurnEvent::Text(text) = event.unwrap() {
            written += text.len();
        }
    }
    assert_eq!(written, count);
    assert!(events < 9000, "{events} were kept");
    assert_eq!(turn.result().await.unwrap().text, whole);
}

#[tokio::test]
async fn adjacent_deltas_are_merged_into_the_same_text() {
    let (agent, mut turn, mut fake, _fakes) = lasting_turn(Agent::builder()).await;
    let serving = async {
        let id = fake.receive().await["id"].clone();
        for at in 0..50_000 {
            fake.delta(&format!("e.{at}"), &format!("{at} ")).await;
        }
        let page = json!({ "data": [], "nextCursor": null });
        fake.write(&json!({ "id": id, "result": page }).to_string()).await;
    };
    let (listed, ()) = tokio::join!(list(&agent), serving);
    listed.unwrap();
    fake.end("g", "completed").await;
    let (mut texts, mut parts) = (String::new(), 0);
    while let Some(event) = turn.next().await {
        if let TurnEvent::Text(text) = event.unwrap() {
            texts += &text;
            parts += 1;
        }
    }
    let whole: String = (0..50_000).map(|at| format!("{at} ")).collect();
    assert!(texts == whole && parts < 1000, "{parts}");
}

#[tokio::test]
async fn a_reader_of_a_thread_that_takes_nothing_gets_one_event_for_all() {
    let (agent, turn, mut fake, _fakes) = lasting_turn(Agent::builder()).await;
    let mut events = turn.thread().events(None);
    drop(turn);
    let serving = async {
        let id = fake.receive().await["id"].clone();
        flood(&mut fake, 10_000).await;
        let page = json!({ "data": [], "nextCursor": null });
        fake.write(&json!({ "id": id, "result": page }).to_string()).await;
    };
    let (listed, ()) = tokio::join!(list(&agent), serving);
    listed.unwrap();
    let turns = json!([{ "id": "u", "status": "inProgress", "error": null, "items": [] }]);
    let answer = json!({ "thread": { "id": "t", "turns": turns } });
    let (first, _) = tokio::join!(events.next(), fake.answer_to("thread/read", answer));
    let Some(Ok(ThreadEvent::Replaced(replaced))) = first else { panic!("{first:?}") };
    assert_eq!((replaced.reason, replaced.turns.len()), (ReplacedReason::Lagged, 1));
    assert_eq!(replaced.cursor.as_deref(), Some("e.9999"));
    fake.delta("f.1", "after").await;
    let Some(Ok(ThreadEvent::Notification(after))) = events.next().await else { panic!() };
    assert_eq!(after.cursor.as_deref(), Some("f.1"));
}

/// On one thread, with events that arrive and are read as fast as they can.
#[tokio::test]
async fn no_timer_is_late_with_200000_events() {
    let (_agent, mut turn, mut fake, _fakes) = lasting_turn(Agent::builder()).await;
    let count = 200_000;
    let writing = tokio::spawn(async move {
        let lines: Vec<String> = (0..1000).map(|at| line(at, "x")).collect();
        for _ in 0..count / lines.len() {
            let all = lines.join("\n");
            fake.write(&all).await;
        }
        fake.end("g", "completed").await;
        fake
    });
    let reading = tokio::spawn(async move {
        let mut read = 0;
        while let Some(event) = turn.next().await {
            if let TurnEvent::Text(text) = event.unwrap() {
                read += text.len();
            }
        }
        read
    });
    let mut latest = Vec::new();
    while !reading.is_finished() {
        let began = Instant::now();
        // tidy: sleep because the lateness of timers is what is measured.
        tokio::time::sleep(Duration::from_millis(1)).await;
        latest.push(began.elapsed());
    }
    assert_eq!(reading.await.unwrap(), count);
    drop(writing.await.unwrap());
    latest.sort();
    // Single ticks that the machine holds up are no fault of the reading.
    let late = latest[latest.len() * 9 / 10];
    assert!(latest.len() > 10 && late < Duration::from_millis(50), "{late:?} of {}", latest.len());
}
