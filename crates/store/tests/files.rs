//! What the store does to files, and what it says about files it cannot use.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::{append, create, listed, open, options, record};
use rusqlite::Connection;
use store::{Store, StoreError, ThreadChanges, Write};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn everything_is_private() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("deep/home");
    fs::create_dir_all(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(home.join("threads.db"), "").unwrap();
    let store = open(&home);
    store.commit(listed(record("a", 1))).await.unwrap();
    store.thread("a").await.unwrap();
    assert_eq!(mode(&home), 0o700);
    let mut seen = Vec::new();
    for entry in fs::read_dir(&home).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let expected = if name == "owners" { 0o700 } else { 0o600 };
        assert_eq!(mode(&entry.path()), expected, "{name}");
        seen.push(name);
    }
    seen.sort();
    assert_eq!(seen, ["owners", "threads.db", "threads.db-shm", "threads.db-wal", "threads.lock"]);
    for owner in fs::read_dir(home.join("owners")).unwrap() {
        assert_eq!(mode(&owner.unwrap().path()), 0o600);
    }
    store.close().await.unwrap();
    assert!(!home.join("threads.db-wal").exists());
    assert_eq!(fs::read_dir(home.join("owners")).unwrap().count(), 0);
}

/// Refused, by an error that names the file and has `expected` in it.
fn check_refused(dir: &Path, expected: &str) {
    let error = Store::open(dir, options()).unwrap_err().to_string();
    assert!(error.contains("threads.db"), "{error}");
    assert!(error.contains(expected), "{error}");
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).close().await.unwrap();
    let conn = Connection::open(dir.path().join("threads.db")).unwrap();
    conn.pragma_update(None, "user_version", 4711).unwrap();
    drop(conn);
    check_refused(dir.path(), "schema version 4711");
}

#[test]
fn garbage_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("threads.db"), "no database at all ".repeat(500)).unwrap();
    check_refused(dir.path(), "move it away");
}

#[test]
fn another_programs_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let conn = Connection::open(dir.path().join("threads.db")).unwrap();
    conn.execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
    drop(conn);
    check_refused(dir.path(), "another program's database");
    let conn = Connection::open(dir.path().join("threads.db")).unwrap();
    conn.execute_batch("PRAGMA application_id = 7").unwrap();
    drop(conn);
    check_refused(dir.path(), "another program's database");
}

#[tokio::test]
async fn damage_shows_when_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("threads.db");
    let store = open(dir.path());
    store.commit(listed(record("a", 1))).await.unwrap();
    store.close().await.unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096..].fill(0xAB);
    fs::write(&path, bytes).unwrap();
    let store = open(dir.path());
    let error = store.thread("a").await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    let error = store.commit(listed(record("b", 1))).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}

#[test]
fn an_unusable_folder_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Store::open(&file, options()).unwrap_err().to_string();
    assert!(error.contains(&file.display().to_string()), "{error}");
}

#[tokio::test]
async fn a_full_disk_is_told_and_survived() {
    let dir = tempfile::tempdir().unwrap();
    let mut small = options();
    small.max_pages = Some(60);
    let store = Store::open(dir.path(), small).unwrap();
    store.commit(listed(record("a", 1))).await.unwrap();

    let large = "x".repeat(20_000);
    let mut stored = 0;
    let error = loop {
        match store.commit(vec![append("a", Some("t"), &[&large])]).await {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 60, "the quota does not hold");
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(error.to_string().contains("threads.db"), "{error}");

    // Together with one that finds no room, a small commit still gets in.
    let changes = ThreadChanges { updated_at: Some(77), ..ThreadChanges::default() };
    let update = Write::UpdateThread { thread: "a".into(), changes: Box::new(changes) };
    let too_large = vec![append("a", Some("t"), &[&large])];
    let (small, too_large) = tokio::join!(store.commit(vec![update]), store.commit(too_large));
    small.unwrap();
    assert!(matches!(too_large, Err(StoreError::Full { .. })), "{too_large:?}");
    drop(store);

    let store = open(dir.path());
    assert_eq!(store.thread("a").await.unwrap().unwrap().record.updated_at, 77);
    assert_eq!(store.history("a").await.unwrap().len(), stored);
    store.commit(vec![append("a", Some("t"), &[&large])]).await.unwrap();
}

#[tokio::test]
async fn two_stores_share_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (open(dir.path()), open(dir.path()));
    for n in 0..20 {
        let (a, b) = (format!("a{n}"), format!("b{n}"));
        let (a, b) =
            tokio::join!(one.commit(listed(record(&a, n))), two.commit(listed(record(&b, n))));
        a.unwrap();
        b.unwrap();
    }
    assert!(one.thread("b19").await.unwrap().is_some());
    assert!(two.thread("a19").await.unwrap().is_some());
    one.close().await.unwrap();
    two.commit(vec![create(record("c", 1))]).await.unwrap();
}

#[tokio::test]
async fn the_log_stays_small() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.commit(listed(record("a", 1))).await.unwrap();
    let large = "x".repeat(50_000);
    for _ in 0..600 {
        store.commit(vec![append("a", Some("t"), &[&large])]).await.unwrap();
    }
    let log = fs::metadata(dir.path().join("threads.db-wal")).unwrap().len();
    assert!(log < 24 << 20, "{log} bytes of 30 MB written");
    assert_eq!(store.history("a").await.unwrap().len(), 600);
}

#[test]
fn owner_names_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let mut bad = options();
    bad.owner = "../x".into();
    let error = Store::open(dir.path(), bad).unwrap_err();
    assert!(error.to_string().contains("`../x`"), "{error}");
    let _open = Store::open(dir.path(), store::OpenOptions::new(0, "same")).unwrap();
    assert!(Store::open(dir.path(), store::OpenOptions::new(0, "same")).is_err());
}
