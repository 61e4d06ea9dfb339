//! Measurements, run manually: `cargo test --release -p gateway --test suite -- figures --ignored
//! --nocapture`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::node::{NOW, TestSources};
use gateway_policy::environment::Clock;
use gateway_policy::settings::StoreUrl;
use gateway_store::database::Database;
use gateway_store::directory::{CAPACITY, Directory};
use gateway_store::ledger::{Endpoint, Entry, Ledger};
use gateway_store::records::key_text::{self, Kind};

const KEYS: i64 = 1_000_000;
const ORGANIZATIONS: i64 = 10_000;
const ROWS: u64 = 400_000;

fn sources() -> Arc<TestSources> {
    Arc::new(TestSources((NOW * 1_000_000).into()))
}

/// User and system time of this process.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

fn resident_megabytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[tokio::test]
#[ignore = "a measurement"]
async fn a_million_keys() {
    let folder = tempfile::tempdir().unwrap();
    let url = StoreUrl::Sqlite(folder.path().join("gateway.db"));
    drop(Database::open(&url).await.unwrap());
    let texts = fill(&folder.path().join("gateway.db"));
    let before = resident_megabytes();
    let started = Instant::now();
    let database = Arc::new(Database::open(&url).await.unwrap());
    let clock = sources() as Arc<dyn Clock>;
    let directory = Directory::open(database, clock, CAPACITY).await.unwrap();
    println!("open: {:?}", started.elapsed());
    let started = Instant::now();
    directory.caller(&texts[0]).await.unwrap();
    println!("first look-up: {:?}", started.elapsed());
    let started = Instant::now();
    for text in &texts[1..50_001] {
        directory.caller(text).await.unwrap();
    }
    println!("miss: {:?}", started.elapsed() / 50_000);
    let started = Instant::now();
    for text in &texts[1..50_001] {
        directory.cached(text).unwrap().unwrap();
    }
    println!("hit: {:?}", started.elapsed() / 50_000);
    println!("resident: {} MB more for 50,000 keys in use", resident_megabytes() - before);
}

fn fill(file: &std::path::Path) -> Vec<String> {
    let sources = sources();
    let mut connection = rusqlite::Connection::open(file).unwrap();
    let transaction = connection.transaction().unwrap();
    for number in 0..ORGANIZATIONS {
        let sql = "INSERT INTO organizations (id, name, tier_set, tier_paid, paid_cents, \
                   created_at) VALUES ('org-' || ?1, 'o', 0, 0, 0, 0)";
        transaction.execute(sql, [number]).unwrap();
        let sql = "INSERT INTO projects (id, organization, name, created_at) \
                   VALUES ('proj_' || ?1, 'org-' || ?1, 'p', 0)";
        transaction.execute(sql, [number]).unwrap();
    }
    let sql = "INSERT INTO keys (hash, id, project, name, redacted, created_at) \
               VALUES (?1, 'key_' || ?2, 'proj_' || ?3, 'k', 'sk-proj-********abcd', 0)";
    let mut insert = transaction.prepare(sql).unwrap();
    let mut texts = Vec::new();
    for number in 0..KEYS {
        let text = key_text::new(Kind::Project, &*sources).reveal().to_owned();
        let hash = key_text::hash(&text);
        insert.execute(rusqlite::params![hash.as_slice(), number, number % ORGANIZATIONS]).unwrap();
        if texts.len() < 60_000 {
            texts.push(text);
        }
    }
    drop(insert);
    transaction.commit().unwrap();
    texts
}

#[tokio::test]
#[ignore = "a measurement"]
async fn rows_of_the_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let url = StoreUrl::Sqlite(folder.path().join("gateway.db"));
    let database = Arc::new(Database::open(&url).await.unwrap());
    let ledger = Ledger::start(database, "one".into());
    let (started, used) = (Instant::now(), processor_time());
    let mut recorded = 0;
    while recorded < ROWS {
        for _ in 0..2000 {
            ledger.record(entry(recorded));
            recorded += 1;
        }
        // At full speed, with at most a bounded number of waiting rows.
        while ledger.state().waiting > 20_000 {
            tokio::time::sleep(Duration::from_millis(1)).await; // tidy: sleep the writer's thread
        }
    }
    ledger.flush(Duration::from_secs(60)).await.unwrap();
    let (elapsed, used) = (started.elapsed(), processor_time() - used);
    let rate = ROWS as f64 / elapsed.as_secs_f64();
    println!("{rate:.0} rows/s, {:?} of processor a row", used / ROWS as u32);
}

fn entry(number: u64) -> Entry {
    Entry {
        at: NOW * 1_000_000 + number * 80,
        request: format!("req_{number:032x}").into(),
        organization: format!("org-{:032}", number % 10).into(),
        project: format!("proj_{:032}", number % 20).into(),
        key: format!("key_{:032}", number % 100).into(),
        model: "big-2026-08-01".into(),
        backend: "main".into(),
        endpoint: Endpoint::Completions,
        status: 200,
        ended: gateway_store::ledger::Ended::Complete,
        batch: false,
        input_tokens: 812,
        cached_tokens: 256,
        cache_write_tokens: 0,
        cache_write_1h_tokens: 0,
        output_tokens: 190,
        web_searches: 0,
        images: 0,
        audio_milliseconds: 0,
        cost: 2_345,
    }
}
