//! Prints what the store costs: opening, commits, lists of 100,000 threads, a thread of 10,000
//! turns, disk. Asserts nothing. `cargo run --release -p store --example scale`
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::{
    Direction, Fragment, ListQuery, SortKey, SqliteConfig, Store, ThreadRecord, TurnOutcome,
    TurnsQuery, Write,
};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    opening().await;
    commits().await;
    lists().await;
    long_thread().await;
    disk().await;
}

async fn open(dir: &Path, owner: &str) -> Store {
    Store::open(SqliteConfig::new(dir, 0, owner)).await.unwrap()
}

async fn opening() {
    let dir = tempfile::tempdir().unwrap();
    let before = resident_kib();
    let start = Instant::now();
    let store = open(dir.path(), "a").await;
    println!("open, new folder: {:?}", start.elapsed());
    store.close().await.unwrap();
    drop(store);
    let start = Instant::now();
    let store = open(dir.path(), "b").await;
    println!("open, again: {:?}", start.elapsed());
    println!("resident after open: +{} KiB", resident_kib().saturating_sub(before));
    store.threads(ListQuery { limit: 25, ..ListQuery::default() }).await.unwrap();
    println!("resident after a read: +{} KiB", resident_kib().saturating_sub(before));
}

async fn commits() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), "a").await;
    store.commit(vec![create("thread", 1)]).await.unwrap();
    let (mut turns, mut items) = (Vec::new(), Vec::new());
    for n in 0..1000 {
        let turn = uuid_like(n);
        turns.push(timed(store.commit(vec![start("thread", &turn)])).await);
        items.push(timed(store.commit(vec![put("thread", &turn, "item", 300)])).await);
        store.commit(vec![finish("thread", &turn)]).await.unwrap();
    }
    print_times("commit of a turn's start", turns);
    print_times("commit of an item of 300 bytes", items);

    let began = Instant::now();
    let writers: Vec<_> = (0..100)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let thread = format!("w{writer}");
                store.commit(vec![create(&thread, 1), start(&thread, "t")]).await.unwrap();
                for n in 0..200 {
                    let item = uuid_like(n);
                    store.commit(vec![put(&thread, "t", &item, 300)]).await.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let rate = 100.0 * 201.0 / began.elapsed().as_secs_f64();
    println!("100 writers: {rate:.0} commits/s");
}

async fn lists() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), "a").await;
    let began = Instant::now();
    for hundred in 0..1000 {
        let mut writes = Vec::new();
        for n in 0..100 {
            let thread = uuid_like(hundred * 100 + n);
            writes.push(create(&thread, hundred * 100 + n));
            writes.push(start(&thread, "t"));
            writes.push(finish(&thread, "t"));
        }
        store.commit(writes).await.unwrap();
    }
    println!("100,000 threads stored in {:?}", began.elapsed());
    let page = ListQuery { limit: 50, ..ListQuery::default() };
    let sources = vec!["cli".to_owned(), "editor".to_owned()];
    let rare = ListQuery { sources: vec!["exec".to_owned()], ..page.clone() };
    for (what, query) in [
        ("first page", page.clone()),
        ("cli and editor", ListQuery { sources, ..page.clone() }),
        ("a kind of 10 threads", rare),
        ("by update", ListQuery { sort: SortKey::Updated, ..page.clone() }),
        ("one folder of 1000", ListQuery { cwds: vec!["/work/7".to_owned()], ..page.clone() }),
        ("search, 1 match", ListQuery { search: Some("UESTION 77777 ".into()), ..page.clone() }),
        ("search, 100 matches", ListQuery { search: Some("Question 777".into()), ..page.clone() }),
        ("search, all match", ListQuery { search: Some("question".into()), ..page.clone() }),
        ("search, two letters, all", ListQuery { search: Some("qu".into()), ..page.clone() }),
        ("search, two letters, none", ListQuery { search: Some("qz".into()), ..page.clone() }),
        ("search, no match", ListQuery { search: Some("answer".into()), ..page.clone() }),
    ] {
        let mut times = Vec::new();
        for _ in 0..20 {
            times.push(timed(store.threads(query.clone())).await);
        }
        print_times(&format!("list of 100,000, {what}"), times);
    }
    println!("resident with 100,000 threads: {} KiB", resident_kib());
}

async fn long_thread() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), "a").await;
    store.commit(vec![create("thread", 1)]).await.unwrap();
    for n in 0..10_000 {
        let mut writes = turn("thread", n);
        if n % 500 == 0 {
            writes.push(create(&uuid_like(n), 1));
        }
        store.commit(writes).await.unwrap();
    }
    let newest = TurnsQuery { limit: 25, ..TurnsQuery::default() };
    let oldest = TurnsQuery { direction: Direction::Ascending, ..newest.clone() };
    let mut times: [Vec<Duration>; 5] = Default::default();
    for _ in 0..20 {
        times[0].push(timed(store.history("thread")).await);
        times[1].push(timed(store.last_turn("thread")).await);
        times[2].push(timed(store.turns_with_items("thread", newest.clone())).await);
        times[3].push(timed(store.turns_with_items("thread", oldest.clone())).await);
        times[4].push(timed(async { store.thread("thread").await.map(drop) }).await);
    }
    let names = ["all history", "last turn", "newest 25", "oldest 25", "head"];
    for (name, times) in names.into_iter().zip(times) {
        print_times(&format!("thread of 10,000 turns, {name}"), times);
    }
    println!("  fragments: {}", store.history("thread").await.unwrap().len());
}

async fn disk() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), "a").await;
    for n in 0..300 {
        let thread = uuid_like(n);
        store.commit(vec![create(&thread, n)]).await.unwrap();
        for write in turn(&thread, n) {
            store.commit(vec![write]).await.unwrap();
        }
    }
    store.commit(vec![create("long", 1)]).await.unwrap();
    for n in 0..300 {
        for write in turn("long", n) {
            store.commit(vec![write]).await.unwrap();
        }
    }
    tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_secs(1))).await.unwrap();
    println!("300 threads of one turn and one of 300, idle: {} KiB", folder_kib(dir.path()));
    store.close().await.unwrap();
    println!("300 threads of one turn and one of 300, closed: {} KiB", folder_kib(dir.path()));
}

/// A turn of four items and four fragments, about 3 KB.
fn turn(thread: &str, n: i64) -> Vec<Write> {
    let turn = uuid_like(n);
    let fragments = |bytes: usize| Write::AppendHistory {
        thread: thread.to_owned(),
        turn: Some(turn.clone()),
        fragments: vec![
            Fragment { text: Arc::from("h".repeat(bytes)), mark: 0 },
            Fragment { text: Arc::from("h".repeat(bytes)), mark: 0 },
        ],
        anew: false,
    };
    vec![
        start(thread, &turn),
        put(thread, &turn, &uuid_like(n * 4), 200),
        put(thread, &turn, &uuid_like(n * 4 + 1), 400),
        fragments(200),
        put(thread, &turn, &uuid_like(n * 4 + 2), 700),
        put(thread, &turn, &uuid_like(n * 4 + 3), 300),
        fragments(300),
        finish(thread, &turn),
    ]
}

fn create(id: &str, created_at: i64) -> Write {
    Write::CreateThread(Box::new(ThreadRecord {
        id: id.to_owned(),
        session_id: id.to_owned(),
        preview: format!("Question {created_at} about the code in this folder"),
        model_provider: "offline".to_owned(),
        model: "echo".to_owned(),
        cwd: format!("/work/{}", created_at % 100),
        created_at,
        updated_at: created_at,
        source_kind: if created_at % 10_000 == 0 { "exec" } else { "cli" }.to_owned(),
        source: "\"cli\"".to_owned(),
        settings: "{\"approvalPolicy\":\"on-request\",\"sandbox\":\"workspace-write\"}".to_owned(),
        cli_version: "0.1.0".to_owned(),
        ..ThreadRecord::default()
    }))
}

fn start(thread: &str, turn: &str) -> Write {
    Write::StartTurn { thread: thread.to_owned(), turn: turn.to_owned(), started_at_ms: 1 }
}

fn put(thread: &str, turn: &str, item: &str, bytes: usize) -> Write {
    Write::PutItem {
        thread: thread.to_owned(),
        turn: turn.to_owned(),
        item: item.to_owned(),
        kind: "agentMessage".to_owned(),
        status: Some("completed".to_owned()),
        payload: "p".repeat(bytes),
    }
}

fn finish(thread: &str, turn: &str) -> Write {
    Write::FinishTurn {
        thread: thread.to_owned(),
        turn: turn.to_owned(),
        outcome: TurnOutcome::Completed,
        error: None,
        completed_at_ms: 2,
        duration_ms: 1,
        usage: Some("{\"totalTokens\":1000}".to_owned()),
    }
}

/// Ids as long as real ones, in their order.
fn uuid_like(n: i64) -> String {
    format!("0198f2c0-{n:04x}-7abc-8def-{n:012x}", n = n & 0xffff_ffff)
}

async fn timed<T>(work: impl Future<Output = Result<T, store::StoreError>>) -> Duration {
    let began = Instant::now();
    let result = work.await;
    let took = began.elapsed();
    result.unwrap();
    took
}

fn print_times(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let (middle, high) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!("{what}: {middle:?} median, {high:?} p99");
}

fn folder_kib(dir: &Path) -> u64 {
    let size = |entry: std::fs::DirEntry| entry.metadata().unwrap().len();
    std::fs::read_dir(dir).unwrap().map(|entry| size(entry.unwrap())).sum::<u64>() / 1024
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
