//! Written values read back unchanged and in the documented order, and misuse is refused by name.

use crate::common::{Backend, open_with};
use crate::common::{append, create, finish, history, listed, open, options, put, record, start};
use store::{
    Direction, Fragment, ItemRow, Store, StoreError, Synchronous, ThreadChanges, TurnOutcome,
    TurnStatus, TurnsQuery, Write,
};

/// Runs a test on each backend.
async fn on_both<F: AsyncFn(Store)>(test: F) {
    for backend in Backend::ALL {
        let empty = backend.empty().await;
        test((*empty).clone()).await;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut full = options();
    full.synchronous = Synchronous::Full;
    test(open_with(dir.path(), full).unwrap()).await;
}

fn payloads(items: &[ItemRow]) -> Vec<&str> {
    items.iter().map(|item| item.payload.as_str()).collect()
}

#[tokio::test]
async fn a_thread_reads_back_whole() {
    on_both(async |store| {
        let mut thread = record("a", 7);
        thread.forked_from_id = Some("root".into());
        thread.name = Some("Größe\0".into());
        thread.git_info = Some(r#"{"sha":"1"}"#.into());
        thread.token_usage = Some("{}".into());
        thread.extra = Some("[1]".into());
        thread.archived = true;
        store.commit(vec![create(thread.clone())]).await.unwrap();
        let found = store.thread("a").await.unwrap().unwrap();
        assert_eq!(found.record, thread);
        assert_eq!(found.turn_count, 0);
        assert_eq!(store.thread("b").await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn changes_affect_only_named_fields() {
    on_both(async |store| {
        let mut expected = record("a", 7);
        expected.git_info = Some("{}".into());
        store.commit(vec![create(expected.clone())]).await.unwrap();
        let changes = ThreadChanges {
            preview: Some("hello".into()),
            name: Some(Some("n".into())),
            updated_at: Some(9),
            git_info: Some(None),
            archived: Some(true),
            settings: Some("{\"model\":1}".into()),
            ..ThreadChanges::default()
        };
        let update = |changes| Write::UpdateThread { thread: "a".into(), changes };
        let writes = vec![update(Box::new(changes)), update(Box::default())];
        store.commit(writes).await.unwrap();
        expected.preview = "hello".into();
        expected.name = Some("n".into());
        expected.updated_at = 9;
        expected.git_info = None;
        expected.archived = true;
        expected.settings = "{\"model\":1}".into();
        assert_eq!(store.thread("a").await.unwrap().unwrap().record, expected);
    })
    .await;
}

#[tokio::test]
async fn a_turn_ends_exactly_once() {
    on_both(async |store| {
        store.commit(vec![create(record("a", 7)), start("a", "t1", 9_500)]).await.unwrap();
        let thread = store.thread("a").await.unwrap().unwrap();
        assert_eq!((thread.turn_count, thread.record.updated_at), (1, 9));
        let running = store.last_turn("a").await.unwrap().unwrap();
        assert_eq!((running.status, running.completed_at_ms), (TurnStatus::InProgress, None));

        let end = Write::FinishTurn {
            thread: "a".into(),
            turn: "t1".into(),
            outcome: TurnOutcome::Failed,
            error: Some("{\"message\":\"m\"}".into()),
            completed_at_ms: 10_000,
            duration_ms: 500,
            usage: Some("{}".into()),
        };
        store.commit(vec![end]).await.unwrap();
        let ended = store.last_turn("a").await.unwrap().unwrap();
        assert_eq!(ended.status, TurnStatus::Failed);
        assert_eq!((ended.completed_at_ms, ended.duration_ms), (Some(10_000), Some(500)));
        assert_eq!(ended.error.as_deref(), Some("{\"message\":\"m\"}"));

        let again = store.commit(vec![finish("a", "t1")]).await;
        assert!(matches!(again, Err(StoreError::TurnFinished { .. })), "{again:?}");
        assert_eq!(store.last_turn("a").await.unwrap().unwrap(), ended);
    })
    .await;
}

#[tokio::test]
async fn the_first_put_determines_the_order() {
    on_both(async |store| {
        let writes = vec![
            create(record("a", 1)),
            start("a", "t", 1),
            put("a", "t", "x", "x1"),
            put("a", "t", "y", "y1"),
            put("a", "t", "x", "x2"),
            put("a", "t", "z", "z1"),
        ];
        store.commit(writes).await.unwrap();
        assert_eq!(payloads(&store.items("a", "t").await.unwrap()), ["x2", "y1", "z1"]);
    })
    .await;
}

#[tokio::test]
async fn history_is_in_order_across_turns() {
    on_both(async |store| {
        let writes = vec![
            create(record("a", 1)),
            create(record("b", 1)),
            append("a", None, &["before"]),
            start("a", "t1", 1),
            append("a", Some("t1"), &["1", "2"]),
            start("b", "t1", 1),
            append("b", Some("t1"), &["other"]),
            append("a", None, &["injected"]),
            start("a", "t2", 1),
            append("a", Some("t2"), &["3"]),
            append("a", Some("t2"), &[]),
        ];
        store.commit(writes).await.unwrap();
        assert_eq!(history(&store, "a").await, ["before", "1", "2", "injected", "3"]);
        let anew = |turn: &str, text: &str, mark| Write::AppendHistory {
            thread: "a".into(),
            turn: Some(turn.into()),
            fragments: vec![
                Fragment { text: text.into(), mark },
                Fragment { text: "kept".into(), mark: 2 },
            ],
            anew: true,
        };
        store.commit(vec![anew("t2", "summary", 1)]).await.unwrap();
        let found = store.history("a").await.unwrap();
        assert_eq!(found.iter().map(|fragment| fragment.mark).collect::<Vec<_>>(), [1, 2]);
        store.commit(vec![append("a", Some("t2"), &["4"])]).await.unwrap();
        assert_eq!(history(&store, "a").await, ["summary", "kept", "4"]);
        store.commit(vec![anew("t2", "shorter", 1)]).await.unwrap();
        assert_eq!(history(&store, "a").await, ["shorter", "kept"]);
    })
    .await;
}

#[tokio::test]
async fn turns_page_both_ways_with_their_items() {
    on_both(async |store| {
        let mut writes = vec![create(record("a", 1)), create(record("b", 1))];
        for n in 1..=7 {
            let turn = format!("t{n}");
            writes.push(start("a", &turn, n));
            writes.push(start("b", &turn, n));
            writes.push(put("a", &turn, "i", &format!("{n}i")));
            writes.push(put("a", &turn, "j", &format!("{n}j")));
            writes.push(finish("a", &turn));
        }
        store.commit(writes).await.unwrap();
        let query = |cursor: Option<&String>, direction| TurnsQuery {
            limit: 3,
            cursor: cursor.cloned(),
            direction,
        };
        let ids = |rows: &[(store::TurnRow, Vec<ItemRow>)]| -> Vec<String> {
            rows.iter().map(|(row, items)| format!("{}{:?}", row.id, payloads(items))).collect()
        };
        use Direction::{Ascending, Descending};
        let first = store.turns_with_items("a", query(None, Descending)).await.unwrap();
        let expected = [r#"t7["7i", "7j"]"#, r#"t6["6i", "6j"]"#, r#"t5["5i", "5j"]"#];
        assert_eq!(ids(&first.rows), expected);
        let next = first.next_cursor.as_ref();
        let second = store.turns_with_items("a", query(next, Descending)).await.unwrap();
        let expected = [r#"t4["4i", "4j"]"#, r#"t3["3i", "3j"]"#, r#"t2["2i", "2j"]"#];
        assert_eq!(ids(&second.rows), expected);
        let back = second.backwards_cursor.as_ref();
        let newer = store.turns_with_items("a", query(back, Ascending)).await.unwrap();
        let expected = [r#"t5["5i", "5j"]"#, r#"t6["6i", "6j"]"#, r#"t7["7i", "7j"]"#];
        assert_eq!(ids(&newer.rows), expected);
        assert_eq!(newer.next_cursor, None);
        let next = second.next_cursor.as_ref();
        let last = store.turns("a", query(next, Descending)).await.unwrap();
        assert_eq!((last.rows.len(), last.next_cursor), (1, None));
        assert_eq!(store.last_turn("a").await.unwrap().unwrap().ordinal, 7);
        let (tag, _) = next.unwrap().split_once('.').unwrap();
        let nothing = query(Some(&format!("{tag}.4294967295.0")), Ascending);
        assert_eq!(store.turns("a", nothing).await.unwrap().rows, []);
    })
    .await;
}

#[tokio::test]
async fn misuse_errors_name_the_cause() {
    on_both(async |store| {
        store.commit(listed(record("a", 1))).await.unwrap();
        let check = async |write: Write, expected: &str| {
            let error = store.commit(vec![write]).await.unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check(create(record("a", 2)), "thread a is already stored").await;
        check(start("x", "t", 1), "thread x is not stored").await;
        check(start("a", "t", 1), "turn t is already stored in thread a").await;
        check(put("a", "u", "i", "{}"), "turn u is not stored in thread a").await;
        check(append("x", None, &["{}"]), "thread x is not stored").await;
        check(finish("x", "t"), "thread x is not stored").await;
        check(finish("a", "t"), "turn t of thread a has already ended").await;
        let changes = Box::default();
        let update = Write::UpdateThread { thread: "x".into(), changes };
        check(update, "thread x is not stored").await;

        assert_eq!(store.thread("a").await.unwrap().unwrap().turn_count, 1, "nothing changed");
        let missing = store.items("a", "u").await.unwrap_err();
        assert!(matches!(missing, StoreError::TurnNotFound { .. }));
        let missing = store.history("x").await.unwrap_err();
        assert!(matches!(missing, StoreError::ThreadNotFound { .. }));
        let cursor = Some("rubbish".to_owned());
        let error = store.turns("a", TurnsQuery { cursor, ..TurnsQuery::default() }).await;
        assert!(error.unwrap_err().to_string().contains("`rubbish`"));
    })
    .await;
}

#[tokio::test]
async fn commits_are_atomic() {
    on_both(async |store| {
        let writes = vec![create(record("a", 1)), start("a", "t", 1), start("nope", "t", 1)];
        assert!(store.commit(writes).await.is_err());
        assert_eq!(store.thread("a").await.unwrap(), None);
        store.commit(vec![create(record("a", 1))]).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_commit_fails_its_own_caller_only() {
    on_both(async |store| {
        let tasks: Vec<_> = (0..100)
            .map(|n| {
                let store = store.clone();
                tokio::spawn(async move {
                    let id = format!("thread-{n}");
                    let mut writes = listed(record(&id, n));
                    if n % 10 == 3 {
                        writes.push(start("nope", "t", 1));
                    }
                    store.commit(writes).await
                })
            })
            .collect();
        for (n, task) in tasks.into_iter().enumerate() {
            let bad = n % 10 == 3;
            assert_eq!(task.await.unwrap().is_err(), bad, "{n}");
            let found = store.thread(&format!("thread-{n}")).await.unwrap();
            assert_eq!(found.is_none(), bad, "{n}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_closed_store_returns_its_own_error() {
    on_both(async |store| {
        let clone = store.clone();
        store.commit(listed(record("a", 1))).await.unwrap();
        store.close().await.unwrap();
        for result in [
            clone.commit(listed(record("b", 1))).await,
            clone.thread("a").await.map(drop),
            clone.close().await,
        ] {
            assert!(matches!(result, Err(StoreError::Closed)), "{result:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_dropped_store_persists_accepted_writes() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.commit(listed(record("a", 1))).await.unwrap();
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.thread("a").await.unwrap().unwrap().record, record("a", 1));
    store.close().await.unwrap();
    let reopened = open(dir.path());
    assert_eq!(reopened.last_turn("a").await.unwrap().unwrap().status, TurnStatus::Completed);
}
