//! Prints the time of the commits of running turns on PostgreSQL, or on SQLite without a URL. Asserts
//! nothing. `cargo run --release -p store --example appends -- postgres://postgres@127.0.0.1/postgres [--prepare]`
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::{Duration, Instant};

use store::{Fragment, PostgresConfig, SqliteConfig, Store, ThreadRecord, Write};

/// Commits of each thread.
const COMMITS: usize = 500;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let url = std::env::args().nth(1);
    for threads in [1, 8, 32] {
        let folder = tempfile::tempdir().unwrap();
        let store = match &url {
            Some(url) => {
                let mut options = PostgresConfig::new(url, format!("bench-{threads}"));
                options.schema = format!("bench_{}_{threads}", std::process::id());
                options.connections = 9;
                options.prepares = std::env::args().any(|argument| argument == "--prepare");
                store::migrate(&options).await.unwrap();
                Store::open(options).await.unwrap()
            }
            None => Store::open(SqliteConfig::new(folder.path(), 0, "bench")).await.unwrap(),
        };
        measure(&store, threads).await;
        store.close().await.unwrap();
    }
}

async fn measure(store: &Store, threads: usize) {
    let start = Instant::now();
    let running: Vec<_> = (0..threads)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move { run(&store, &format!("thread {number}")).await })
        })
        .collect();
    let mut times = Vec::new();
    for thread in running {
        times.extend(thread.await.unwrap());
    }
    let rate = times.len() as f64 / start.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e3;
    println!(
        "{threads:>3} threads: {rate:.0} commits/s, p50 {:.2} ms, p99 {:.2} ms",
        at(50),
        at(99)
    );
}

/// The time of each commit: an item of 1 KiB, and its part of the history.
async fn run(store: &Store, id: &str) -> Vec<Duration> {
    let record = ThreadRecord { id: id.to_owned(), ..ThreadRecord::default() };
    let (thread, turn) = (id.to_owned(), "t".to_owned());
    let started = Write::StartTurn { thread, turn, started_at_ms: 1 };
    store.commit(vec![Write::CreateThread(Box::new(record)), started]).await.unwrap();
    let text = "x".repeat(1024);
    let mut times = Vec::with_capacity(COMMITS);
    for number in 0..COMMITS {
        let put = Write::PutItem {
            thread: id.to_owned(),
            turn: "t".to_owned(),
            item: number.to_string(),
            kind: "agentMessage".to_owned(),
            status: None,
            payload: text.clone(),
        };
        let said = Write::AppendHistory {
            thread: id.to_owned(),
            turn: Some("t".to_owned()),
            fragments: vec![Fragment { text: text.as_str().into(), mark: 0 }],
            anew: false,
        };
        let start = Instant::now();
        store.commit(vec![put, said]).await.unwrap();
        times.push(start.elapsed());
    }
    times
}
