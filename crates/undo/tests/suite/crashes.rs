//! Processes that die: in the middle of a call, and in the middle of a restoration.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::{Place, picture, turn};
use undo::Undo;

/// Where the process that is killed finds its folder.
const PLACE: &str = "UNDO_TEST_PLACE";

#[test]
fn a_process_that_died_leaves_its_changes_and_those_after_it_are_uncertain() {
    // Whether the process was known to run after the change.
    for was_alive in [true, false] {
        let mut place = Place::new();
        place.write("a", b"0");
        place.write("gone/b", b"0");
        let turn = place.turn(|root| std::fs::write(root.join("a"), "1").unwrap());
        // A call begins, and its process is killed.
        let path = place.folder.path().join("undo.sqlite");
        drop(place.undo.begin(&place.root(), &turn).unwrap());
        place.write("a", b"2");
        place.write("new/c", b"of the call");
        std::fs::remove_dir_all(place.at("gone")).unwrap();
        let changed = place.at("new/c").metadata().unwrap();
        let changed = changed.ctime() * 1_000_000_000 + changed.ctime_nsec();
        let alive_at = if was_alive { changed + 1_000_000_000 } else { changed - 1_000_000_000 };
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.execute("UPDATE window SET process = ?, alive_at = ?", [dead_process(), alive_at])
            .unwrap();
        // Until the system's clock for stamps has moved on.
        while now() < changed + 50_000_000 {
            std::hint::spin_loop();
        }
        place.undo = Undo::open(&path).unwrap();
        let plan = place.plan(&turn);
        assert_eq!(plan.steps.len(), 5, "{plan:?}");
        assert_eq!(plan.conflicts.len(), if was_alive { 0 } else { 5 }, "{plan:?}");
    }
}

#[test]
fn a_process_that_runs_notes_it() {
    let place = Place::new();
    let window = place.undo.begin(&place.root(), &turn("thread", 1)).unwrap();
    let conn = rusqlite::Connection::open(place.folder.path().join("undo.sqlite")).unwrap();
    let alive_at =
        || -> i64 { conn.query_row("SELECT alive_at FROM window", [], |row| row.get(0)).unwrap() };
    let begun = alive_at();
    let before = now();
    place.undo.note_alive().unwrap();
    assert!(begun <= before && before <= alive_at());
    place.undo.end(window).unwrap();
}

#[test]
fn what_a_killed_restoration_has_left_is_no_change_of_others() {
    let mut place = Place::new();
    place.write("many/1", b"1");
    place.write("many/2", b"2");
    place.write("closed/3", b"3");
    set_mode(&place.at("closed"), 0o555);
    let before = picture(&place.root());
    let turn = place.turn(|root| {
        std::fs::remove_dir_all(root.join("many")).unwrap();
        set_mode(&root.join("closed"), 0o755);
        std::fs::write(root.join("closed/3"), "4").unwrap();
        set_mode(&root.join("closed"), 0o555);
    });
    let process = dead_process();
    let conn = rusqlite::Connection::open(place.folder.path().join("undo.sqlite")).unwrap();
    for (path, before, after) in
        [("", Some(0o755), None), ("many", None, Some(0o755)), ("closed", Some(0o555), Some(0o555))]
    {
        conn.execute(
            "INSERT INTO restoring SELECT id, ?, ?, ?, ? FROM folder",
            rusqlite::params![process, path.as_bytes(), before, after],
        )
        .unwrap();
    }
    std::fs::create_dir(place.at("many")).unwrap();
    set_mode(&place.at("many"), 0o700);
    place.write("many/1", b"1");
    place.write(&format!("many/.agentd-undo-{process}-7.tmp"), b"2");
    set_mode(&place.at("closed"), 0o755);
    let plan = place.plan(&turn);
    assert!(plan.conflicts.is_empty(), "{plan:?}");
    assert_eq!(place.at("many").metadata().unwrap().mode() & 0o777, 0o755);
    assert_eq!(place.at("closed").metadata().unwrap().mode() & 0o777, 0o555);
    place.restore_to(&turn, &before);
    let left = "SELECT count(*) FROM restoring";
    assert_eq!(conn.query_row(left, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

#[test]
fn a_restoration_that_is_killed_goes_on() {
    let mut place = Place::new();
    for number in 0..1000 {
        place.write(&format!("many/{}/{number}", number % 10), b"contents");
    }
    let before = picture(&place.root());
    let turn = place.turn(|root| std::fs::remove_dir_all(root.join("many")).unwrap());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crashes::the_process_that_is_killed", "--ignored", "--test-threads=1"])
        .env(PLACE, place.folder.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // Whenever it is hit, even after its end, what follows must hold.
    while !place.at("many/0/50").exists() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Where the child had ended, the turn is forgotten.
    if place.undo.plan(&turn).is_ok() {
        place.restore_to(&turn, &before);
    }
    assert_eq!(picture(&place.root()), before);
}

#[test]
#[ignore = "it is run, and killed, by another test"]
fn the_process_that_is_killed() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let undo = Undo::open(&Path::new(&place).join("undo.sqlite")).unwrap();
    undo.restore(&turn("thread", 1), false).unwrap().unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(now.as_nanos()).unwrap()
}

/// The number of a process that has ended.
fn dead_process() -> i64 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    i64::from(child.id())
}
