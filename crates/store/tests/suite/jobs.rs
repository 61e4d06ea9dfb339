//! Jobs and their rows: what is stored, what is refused, and what a deletion or a salvage leaves.

use crate::common::{Backend, open_with, salvaged};
use std::fs;

use crate::common::{create, finish, open, options, record, start};
use store::{
    JobItemCounts, JobItemOutcome, JobItemStatus, JobStatus, JobWrite, NewJobItem, SqliteConfig,
    Store, StoreError, Write,
};

const FINGERPRINT: [u8; 32] = [7; 32];

async fn change(store: &Store, write: JobWrite) -> Result<(), StoreError> {
    store.commit(vec![Write::Job { thread: "t".into(), write }]).await
}

fn items(numbers: impl IntoIterator<Item = u32>) -> Vec<NewJobItem> {
    let item =
        |number| NewJobItem { number, id: format!("row-{number}"), row: format!("[\"{number}\"]") };
    numbers.into_iter().map(item).collect()
}

/// A thread with a job of `rows` rows; returns the job's key.
async fn job(store: &Store, rows: u32) -> i64 {
    store
        .commit(vec![create(record("t", 1)), start("t", "turn", 1), finish("t", "turn")])
        .await
        .unwrap();
    let (id, detail) = ("job".to_owned(), "{}".to_owned());
    let fingerprint = FINGERPRINT;
    change(store, JobWrite::Create { id, fingerprint, created_at_ms: 5, detail }).await.unwrap();
    let key = store.latest_job("t", FINGERPRINT).await.unwrap().unwrap().key;
    change(store, JobWrite::AddItems { job: key, items: items(1..=rows) }).await.unwrap();
    key
}

async fn run(store: &Store, job: i64, number: u32) {
    let worker = format!("worker-{number}");
    change(store, JobWrite::StartItem { job, number, worker }).await.unwrap();
}

/// The end of a row whose worker is that of [`run`].
fn ended(job: i64, number: u32, outcome: JobItemOutcome) -> JobWrite {
    JobWrite::FinishItem { job, number, worker: format!("worker-{number}"), outcome }
}

fn completed(job: i64, number: u32) -> JobWrite {
    ended(job, number, result(number, false))
}

fn result(number: u32, ends_job: bool) -> JobItemOutcome {
    JobItemOutcome::Completed { result: format!("{{\"n\":{number}}}"), ends_job }
}

fn reopen(job: i64) -> JobWrite {
    JobWrite::Reopen { job, detail: "{\"again\":true}".into() }
}

#[tokio::test]
async fn a_job_that_a_crash_cut_short_keeps_its_finished_rows() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let key = job(&store, 5).await;
    run(&store, key, 1).await;
    run(&store, key, 2).await;
    run(&store, key, 3).await;
    change(&store, completed(key, 1)).await.unwrap();
    let outcome = JobItemOutcome::Failed("no".into());
    change(&store, ended(key, 2, outcome)).await.unwrap();
    drop(store);

    let store = open(dir.path());
    store.open_thread("t").await.unwrap();
    let found = store.latest_job("t", FINGERPRINT).await.unwrap().unwrap();
    assert_eq!((found.key, found.status, found.ended_at_ms), (key, JobStatus::Running, None));
    assert!(store.latest_job("t", [8; 32]).await.unwrap().is_none());
    change(&store, reopen(key)).await.unwrap();
    let found = store.latest_job("t", FINGERPRINT).await.unwrap().unwrap();
    assert_eq!((found.status, found.detail.as_str()), (JobStatus::Running, "{\"again\":true}"));
    // Rows that are there keep what they have.
    change(&store, JobWrite::AddItems { job: key, items: items(1..=6) }).await.unwrap();
    let expected = JobItemCounts {
        pending: 4,
        completed: 1,
        failed: 1,
        result_bytes: 7,
        ..JobItemCounts::default()
    };
    assert_eq!(store.job_counts(key).await.unwrap(), expected);
    let first = store.job_items(key, 0, None, 1).await.unwrap().remove(0);
    assert_eq!((first.number, first.id.as_str(), first.row.as_str()), (1, "row-1", "[\"1\"]"));
    assert_eq!(first.worker.as_deref(), Some("worker-1"));
    assert_eq!(first.result.as_deref(), Some("{\"n\":1}"));
    let pending = store.job_items(key, 3, Some(JobItemStatus::Pending), 2).await.unwrap();
    assert_eq!(pending.iter().map(|item| item.number).collect::<Vec<_>>(), [4, 5]);
}

#[tokio::test]
async fn a_row_ends_once_and_only_in_its_own_job() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        let key = job(&store, 3).await;
        run(&store, key, 1).await;
        let (number, worker) = (1, "other".to_owned());
        let taken = change(&store, JobWrite::StartItem { job: key, number, worker }).await;
        assert!(matches!(taken, Err(StoreError::JobItemEnded { number: 1 })), "{taken:?}");
        change(&store, completed(key, 1)).await.unwrap();
        let again = change(&store, completed(key, 1)).await;
        assert!(matches!(again, Err(StoreError::JobItemEnded { number: 1 })), "{again:?}");
        let unknown = change(&store, completed(key, 9)).await;
        assert!(matches!(unknown, Err(StoreError::JobItemEnded { number: 9 })), "{unknown:?}");
        let other = change(&store, completed(key + 1, 1)).await;
        assert!(matches!(other, Err(StoreError::JobNotFound { .. })), "{other:?}");

        let (status, ended_at_ms) = (JobStatus::Cancelled, 9);
        change(&store, JobWrite::Finish { job: key, status, ended_at_ms }).await.unwrap();
        let counts = JobItemCounts { completed: 1, stopped: 2, ..JobItemCounts::default() };
        let expected = JobItemCounts { result_bytes: 7, ..counts };
        assert_eq!(store.job_counts(key).await.unwrap(), expected);
        let (status, ended_at_ms) = (JobStatus::Completed, 9);
        change(&store, JobWrite::Finish { job: key, status, ended_at_ms }).await.unwrap();
        let latest = store.latest_job("t", FINGERPRINT).await.unwrap().unwrap();
        assert_eq!(latest.status, JobStatus::Completed);
        assert_eq!(store.jobs("t").await.unwrap()[0].ended_at_ms, Some(9));
    }
}

#[tokio::test]
async fn a_late_worker_does_not_end_the_row_of_another() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        let key = job(&store, 3).await;
        for number in 1..=3 {
            run(&store, key, number).await;
        }
        change(&store, reopen(key)).await.unwrap();
        let (number, worker) = (1, "newer".to_owned());
        change(&store, JobWrite::StartItem { job: key, number, worker }).await.unwrap();
        for outcome in [
            result(1, true),
            JobItemOutcome::Failed("late".into()),
            JobItemOutcome::Stopped("late".into()),
        ] {
            let late = change(&store, ended(key, 1, outcome)).await;
            assert!(matches!(late, Err(StoreError::JobItemEnded { number: 1 })), "{late:?}");
        }
        // No other worker has these: a result counts, and nothing else does.
        change(&store, completed(key, 2)).await.unwrap();
        let late = change(&store, ended(key, 3, JobItemOutcome::Failed("late".into()))).await;
        assert!(matches!(late, Err(StoreError::JobItemEnded { number: 3 })), "{late:?}");
        let counts = store.job_counts(key).await.unwrap();
        assert_eq!((counts.running, counts.completed, counts.pending), (1, 1, 1));
    }
}

#[tokio::test]
async fn stopped_rows_run_again_and_cancelled_ones_do_not() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        let key = job(&store, 4).await;
        run(&store, key, 1).await;
        change(&store, ended(key, 1, JobItemOutcome::Stopped("cut".into()))).await.unwrap();
        let stopped = store.job_items(key, 0, Some(JobItemStatus::Stopped), 9).await.unwrap();
        assert_eq!(stopped[0].error.as_deref(), Some("cut"));
        change(&store, reopen(key)).await.unwrap();
        let pending = store.job_items(key, 0, Some(JobItemStatus::Pending), 9).await.unwrap();
        assert_eq!((pending.len(), pending[0].error.as_deref()), (4, None));

        run(&store, key, 1).await;
        run(&store, key, 2).await;
        change(&store, ended(key, 1, JobItemOutcome::Stopped("cut".into()))).await.unwrap();
        change(&store, ended(key, 2, result(2, true))).await.unwrap();
        // As after a crash before the job's end.
        change(&store, reopen(key)).await.unwrap();
        let counts = store.job_counts(key).await.unwrap();
        let expected = JobItemCounts {
            completed: 1,
            cancelled: 3,
            result_bytes: 7,
            ..JobItemCounts::default()
        };
        assert_eq!(counts, expected);
    }
}

#[tokio::test]
async fn a_deleted_thread_leaves_no_job() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        let key = job(&store, 3).await;
        store.commit(vec![Write::DeleteThread { thread: "t".into() }]).await.unwrap();
        assert_eq!(store.job_counts(key).await.unwrap(), JobItemCounts::default());
        store.close().await.unwrap();
        if let Some(dir) = store.dir() {
            let report = store::check::check(dir).unwrap().unwrap();
            assert_eq!(report.problems, Vec::<String>::new());
        }
    }
}

#[tokio::test]
async fn a_salvage_keeps_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let key = job(&store, 300).await;
    run(&store, key, 7).await;
    change(&store, completed(key, 7)).await.unwrap();
    store.close().await.unwrap();
    // Damages the root page of the table, so that SQLite finds none of its rows.
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
    assert!(salvaged(&store).is_some());
    let found = store.latest_job("t", FINGERPRINT).await.unwrap().unwrap();
    assert_eq!((found.key, found.id.as_str()), (key, "job"));
    let counts = store.job_counts(key).await.unwrap();
    assert_eq!((counts.pending, counts.completed), (299, 1));
    assert_eq!(store.jobs("t").await.unwrap().len(), 1);
    store.close().await.unwrap();
    let report = store::check::check(dir.path()).unwrap().unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}
