//! What the store does to files, and what it says about files it cannot use.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::{append, create, finish, listed, open, options, record, start};
use rusqlite::Connection;
use store::{OpenOptions, Store, StoreError, ThreadChanges, Write};

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
    let left = fs::read_to_string(dir.path().join("threads.db")).unwrap();
    assert!(left.starts_with("no database at all"), "nothing was changed");
}

#[tokio::test]
async fn a_damaged_database_is_set_aside_whole() {
    let dir = tempfile::tempdir().unwrap();
    let rubbish = "no database at all ".repeat(500);
    fs::write(dir.path().join("threads.db"), &rubbish).unwrap();
    fs::write(dir.path().join("threads.db-wal"), "log").unwrap();
    let aside = |now_ms| OpenOptions { set_damaged_aside: true, now_ms, ..options() };
    let store = Store::open(dir.path(), aside(7)).unwrap();
    let moved = store.set_aside().unwrap().to_owned();
    assert_eq!(moved, dir.path().join("threads.db.damaged-7"));
    assert_eq!(fs::read_to_string(&moved).unwrap(), rubbish);
    assert_eq!(fs::read_to_string(dir.path().join("threads.db.damaged-7-wal")).unwrap(), "log");
    store.commit(listed(record("a", 1))).await.unwrap();
    store.close().await.unwrap();
    // While somebody has it open, it stays where it is.
    fs::write(dir.path().join("threads.db"), &rubbish).unwrap();
    let living = fs::File::create(dir.path().join("owners/living")).unwrap();
    living.lock().unwrap();
    let error = Store::open(dir.path(), aside(8)).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert!(dir.path().join("threads.db").exists());
    // Another program's database is not damaged.
    let other = tempfile::tempdir().unwrap();
    let conn = Connection::open(other.path().join("threads.db")).unwrap();
    conn.execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
    drop(conn);
    let error = Store::open(other.path(), aside(9)).unwrap_err();
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
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
    let conn = Connection::open(&path).unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_thread_1'";
    let page: i64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
    let page = usize::try_from(page).unwrap();
    drop(conn);
    let mut bytes = fs::read(&path).unwrap();
    bytes[(page - 1) * 4096..page * 4096].fill(0xAB);
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
    small.max_pages = Some(80);
    let store = Store::open(dir.path(), small).unwrap();
    store.commit(listed(record("a", 1))).await.unwrap();

    // Numbers that hardly compress.
    let number = |n: u64| format!("{:x}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let large = |from: u64| (from..from + 1300).map(number).collect::<String>();
    let mut stored = 0;
    let error = loop {
        match store.commit(vec![append("a", Some("t"), &[&large(stored * 2000)])]).await {
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
    let too_large = vec![append("a", Some("t"), &[&large(stored * 2000)])];
    let (small, too_large) = tokio::join!(store.commit(vec![update]), store.commit(too_large));
    small.unwrap();
    assert!(matches!(too_large, Err(StoreError::Full { .. })), "{too_large:?}");
    drop(store);

    let store = open(dir.path());
    assert_eq!(store.thread("a").await.unwrap().unwrap().record.updated_at, 77);
    assert_eq!(store.history("a").await.unwrap().len() as u64, stored);
    store.commit(vec![append("a", Some("t"), &[&large(7)])]).await.unwrap();
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
async fn a_thread_has_one_writer_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (open(dir.path()), open(dir.path()));
    one.commit(listed(record("a", 1))).await.unwrap();
    let error = two.lease("a").await.unwrap_err();
    assert!(matches!(error, StoreError::Leased { .. }), "{error}");
    let pid = format!("process {}", std::process::id());
    assert!(error.to_string().contains(&pid) && error.to_string().contains("thread a"), "{error}");
    for write in [
        start("a", "t2", 5),
        append("a", None, &["x"]),
        Write::RollBack { thread: "a".into(), turns: 1 },
        Write::DeleteThread { thread: "a".into() },
        Write::UpdateThread { thread: "a".into(), changes: Box::default() },
    ] {
        let error = two.commit(vec![write]).await.unwrap_err();
        assert!(matches!(error, StoreError::NotLeased { .. }), "{error}");
    }
    one.release("a").await.unwrap();
    assert_eq!(two.lease("a").await.unwrap(), []);
    two.commit(vec![start("a", "t2", 5)]).await.unwrap();
    assert!(one.lease("a").await.is_err());
    // Its holder dies with a turn in flight: whoever comes next gets both.
    drop(two);
    let orphans = one.lease("a").await.unwrap();
    assert_eq!(orphans.len(), 1);
    assert_eq!(orphans[0].turn, "t2");
    one.commit(vec![finish("a", "t2"), start("a", "t3", 6)]).await.unwrap();
    let error = one.lease("nothing").await.unwrap_err();
    assert!(matches!(error, StoreError::ThreadNotFound { .. }), "{error}");
    one.close().await.unwrap();
    assert_eq!(open(dir.path()).lease("a").await.unwrap().len(), 1);
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
    let _open = Store::open(dir.path(), OpenOptions::new(0, "same")).unwrap();
    assert!(Store::open(dir.path(), OpenOptions::new(0, "same")).is_err());
}
