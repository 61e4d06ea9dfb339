//! Threads as lines of JSON: an exported and imported thread is the same thread.

use crate::common::Backend;
use crate::common::{append, create, finish, history, put, record, start};
use proptest::prelude::*;
use store::StoreError;
use store::transfer::{Copied, copy_threads, export, import};
use store::{
    Direction, QueueWrite, QueuedEntry, Store, ThreadChanges, TurnStatus, TurnsQuery, Write,
};

async fn lines(store: &Store, thread: &str) -> String {
    let mut lines = String::new();
    let write = |line: &str| {
        lines.push_str(line);
        lines.push('\n');
        Ok(())
    };
    export(store, thread, write).await.unwrap();
    lines
}

/// A store with threads of each kind that a copy has to keep, and their ids.
async fn filled(backend: Backend) -> (crate::common::EmptyStore, [&'static str; 3]) {
    let store = backend.empty().await;
    let queued = QueuedEntry { id: "q".into(), payload: "{\"n\":1}".into() };
    let mut archived = record("old", 3);
    archived.archived = true;
    for writes in [
        vec![
            create(record("a", 7)),
            append("a", None, &["\"before\""]),
            start("a", "1", 5000),
            put("a", "1", "x", "{\"text\":\"a\\u0000 \u{1F980}\"}"),
            append("a", Some("1"), &["{\"said\": 1}"]),
            finish("a", "1"),
        ],
        vec![
            crate::common::fork("b", "a", None),
            start("b", "2", 6000),
            append("b", Some("2"), &["2"]),
            finish("b", "2"),
            append("b", None, &["\"after\""]),
            Write::Queue { thread: "b".into(), write: QueueWrite::Add(queued) },
        ],
        vec![create(archived), start("old", "t", 1), finish("old", "t")],
        // Nobody sees it.
        vec![create(record("empty", 1))],
    ] {
        store.commit(writes).await.unwrap();
    }
    (store, ["a", "b", "old"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_are_copied_between_all_backends_and_compared() {
    for from in Backend::ALL {
        for to in Backend::ALL {
            let (source, threads) = filled(from).await;
            let target = to.empty().await;
            let copied = copy_threads(&source, &target).await.unwrap();
            let all = Copied { copied: 3, present: 0, turns: 4, items: 2 };
            assert_eq!(copied, all, "{from:?} {to:?}");
            for id in threads {
                assert_eq!(history(&target, id).await, history(&source, id).await);
                assert_eq!(target.queue(id).await.unwrap(), source.queue(id).await.unwrap());
                let (copy, original) = (target.thread(id).await, source.thread(id).await);
                assert_eq!(copy.unwrap().unwrap().record, original.unwrap().unwrap().record);
            }
            // The leases are free, so that a server can open them.
            target.another().await.open_thread("a").await.map(drop).unwrap_or_else(|error| {
                assert_eq!(to, Backend::Memory, "{error}");
            });
            let again = copy_threads(&source, &target).await.unwrap();
            assert_eq!(again, Copied { copied: 0, present: 3, ..all }, "{from:?} {to:?}");
        }
    }
}

#[tokio::test]
async fn a_copy_changes_no_thread_that_differs_and_goes_on_after_an_end() {
    for backend in Backend::ALL {
        let (source, _) = filled(backend).await;
        let target = backend.empty().await;
        // As a copy leaves it that ends after the first thread.
        import(&target, lines(&source, "a").await.as_bytes(), None).await.unwrap();
        let copied = copy_threads(&source, &target).await.unwrap();
        assert_eq!((copied.copied, copied.present), (2, 1), "{backend:?}");

        let name = ThreadChanges { name: Some(Some("Mine".into())), ..ThreadChanges::default() };
        let changed = vec![Write::UpdateThread { thread: "b".into(), changes: Box::new(name) }];
        target.write_unloaded("b", changed).await.unwrap();
        let before = lines(&target, "b").await;
        let error = copy_threads(&source, &target).await.unwrap_err();
        assert!(matches!(&error, StoreError::Differs { thread } if thread == "b"), "{error}");
        assert_eq!(lines(&target, "b").await, before);

        let (running, _) = filled(backend).await;
        running.commit(vec![start("a", "now", 9000)]).await.unwrap();
        let error = copy_threads(&running, &*backend.empty().await).await.unwrap_err();
        assert!(matches!(error, StoreError::TurnInFlight { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_fork_is_exported_and_imported_whole() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        store
            .commit(vec![create(record("a", 7)), append("a", None, &["\"before\""])])
            .await
            .unwrap();
        for id in ["1", "2"] {
            let large = format!("\"{}\"", "large ".repeat(5000));
            let writes = vec![
                start("a", id, 5000),
                put("a", id, "x", &large),
                append("a", Some(id), &[&format!("{{\"said\":{id}}}")]),
                finish("a", id),
            ];
            store.commit(writes).await.unwrap();
        }
        let fork = |id: &str, last: Option<&str>| Write::Fork {
            record: Box::new(record(id, 9)),
            parent: "a".into(),
            last_turn: last.map(Into::into),
        };
        store
            .commit(vec![fork("b", Some("1")), start("b", "3", 1), append("b", None, &["1"])])
            .await
            .unwrap();
        let written = lines(&store, "b").await;
        assert!(!written.contains("\"id\":\"2\""));

        let other = backend.empty().await;
        assert_eq!(import(&other, written.as_bytes(), None).await.unwrap(), "b");
        let error = import(&other, written.as_bytes(), None).await.unwrap_err();
        assert!(error.to_string().contains("already stored"), "{error}");
        assert_eq!(import(&other, written.as_bytes(), Some("c".into())).await.unwrap(), "c");
        for id in ["b", "c"] {
            assert_eq!(history(&other, id).await, history(&store, "b").await);
            let query = TurnsQuery { limit: 9, direction: Direction::Ascending, cursor: None };
            let found = other.turns_with_items(id, query.clone()).await.unwrap().rows;
            let expected = store.turns_with_items("b", query).await.unwrap().rows;
            let ids = |rows: &[(store::TurnRow, Vec<store::ItemRow>)]| {
                rows.iter()
                    .map(|(turn, items)| (turn.id.clone(), items.clone()))
                    .collect::<Vec<_>>()
            };
            assert_eq!(ids(&found), ids(&expected));
            assert_eq!(found[1].0.status, TurnStatus::Interrupted, "it does not continue here");
            let stored = other.thread(id).await.unwrap().unwrap();
            assert_eq!((stored.record.updated_at, stored.record.created_at), (9, 9));
        }
        assert_eq!(lines(&other, "b").await.lines().count(), written.lines().count());
    }
}

#[tokio::test]
async fn invalid_lines_are_reported_by_number_and_store_nothing() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        store
            .commit(vec![create(record("a", 7)), start("a", "1", 1), finish("a", "1")])
            .await
            .unwrap();
        let good = lines(&store, "a").await;
        let other = backend.empty().await;
        let parts: Vec<&str> = good.lines().collect();
        let [first, turn, end] = parts[..] else { panic!("{good}") };
        for (text, line, why) in [
            (String::new(), 1, "no thread"),
            ("rubbish".to_owned(), 1, "expected"),
            (good.lines().nth(1).unwrap().to_owned(), 1, "the first line"),
            (format!("{good}\n{first}"), 5, "the first line"),
            (format!("{good}{{\"item\":{{}}}}"), 4, "missing field"),
            (good.replace("\"format\":2", "\"format\":99"), 1, "99"),
            // Cut off at the end of a line, a line lost within, more behind the end.
            (first.to_owned(), 1, "the lines end here"),
            (format!("{first}\n\n{turn}\n"), 3, "the lines end here"),
            (format!("{first}\n{end}\n"), 2, "2 lines should stand before it, not 1"),
            (format!("{good}{turn}\n"), 4, "follows the end"),
            (format!("{good}{end}\n"), 4, "follows the end"),
        ] {
            let error = import(&other, text.as_bytes(), None).await.unwrap_err();
            let matches = matches!(&error, StoreError::ImportLine { line: at, why: found }
            if *at == line && found.contains(why));
            assert!(matches, "{error}");
        }
        assert_eq!(other.thread("a").await.unwrap(), None);
        // The format before counted no lines.
        let old = format!("{}\n{turn}\n", first.replace("\"format\":2", "\"format\":1"));
        assert_eq!(import(&other, old.as_bytes(), None).await.unwrap(), "a");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Any text, even one with a valid beginning, is stored completely or not at all.
    #[test]
    fn any_text_is_handled_by_the_import(
        cut in 0..900_usize,
        rubbish in ".{0,60}",
        lines in prop::collection::vec(0..6_usize, 0..6),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for backend in Backend::ALL {
        if backend.is_skipped(cut) {
            continue;
        }
        runtime.block_on(async {
            let store = backend.empty().await;
            let writes = vec![create(record("a", 7)), start("a", "1", 1), put("a", "1", "x", "{}"),
                append("a", Some("1"), &["{}"]), finish("a", "1")];
            store.commit(writes).await.unwrap();
            let good = self::lines(&store, "a").await;
            let all: Vec<&str> = good.lines().collect();
            let mixed: Vec<&str> = lines.iter().filter_map(|at| all.get(*at).copied()).collect();
            let cut = good.char_indices().nth(cut).map_or(good.len(), |(at, _)| at);
            for text in [format!("{}{rubbish}", &good[..cut]), mixed.join("\n")] {
                let other = backend.empty().await;
                let stored = import(&other, text.as_bytes(), None).await.is_ok();
                assert_eq!(other.thread("a").await.unwrap().is_some(), stored, "{text}");
            }
        });
        }
    }
}
