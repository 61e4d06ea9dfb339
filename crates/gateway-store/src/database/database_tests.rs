//! SQLite and PostgreSQL alike: statements, transactions, bounds, and loss of the store.

#![allow(clippy::unwrap_used)]
use std::time::Duration;

use super::*;
use crate::ErrorKind;

fn url(folder: &tempfile::TempDir) -> StoreUrl {
    StoreUrl::Sqlite(folder.path().join("gateway.db"))
}

fn count() -> Statement {
    Statement::new("SELECT value FROM change_counter", [])
}

fn add(amount: i64) -> Statement {
    Statement::new("UPDATE change_counter SET value = value + $1", [amount.into()]).expecting(1)
}

#[tokio::test]
async fn transactions_are_atomic() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(&url(&folder)).await.unwrap();
    database.transact(vec![add(1), add(2)]).await.unwrap();
    let unmet = database.transact(vec![add(10), add(20).expecting(2)]).await.unwrap_err();
    assert_eq!(unmet.kind(), ErrorKind::Unmet { statement: 1 });
    let wrong = Statement::new("INSERT INTO changes VALUES (1, 'a', 'b', $1)", [Value::Null]);
    let refused = database.transact(vec![add(10), wrong]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    assert_eq!(database.query(count()).await.unwrap()[0].integer(0).unwrap(), 3);
}

#[tokio::test]
async fn values_round_trip_with_any_placeholder_order() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(&url(&folder)).await.unwrap();
    let values = [Value::from("a'b\u{e9}"), 7_i64.into(), Value::Null];
    let statement = Statement::new("SELECT $2 + 1, $1, $3, $1", values);
    let row = database.query(statement).await.unwrap().remove(0);
    assert_eq!((row.integer(0).unwrap(), &*row.text(1).unwrap()), (8, "a'b\u{e9}"));
    assert_eq!(row.optional_text(2).unwrap(), None);
    assert!(row.text(2).is_err() && row.integer(1).is_err() && row.text(9).is_err());
    let missing = database.query(Statement::new("SELECT $2", [1_i64.into()])).await;
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::Failed);
}

#[tokio::test]
async fn two_processes_start_at_the_same_time_and_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = url(&folder);
    let (one, two) = tokio::join!(Database::open(&url), Database::open(&url));
    let (one, two) = (one.unwrap(), two.unwrap());
    for _ in 0..20 {
        let (a, b) = tokio::join!(one.transact(vec![add(1)]), two.transact(vec![add(1)]));
        a.unwrap();
        b.unwrap();
    }
    assert_eq!(one.query(count()).await.unwrap()[0].integer(0).unwrap(), 40);
}

#[tokio::test]
async fn newer_versions_and_foreign_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(&url(&folder)).await.unwrap();
    let raise = Statement::new("INSERT INTO schema_version VALUES ($1)", [99_i64.into()]);
    database.transact(vec![raise]).await.unwrap();
    let refused = Database::open(&url(&folder)).await.unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::NewerSchema { found: 99, .. }));

    let foreign = folder.path().join("foreign");
    std::fs::write(&foreign, vec![b'x'; 8192]).unwrap();
    let refused = Database::open(&StoreUrl::Sqlite(foreign)).await.unwrap_err();
    assert!(refused.to_string().contains("foreign"), "{refused}");
    let missing = StoreUrl::Sqlite(folder.path().join("none/gateway.db"));
    assert!(Database::open(&missing).await.unwrap_err().is_unavailable());
}

#[tokio::test]
async fn a_locked_file_times_out_and_works_after_the_lock_ends() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(&url(&folder)).await.unwrap();
    let other = rusqlite::Connection::open(folder.path().join("gateway.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let started = std::time::Instant::now();
    assert!(database.transact(vec![add(1)]).await.unwrap_err().is_unavailable());
    assert!(started.elapsed() < Duration::from_millis(2500));
    assert_eq!(database.query(count()).await.unwrap()[0].integer(0).unwrap(), 0);
    other.execute_batch("COMMIT").unwrap();
    database.transact(vec![add(1)]).await.unwrap();
    assert_eq!(database.query(count()).await.unwrap()[0].integer(0).unwrap(), 1);
}
