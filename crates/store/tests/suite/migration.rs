//! Databases of every released version open, keep their contents, and can be written.

use crate::common::open_with;
use std::fs;
use std::path::Path;

use crate::common::{TEXTS, append, finish, options, put, start};
use rusqlite::Connection;
use store::{
    JobWrite, ListQuery, SqliteConfig, Store, TextQuery, TurnStatus, TurnsQuery, UsageQuery, Write,
};

/// The database of a released version, in `dir`.
fn unpack(version: &[u8], dir: &Path) {
    fs::write(dir.join("threads.db"), zstd::bulk::decompress(version, 8 << 20).unwrap()).unwrap();
}

const VERSION_1: &[u8] = include_bytes!("../old/version-1.db.zst");

#[tokio::test]
async fn version_1_keeps_everything() {
    let dir = tempfile::tempdir().unwrap();
    unpack(VERSION_1, dir.path());
    let old = Connection::open(dir.path().join("threads.db")).unwrap();
    let payloads = "SELECT payload FROM item ORDER BY pk";
    let rows = |sql: &str| -> Vec<String> {
        let mut statement = old.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let (items, fragments) = (rows(payloads), rows("SELECT fragment FROM history ORDER BY pk"));
    assert_eq!((items.len(), fragments.len()), (20, 32));
    drop(old);

    let store = open_with(dir.path(), SqliteConfig { now_ms: 5, ..options() }).unwrap();
    let listed = store.threads(ListQuery { limit: 10, ..ListQuery::default() }).await.unwrap().rows;
    let counts: Vec<u32> = listed.iter().rev().map(|row| row.turn_count).collect();
    assert_eq!(counts, [2, 2, 3]);
    let (mut found_items, mut found_fragments) = (Vec::new(), Vec::new());
    for row in listed.iter().rev() {
        let id = &row.record.id;
        let places = store.places(id, None, 100).await.unwrap();
        for place in places {
            found_items.extend(place.items.into_iter().map(|item| item.payload));
            found_fragments
                .extend(place.history.into_iter().map(|(fragment, _)| fragment.text.to_string()));
        }
    }
    assert_eq!((found_items, found_fragments), (items, fragments));

    // The orphaned turn of its process is found, and the thread can continue.
    let orphans = store.claim_orphaned_turns().await.unwrap();
    assert_eq!(orphans.len(), 1);
    let (thread, turn) = (orphans[0].thread.clone(), orphans[0].turn.clone());
    store.write_unloaded(&thread, vec![finish(&thread, &turn)]).await.unwrap();
    store.open_thread(&thread).await.unwrap();
    let writes = vec![
        start(&thread, "new", 1),
        put(&thread, "new", "item", "x"),
        append(&thread, Some("new"), &["y"]),
        finish(&thread, "new"),
    ];
    store.commit(writes).await.unwrap();
    let turns =
        store.turns(&thread, TurnsQuery { limit: 9, ..TurnsQuery::default() }).await.unwrap();
    let ordinals: Vec<u32> = turns.rows.iter().map(|row| row.ordinal).collect();
    assert_eq!(ordinals, [3, 2, 1]);
    assert!(turns.rows.iter().all(|row| row.status == TurnStatus::Completed));
    store.commit(vec![Write::RollBack { thread, turns: 2 }]).await.unwrap();

    // The search also finds rows that were written before the index existed.
    let search = Some("THREAD 2: straße UND öl".to_owned());
    let found =
        store.threads(ListQuery { limit: 10, search, ..ListQuery::default() }).await.unwrap();
    assert_eq!(found.rows.len(), 1);
    assert_eq!(found.rows[0].turn_count, 3);
    store.close().await.unwrap();
    let report = store::check::check(dir.path()).unwrap().unwrap();
    assert_eq!((report.version, report.problems), (7, Vec::<String>::new()));
}

#[tokio::test]
async fn two_processes_migrate_an_old_file_once() {
    let dir = tempfile::tempdir().unwrap();
    unpack(VERSION_1, dir.path());
    let open = || {
        let dir = dir.path().to_owned();
        std::thread::spawn(move || open_with(&dir, options()).map(drop))
    };
    for opening in [open(), open(), open(), open()] {
        opening.join().unwrap().unwrap();
    }
    let report = store::check::check(dir.path()).unwrap().unwrap();
    assert_eq!((report.threads, report.turns, report.problems.len()), (4, 7, 0));
}

#[tokio::test]
async fn an_old_file_in_use_is_not_migrated() {
    let dir = tempfile::tempdir().unwrap();
    unpack(VERSION_1, dir.path());
    fs::create_dir(dir.path().join("owners")).unwrap();
    let older = fs::File::create(dir.path().join("owners/older")).unwrap();
    older.lock().unwrap();
    let before = fs::read(dir.path().join("threads.db")).unwrap();
    let error = open_with(dir.path(), options()).unwrap_err().to_string();
    assert!(error.contains("older schema") && error.contains("owner older"), "{error}");
    assert_eq!(fs::read(dir.path().join("threads.db")).unwrap(), before);
    drop(older);
    open_with(dir.path(), options()).unwrap();
}

const VERSION_2: &[u8] = include_bytes!("../old/version-2.db.zst");

#[tokio::test]
async fn version_2_keeps_its_histories_and_joins_them() {
    let dir = tempfile::tempdir().unwrap();
    unpack(VERSION_2, dir.path());
    let old = Connection::open(dir.path().join("threads.db")).unwrap();
    let count = |sql: &str| -> i64 { old.query_row(sql, [], |row| row.get(0)).unwrap() };
    let (threads, turns) = (
        count("SELECT count(*) FROM thread WHERE turn_count > 0"),
        count("SELECT count(*) FROM turn"),
    );
    drop(old);
    let store = open_with(dir.path(), options()).unwrap();
    let listed = |archived| ListQuery { limit: 1000, archived, ..ListQuery::default() };
    let mut rows = store.threads(listed(false)).await.unwrap().rows;
    rows.extend(store.threads(listed(true)).await.unwrap().rows);
    assert_eq!(i64::try_from(rows.len()).unwrap(), threads);
    store.close().await.unwrap();
    let report = store::check::check(dir.path()).unwrap().unwrap();
    assert_eq!((report.version, i64::try_from(report.turns).unwrap()), (7, turns));
    assert_eq!(report.problems, Vec::<String>::new());
}

const VERSION_3: &[u8] = include_bytes!("../old/version-3.db.zst");

#[tokio::test]
async fn version_3_has_no_jobs_and_takes_them() {
    let dir = tempfile::tempdir().unwrap();
    unpack(VERSION_3, dir.path());
    let store = open_with(dir.path(), options()).unwrap();
    let listed = ListQuery { limit: 1, ..ListQuery::default() };
    let thread = store.threads(listed).await.unwrap().rows.remove(0).record.id;
    assert_eq!(store.jobs(&thread).await.unwrap(), []);
    store.open_thread(&thread).await.unwrap();
    let write = JobWrite::Create {
        id: "job".into(),
        fingerprint: [1; 32],
        created_at_ms: 1,
        detail: "{}".into(),
    };
    store.commit(vec![Write::Job { thread: thread.clone(), write }]).await.unwrap();
    assert_eq!(store.jobs(&thread).await.unwrap().len(), 1);
    store.close().await.unwrap();
    let report = store::check::check(dir.path()).unwrap().unwrap();
    assert_eq!((report.version, report.problems), (7, Vec::<String>::new()));
}

const VERSION_4: &[u8] = include_bytes!("../old/version-4.db.zst");

#[tokio::test]
async fn version_4_has_threads_of_unknown_cost() {
    let dir = tempfile::tempdir().unwrap();
    unpack(VERSION_4, dir.path());
    let old = Connection::open(dir.path().join("threads.db")).unwrap();
    let listed: i64 = old
        .query_row("SELECT count(*) FROM thread WHERE turn_count > 0", [], |row| row.get(0))
        .unwrap();
    drop(old);
    let store = open_with(dir.path(), options()).unwrap();
    let query = UsageQuery { after: 0, from_ms: i64::MIN, to_ms: i64::MAX, limit: 100 };
    let rows = store.usage(query).await.unwrap();
    assert_eq!(i64::try_from(rows.len()).unwrap(), listed);
    assert!(rows.iter().all(|row| row.record.cost.is_none() && row.thread.is_some()));
    let tokens = |at: usize| (rows[at].record.input, rows[at].record.output);
    assert_eq!(tokens(0), (Some(1000), Some(50)));
    assert_eq!(tokens(1), (None, None), "a fork's total includes its parent's");
    assert_eq!(tokens(2), (None, None), "damaged JSON");
    assert_eq!(tokens(3), (Some(0), None), "no number");
    store.close().await.unwrap();
    let report = store::check::check(dir.path()).unwrap().unwrap();
    assert_eq!((report.version, report.problems), (7, Vec::<String>::new()));
}

const VERSION_5: &[u8] = include_bytes!("../old/version-5.db.zst");

#[tokio::test]
async fn version_5_is_searched_by_its_last_letters() {
    let dir = tempfile::tempdir().unwrap();
    unpack(VERSION_5, dir.path());
    let store = open_with(dir.path(), options()).unwrap();
    for (term, expected) in [("ui", 1), ("xq", 0), ("wir", 1), ("e", 2), ("i", 2)] {
        let query = ListQuery { limit: 9, search: Some(term.into()), ..ListQuery::default() };
        assert_eq!(store.threads(query).await.unwrap().rows.len(), expected, "{term}");
    }
    store.close().await.unwrap();
    let report = store::check::check(dir.path()).unwrap().unwrap();
    assert_eq!((report.version, report.problems), (7, Vec::<String>::new()));
}

const VERSION_6: &[u8] = include_bytes!("../old/version-6.db.zst");

#[tokio::test]
async fn version_6_is_searched_once_its_turns_are_indexed() {
    let dir = tempfile::tempdir().unwrap();
    unpack(VERSION_6, dir.path());
    let store = open_with(dir.path(), options()).unwrap();
    let found = async |store: &Store, term: &str| {
        let list = ListQuery { limit: 9, ..ListQuery::default() };
        let query = TextQuery { term: term.into(), list };
        store.search_text(query, TEXTS).await.unwrap().rows.len()
    };
    assert!(store.is_partly_indexed().await.unwrap());
    assert_eq!(found(&store, "parse_config").await, 0);
    // The newest turn is that of the fork.
    assert!(store.index_turns(TEXTS, true, 1).await.unwrap());
    assert_eq!((found(&store, "fork alone").await, found(&store, "parse_config").await), (1, 0));
    store.close().await.unwrap();
    // Another process goes on where this one stopped.
    let store = open_with(dir.path(), options()).unwrap();
    let mut slices = 0;
    while store.index_turns(TEXTS, true, 2).await.unwrap() {
        slices += 1;
    }
    // Six turns, and one slice that finds no further ones.
    assert_eq!(slices, 4);
    assert!(!store.is_partly_indexed().await.unwrap());
    // Of the others, one is archived.
    assert_eq!((found(&store, "fork alone").await, found(&store, "parse_config").await), (1, 3));
    store.close().await.unwrap();
    let report = store::check::check(dir.path()).unwrap().unwrap();
    assert_eq!((report.version, report.problems), (7, Vec::<String>::new()));
}
