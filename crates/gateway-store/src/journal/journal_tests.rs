//! Recovery of journals that killed processes have left, and files that are none.

#![allow(clippy::unwrap_used)]
use tempfile::TempDir;

use super::*;
use crate::database::Database;
use crate::ledger::{Cursor, Exported, Ledger, export, month_spend_of, writing_group};
use gateway_policy::settings::StoreUrl;

const NOW: Micros = 1_700_000_000_000_000;
const WRITER: u64 = 0xabcd;

async fn open(folder: &TempDir) -> Arc<Database> {
    let url = StoreUrl::Sqlite(folder.path().join("gateway.db"));
    Arc::new(Database::open(&url).await.unwrap())
}

fn begin(ledger: &Ledger, request: &str) -> OpenRequest {
    let identity = Identity {
        request,
        organization: "org-default",
        project: "proj_1",
        key: "key_1",
        model: "big",
        endpoint: Endpoint::Completions,
        batch: false,
        received: NOW,
    };
    ledger.begin(&identity).unwrap()
}

fn figures(cost: u64) -> Figures {
    Figures {
        at: NOW,
        status: 503,
        ended: Ended::Killed,
        output_tokens: cost,
        cost,
        ..Figures::default()
    }
}

fn entry(request: &str, cost: u64) -> Entry {
    let entry = crate::ledger::tests_entry(1);
    Entry { at: NOW + 5, request: request.into(), project: "proj_1".into(), cost, ..entry }
}

/// The rows of the ledger: request, end, cost.
async fn rows(database: &Database) -> Vec<(String, &'static str, u64)> {
    let (rows, _) = export(database, "org-default", Cursor::new(0, u64::MAX)).await.unwrap();
    let row = |Exported { entry, .. }: &Exported| {
        (entry.request.to_string(), entry.ended.name(), entry.cost)
    };
    let mut rows: Vec<_> = rows.iter().map(row).collect();
    rows.sort();
    rows
}

/// What `kill -9` leaves of the journal in a folder, in another one.
fn killed(folder: &TempDir) -> TempDir {
    let left = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
        if file.file_name().to_string_lossy().contains(".open-") {
            std::fs::copy(file.path(), left.path().join(file.file_name())).unwrap();
        }
    }
    left
}

async fn recovered(database: &Database, folder: &TempDir) -> Vec<Recovered> {
    let (own, others) = Journal::open(&folder.path().join("gateway.db")).unwrap();
    let mut all = Vec::new();
    for journal in std::iter::once(&own).chain(&others) {
        let (found, damaged) = recover(database, journal, 1, NOW + 9).await.unwrap();
        assert_eq!(damaged, 0);
        all.extend(found);
    }
    all
}

/// A ledger with a journal, that was opened as a gateway does it.
async fn start(folder: &TempDir, database: &Arc<Database>) -> Ledger {
    let (journal, _) = Journal::open(&folder.path().join("gateway.db")).unwrap();
    recover(database, &journal, WRITER, NOW).await.unwrap();
    let writer = format!("{WRITER:016x}");
    Ledger::with_journal(Arc::clone(database), writer.into(), journal)
}

#[tokio::test]
async fn what_a_killed_process_had_is_written_once() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder).await;
    let ledger = start(&folder, &database).await;
    let mut open = Vec::new();
    for (request, cost) in [("req_1", 10), ("req_2", 20)] {
        let mut one = begin(&ledger, request);
        one.note(&figures(1));
        one.note(&Figures { held: 90, ..figures(cost) });
        open.push(one);
    }
    open[1].lower(50);
    // Not admitted yet; refused; ended and written; ended and not written.
    let asking = begin(&ledger, "req_3");
    drop(begin(&ledger, "req_4"));
    let ended = |request: &'static str, cost| {
        let mut one = begin(&ledger, request);
        one.note(&figures(1));
        (entry(request, cost), one)
    };
    let (row, one) = ended("req_5", 5);
    ledger.settle(row, one);
    ledger.flush(std::time::Duration::from_secs(20)).await.unwrap();
    let (row, mut one) = ended("req_6", 6);
    one.end(&row);
    let left = killed(&folder);
    let found = recovered(&database, &left).await;
    let mut told: Vec<_> = found
        .iter()
        .map(|one| (&*one.entry.request, one.is_charged, one.was_settled, one.held))
        .collect();
    told.sort_unstable();
    assert_eq!(
        told,
        [
            ("req_1", true, false, 90),
            ("req_2", true, false, 50),
            ("req_3", false, false, 0),
            ("req_6", false, true, 0)
        ]
    );
    let row = |request: &str, ended, cost| (request.to_owned(), ended, cost);
    let expected = [
        row("req_1", "killed", 10),
        row("req_2", "killed", 20),
        row("req_5", "complete", 5),
        row("req_6", "complete", 6),
    ];
    assert_eq!(rows(&database).await, expected);
    // A recovery that was killed before it freed the slots is repeated, without effect on the ledger.
    drop(found);
    for _ in 0..2 {
        assert_eq!(recovered(&database, &left).await.len(), 4);
        assert_eq!(rows(&database).await, expected);
    }
    recovered(&database, &left).await.into_iter().for_each(Recovered::free);
    assert!(recovered(&database, &left).await.is_empty());
    let month = gateway_policy::dates::month(NOW);
    assert_eq!(month_spend_of(&database, "org-default", None, month).await.unwrap(), 41);
    drop((asking, open, one));
}

/// The last transaction of a killed process may be committed before the recovery or arrive after it.
#[tokio::test]
async fn a_late_group_of_a_killed_process_is_counted_once() {
    for arrives_first in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let database = open(&folder).await;
        let ledger = start(&folder, &database).await;
        let (row, mut one) = (entry("req_1", 7), begin(&ledger, "req_1"));
        one.end(&row);
        let left = killed(&folder);
        let late = || writing_group(&format!("{WRITER:016x}"), 40, NOW, std::slice::from_ref(&row));
        if arrives_first {
            database.transact(late()).await.unwrap();
        }
        let found = recovered(&database, &left).await;
        assert_eq!(found.len(), 1);
        let again = database.transact(late()).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::Unmet { statement: 0 });
        assert_eq!(rows(&database).await, [("req_1".to_owned(), "complete", 7)]);
        one.free();
    }
}

#[tokio::test]
async fn a_row_that_the_store_rejects_does_not_keep_the_others_out() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder).await;
    let ledger = start(&folder, &database).await;
    let open: Vec<_> = (0..100)
        .map(|number| {
            let mut one = begin(&ledger, &format!("req_{number}"));
            one.note(&figures(number));
            one
        })
        .collect();
    let trap = "CREATE TRIGGER trap BEFORE INSERT ON ledger WHEN NEW.request = 'req_70' \
                BEGIN SELECT RAISE(ABORT, 'no'); END";
    let other = rusqlite::Connection::open(folder.path().join("gateway.db")).unwrap();
    other.execute_batch(trap).unwrap();
    let found = recovered(&database, &killed(&folder)).await;
    let lost: Vec<_> =
        found.iter().filter(|one| one.is_lost).map(|one| &*one.entry.request).collect();
    assert_eq!(lost, ["req_70"]);
    assert_eq!((found.len(), rows(&database).await.len()), (100, 99));
    drop(open);
}

#[tokio::test]
async fn processes_in_one_folder_have_files_of_their_own_and_the_next_one_recovers_all() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder).await;
    let (first, second) = (start(&folder, &database).await, start(&folder, &database).await);
    let open = [(&first, "req_1"), (&second, "req_2")].map(|(ledger, request)| {
        let mut one = begin(ledger, request);
        one.note(&figures(1));
        one
    });
    // The second one has found nothing of the first one, which runs.
    assert!(rows(&database).await.is_empty());
    assert!(folder.path().join("gateway.open-1").exists());
    let left = killed(&folder);
    assert_eq!(recovered(&database, &left).await.len(), 2);
    assert_eq!(rows(&database).await.len(), 2);
    drop(open);
}

#[tokio::test]
async fn a_journal_grows_and_uses_slots_again() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder).await;
    let ledger = start(&folder, &database).await;
    let journal = ledger.journal().unwrap();
    let path = folder.path().join("gateway.open-0");
    let length = || std::fs::metadata(&path).unwrap().len();
    let first = length();
    assert_eq!(first, offset(STEP));
    for _ in 0..2 {
        let all: Vec<_> =
            (0..=STEP).map(|number| begin(&ledger, &format!("req_{number}"))).collect();
        assert_eq!((journal.open_slots(), length()), (STEP as usize + 1, offset(2 * STEP)));
        drop(all);
        assert_eq!(journal.open_slots(), 0);
    }
    journal.sync().unwrap();
}

#[test]
fn a_file_that_is_no_journal_is_refused_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("gateway.db");
    let path = folder.path().join("gateway.open-0");
    drop(Journal::open(&base).unwrap());
    // tidy: open a file of this test.
    let good = std::fs::read(&path).unwrap();
    let changed = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    for (bytes, expected) in [
        (Vec::new(), "it is cut off"),
        (good[..100].to_vec(), "it is cut off"),
        (good[..HEADER].to_vec(), "it is cut off"),
        (good[..good.len() - 1].to_vec(), "it is cut off"),
        (b"SQLite format 3\0".repeat(1000), "it is not a journal of open requests"),
        (changed(16), "another version of this program wrote it"),
        (changed(24), "its header is damaged"),
        (changed(33), "its header is damaged"),
    ] {
        std::fs::write(&path, &bytes).unwrap();
        let error = Journal::open(&base).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(expected) && text.contains("gateway.open-0"), "{text}");
        assert!(text.contains("move it away") && !text.contains('\n'), "{text}");
        // tidy: open a file of this test.
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
    std::fs::remove_file(&path).unwrap();
    make_fifo(&path);
    assert!(Journal::open(&base).unwrap_err().to_string().contains("not a regular file"));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let text = Journal::open(&base).unwrap_err().to_string();
    assert!(text.contains("gateway.open-0") && text.contains("directory"), "{text}");
}

/// Creates a named pipe.
fn make_fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[tokio::test]
async fn damaged_slots_are_told_and_freed() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder).await;
    let ledger = start(&folder, &database).await;
    let open = ["req_1", "req_2"].map(|request| {
        let mut one = begin(&ledger, request);
        one.note(&figures(3));
        one
    });
    let left = killed(&folder);
    let path = left.path().join("gateway.open-0");
    // tidy: open a file of this test.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[HEADER + 30] ^= 4;
    std::fs::write(&path, bytes).unwrap();
    let (journal, _) = Journal::open(&left.path().join("gateway.db")).unwrap();
    let (found, damaged) = recover(&database, &journal, 1, NOW).await.unwrap();
    assert_eq!((found.len(), damaged, journal.open_slots()), (1, 1, 1));
    assert_eq!(rows(&database).await, [("req_2".to_owned(), "killed", 3)]);
    drop(open);
}
