//! Search in what was said: which threads are found, in which order, and what deletions, rollbacks and
//! forks change. The index of words and a scan of all texts find the same.

use crate::common::{
    Backend, TEXTS, create, delete, finish, fork, open, put, record, roll_back, start,
};
use proptest::prelude::*;
use store::{Direction, ListQuery, SortKey, Store, StoreError, TextQuery, ThreadRecord, Write};

/// A turn in which `text` was said.
fn said(thread: &str, turn: &str, text: &str) -> Vec<Write> {
    vec![start(thread, turn, 1), put(thread, turn, "item", text), finish(thread, turn)]
}

async fn index(store: &Store) {
    while store.index_turns(TEXTS, true, 3).await.unwrap() {}
}

fn query(term: &str) -> TextQuery {
    TextQuery { term: term.into(), list: ListQuery { limit: 100, ..ListQuery::default() } }
}

async fn found(store: &Store, query: TextQuery) -> Vec<String> {
    let page = store.search_text(query, TEXTS).await.unwrap();
    page.rows.into_iter().map(|row| format!("{}/{}", row.thread.record.id, row.turn)).collect()
}

#[tokio::test]
async fn threads_are_found_by_all_words_of_any_turn() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        for (at, text) in
            [(1, "Fix the parser in src/main.rs"), (2, "parser Überfluss"), (3, "東京都へ")]
        {
            let id = at.to_string();
            store.commit(vec![create(record(&id, at))]).await.unwrap();
            store.commit(said(&id, "a", text)).await.unwrap();
            store.commit(said(&id, "b", "ok")).await.unwrap();
        }
        index(&store).await;
        for (term, expected) in [
            ("parser", &["2/a", "1/a"][..]),
            ("PARS", &["2/a", "1/a"]),
            ("pa", &[]),
            ("fix parser", &["1/a"]),
            ("fix the src/main.rs", &["1/a"]),
            ("main.r", &[]),
            ("arser", &[]),
            ("überfl", &["2/a"]),
            ("京都", &["3/a"]),
            ("都京", &[]),
            ("OK", &["3/b", "2/b", "1/b"]),
            ("ok fix", &[]),
            ("?", &[]),
            ("\"", &[]),
            ("parser AND", &[]),
        ] {
            assert_eq!(found(&store, query(term)).await, expected, "{backend:?} {term}");
        }
        let page = store.search_text(query("main"), TEXTS).await.unwrap();
        assert_eq!(page.rows[0].snippet.text, "Fix the parser in src/main.rs");
        assert_eq!(page.rows[0].snippet.matched, 22..26);
    }
}

#[tokio::test]
async fn only_turns_that_a_thread_shows_count() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        store.commit(vec![create(record("a", 1))]).await.unwrap();
        store.commit(said("a", "1", "first alpha")).await.unwrap();
        store.commit(said("a", "2", "second beta")).await.unwrap();
        store.commit(vec![fork("b", "a", Some("1")), fork("c", "a", None)]).await.unwrap();
        store.commit(said("b", "3", "third gamma")).await.unwrap();
        store.commit(vec![start("a", "4", 1), put("a", "4", "i", "running delta")]).await.unwrap();
        index(&store).await;
        let check = async |term: &str, expected: &[&str]| {
            let mut found = found(&store, query(term)).await;
            found.sort();
            assert_eq!(found, expected, "{backend:?} {term}");
        };
        check("alpha", &["a/1", "b/1", "c/1"]).await;
        check("beta", &["a/2", "c/2"]).await;
        check("gamma", &["b/3"]).await;
        check("delta", &[]).await;
        store.commit(vec![finish("a", "4")]).await.unwrap();
        index(&store).await;
        check("delta", &["a/4"]).await;
        store.commit(vec![roll_back("a", 2)]).await.unwrap();
        check("delta", &[]).await;
        check("beta", &["c/2"]).await;
        // A new turn has the place of a dropped one in the order.
        store.commit(said("a", "5", "fifth beta")).await.unwrap();
        index(&store).await;
        check("beta", &["a/5", "c/2"]).await;
        store.commit(vec![delete("a")]).await.unwrap();
        check("alpha", &["b/1", "c/1"]).await;
        check("fifth", &[]).await;
        store.commit(vec![delete("b"), delete("c")]).await.unwrap();
        check("alpha", &[]).await;
    }
}

#[tokio::test]
async fn pages_follow_each_other_with_filters_in_both_orders() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        for n in 0..30 {
            let record = ThreadRecord {
                archived: n % 10 == 9,
                source_kind: if n % 2 == 0 { "cli" } else { "editor" }.into(),
                updated_at: 1000 - n,
                ..record(&format!("{n:02}"), n)
            };
            let id = record.id.clone();
            store.commit(vec![create(record)]).await.unwrap();
            let text = if n % 3 == 0 { "common rare" } else { "common" };
            store.commit(said(&id, "t", text)).await.unwrap();
        }
        index(&store).await;
        let walk = async |list: ListQuery, term: &str| {
            let mut query = TextQuery { term: term.into(), list: ListQuery { limit: 4, ..list } };
            let mut all = Vec::new();
            loop {
                let page = store.search_text(query.clone(), TEXTS).await.unwrap();
                all.extend(page.rows.into_iter().map(|row| row.thread.record.id));
                query.list.cursor = page.next_cursor;
                if query.list.cursor.is_none() {
                    return all;
                }
            }
        };
        let ids = |keep: &dyn Fn(i64) -> bool| -> Vec<String> {
            (0..30).rev().filter(|n| n % 10 != 9 && keep(*n)).map(|n| format!("{n:02}")).collect()
        };
        let newest = walk(ListQuery::default(), "rare").await;
        assert_eq!(newest, ids(&|n| n % 3 == 0));
        let ascending = ListQuery { direction: Direction::Ascending, ..ListQuery::default() };
        let mut oldest = walk(ascending, "rare").await;
        oldest.reverse();
        assert_eq!(oldest, newest);
        let by_update = ListQuery { sort: SortKey::Updated, ..ListQuery::default() };
        let mut updated = walk(by_update, "common").await;
        updated.reverse();
        assert_eq!(updated, ids(&|_| true));
        let editors = ListQuery { sources: vec!["editor".into()], ..ListQuery::default() };
        assert_eq!(walk(editors, "common").await, ids(&|n| n % 2 == 1));
        let archived = ListQuery { archived: true, ..ListQuery::default() };
        assert_eq!(walk(archived, "common").await, ["29", "19", "09"]);
        let mut other = query("common");
        other.list.cursor = store
            .search_text(
                TextQuery { list: ListQuery { limit: 4, ..ListQuery::default() }, ..query("rare") },
                TEXTS,
            )
            .await
            .unwrap()
            .next_cursor;
        assert!(other.list.cursor.is_some());
        let refused = store.search_text(other, TEXTS).await.unwrap_err();
        assert!(matches!(refused, StoreError::BadCursor { .. }), "{refused}");
    }
}

/// More matches than are read before a list is walked, in one thread each or in few threads.
#[tokio::test]
async fn terms_with_thousands_of_matches_are_found_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut writes = Vec::new();
    for thread in 0..1200 {
        let id = format!("{thread:04}");
        writes.push(create(record(&id, thread)));
        writes.extend(said(&id, "a", if thread % 40 == 7 { "usual seldom" } else { "usual" }));
        writes.extend(said(&id, "b", if thread < 5 { "usual old" } else { "usual" }));
    }
    // One thread with more matches than all others.
    for turn in 0..2100 {
        writes.extend(said("0003", &format!("t{turn}"), "busy"));
    }
    store.commit(writes).await.unwrap();
    while store.index_turns(TEXTS, true, 500).await.unwrap() {}
    let page = async |term: &str, direction, sort| {
        let list = ListQuery { limit: 3, direction, sort, ..ListQuery::default() };
        let query = TextQuery { term: term.into(), list };
        let page = store.search_text(query, TEXTS).await.unwrap();
        page.rows.into_iter().map(|row| row.thread.record.id).collect::<Vec<_>>()
    };
    let (down, up) = (Direction::Descending, Direction::Ascending);
    assert_eq!(page("usual", down, SortKey::Created).await, ["1199", "1198", "1197"]);
    assert_eq!(page("usual", up, SortKey::Created).await, ["0000", "0001", "0002"]);
    assert_eq!(page("usual", down, SortKey::Updated).await, ["1199", "1198", "1197"]);
    assert_eq!(page("usual seldom", down, SortKey::Created).await, ["1167", "1127", "1087"]);
    assert_eq!(page("usual old", down, SortKey::Created).await, ["0004", "0003", "0002"]);
    assert_eq!(page("busy", down, SortKey::Created).await, ["0003"]);
    assert_eq!(page("bus", up, SortKey::Updated).await, ["0003"]);
}

#[tokio::test]
async fn words_of_deleted_threads_are_erased_from_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for thread in ["keep", "drop"] {
        store.commit(vec![create(record(thread, 1))]).await.unwrap();
        store.commit(said(thread, "1", &format!("common only-in-{thread}xyzzy"))).await.unwrap();
    }
    index(&store).await;
    store.commit(vec![delete("drop")]).await.unwrap();
    store.close().await.unwrap();
    let bytes = std::fs::read(dir.path().join("threads.db")).unwrap();
    let holds = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(holds("keepxyzzy") && !holds("dropxyzzy"));
    let store = open(dir.path());
    assert_eq!(found(&store, query("common")).await, ["keep/1"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_index_finds_what_a_scan_finds(
        texts in proptest::collection::vec("[ab東京 .]{0,12}", 1..12),
        terms in proptest::collection::vec("[ab東京 .]{1,6}", 1..8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut stores = Vec::new();
            for backend in Backend::ALL {
                stores.push(backend.empty().await);
            }
            for store in &stores {
                for (at, text) in texts.iter().enumerate() {
                    let id = (at / 2).to_string();
                    if at % 2 == 0 {
                        store.commit(vec![create(record(&id, at as i64))]).await.unwrap();
                    }
                    store.commit(said(&id, &at.to_string(), text)).await.unwrap();
                }
                index(store).await;
            }
            for term in &terms {
                let [memory, sqlite, postgres] = &stores[..] else { panic!() };
                let expected = found(memory, query(term)).await;
                assert_eq!(found(sqlite, query(term)).await, expected, "{term}");
                assert_eq!(found(postgres, query(term)).await, expected, "{term}");
            }
        });
    }
}
