//! Damaged stores: rows on intact pages are restored, the rest is reported by id, and the damaged
//! file is kept. SQLite's own list of pages determines which rows are intact, not the code under
//! test.

use crate::common::{open_with, salvaged};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use crate::common::{append, create, finish, options, put, record, start};
use rusqlite::Connection;
use store::{Fragment, ListQuery, SqliteConfig, Store, StoreError, Write};

const PAGE: usize = 4096;
const THREADS: usize = 200;
const CASES: u64 = 150;

/// Pseudo-random numbers, the same for the same seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// JSON text of about this many bytes that hardly compresses.
    fn text(&mut self, bytes: usize) -> String {
        let mut text = String::from("{\"text\":\"");
        while text.len() < bytes {
            text.push_str(&format!("{:x} ", self.next()));
        }
        text + "\"}"
    }
}

fn name(number: usize) -> String {
    format!("01a00000-0000-7000-8000-{number:012x}")
}

/// Threads of every kind: short and long texts, shared chunks, forks, rollbacks, restarted history,
/// archived threads.
async fn write_threads(dir: &Path) {
    let store = open_with(dir, options()).unwrap();
    let mut random = Random(7);
    let shared = random.text(14_000);
    for number in 0..THREADS {
        let id = name(number);
        let mut new = record(&id, i64::try_from(number).unwrap());
        new.extra = Some(random.text(200));
        new.archived = number % 11 == 0;
        new.cwd = format!("/work/{}", number % 7);
        let parent = name(number.saturating_sub(3));
        if number % 9 == 5 {
            let fork = Write::Fork { record: Box::new(new), parent, last_turn: None };
            store.commit(vec![fork]).await.unwrap();
        } else {
            store.commit(vec![create(new)]).await.unwrap();
        }
        // Some histories are long enough to be stored in pieces too.
        let turns = if number % 40 == 1 { 35 } else { 1 + random.below(5) };
        for turn in 0..turns {
            let turn = format!("turn-{number}-{turn}");
            let mut writes = vec![start(&id, &turn, 1000 * i64::try_from(number).unwrap())];
            for item in 0..1 + random.below(4) {
                let size = [80, 400, 900, 3000][random.below(4)];
                writes.push(put(&id, &turn, &format!("item-{item}"), &random.text(size)));
            }
            if random.below(12) == 0 {
                writes.push(put(&id, &turn, "long", &shared));
            }
            let fragments: Vec<String> = (0..1 + random.below(4))
                .map(|_| random.text([90, 300, 2000][turn.len() % 3]))
                .collect();
            let fragments: Vec<&str> = fragments.iter().map(String::as_str).collect();
            writes.push(append(&id, Some(&turn), &fragments));
            writes.push(finish(&id, &turn));
            store.commit(writes).await.unwrap();
        }
        if number % 13 == 4 {
            let fragments = vec![Fragment { text: random.text(100).into(), mark: 1 }];
            let thread = id.clone();
            let anew = Write::AppendHistory { thread, turn: None, fragments, anew: true };
            store.commit(vec![anew]).await.unwrap();
        }
        if number % 10 == 6 {
            store.commit(vec![Write::RollBack { thread: id.clone(), turns: 1 }]).await.unwrap();
            store.commit(vec![start(&id, "again", 5), finish(&id, "again")]).await.unwrap();
        }
    }
    store.close().await.unwrap();
}

/// All visible contents of a thread, as text.
async fn shown(store: &Store, id: &str) -> Result<String, StoreError> {
    let Some(thread) = store.thread(id).await? else { return Ok(String::new()) };
    let history = store.history(id).await?;
    let places = store.places(id, None, 10_000).await?;
    let places: Vec<_> = places
        .into_iter()
        .filter(|place| place.turn.is_some() || !place.history.is_empty())
        .collect();
    Ok(format!("{thread:?}\n{history:?}\n{places:?}"))
}

/// The pages with rows of each thread, according to SQLite: all leaf pages of tables that a read of
/// the whole thread may touch, without inner pages and indexes.
struct Ownership {
    pages: HashMap<usize, BTreeSet<u32>>,
}

impl Ownership {
    /// Finds the leaf of every row through `dbstat`'s list of leaves and the key ranges of these
    /// leaves. Blanking one page after another and comparing the contents would be too slow.
    fn of(path: &Path) -> Self {
        let conn = Connection::open(path).unwrap();
        let bytes = fs::read(path).unwrap();
        let mut pages: HashMap<usize, BTreeSet<u32>> = HashMap::new();
        let number: BTreeMap<i64, usize> = {
            let mut statement = conn.prepare("SELECT pk, id FROM thread").unwrap();
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)));
            rows.unwrap()
                .map(Result::unwrap)
                .map(|(pk, id)| (pk, usize::from_str_radix(&id[24..], 16).unwrap()))
                .collect()
        };
        let mut chunk_pages: HashMap<i64, BTreeSet<u32>> = HashMap::new();
        let mut of_source: HashMap<i64, BTreeSet<u32>> = HashMap::new();
        let mut segment_pages = BTreeSet::new();
        // `path` of dbstat names an overflow page by its cell: /…/000+000000.
        let mut statement = conn
            .prepare("SELECT name, pageno, path, pagetype FROM dbstat ORDER BY path, pageno")
            .unwrap();
        let found: Vec<(String, u32, String, String)> = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let mut overflow: HashMap<(String, String), BTreeSet<u32>> = HashMap::new();
        for (table, page, path, kind) in &found {
            if kind == "overflow" {
                let cell = path.split('+').next().unwrap().to_owned();
                overflow.entry((table.clone(), cell)).or_default().insert(*page);
            }
        }
        for (table, page, path, kind) in &found {
            if table == "segment" {
                segment_pages.insert(*page);
            }
            let rows = ["thread", "turn", "item", "history", "chunk"].contains(&table.as_str());
            if kind != "leaf" || !rows {
                continue;
            }
            for (cell, key) in keys(&bytes, *page).into_iter().enumerate() {
                let mut own = BTreeSet::from([*page]);
                let spilled = overflow.get(&(table.clone(), format!("{path}{cell:03x}")));
                own.extend(spilled.into_iter().flatten());
                match table.as_str() {
                    "chunk" => drop(chunk_pages.insert(key, own)),
                    "thread" => of_source.entry(key).or_default().extend(own),
                    "turn" => of_source.entry(key >> 20).or_default().extend(own),
                    _ => of_source.entry(key >> 39).or_default().extend(own),
                }
            }
        }
        for table in ["item", "history"] {
            let sql = format!("SELECT pk, packed FROM {table} WHERE packed IS NOT NULL");
            let mut statement = conn.prepare(&sql).unwrap();
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            for (key, packed) in rows.map(|row: Result<(i64, Vec<u8>), _>| row.unwrap()) {
                if packed[0] != 2 {
                    continue;
                }
                for id in packed[1..].chunks(8) {
                    let id = i64::from_le_bytes(id.try_into().unwrap());
                    of_source.entry(key >> 39).or_default().extend(&chunk_pages[&id]);
                }
            }
        }
        let mut statement = conn.prepare("SELECT thread, source FROM segment").unwrap();
        let shows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let shows: Vec<(i64, i64)> = shows.map(Result::unwrap).collect();
        for (pk, number) in &number {
            let own = pages.entry(*number).or_default();
            own.extend(&of_source[pk]);
            for (_, source) in shows.iter().filter(|(thread, _)| thread == pk) {
                own.extend(&of_source[source]);
                own.extend(&segment_pages);
            }
        }
        Self { pages }
    }
}

/// Row ids of a leaf of a table: the second number of each cell.
fn keys(bytes: &[u8], page: u32) -> Vec<i64> {
    let start = (usize::try_from(page).unwrap() - 1) * PAGE;
    let page = &bytes[start..start + PAGE];
    assert_eq!(page[0], 13, "a leaf of a table");
    let count = usize::from(u16::from_be_bytes([page[3], page[4]]));
    let varint = |at: &mut usize| {
        let mut number: i64 = 0;
        for byte in 0..9 {
            let value = page[*at];
            *at += 1;
            if byte == 8 {
                return number << 8 | i64::from(value);
            }
            number = number << 7 | i64::from(value & 0x7f);
            if value < 0x80 {
                break;
            }
        }
        number
    };
    let key = |cell: usize| {
        let mut at = usize::from(u16::from_be_bytes([page[8 + cell * 2], page[9 + cell * 2]]));
        varint(&mut at);
        varint(&mut at)
    };
    (0..count).map(key).collect()
}

/// Damages the file and returns the damaged pages.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) -> (String, BTreeSet<u32>) {
    let pages = bytes.len() / PAGE;
    let at = |page: usize| page * PAGE..(page + 1) * PAGE;
    let mut hit = BTreeSet::new();
    let mut touch = |page: usize| {
        hit.insert(u32::try_from(page).unwrap() + 1);
    };
    let what = match random.below(8) {
        0 | 1 => {
            for _ in 0..1 + random.below(8) {
                let byte = random.below(bytes.len());
                bytes[byte] ^= 1 << random.below(8);
                touch(byte / PAGE);
            }
            "bit flips"
        }
        2 => {
            for _ in 0..1 + random.below(12) {
                let page = random.below(pages);
                bytes[at(page)].fill(0);
                touch(page);
            }
            "zeroed pages"
        }
        3 => {
            let end = random.below(bytes.len());
            (end / PAGE..pages).for_each(&mut touch);
            bytes.truncate(end);
            "truncation"
        }
        4 => {
            // A page in the place of another is itself intact, but two pages are no longer in their
            // places.
            let (one, two) = (random.below(pages), random.below(pages));
            let (first, second) = (bytes[at(one)].to_vec(), bytes[at(two)].to_vec());
            bytes[at(one)].copy_from_slice(&second);
            bytes[at(two)].copy_from_slice(&first);
            if one != two {
                touch(one);
                touch(two);
            }
            "swapped pages"
        }
        5 => {
            for byte in &mut bytes[..1 + random.below(200)] {
                *byte = u8::try_from(random.next() & 0xff).unwrap();
            }
            touch(0);
            "a garbage header"
        }
        6 => {
            let start = random.below(bytes.len());
            let end = (start + 1 + random.below(20_000)).min(bytes.len());
            for byte in &mut bytes[start..end] {
                *byte = u8::try_from(random.next() & 0xff).unwrap();
            }
            (start / PAGE..=(end - 1) / PAGE).for_each(&mut touch);
            "garbage"
        }
        _ => {
            (0..pages).for_each(&mut touch);
            let size = 1000 + random.below(100_000);
            *bytes = random.text(size).into_bytes();
            "another file"
        }
    };
    (what.to_owned(), hit)
}

#[tokio::test]
async fn intact_records_are_salvaged() {
    let template = tempfile::tempdir().unwrap();
    write_threads(template.path()).await;
    let original = fs::read(template.path().join("threads.db")).unwrap();
    let ownership = Ownership::of(&template.path().join("threads.db"));
    assert_eq!(ownership.pages.len(), THREADS);
    let store = open_with(template.path(), options()).unwrap();
    let mut before = Vec::new();
    for number in 0..THREADS {
        before.push(shown(&store, &name(number)).await.unwrap());
    }
    store.close().await.unwrap();
    let (workers, kinds) = (4, Mutex::new(BTreeSet::new()));
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let (original, before, ownership, kinds) = (&original, &before, &ownership, &kinds);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                for case in (worker..CASES).step_by(4) {
                    let mut bytes = original.clone();
                    let (what, hit) = damage(&mut bytes, &mut Random(case));
                    let context = format!("case {case}: {what}, pages {hit:?}");
                    kinds.lock().unwrap().insert(what);
                    runtime.block_on(check(&bytes, &hit, before, ownership, &context));
                }
            });
        }
    });
    assert_eq!(kinds.lock().unwrap().len(), 7);
}

/// Opens the damaged store and compares the remaining contents.
async fn check(
    bytes: &[u8],
    hit: &BTreeSet<u32>,
    before: &[String],
    ownership: &Ownership,
    context: &str,
) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("threads.db"), bytes).unwrap();
    let open = SqliteConfig { salvage: true, now_ms: 7, ..options() };
    let store = open_with(dir.path(), open).unwrap_or_else(|error| panic!("{context}: {error}"));
    let lost: BTreeSet<&str> = salvaged(&store)
        .into_iter()
        .flat_map(|salvage| salvage.lost.iter().map(|loss| loss.thread.as_str()))
        .collect();
    for (number, before) in before.iter().enumerate() {
        let id = name(number);
        let now = shown(&store, &id).await;
        let now = now.unwrap_or_else(|error| panic!("{context}: thread {number}: {error}"));
        if ownership.pages[&number].is_disjoint(hit) {
            assert_eq!(&now, before, "{context}: thread {number}");
        } else if now.is_empty() && !lost.contains(id.as_str()) {
            // The thread's row and every index that contains its id are lost.
            let known = hit.len() > 1;
            assert!(known, "{context}: thread {number} is gone without a word");
        }
    }
    if let Some(salvage) = salvaged(&store) {
        assert_eq!(fs::read(&salvage.kept).unwrap(), bytes, "{context}: kept as it was");
    }
    // New threads can be stored at once.
    let mut writes = vec![create(record("new", 1)), start("new", "t", 1)];
    writes.extend([put("new", "t", "i", "{}"), finish("new", "t")]);
    store.commit(writes).await.unwrap_or_else(|error| panic!("{context}: {error}"));
    let query = ListQuery { limit: 1000, ..ListQuery::default() };
    store.threads(query).await.unwrap_or_else(|error| panic!("{context}: {error}"));
    store.close().await.unwrap();
    if hit.len() % 4 == 1 {
        let report = store::check::check(dir.path()).unwrap().unwrap();
        assert_eq!(report.problems, Vec::<String>::new(), "{context}");
    }
}
