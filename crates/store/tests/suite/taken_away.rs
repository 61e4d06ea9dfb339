//! A database or its log that is deleted, replaced or damaged while a store is open, or after its
//! process was killed: nothing is reported as stored that is not, no file is overwritten, and the
//! next start reports what is lost. `check` reports the same errors for unusable files as a server.

use crate::common::{open_with, salvaged};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::common::{create, finish, listed, open, options, record, start};
use rusqlite::Connection;
use store::{SqliteConfig, StoreError};

fn salvaging() -> SqliteConfig {
    SqliteConfig { salvage: true, now_ms: 7, ..options() }
}

fn database(dir: &Path) -> PathBuf {
    dir.join("threads.db")
}

fn log(dir: &Path) -> PathBuf {
    dir.join("threads.db-wal")
}

/// Names and contents of all files below `dir`, except the index of the log and pipes.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
            found.push((path, Vec::new()));
        } else if path.is_file() && !path.ends_with("threads.db-shm") {
            found.push((path.clone(), fs::read(path).unwrap()));
        } else {
            found.push((path, Vec::new()));
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn nothing_is_stored_in_removed_files() {
    type Harm = fn(&Path);
    let harms: [(&str, &str, Harm); 8] = [
        ("deleted", "was deleted", |dir| fs::remove_file(database(dir)).unwrap()),
        ("moved", "was deleted or moved", |dir| {
            fs::rename(database(dir), dir.join("elsewhere")).unwrap();
        }),
        ("a folder", "was replaced", |dir| {
            fs::remove_file(database(dir)).unwrap();
            fs::create_dir(database(dir)).unwrap();
        }),
        ("another file", "was replaced", |dir| {
            fs::copy(database(dir), dir.join("copy")).unwrap();
            fs::rename(dir.join("copy"), database(dir)).unwrap();
        }),
        ("emptied", "was truncated", |dir| fs::write(database(dir), "").unwrap()),
        ("cut", "was truncated", |dir| {
            let file = fs::File::options().write(true).open(database(dir)).unwrap();
            file.set_len(file.metadata().unwrap().len() / 2).unwrap();
        }),
        ("log deleted", "threads.db-wal was deleted", |dir| fs::remove_file(log(dir)).unwrap()),
        ("log emptied", "threads.db-wal was deleted or truncated", |dir| {
            fs::write(log(dir), "").unwrap();
        }),
    ];
    for (what, expected, harm) in harms {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        for n in 0..20 {
            store.commit(listed(record(&format!("old{n}"), n))).await.unwrap();
        }
        store.close().await.unwrap();
        let store = open(dir.path());
        store.commit(listed(record("a", 1))).await.unwrap();
        harm(dir.path());
        let check = |error: StoreError| {
            let text = error.to_string();
            assert!(matches!(error, StoreError::TakenAway(_)), "{what}: {text}");
            assert!(text.contains(expected) && text.contains("restart"), "{what}: {text}");
        };
        check(store.commit(vec![start("a", "t2", 5)]).await.unwrap_err());
        check(store.commit(listed(record("b", 1))).await.unwrap_err());
        check(store.open_thread("old3").await.unwrap_err());
        check(store.close().await.unwrap_err());

        // The next start reports it.
        if what == "a folder" {
            let error = open_with(dir.path(), salvaging()).unwrap_err().to_string();
            assert!(error.contains("is a folder"), "{error}");
            fs::remove_dir(database(dir.path())).unwrap();
        }
        if what == "another file" {
            // Without its log the file is older than the last commit; the log is still beside it.
            let store = open_with(dir.path(), salvaging()).unwrap();
            assert!(store.thread("a").await.unwrap().is_some());
            continue;
        }
        let error = store::check::check(dir.path()).unwrap_err().to_string();
        let refused = open_with(dir.path(), options()).unwrap_err().to_string();
        assert_eq!(error, refused, "{what}");
        let store = open_with(dir.path(), salvaging()).unwrap();
        let salvage = salvaged(&store).unwrap().clone();
        assert!(salvage.lost_unnamed, "{what}: {salvage:?}");
        assert!(salvage.files.iter().all(|file| file.exists()), "{what}: {salvage:?}");
        if what.starts_with("log") {
            assert!(store.thread("old7").await.unwrap().is_some(), "{what}");
        }
        store.commit(listed(record("new", 1))).await.unwrap();
        store.close().await.unwrap();
        store::check::check(dir.path()).unwrap().unwrap();
        assert_eq!(store::salvage::kept(dir.path()).unwrap().len(), 1, "{what}");
    }
}

#[tokio::test]
async fn a_restored_database_has_everything() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.commit(listed(record("a", 1))).await.unwrap();
    fs::rename(database(dir.path()), dir.path().join("elsewhere")).unwrap();
    store.commit(listed(record("b", 1))).await.unwrap_err();
    // No second database is created beside one that is open.
    let error = open_with(dir.path(), salvaging()).unwrap_err();
    assert!(matches!(error, StoreError::TakenAway(_)), "{error}");
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    assert!(!database(dir.path()).exists());
    store.close().await.unwrap_err();
    fs::rename(dir.path().join("elsewhere"), database(dir.path())).unwrap();
    let store = open_with(dir.path(), salvaging()).unwrap();
    assert!(salvaged(&store).is_none());
    assert!(store.thread("a").await.unwrap().is_some());
}

/// Copies an open store in the state that a killed process would leave.
fn killed(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["threads.db", "threads.db-wal", "threads.db-shm", "threads.lock"] {
        fs::copy(dir.join(name), copy.path().join(name)).unwrap();
    }
    copy
}

#[tokio::test]
async fn a_log_removed_after_a_kill_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.commit(listed(record("old", 1))).await.unwrap();
    store.close().await.unwrap();
    let store = open(dir.path());
    // Too few commits for the log to be emptied when idle.
    for n in 0..3 {
        store.commit(listed(record(&format!("t{n}"), n))).await.unwrap();
    }
    let dir = killed(dir.path());
    drop(store);
    let other = tempfile::tempdir().unwrap();
    let another = open(other.path());
    another.commit(listed(record("x", 1))).await.unwrap();
    let other = fs::read(log(other.path())).unwrap();

    let intact = killed(dir.path());
    store::check::check(intact.path()).unwrap().unwrap();
    let same = open_with(intact.path(), salvaging()).unwrap();
    assert!(salvaged(&same).is_none() && same.thread("t2").await.unwrap().is_some());

    type Change<'c> = Box<dyn Fn(Vec<u8>) -> Option<Vec<u8>> + 'c>;
    let changes: [(&str, Change<'_>); 8] = [
        ("the header of its log is invalid", Box::new(|_| Some(b"hello\n".repeat(5000)))),
        ("the header of its log is invalid", Box::new(|_| Some(b"x".to_vec()))),
        ("the header of its log is invalid", Box::new(|log| Some(vec![0; log.len()]))),
        ("its log is damaged", Box::new(|log| Some([&[0; 32], &log[32..]].concat()))),
        ("pages of its log are missing", Box::new(|log| Some(log[..log.len() / 2 + 11].to_vec()))),
        ("its log is missing", Box::new(|_| None)),
        ("its log is missing", Box::new(|_| Some(Vec::new()))),
        ("another log", Box::new(|_| Some(other.clone()))),
    ];
    for (expected, change) in changes {
        let copy = killed(dir.path());
        let path = log(copy.path());
        let changed = change(fs::read(&path).unwrap());
        match &changed {
            Some(bytes) => fs::write(&path, bytes).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let before = contents(copy.path());
        let error = store::check::check(copy.path()).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
        assert_eq!(contents(copy.path()), before, "{expected}: nothing is changed");
        let store = open_with(copy.path(), salvaging()).unwrap();
        let salvage = salvaged(&store).unwrap();
        assert!(salvage.damage.contains(expected), "{salvage:?}");
        assert_eq!(salvage.lost_unnamed, !expected.contains("damaged"), "{salvage:?}");
        // Pages of another log replace some of the database's.
        let has_old = store.thread("old").await.unwrap().is_some();
        assert!(has_old || expected == "another log", "{expected}");
        let kept = copy.path().join("threads.db.damaged-7-wal");
        assert_eq!(fs::read(&kept).ok(), changed, "{expected}");
        let named = changed.is_some_and(|log| !log.is_empty());
        assert_eq!(salvage.files.contains(&kept), named, "{expected}: {salvage:?}");
    }
}

#[tokio::test]
async fn a_check_reports_the_messages_of_a_server() {
    let pipe = |path: &Path| {
        let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    };
    type Make = Box<dyn Fn(&Path)>;
    let away = |path: &Path| {
        let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
    };
    let place = |name: &'static str, make: fn(&Path)| -> (&'static str, Make) {
        (name, Box::new(move |dir: &Path| (away(&dir.join(name)), make(&dir.join(name))).1))
    };
    let folder: fn(&Path) = |path| fs::create_dir(path).unwrap();
    let text: fn(&Path) = |path| fs::write(path, "hello").unwrap();
    let nothing: fn(&Path) = |path| fs::write(path, "").unwrap();
    let device: fn(&Path) = |path| std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    let foreign: fn(&Path) = |path| {
        Connection::open(path).unwrap().execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
    };
    let newer: fn(&Path) = |path| {
        let conn = Connection::open(path).unwrap();
        conn.execute_batch("PRAGMA application_id = 0x61677464; PRAGMA user_version = 4711")
            .unwrap();
    };
    let mut cases = vec![
        place("threads.db", folder),
        place("threads.db", pipe),
        place("threads.db", device),
        place("threads.db", |path| std::os::unix::fs::symlink("/nowhere/at/all", path).unwrap()),
        place("threads.db", text),
        place("threads.db", nothing),
        place("threads.db", foreign),
        place("threads.db", newer),
        place("threads.db", |_| {}),
        place("threads.lock", folder),
        place("threads.lock", pipe),
        place("owners", text),
        place("threads.db-wal", folder),
        place("threads.db-wal", pipe),
        place("threads.db-wal", text),
        place("threads.db-shm", folder),
        place("threads.db-shm", pipe),
    ];
    let mode = |name: &'static str, mode: u32| -> (&'static str, Make) {
        let set = move |dir: &Path| {
            fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        (name, Box::new(set))
    };
    let is_root = std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").unwrap()) == 0;
    if !is_root {
        // The last one is the folder itself.
        for name in ["threads.db", "threads.lock", "owners", ""] {
            cases.extend([mode(name, 0), mode(name, 0o500)]);
        }
    }
    for (number, (name, make)) in cases.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let writes = vec![create(record("a", 1)), start("a", "t", 1), finish("a", "t")];
        store.commit(writes).await.unwrap();
        store.close().await.unwrap();
        make(dir.path());
        let said = store::check::check(dir.path()).unwrap_err().to_string();
        let refused = open_with(dir.path(), options()).unwrap_err().to_string();
        assert_eq!(said, refused, "{number}: {name}");
        assert!(said.contains(&dir.path().display().to_string()), "{number}: {name}: {said}");
        assert!(!said.contains("disk I/O") && !said.contains("readonly"), "{number}: {said}");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    }
    // An entry among the owners that is not a regular file is not an owner, and is not removed.
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).close().await.unwrap();
    pipe(&dir.path().join("owners/pipe"));
    store::check::check(dir.path()).unwrap().unwrap();
    let store = open_with(dir.path(), options()).unwrap();
    store.claim_orphaned_turns().await.unwrap();
    assert!(dir.path().join("owners/pipe").exists());
}
