//! The list of threads, reviews, changes of threads, and handlers of notifications.

use std::sync::{Arc, Mutex};

use agentd_embed::protocol::{ReviewDelivery, ReviewTarget, ThreadListParams};
use agentd_embed::{Agent, AgentBuilder, Error, ReviewOptions, UndoOptions};
use serde_json::{Value, json};

use crate::fake::{begun, opened, started, turn};

#[tokio::test]
async fn threads_are_listed_in_pages() {
    for (limit, expected) in [(None, 3), (Some(2), 2), (Some(3), 3), (Some(0), 0)] {
        let (agent, mut fake) = started(Agent::builder()).await;
        let mut threads = agent.list(ThreadListParams { limit, ..Default::default() });
        let serving = async {
            for (cursor, next, count) in
                [(Value::Null, json!("more"), 2), (json!("more"), Value::Null, 1)]
            {
                if expected == 0 || (expected == 2 && next.is_null()) {
                    return;
                }
                let page: Vec<Value> = (0..count).map(|_| opened()["thread"].clone()).collect();
                let answer = json!({ "data": page, "nextCursor": next, "backwardsCursor": null });
                let asked = fake.answer_to("thread/list", answer).await;
                assert_eq!(asked["cursor"], cursor);
            }
        };
        let listing = async {
            let mut count = 0;
            while threads.next().await.unwrap().is_some() {
                count += 1;
            }
            count
        };
        let (count, ()) = tokio::join!(listing, serving);
        assert_eq!(count, expected, "{limit:?}");
    }
}

#[tokio::test]
async fn a_review_has_its_findings_and_a_detached_one_frees_its_thread() {
    for is_detached in [false, true] {
        let (_agent, first, mut fake) = turn().await;
        let thread = first.thread().clone();
        fake.end("e.1", "completed").await;
        let runs_in = if is_detached { "fork" } else { "t" };
        let options = match is_detached {
            true => ReviewOptions::default().delivery(ReviewDelivery::Detached),
            false => ReviewOptions::default(),
        };
        let mut answer = begun("r");
        answer["reviewThreadId"] = runs_in.into();
        let target = ReviewTarget::UncommittedChanges {};
        let serving = fake.answer_to("review/start", answer);
        let (review, asked) = tokio::join!(thread.review(target, options), serving);
        let mut review = review.unwrap();
        assert_eq!(asked["target"]["type"], "uncommittedChanges");
        assert_eq!((review.thread().id(), review.id()), (runs_in, "r"));
        if is_detached {
            // Its thread is free for the next turn.
            let (next, ()) = tokio::join!(thread.turn("next"), fake.answer(begun("n")));
            assert_eq!(next.unwrap().id(), "n");
        }
        let item = json!({
            "type": "exitedReviewMode", "id": "i", "review": "One finding.", "explanation": "Almost.",
            "findings": [{ "title": "Off by one", "priority": 1 }],
        });
        let place = json!({ "threadId": runs_in, "turnId": "r", "item": item, "completedAtMs": 1 });
        fake.say("item/completed", "e.2", place).await;
        let ended = json!({ "id": "r", "status": "completed", "error": null });
        fake.say(
            "turn/completed",
            "e.3",
            json!({ "threadId": runs_in, "turnId": "r", "turn": ended }),
        )
        .await;
        let result = review.result().await.unwrap();
        assert_eq!(result.review.as_deref(), Some("One finding."));
        assert_eq!(result.explanation.as_deref(), Some("Almost."));
        assert_eq!(result.findings.unwrap()[0].title, "Off by one");
    }
}

#[tokio::test]
async fn changes_of_a_thread_are_the_methods_of_the_protocol() {
    let (agent, turn, mut fake) = turn().await;
    let thread = turn.thread();
    let whole = opened()["thread"].clone();
    let files = json!({ "diff": "", "diffTruncated": false, "restored": ["/a"], "conflicts": [], "notRestored": [] });
    let options = UndoOptions::default().dry_run();
    let answer = json!({ "thread": whole, "files": files });
    let (undone, asked) =
        tokio::join!(thread.undo(2, options), fake.answer_to("thread/rollback", answer));
    assert_eq!(undone.unwrap().restored, ["/a"]);
    assert_eq!(
        asked,
        json!({ "threadId": "t", "numTurns": 2, "restoreFiles": true, "dryRun": true })
    );
    let answer = json!({ "thread": whole });
    let (rolled, asked) =
        tokio::join!(thread.rollback(1), fake.answer_to("thread/rollback", answer.clone()));
    assert_eq!(
        (rolled.unwrap().id.as_str(), asked),
        ("t", json!({ "threadId": "t", "numTurns": 1 }))
    );
    let (lacking, _) =
        tokio::join!(thread.undo(1, options), fake.answer_to("thread/rollback", answer));
    assert!(matches!(lacking, Err(Error::UnreadableResult { .. })));
    let mut fork = opened();
    fork["thread"]["id"] = "f".into();
    let (forked, _) = tokio::join!(thread.fork(), fake.answer_to("thread/fork", fork));
    assert_eq!(forked.unwrap().id(), "f");
    let (done, _) = tokio::join!(agent.archive("x"), fake.answer_to("thread/archive", json!({})));
    done.unwrap();
    let (goal, _) =
        tokio::join!(thread.goal(), fake.answer_to("thread/goal/get", json!({ "goal": null })));
    assert!(goal.unwrap().is_none());
    let (cleared, _) = tokio::join!(
        thread.clear_goal(),
        fake.answer_to("thread/goal/clear", json!({ "cleared": true }))
    );
    assert!(cleared.unwrap());
}

#[tokio::test]
async fn a_handler_has_every_notification_and_a_panic_stops_none() {
    let (agent, mut turn, mut fake) = turn().await;
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let all = seen.clone();
    let panicking = agent.on_notification(|_| panic!("a panic of the test"));
    let handle = agent.on_notification(move |notification| {
        all.lock().unwrap().push(notification.method.clone());
    });
    fake.write(r#"{"method":"account/updated","params":{}}"#).await;
    fake.delta("e.1", "one").await;
    assert_eq!(turn.next_text().await.unwrap().as_deref(), Some("one"));
    drop((handle, panicking));
    fake.delta("e.2", "two").await;
    assert_eq!(turn.next_text().await.unwrap().as_deref(), Some("two"));
    assert_eq!(*seen.lock().unwrap(), ["account/updated", "item/agentMessage/delta"]);
}

#[tokio::test]
async fn needed_notifications_cannot_be_left_out() {
    use agentd_embed::protocol::InitializeCapabilities;

    let with = |method: &str| -> AgentBuilder {
        let opt_out_notification_methods = Some(vec![method.to_owned()]);
        let asked = InitializeCapabilities { opt_out_notification_methods, ..Default::default() };
        Agent::builder().capabilities(asked)
    };
    let (connection, _fake) = crate::fake::Fake::new();
    let refused = with("turn/completed").over(connection).await.err().unwrap();
    assert!(
        matches!(&refused, Error::InvalidArgument(why) if why.contains("`turn/completed`")),
        "{refused}"
    );
    started(with("turn/plan/updated")).await;
}

/// Applications spawn them.
#[tokio::test]
async fn futures_can_be_sent_to_other_threads() {
    fn is_send<T: Send>(_: &T) {}

    let (agent, mut turn, _fake) = turn().await;
    let thread = turn.thread().clone();
    let mut events = thread.events(None);
    is_send(&agent.run("x"));
    is_send(&agent.resume("t"));
    is_send(&agent.list(ThreadListParams::default()).next());
    is_send(&thread.run("x"));
    is_send(&thread.running());
    is_send(&thread.steer("x"));
    is_send(&thread.compact());
    is_send(&thread.review(ReviewTarget::UncommittedChanges {}, ReviewOptions::default()));
    is_send(&events.next());
    is_send(&turn.result());
    is_send(&turn);
    is_send(&events);
}
