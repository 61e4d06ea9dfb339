//! Rows and sums of the ledger, also while the store is unreachable.

#![allow(clippy::unwrap_used)]
use super::*;
use gateway_policy::settings::StoreUrl;

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn entry(key: u64) -> Entry {
    Entry {
        at: 1_700_000_000_000_000,
        request: format!("req_{key}").into(),
        organization: "org-default".into(),
        project: "proj_1".into(),
        key: format!("key_{key}").into(),
        model: "big".into(),
        backend: "main".into(),
        endpoint: Endpoint::Completions,
        status: 200,
        ended: Ended::Complete,
        batch: false,
        input_tokens: 10,
        cached_tokens: 4,
        cache_write_tokens: 2,
        cache_write_1h_tokens: 1,
        output_tokens: 5,
        web_searches: 3,
        images: 0,
        audio_milliseconds: 0,
        cost: 7,
    }
}

async fn open(folder: &tempfile::TempDir) -> Arc<Database> {
    let url = StoreUrl::Sqlite(folder.path().join("gateway.db"));
    Arc::new(Database::open(&url).await.unwrap())
}

#[tokio::test]
async fn flushed_records_are_stored_exactly_once() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder).await;
    let ledger = Ledger::start(Arc::clone(&database), "one".into());
    (0..1000).for_each(|key| ledger.record(entry(key)));
    ledger.flush(PATIENCE).await.unwrap();
    assert_eq!(ledger.state(), State::default());
    let month = gateway_policy::dates::month(entry(0).at);
    let spent = month_spend(&database, "org-default", month).await.unwrap();
    let sums: Vec<_> = spent.iter().map(|sum| (sum.project.as_deref(), sum.cost)).collect();
    assert_eq!(sums, [(None, 7000), (Some("proj_1"), 7000)]);
    let (rows, next) = export(&database, "org-default", Cursor::new(0, u64::MAX)).await.unwrap();
    assert_eq!((rows.len(), &rows[17].entry), (1000, &entry(17)));
    assert!(export(&database, "org-default", next).await.unwrap().0.is_empty());
}

#[tokio::test]
async fn a_batch_with_a_lost_acknowledgement_is_not_written_twice() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder).await;
    for _ in 0..2 {
        // The same writer restarts at the same number, as after a commit whose response was lost.
        let ledger = Ledger::start(Arc::clone(&database), "one".into());
        ledger.record(entry(1));
        ledger.flush(PATIENCE).await.unwrap();
    }
    let month = gateway_policy::dates::month(entry(0).at);
    assert_eq!(month_spend_of(&database, "org-default", None, month).await.unwrap(), 7);
}

#[tokio::test]
async fn the_ledger_waits_for_an_unavailable_store() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder).await;
    let other = rusqlite::Connection::open(folder.path().join("gateway.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ledger = Ledger::start(Arc::clone(&database), "one".into());
    ledger.record(entry(1));
    let left = ledger.flush(Duration::from_millis(1900)).await.unwrap_err();
    assert_eq!((left.waiting, left.error.is_some()), (1, true), "{left:?}");
    other.execute_batch("COMMIT").unwrap();
    ledger.flush(PATIENCE).await.unwrap();
    assert_eq!(ledger.state(), State::default());
}

#[tokio::test]
async fn a_refused_row_does_not_affect_other_rows() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder).await;
    let trap = "CREATE TRIGGER trap BEFORE INSERT ON ledger WHEN NEW.model = 'bad' \
                BEGIN SELECT RAISE(ABORT, 'no'); END";
    let other = rusqlite::Connection::open(folder.path().join("gateway.db")).unwrap();
    other.execute_batch(trap).unwrap();
    let ledger = Ledger::start(Arc::clone(&database), "one".into());
    for key in 0..100 {
        let model = if key == 40 { "bad" } else { "big" }.into();
        ledger.record(Entry { model, ..entry(key) });
    }
    ledger.flush(PATIENCE).await.unwrap();
    let state = ledger.state();
    assert_eq!((state.lost_requests, state.lost_cost, state.waiting), (1, 7, 0));
    let month = gateway_policy::dates::month(entry(0).at);
    assert_eq!(month_spend_of(&database, "org-default", None, month).await.unwrap(), 99 * 7);
}
