//! Prints what the index of what was said costs: a turn, and a search in 100,000 threads. Asserts nothing.
//! `cargo run --release -p store --example search`
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::path::Path;
use std::time::{Duration, Instant};

use store::{
    ItemTexts, ListQuery, SqliteConfig, Store, TextQuery, ThreadRecord, TurnOutcome, Write,
};

const THREADS: u64 = 100_000;
/// Turns of each thread.
const TURNS: u64 = 2;
const FOLDERS: u64 = 100;
/// Turns whose cost is measured.
const MEASURED: u64 = 1_000;
/// Turns that one write adds to the index, as in the server.
const SLICE: usize = 32;
/// Words of the vocabulary.
const WORDS: u64 = 30_000;

/// The items here are plain text.
const TEXTS: ItemTexts = ItemTexts {
    kinds: &["userMessage", "agentMessage", "commandExecution"],
    text: |_, payload| Some(payload.to_owned()),
};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(SqliteConfig::new(dir.path(), 0, "a")).await.unwrap();
    let mut random = Random(1);
    fill(&store, &mut random, dir.path()).await;
    turns(&mut random).await;
    upkeep(&store, &mut random).await;
    searches(&store).await;
}

async fn fill(store: &Store, random: &mut Random, dir: &Path) {
    let began = Instant::now();
    for hundred in 0..THREADS / 100 {
        let mut writes = Vec::new();
        for number in hundred * 100..(hundred + 1) * 100 {
            writes.push(create(number));
            for turn in 0..TURNS {
                writes.extend(said(number, turn, random));
                writes.push(finish(number, turn));
            }
        }
        store.commit(writes).await.unwrap();
    }
    println!("{THREADS} threads of {TURNS} turns stored in {:?}", began.elapsed());
    let before = kib(dir);
    let (began, cpu) = (Instant::now(), cpu());
    while store.index_turns(TEXTS, true, SLICE).await.unwrap() {}
    let (took, cpu) = (began.elapsed(), self::cpu() - cpu);
    let turns = u32::try_from(THREADS * TURNS).unwrap();
    println!("indexed in {took:?}: {:?} a turn, CPU {:?} a turn", took / turns, cpu / turns);
    println!("disk: {before} KiB, with the index {} KiB", kib(dir));
}

/// The additional cost of the end of a turn for the note that the turn is to be indexed. In the other store a
/// trigger drops the note.
async fn turns(random: &mut Random) {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut stores = Vec::new();
    for dir in &dirs {
        stores.push(Store::open(SqliteConfig::new(dir.path(), 0, "a")).await.unwrap());
        stores.last().unwrap().commit(vec![create(0)]).await.unwrap();
    }
    let other = rusqlite::Connection::open(dirs[1].path().join("threads.db")).unwrap();
    other
        .execute_batch(
            "CREATE TRIGGER none BEFORE INSERT ON unindexed BEGIN SELECT raise(IGNORE); END",
        )
        .unwrap();
    let mut times = [Vec::new(), Vec::new()];
    for turn in 0..MEASURED {
        for (store, times) in stores.iter().zip(&mut times) {
            store.commit(said(0, turn, random)).await.unwrap();
            times.push(timed(store.commit(vec![finish(0, turn)])).await);
        }
    }
    let [with, without] = times;
    let difference = median(&with).as_secs_f64() - median(&without).as_secs_f64();
    print_times("end of a turn", with);
    print_times("the same without the note", without);
    println!("  the note costs the turn {:.1} µs", difference * 1e6);
}

/// The cost of the write that adds a turn to the index, after the turn.
async fn upkeep(store: &Store, random: &mut Random) {
    let mut times = Vec::new();
    let began = cpu();
    let mut before = Duration::ZERO;
    for turn in TURNS..TURNS + MEASURED {
        let start = cpu();
        let mut writes = said(7, turn, random);
        writes.push(finish(7, turn));
        store.commit(writes).await.unwrap();
        before += cpu() - start;
        times.push(timed(store.index_turns(TEXTS, true, SLICE)).await);
    }
    let indexing = (cpu() - began - before) / u32::try_from(MEASURED).unwrap();
    print_times("adding one turn to the index, after the turn", times);
    println!("  CPU: {indexing:?}");
    let idle = timed(store.index_turns(TEXTS, false, SLICE)).await;
    println!("finding that nothing is to be added: {idle:?}");
}

async fn searches(store: &Store) {
    let page = ListQuery { limit: 50, ..ListQuery::default() };
    let folder = ListQuery { cwds: vec!["/work/7".to_owned()], ..page.clone() };
    let sources = ListQuery { sources: vec!["cli".into(), "editor".into()], ..page.clone() };
    let (common, usual, rare) = (word(0), word(40), word(WORDS - 7));
    let pair = format!("{common} {}", word(1));
    for (what, term, list) in [
        ("a word of all", common.as_str(), &page),
        ("the same, cli and editor", &common, &sources),
        ("the same, one folder of 1,000", &common, &folder),
        ("two words of nearly all", &pair, &page),
        ("a word of some", &usual, &page),
        ("the same, one folder of 1,000", &usual, &folder),
        ("a rare word", &rare, &page),
        ("a word of one", "needle77777", &page),
        ("three letters that begin many words", "wor", &page),
        ("a word and three letters", &format!("{rare} wor"), &page),
        ("two rare words", &format!("{rare} {}", word(WORDS - 9)), &page),
        ("two common words, one folder", &pair, &folder),
        ("no match", "absent", &page),
    ] {
        let query = TextQuery { term: term.to_owned(), list: list.clone() };
        let first = store.search_text(query.clone(), TEXTS).await.unwrap();
        let mut times = Vec::new();
        for _ in 0..20 {
            let search = async {
                store.index_turns(TEXTS, false, SLICE).await?;
                store.search_text(query.clone(), TEXTS).await?;
                store.is_partly_indexed().await
            };
            times.push(timed(search).await);
        }
        let rows = first.rows.len();
        print_times(&format!("search in {THREADS}, {what} ({rows} rows)"), times);
        let Some(cursor) = first.next_cursor else { continue };
        let list = ListQuery { cursor: Some(cursor), ..list.clone() };
        let next = TextQuery { list, ..query };
        let mut times = Vec::new();
        for _ in 0..20 {
            times.push(timed(store.search_text(next.clone(), TEXTS)).await);
        }
        print_times("  the next page", times);
    }
}

/// A turn of a question, a command and an answer: 120 words in all.
fn said(thread: u64, turn: u64, random: &mut Random) -> Vec<Write> {
    let [id, turn] = [thread, turn].map(|number| number.to_string());
    let needle = format!("needle{thread}");
    let mut text = |words: u64| {
        let words = (0..words).map(|_| word(random.skewed(WORDS)));
        words.chain([needle.clone()]).collect::<Vec<_>>().join(" ")
    };
    let texts =
        [("userMessage", text(20)), ("commandExecution", text(8)), ("agentMessage", text(92))];
    let mut writes =
        vec![Write::StartTurn { thread: id.clone(), turn: turn.clone(), started_at_ms: 1 }];
    writes.extend(texts.into_iter().enumerate().map(|(at, (kind, payload))| Write::PutItem {
        thread: id.clone(),
        turn: turn.clone(),
        item: format!("{turn}-{at}"),
        kind: kind.to_owned(),
        status: Some("completed".to_owned()),
        payload,
    }));
    writes
}

fn finish(thread: u64, turn: u64) -> Write {
    Write::FinishTurn {
        thread: thread.to_string(),
        turn: turn.to_string(),
        outcome: TurnOutcome::Completed,
        error: None,
        completed_at_ms: 2,
        duration_ms: 1,
        usage: None,
    }
}

fn create(number: u64) -> Write {
    let at = i64::try_from(number).unwrap();
    Write::CreateThread(Box::new(ThreadRecord {
        id: number.to_string(),
        session_id: number.to_string(),
        preview: format!("Question {number}"),
        model_provider: "offline".to_owned(),
        model: "echo".to_owned(),
        cwd: format!("/work/{}", number % FOLDERS),
        created_at: at,
        updated_at: at,
        source_kind: "cli".to_owned(),
        source: "\"cli\"".to_owned(),
        settings: "{}".to_owned(),
        cli_version: "0.1.0".to_owned(),
        ..ThreadRecord::default()
    }))
}

/// A word of the vocabulary, the commonest first.
fn word(number: u64) -> String {
    let letters =
        (0..3).map(|at| char::from(b'a' + u8::try_from(number >> (4 * at) & 15).unwrap()));
    format!(
        "{}{number}",
        if number.is_multiple_of(3) { "wor".chars() } else { "the".chars() }
            .chain(letters)
            .collect::<String>()
    )
}

/// Numbers that are the same in each run.
struct Random(u64);

impl Random {
    /// Below `bound`: each number about as often as natural language has the word of that rank.
    fn skewed(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let share = (self.0 >> 11) as f64 / (1_u64 << 53) as f64;
        (((bound + 1) as f64).powf(share) - 1.0) as u64
    }
}

async fn timed<T>(work: impl Future<Output = Result<T, store::StoreError>>) -> Duration {
    let began = Instant::now();
    let result = work.await;
    let took = began.elapsed();
    result.unwrap();
    took
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[times.len() / 2]
}

fn print_times(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let (middle, high) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!("{what}: {middle:?} median, {high:?} p99");
}

/// The time that this process has used of all processors, in steps of 10 ms.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks: Vec<u64> =
        fields.split(' ').skip(11).take(2).map(|it| it.parse().unwrap()).collect();
    Duration::from_millis(ticks.iter().sum::<u64>() * 10)
}

fn kib(dir: &Path) -> u64 {
    let size = |entry: std::fs::DirEntry| entry.metadata().unwrap().len();
    std::fs::read_dir(dir).unwrap().map(|entry| size(entry.unwrap())).sum::<u64>() / 1024
}
