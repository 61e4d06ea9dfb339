//! Forks, rollbacks and removals share rows: after any sequence of them, each thread shows the same
//! as a full copy would.

use crate::common::Backend;
use std::collections::BTreeMap;

use crate::common;
use crate::common::{append, create, delete, finish, fork, history, put, record, roll_back, start};
use proptest::prelude::*;
use rusqlite::Connection;
use store::{Direction, Store, StoreError, TurnsQuery, Write};

/// A complete turn, with an item and a fragment that contain its name.
fn turn(thread: &str, id: &str) -> Vec<Write> {
    vec![
        start(thread, id, 1),
        put(thread, id, "item", &format!("item of {id}")),
        append(thread, Some(id), &[&format!("said in {id}")]),
        finish(thread, id),
    ]
}

async fn turns(store: &Store, thread: &str, direction: Direction, limit: u32) -> Vec<String> {
    let mut ids = Vec::new();
    let mut query = TurnsQuery { limit, direction, ..TurnsQuery::default() };
    loop {
        let page = store.turns_with_items(thread, query.clone()).await.unwrap();
        for (turn, items) in page.rows {
            assert_eq!(items[0].payload, format!("item of {}", turn.id));
            ids.push(turn.id);
        }
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            return ids;
        }
    }
}

#[tokio::test]
async fn a_fork_shows_only_earlier_turns() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        store.commit(vec![create(record("a", 1)), append("a", None, &["first"])]).await.unwrap();
        store.commit([turn("a", "1"), turn("a", "2"), turn("a", "3")].concat()).await.unwrap();
        store.commit(vec![start("a", "4", 9), append("a", Some("4"), &["running"])]).await.unwrap();
        store.commit(vec![fork("b", "a", None), fork("c", "a", Some("1"))]).await.unwrap();
        // Added outside a turn, at the place that the fork shares.
        store.commit(vec![finish("a", "4"), roll_back("a", 1)]).await.unwrap();
        store.commit(vec![append("a", None, &["later"])]).await.unwrap();
        store.commit(vec![fork("d", "b", None), append("b", None, &["of b"])]).await.unwrap();
        store.commit(turn("c", "c1")).await.unwrap();
        let said = ["first", "said in 1", "said in 2", "said in 3"];
        assert_eq!(history(&store, "a").await, [&said[..], &["later"]].concat());
        assert_eq!(history(&store, "b").await, [&said[..], &["of b"]].concat());
        assert_eq!(history(&store, "c").await, ["first", "said in 1", "said in c1"]);
        assert_eq!(history(&store, "d").await, said);
        assert_eq!(turns(&store, "c", Direction::Descending, 1).await, ["c1", "1"]);
        assert_eq!(store.thread("d").await.unwrap().unwrap().turn_count, 3);
        let running = store.commit(vec![start("a", "5", 9), fork("e", "a", Some("5"))]).await;
        assert!(matches!(running, Err(StoreError::TurnInFlight { .. })), "{running:?}");
    }
}

#[tokio::test]
async fn rollbacks_have_limits() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        store.commit(vec![create(record("a", 1))]).await.unwrap();
        store.commit([turn("a", "1"), turn("a", "2")].concat()).await.unwrap();
        let error = store.commit(vec![roll_back("a", 3)]).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "thread a has only 2 turns, so 3 cannot be dropped; drop at most 2"
        );
        store.commit(vec![start("a", "3", 1)]).await.unwrap();
        let error = store.commit(vec![roll_back("a", 1)]).await.unwrap_err();
        assert!(matches!(error, StoreError::TurnInFlight { .. }), "{error}");
        store.commit(vec![finish("a", "3"), roll_back("a", 3)]).await.unwrap();
        assert!(history(&store, "a").await.is_empty());
        let error = store.commit(vec![roll_back("a", 1)]).await.unwrap_err();
        assert_eq!(error.to_string(), "thread a has no turns, so there is nothing to drop");
        // A thread that had turns remains in lists.
        assert_eq!(store.threads(Default::default()).await.unwrap().rows.len(), 1);
    }
}

#[tokio::test]
async fn removed_content_is_erased_from_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::open(dir.path());
    let secret = "the very secret words ".repeat(2000);
    store.commit(vec![create(record("a", 1)), start("a", "1", 1)]).await.unwrap();
    let writes = vec![
        put("a", "1", "item", &secret),
        append("a", Some("1"), &["short secret"]),
        finish("a", "1"),
    ];
    store.commit(writes).await.unwrap();
    store.commit(vec![fork("b", "a", None)]).await.unwrap();
    store.commit(vec![delete("a")]).await.unwrap();
    assert_eq!(store.thread("a").await.unwrap(), None);
    assert!(matches!(
        store.turns("a", TurnsQuery::default()).await,
        Err(StoreError::ThreadNotFound { .. })
    ));
    assert_eq!(store.items("b", "1").await.unwrap()[0].payload, secret);
    assert_eq!(history(&store, "b").await, ["short secret"]);
    // Its id can be used again.
    store.commit(vec![create(record("a", 1)), delete("b"), delete("a")]).await.unwrap();
    store.close().await.unwrap();
    let bytes = std::fs::read(dir.path().join("threads.db")).unwrap();
    let holds = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(!holds("short secret") && !holds("preview of a"));
    let conn = Connection::open(dir.path().join("threads.db")).unwrap();
    let empty = ["turn", "item", "history", "chunk", "segment", "searched_text", "turn_words"];
    for table in ["thread", "queued", "unindexed"].into_iter().chain(empty) {
        let left: i64 =
            conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0, "{table}");
    }
    assert_eq!(store::check::check(dir.path()).unwrap().unwrap().problems, Vec::<String>::new());
}

#[tokio::test]
async fn items_page_across_turns_both_ways() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        store.commit(vec![create(record("a", 1))]).await.unwrap();
        for n in 1..=3 {
            let id = n.to_string();
            let items = (1..=n).map(|m| put("a", &id, &format!("{n}.{m}"), "x"));
            let mut writes = vec![start("a", &id, 1)];
            writes.extend(items);
            writes.push(finish("a", &id));
            store.commit(writes).await.unwrap();
        }
        store.commit(vec![fork("b", "a", Some("2"))]).await.unwrap();
        store
            .commit(vec![start("b", "b1", 1), put("b", "b1", "own", "x"), finish("b", "b1")])
            .await
            .unwrap();
        let walk = async |turn: Option<&str>, direction| {
            let mut found = Vec::new();
            let mut query = TurnsQuery { limit: 2, direction, ..TurnsQuery::default() };
            loop {
                let page = store.items_page("b", turn, query.clone()).await.unwrap();
                found.extend(
                    page.rows.into_iter().map(|(turn, item)| format!("{turn}/{}", item.id)),
                );
                query.cursor = page.next_cursor;
                if query.cursor.is_none() {
                    return found;
                }
            }
        };
        let all = ["1/1.1", "2/2.1", "2/2.2", "b1/own"];
        assert_eq!(walk(None, Direction::Ascending).await, all);
        let newest: Vec<&str> = all.iter().rev().copied().collect();
        assert_eq!(walk(None, Direction::Descending).await, newest);
        assert_eq!(walk(Some("2"), Direction::Ascending).await, all[1..3]);
        let hidden = store.items_page("b", Some("3"), TurnsQuery::default()).await;
        assert!(matches!(hidden, Err(StoreError::TurnNotFound { .. })));
        let page = store
            .items_page("b", None, TurnsQuery { limit: 1, ..TurnsQuery::default() })
            .await
            .unwrap();
        let query = TurnsQuery { cursor: page.next_cursor, ..TurnsQuery::default() };
        let error = store.items_page("a", None, query).await.unwrap_err();
        assert!(matches!(error, StoreError::BadCursor { .. }), "{error}");
    }
}

/// An operation on threads and turns, which it names by number.
#[derive(Debug, Clone)]
enum Step {
    Turn(usize),
    Inject(usize),
    Compact(usize),
    Fork(usize, Option<usize>),
    RollBack(usize, u32),
    Delete(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0..6_usize;
    prop_oneof![
        5 => which.clone().prop_map(Step::Turn),
        2 => which.clone().prop_map(Step::Inject),
        1 => which.clone().prop_map(Step::Compact),
        3 => (which.clone(), prop::option::of(0..8_usize)).prop_map(|(a, b)| Step::Fork(a, b)),
        2 => (which.clone(), 0..5_u32).prop_map(|(a, b)| Step::RollBack(a, b)),
        1 => which.prop_map(Step::Delete),
    ]
}

/// A place of a thread: a turn (or `None` for fragments outside a turn) and its history. If the
/// second value of a pair is true, the history restarts there.
type Copied = Vec<(Option<String>, Vec<(String, bool)>)>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn shared_segments_equal_copies(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for backend in Backend::ALL {
        if backend.is_skipped(steps.len()) {
            continue;
        }
        runtime.block_on(async {
            let store = backend.empty().await;
            let mut copies: BTreeMap<String, Copied> = BTreeMap::new();
            copies.insert("root".into(), vec![(None, Vec::new())]);
            store.commit(vec![create(record("root", 1))]).await.unwrap();
            for (number, step) in steps.iter().enumerate() {
                apply(&store, &mut copies, number, step).await;
            }
            for (thread, copy) in &copies {
                let ids: Vec<String> = copy.iter().filter_map(|(turn, _)| turn.clone()).collect();
                assert_eq!(&turns(&store, thread, Direction::Ascending, 2).await, &ids, "{thread}");
                let newest: Vec<String> = ids.iter().rev().cloned().collect();
                assert_eq!(&turns(&store, thread, Direction::Descending, 3).await, &newest);
                let mut said = Vec::new();
                for (text, anew) in copy.iter().flat_map(|(_, said)| said) {
                    if *anew {
                        said.clear();
                    }
                    said.push(text.clone());
                }
                assert_eq!(history(&store, thread).await, said, "{thread}");
            }
            store.close().await.unwrap();
            if let Some(dir) = store.dir() {
                let report = store::check::check(dir).unwrap().unwrap();
                assert_eq!(report.problems, Vec::<String>::new());
                assert_eq!(report.threads, copies.len() as u64);
            }
        });
        }
    }
}

async fn apply(store: &Store, copies: &mut BTreeMap<String, Copied>, number: usize, step: &Step) {
    let names: Vec<String> = copies.keys().cloned().collect();
    let name = |which: usize| names.get(which % names.len().max(1)).cloned();
    match step {
        Step::Turn(which) => {
            let Some(thread) = name(*which) else { return };
            let id = format!("t{number}");
            store.commit(turn(&thread, &id)).await.unwrap();
            let said = vec![(format!("said in {id}"), false)];
            copies.get_mut(&thread).unwrap().push((Some(id), said));
        }
        Step::Inject(which) | Step::Compact(which) => {
            let Some(thread) = name(*which) else { return };
            let anew = matches!(step, Step::Compact(_));
            let mut write = append(&thread, None, &[&format!("injected {number}")]);
            if let Write::AppendHistory { anew: begins, .. } = &mut write {
                *begins = anew;
            }
            store.commit(vec![write]).await.unwrap();
            let said = &mut copies.get_mut(&thread).unwrap().last_mut().unwrap().1;
            said.push((format!("injected {number}"), anew));
        }
        Step::Fork(which, at) => {
            let Some(thread) = name(*which) else { return };
            let mut copy = copies[&thread].clone();
            let ids: Vec<String> = copy.iter().filter_map(|(turn, _)| turn.clone()).collect();
            let last = at.and_then(|at| ids.get(at).cloned());
            if let Some(last) = &last {
                let at = copy.iter().position(|(turn, _)| turn.as_ref() == Some(last)).unwrap();
                copy.truncate(at + 1);
            }
            let id = format!("f{number}");
            store.commit(vec![fork(&id, &thread, last.as_deref())]).await.unwrap();
            copy.push((None, Vec::new()));
            copies.insert(id, copy);
        }
        Step::RollBack(which, turns) => {
            let Some(thread) = name(*which) else { return };
            let copy = copies.get_mut(&thread).unwrap();
            let has = copy.iter().filter(|(turn, _)| turn.is_some()).count();
            let outcome = store.commit(vec![roll_back(&thread, *turns)]).await;
            if *turns as usize > has {
                assert!(matches!(outcome, Err(StoreError::TooFewTurns { .. })));
                return;
            }
            outcome.unwrap();
            for _ in 0..*turns {
                let at = copy.iter().rposition(|(turn, _)| turn.is_some()).unwrap();
                copy.truncate(at);
            }
            copy.push((None, Vec::new()));
        }
        Step::Delete(which) => {
            let Some(thread) = name(*which) else { return };
            store.commit(vec![delete(&thread)]).await.unwrap();
            copies.remove(&thread);
        }
    }
}
