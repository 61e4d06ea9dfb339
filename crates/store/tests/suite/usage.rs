//! What responses used: rows are read in pages and by time, and outlive their thread and a salvage.

use crate::common::{Backend, open_with, salvaged};
use std::fs;

use crate::common::{create, open, options, record};
use store::{SqliteConfig, StoreError, UsageQuery, UsageRecord, UsageRow, Write};

const ALL: UsageQuery = UsageQuery { after: 0, from_ms: i64::MIN, to_ms: i64::MAX, limit: 1000 };

fn used(thread: &str, at_ms: i64, cost: Option<i64>) -> Write {
    let usage = UsageRecord {
        turn: Some("turn".into()),
        at_ms,
        provider: "p".into(),
        model: "m".into(),
        service_tier: Some("flex".into()),
        input: Some(10),
        cached_input: Some(4),
        cache_write: Some(1),
        output: Some(3),
        reasoning_output: Some(2),
        cost,
    };
    let (thread, token_usage) = (thread.to_owned(), format!("{{\"at\":{at_ms}}}"));
    Write::AddUsage { thread, token_usage, usage: Box::new(usage) }
}

fn times(rows: &[UsageRow]) -> Vec<i64> {
    rows.iter().map(|row| row.record.at_ms).collect()
}

#[tokio::test]
async fn rows_are_read_in_pages_and_by_time() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        store.commit(vec![create(record("t", 1))]).await.unwrap();
        let writes = (1..=5).map(|at| used("t", at * 100, Some(at)));
        store.commit(writes.collect()).await.unwrap();
        let rows = store.usage(ALL).await.unwrap();
        assert_eq!(times(&rows), [100, 200, 300, 400, 500]);
        assert_eq!((rows[0].thread.as_deref(), &*rows[0].project), (Some("t"), "/work"));
        assert_eq!((rows[4].record.cost, rows[4].record.cache_write), (Some(5), Some(1)));
        let page = UsageQuery { after: rows[1].key, limit: 2, ..ALL };
        assert_eq!(times(&store.usage(page).await.unwrap()), [300, 400]);
        let days = UsageQuery { from_ms: 200, to_ms: 400, ..ALL };
        assert_eq!(times(&store.usage(days).await.unwrap()), [200, 300]);
        let thread = store.thread("t").await.unwrap().unwrap();
        assert_eq!(thread.record.token_usage.as_deref(), Some("{\"at\":500}"));
    }
}

#[tokio::test]
async fn only_the_holder_of_a_thread_adds_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.commit(vec![create(record("t", 1))]).await.unwrap();
    let other = open(dir.path());
    assert!(other.commit(vec![used("t", 1, None)]).await.is_err());
    let missing = store.commit(vec![used("missing", 1, None)]).await;
    assert!(matches!(missing, Err(StoreError::ThreadNotFound { .. })), "{missing:?}");
    assert_eq!(store.usage(ALL).await.unwrap(), []);
}

#[tokio::test]
async fn a_deleted_thread_leaves_what_it_cost_without_its_name() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        store.commit(vec![create(record("t", 1)), create(record("u", 1))]).await.unwrap();
        store.commit(vec![used("t", 1, Some(7)), used("u", 2, None)]).await.unwrap();
        store.commit(vec![Write::DeleteThread { thread: "t".into() }]).await.unwrap();
        let rows = store.usage(ALL).await.unwrap();
        assert_eq!(
            (&rows[0].thread, &rows[0].record.turn, rows[0].record.cost),
            (&None, &None, Some(7))
        );
        assert_eq!(rows[1].thread.as_deref(), Some("u"));
        store.close().await.unwrap();
        if let Some(dir) = store.dir() {
            let report = store::check::check(dir).unwrap().unwrap();
            assert_eq!(report.problems, Vec::<String>::new());
        }
    }
}

#[tokio::test]
async fn a_salvage_keeps_the_rows() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.commit(vec![create(record("t", 1))]).await.unwrap();
    let writes = (1..=200).map(|at| used("t", at, (at % 2 == 0).then_some(at)));
    store.commit(writes.collect()).await.unwrap();
    let before = store.usage(ALL).await.unwrap();
    store.close().await.unwrap();
    // Damages the root page of another table, so that SQLite cannot use the file.
    let path = dir.path().join("threads.db");
    let conn = rusqlite::Connection::open(&path).unwrap();
    let root: u32 = conn
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'job_item'", [], |row| {
            row.get(0)
        })
        .unwrap();
    drop(conn);
    let mut bytes = fs::read(&path).unwrap();
    let start = (root as usize - 1) * 4096;
    bytes[start..start + 64].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let options = SqliteConfig { salvage: true, ..options() };
    let store = open_with(dir.path(), options).unwrap();
    let after = store.usage(ALL).await.unwrap();
    assert_eq!(after, before);
    assert!(salvaged(&store).is_some());
}
