//! Effects of the store on files, and its errors for unusable files.

use crate::common::{open_with, salvaged};
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use crate::common::{append, create, finish, listed, open, options, record, start};
use rusqlite::Connection;
use store::{SqliteConfig, Store, StoreError, ThreadChanges, Write};

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

#[tokio::test]
async fn a_database_that_another_process_is_creating_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    // As a process that has not yet changed the file to WAL mode. SQLite itself would not wait here.
    let lock = fs::File::create(dir.path().join("threads.lock")).unwrap();
    lock.lock().unwrap();
    let other = Connection::open(dir.path().join("threads.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (opened, wait) = mpsc::channel();
    let path = dir.path().to_owned();
    let opening = std::thread::spawn(move || opened.send(open_with(&path, options())).unwrap());
    let early = wait.recv_timeout(Duration::from_millis(100));
    assert!(matches!(early, Err(mpsc::RecvTimeoutError::Timeout)));
    other.execute_batch("COMMIT").unwrap();
    drop((other, lock));
    let store = wait.recv().unwrap().unwrap();
    opening.join().unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn processes_that_create_a_database_at_once_share_it() {
    let dir = tempfile::tempdir().unwrap();
    let together = Arc::new(Barrier::new(4));
    let open = || {
        let (path, together) = (dir.path().to_owned(), Arc::clone(&together));
        std::thread::spawn(move || {
            together.wait();
            open_with(&path, options()).unwrap()
        })
    };
    let stores = [open(), open(), open(), open()].map(|opening| opening.join().unwrap());
    for (n, store) in (0..).zip(&stores) {
        store.commit(listed(record(&format!("t{n}"), n))).await.unwrap();
    }
    for n in 0..4 {
        stores[0].thread(&format!("t{n}")).await.unwrap();
    }
}

/// Expects an error that names the file and contains `expected`.
fn check_refused(dir: &Path, expected: &str) {
    let error = open_with(dir, options()).unwrap_err().to_string();
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
    check_refused(dir.path(), "it copies what can be read into a new database");
    let left = fs::read_to_string(dir.path().join("threads.db")).unwrap();
    assert!(left.starts_with("no database at all"), "nothing was changed");
}

#[tokio::test]
async fn a_damaged_database_is_set_aside_whole() {
    let dir = tempfile::tempdir().unwrap();
    let rubbish = "no database at all ".repeat(500);
    fs::write(dir.path().join("threads.db"), &rubbish).unwrap();
    fs::write(dir.path().join("threads.db-wal"), "log").unwrap();
    let aside = |now_ms| SqliteConfig { salvage: true, now_ms, ..options() };
    let store = open_with(dir.path(), aside(7)).unwrap();
    let moved = salvaged(&store).unwrap().kept.clone();
    assert_eq!(moved, dir.path().join("threads.db.damaged-7"));
    assert_eq!(fs::read_to_string(&moved).unwrap(), rubbish);
    assert_eq!(fs::read_to_string(dir.path().join("threads.db.damaged-7-wal")).unwrap(), "log");
    store.commit(listed(record("a", 1))).await.unwrap();
    store.close().await.unwrap();
    // The file is not renamed while another process has it open.
    fs::write(dir.path().join("threads.db"), &rubbish).unwrap();
    let living = fs::File::create(dir.path().join("owners/living")).unwrap();
    living.lock().unwrap();
    let error = open_with(dir.path(), aside(8)).unwrap_err();
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
    assert!(dir.path().join("threads.db").exists());
    // Another program's database does not count as damaged.
    let other = tempfile::tempdir().unwrap();
    let conn = Connection::open(other.path().join("threads.db")).unwrap();
    conn.execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
    drop(conn);
    let error = open_with(other.path(), aside(9)).unwrap_err();
    assert!(matches!(error, StoreError::Foreign(_)), "{error}");
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

/// Overwrites the root page of a table or an index, bypassing any process that has the file open.
fn corrupt(path: &Path, name: &str) {
    let conn = Connection::open(path).unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let page: u32 = conn.query_row(sql, [name], |row| row.get(0)).unwrap();
    drop(conn);
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[0xAB; 4096], u64::from(page - 1) * 4096).unwrap();
}

#[tokio::test]
async fn damage_is_found_when_read_and_salvaged_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("threads.db");
    let store = open(dir.path());
    store.commit(listed(record("a", 1))).await.unwrap();
    store.close().await.unwrap();
    let store = open(dir.path());
    corrupt(&path, "sqlite_autoindex_thread_1");
    let error = store.thread("a").await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
    // The file is not renamed while another process has it open.
    let salvaging = || SqliteConfig { salvage: true, now_ms: 7, ..options() };
    let error = open_with(dir.path(), salvaging()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
    store.close().await.unwrap();
    let error = open_with(dir.path(), options()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged(_)), "left alone unless asked: {error}");
    let store = open_with(dir.path(), salvaging()).unwrap();
    let salvage = salvaged(&store).unwrap();
    assert_eq!((salvage.threads, salvage.lost.len()), (1, 0));
    assert_eq!(store.last_turn("a").await.unwrap().unwrap().id, "t");
    store.commit(listed(record("b", 1))).await.unwrap();
    store.close().await.unwrap();
    assert!(salvaged(&open_with(dir.path(), salvaging()).unwrap()).is_none(), "once");
}

#[tokio::test]
async fn one_of_many_stores_salvages_and_all_use_the_result() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for n in 0..50 {
        store.commit(listed(record(&format!("t{n}"), n))).await.unwrap();
    }
    store.close().await.unwrap();
    corrupt(&dir.path().join("threads.db"), "sqlite_autoindex_turn_1");
    let salvage = || {
        let dir = dir.path().to_owned();
        std::thread::spawn(move || {
            open_with(&dir, SqliteConfig { salvage: true, now_ms: 7, ..options() }).unwrap()
        })
    };
    let stores: Vec<Store> =
        [salvage(), salvage(), salvage(), salvage()].map(|one| one.join().unwrap()).into();
    assert_eq!(stores.iter().filter(|store| salvaged(store).is_some()).count(), 1);
    for store in &stores {
        assert_eq!(store.last_turn("t49").await.unwrap().unwrap().id, "t");
        store.commit(listed(record(&options().owner, 1))).await.unwrap();
    }
    let kept = fs::read_dir(dir.path()).unwrap();
    let kept = kept.filter(|entry| {
        entry.as_ref().unwrap().file_name().to_str().unwrap().ends_with("-lost.txt")
    });
    assert_eq!(kept.count(), 1);
}

#[tokio::test]
async fn a_killed_salvage_is_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.commit(listed(record("a", 1))).await.unwrap();
    store.close().await.unwrap();
    // A salvage that was killed while it filled a new database starts again. One that was killed
    // before its last steps completes them, and the damaged file is kept with its log.
    fs::write(dir.path().join("threads.db.salvage"), "half").unwrap();
    let database = dir.path().join("threads.db");
    fs::rename(&database, dir.path().join("threads.db.salvaged-for-threads.db.damaged-7")).unwrap();
    fs::write(&database, "damaged").unwrap();
    fs::write(dir.path().join("threads.db-wal"), "log").unwrap();
    let store = open_with(dir.path(), SqliteConfig { salvage: true, ..options() }).unwrap();
    assert!(store.thread("a").await.unwrap().is_some());
    assert!(salvaged(&store).is_none());
    store.close().await.unwrap();
    for (name, content) in
        [("threads.db.damaged-7", "damaged"), ("threads.db.damaged-7-wal", "log")]
    {
        assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), content);
    }
    fs::write(&database, "damaged again").unwrap();
    let store = open_with(dir.path(), SqliteConfig { salvage: true, now_ms: 7, ..options() });
    let kept = salvaged(&store.unwrap()).unwrap().kept.clone();
    assert_eq!(kept, dir.path().join("threads.db.damaged-7-1"), "nothing is overwritten");
    assert_eq!(fs::read_to_string(kept).unwrap(), "damaged again");
}

#[tokio::test]
async fn a_damaged_log_is_salvaged_past_the_damage() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.commit(listed(record("old", 1))).await.unwrap();
    store.close().await.unwrap();
    let store = open(dir.path());
    for n in 0..40 {
        store.commit(listed(record(&format!("t{n}"), n))).await.unwrap();
    }
    // The state that a killed process leaves: with its log.
    let copy = tempfile::tempdir().unwrap();
    for name in ["threads.db", "threads.db-wal"] {
        fs::copy(dir.path().join(name), copy.path().join(name)).unwrap();
    }
    let log = copy.path().join("threads.db-wal");
    let mut bytes = fs::read(&log).unwrap();
    let frames = (bytes.len() - 32) / 4120;
    bytes[32 + frames / 2 * 4120 + 100] ^= 1;
    fs::write(&log, &bytes).unwrap();
    let store = open_with(copy.path(), SqliteConfig { salvage: true, ..options() }).unwrap();
    let salvage = salvaged(&store).unwrap();
    assert!(salvage.damage.contains("log"), "{salvage:?}");
    for id in ["old", "t0", "t39"] {
        assert!(store.thread(id).await.unwrap().is_some(), "{id}");
    }
    let kept = format!("{}-wal", salvage.kept.display());
    assert_eq!(fs::read(kept).unwrap(), bytes);
}

#[tokio::test]
async fn a_path_that_is_not_a_file_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("threads.db");
    let salvaging = || SqliteConfig { salvage: true, ..options() };
    let check = |expected: &str| {
        let error = open_with(dir.path(), salvaging()).unwrap_err().to_string();
        assert!(error.contains("threads.db") && error.contains(expected), "{error}");
    };
    fs::create_dir(&database).unwrap();
    check("is a folder");
    fs::remove_dir(&database).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(&database).unwrap();
    check("a pipe, a socket or a device");
    fs::remove_file(&database).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &database).unwrap();
    check("a pipe, a socket or a device");
    fs::remove_file(&database).unwrap();
    open_with(dir.path(), salvaging()).unwrap();
}

#[tokio::test]
async fn an_emptied_or_replaced_store_is_reported() {
    let full = || async {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        store.commit(listed(record("a", 1))).await.unwrap();
        store.close().await.unwrap();
        dir
    };
    let salvaging = || SqliteConfig { salvage: true, ..options() };
    let dir = full().await;
    fs::write(dir.path().join("threads.db"), "").unwrap();
    let store = open_with(dir.path(), salvaging()).unwrap();
    assert!(salvaged(&store).unwrap().damage.contains("empty"));
    let dir = full().await;
    fs::remove_file(dir.path().join("threads.db")).unwrap();
    let conn = Connection::open(dir.path().join("threads.db")).unwrap();
    conn.execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
    drop(conn);
    let store = open_with(dir.path(), salvaging()).unwrap();
    assert!(salvaged(&store).unwrap().damage.contains("another program"));
    // The database was removed: a new one is created, and the loss reported.
    let dir = full().await;
    fs::remove_file(dir.path().join("threads.db")).unwrap();
    let error = store::check::check(dir.path()).unwrap_err().to_string();
    assert!(error.contains("it is missing"), "{error}");
    let store = open_with(dir.path(), salvaging()).unwrap();
    let salvage = salvaged(&store).unwrap();
    assert!(salvage.damage.contains("it is missing") && salvage.lost_unnamed, "{salvage:?}");
    assert_eq!(salvage.files, Vec::<std::path::PathBuf>::new());
    let kept = store::salvage::kept(dir.path()).unwrap();
    assert_eq!((kept.len(), &kept[0].list), (1, &salvage.list));
    assert!(kept[0].lost.contains("it is missing"), "{kept:?}");
    store.close().await.unwrap();
    assert!(salvaged(&open_with(dir.path(), salvaging()).unwrap()).is_none(), "once");
    // All files were removed: the user evidently wants a new database.
    let dir = full().await;
    for entry in fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::remove_file(path).unwrap();
        }
    }
    assert!(salvaged(&open_with(dir.path(), salvaging()).unwrap()).is_none());
}

#[test]
fn an_unusable_folder_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = open_with(&file, options()).unwrap_err().to_string();
    assert!(error.contains(&file.display().to_string()), "{error}");
}

#[tokio::test]
async fn a_full_disk_is_reported_and_survived() {
    let dir = tempfile::tempdir().unwrap();
    let mut small = options();
    small.max_pages = Some(80);
    let store = open_with(dir.path(), small).unwrap();
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
    assert!(matches!(error, StoreError::Full(_)), "{error}");
    assert!(error.to_string().contains("threads.db"), "{error}");

    // A small commit succeeds in a group with one that does not fit.
    let changes = ThreadChanges { updated_at: Some(77), ..ThreadChanges::default() };
    let update = Write::UpdateThread { thread: "a".into(), changes: Box::new(changes) };
    let too_large = vec![append("a", Some("t"), &[&large(stored * 2000)])];
    let (small, too_large) = tokio::join!(store.commit(vec![update]), store.commit(too_large));
    small.unwrap();
    assert!(matches!(too_large, Err(StoreError::Full(_))), "{too_large:?}");
    drop(store);

    let store = open(dir.path());
    assert_eq!(store.thread("a").await.unwrap().unwrap().record.updated_at, 77);
    assert_eq!(store.history("a").await.unwrap().len() as u64, stored);
    store.write_unloaded("a", vec![append("a", Some("t"), &[&large(7)])]).await.unwrap();
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
    let error = two.open_thread("a").await.unwrap_err();
    assert!(matches!(error, StoreError::LeasedBy { .. }), "{error}");
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
        assert!(matches!(error, StoreError::LeaseLost { .. }), "{error}");
    }
    one.release("a").await.unwrap();
    assert_eq!(two.open_thread("a").await.unwrap().orphans, []);
    two.commit(vec![start("a", "t2", 5)]).await.unwrap();
    assert!(one.open_thread("a").await.is_err());
    // Its holder dies with a turn in flight: the next store gets both the lease and the turn.
    drop(two);
    let orphans = one.open_thread("a").await.unwrap().orphans;
    assert_eq!(orphans.len(), 1);
    assert_eq!(orphans[0].turn, "t2");
    one.commit(vec![finish("a", "t2"), start("a", "t3", 6)]).await.unwrap();
    let error = one.open_thread("nothing").await.unwrap_err();
    assert!(matches!(error, StoreError::ThreadNotFound { .. }), "{error}");
    one.close().await.unwrap();
    assert_eq!(open(dir.path()).open_thread("a").await.unwrap().orphans.len(), 1);
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
    let error = open_with(dir.path(), bad).unwrap_err();
    assert!(error.to_string().contains("`../x`"), "{error}");
    let _open = open_with(dir.path(), SqliteConfig::new("", 0, "same")).unwrap();
    assert!(open_with(dir.path(), SqliteConfig::new("", 0, "same")).is_err());
}
