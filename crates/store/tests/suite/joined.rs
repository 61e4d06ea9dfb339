//! A long history is stored a second time in large pieces: it reads the same with all of them, with
//! some of them, and without them.

use crate::common;
use crate::common::{append, create, finish, history, open, record, start};
use crate::common::{open_with, salvaged};
use rusqlite::Connection;
use store::{Fragment, Store, Write};

async fn turn(store: &Store, thread: &str, number: usize) {
    let turn = format!("t{number}");
    let short = format!("{{\"n\":{number}}}");
    let long = format!("{{\"n\":{number},\"text\":\"{}\"}}", "packed ".repeat(100));
    let chunked = format!("{{\"n\":{number},\"text\":\"{}\"}}", "chunk ".repeat(2000));
    let mut texts = vec![short.as_str(), long.as_str()];
    if number % 20 == 3 {
        texts.push(&chunked);
    }
    let writes =
        vec![start(thread, &turn, 1), append(thread, Some(&turn), &texts), finish(thread, &turn)];
    store.commit(writes).await.unwrap();
}

fn pieces(dir: &std::path::Path) -> i64 {
    let conn = Connection::open(dir.join("threads.db")).unwrap();
    conn.query_row("SELECT count(*) FROM joined", [], |row| row.get(0)).unwrap()
}

/// Opens the store and reads all histories, with the pieces and without them.
async fn check(dir: &std::path::Path, threads: &[&str]) {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let store = open(dir);
    for thread in threads {
        with.push(store.history(thread).await.unwrap());
    }
    store.close().await.unwrap();
    let bytes = std::fs::read(dir.join("threads.db")).unwrap();
    Connection::open(dir.join("threads.db")).unwrap().execute("DELETE FROM joined", []).unwrap();
    let store = open(dir);
    for thread in threads {
        without.push(store.history(thread).await.unwrap());
    }
    store.close().await.unwrap();
    assert_eq!(with, without);
    std::fs::write(dir.join("threads.db"), bytes).unwrap();
}

#[tokio::test]
async fn joined_records_equal_the_rows() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.commit(vec![create(record("a", 1))]).await.unwrap();
    for number in 0..70 {
        turn(&store, "a", number).await;
    }
    let fork = |id: &str, parent: &str, last: Option<&str>| Write::Fork {
        record: Box::new(record(id, 2)),
        parent: parent.into(),
        last_turn: last.map(Into::into),
    };
    store.commit(vec![fork("b", "a", Some("t20")), fork("c", "a", None)]).await.unwrap();
    for number in 70..100 {
        turn(&store, "a", number).await;
        turn(&store, "b", number).await;
    }
    store.commit(vec![Write::RollBack { thread: "a".into(), turns: 25 }]).await.unwrap();
    turn(&store, "a", 200).await;
    let fragments = vec![Fragment { text: "{\"anew\":1}".into(), mark: 3 }];
    let anew = Write::AppendHistory { thread: "b".into(), turn: None, fragments, anew: true };
    store.commit(vec![anew]).await.unwrap();
    for number in 300..340 {
        turn(&store, "b", number).await;
    }
    assert_eq!(history(&store, "b").await.len(), 1 + 80 + 2);
    store.close().await.unwrap();
    assert!(pieces(dir.path()) > 5);
    check(dir.path(), &["a", "b", "c"]).await;

    // Pieces are deleted with their rows.
    let store = open(dir.path());
    for thread in ["b", "a", "c"] {
        store.open_thread(thread).await.unwrap();
        store.commit(vec![Write::DeleteThread { thread: thread.into() }]).await.unwrap();
    }
    store.close().await.unwrap();
    assert_eq!(pieces(dir.path()), 0);
}

#[tokio::test]
async fn a_damaged_joined_record_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.commit(vec![create(record("a", 1))]).await.unwrap();
    for number in 0..40 {
        turn(&store, "a", number).await;
    }
    let before = store.history("a").await.unwrap();
    store.close().await.unwrap();
    Connection::open(dir.path().join("threads.db"))
        .unwrap()
        .execute("UPDATE joined SET packed = CAST(substr(packed, 1, length(packed) - 9) || x'000102030405060708' AS BLOB)", [])
        .unwrap();
    let options = store::SqliteConfig { salvage: true, ..common::options() };
    let store = open_with(dir.path(), options).unwrap();
    let salvage = salvaged(&store).unwrap();
    assert_eq!((salvage.threads, salvage.lost.len()), (1, 0));
    assert_eq!(store.history("a").await.unwrap(), before);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_long_history_of_an_earlier_version_is_joined_once_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.commit(vec![create(record("a", 1))]).await.unwrap();
    for number in 0..400 {
        turn(&store, "a", number).await;
    }
    store.close().await.unwrap();
    Connection::open(dir.path().join("threads.db"))
        .unwrap()
        .execute("DELETE FROM joined", [])
        .unwrap();
    let store = open(dir.path());
    let before = store.history("a").await.unwrap();
    store.close().await.unwrap();
    assert!(pieces(dir.path()) > 0);
    let store = open(dir.path());
    assert_eq!(store.history("a").await.unwrap(), before);
    store.close().await.unwrap();
    check(dir.path(), &["a"]).await;
}
