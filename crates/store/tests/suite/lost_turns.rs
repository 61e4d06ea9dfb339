//! Lost rows of turns are reconstructed from the items and the history that name them.

use crate::common::{open_with, salvaged};
use std::fs;
use std::path::Path;

use crate::common::{append, create, finish, options, put, record, start};
use rusqlite::Connection;
use store::{Direction, ItemRow, ListQuery, SqliteConfig, Store, TurnRow, TurnStatus, TurnsQuery};

const PAGE: usize = 4096;
const THREADS: usize = 150;
const ERROR: &str = r#"{"message":"lost"}"#;

fn name(number: usize) -> String {
    format!("01a00000-0000-7000-8000-{number:012x}")
}

fn salvaging() -> SqliteConfig {
    SqliteConfig { salvage: true, lost_turn_error: Some(ERROR.to_owned()), ..options() }
}

async fn write_threads(dir: &Path) {
    let store = open_with(dir, options()).unwrap();
    for number in 0..THREADS {
        let id = name(number);
        let mut writes = vec![create(record(&id, 5))];
        for turn in ["one", "two"] {
            let start = start(&id, turn, 5000);
            writes.extend([start, put(&id, turn, "i", &format!("\"{id} {turn}\""))]);
            writes.extend([append(&id, Some(turn), &["\"seen\""]), finish(&id, turn)]);
        }
        // A turn without items, which only the index and the model's history name.
        writes.extend([start(&id, "three", 5000), append(&id, Some("three"), &["\"seen\""])]);
        writes.push(finish(&id, "three"));
        store.commit(writes).await.unwrap();
    }
    store.close().await.unwrap();
}

async fn turns(store: &Store, thread: &str) -> Vec<(TurnRow, Vec<ItemRow>)> {
    let direction = Direction::Ascending;
    let query = TurnsQuery { limit: 10, direction, ..TurnsQuery::default() };
    store.turns_with_items(thread, query).await.unwrap().rows
}

/// Zeroes those leaf pages of tables and indexes that `pick` selects. Returns the number of leaf
/// pages.
fn zero_leaves(path: &Path, names: &[&str], pick: impl Fn(usize) -> bool) -> usize {
    let conn = Connection::open(path).unwrap();
    let mut statement = conn
        .prepare("SELECT name, pageno FROM dbstat WHERE pagetype = 'leaf' ORDER BY path")
        .unwrap();
    let found = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, u32>(1)?)));
    let found: Vec<(String, u32)> = found.unwrap().map(Result::unwrap).collect();
    let leaves: Vec<usize> = found
        .into_iter()
        .filter(|(name, _)| names.contains(&name.as_str()))
        .map(|(_, page)| page.try_into().unwrap())
        .collect();
    drop(statement);
    drop(conn);
    let mut bytes = fs::read(path).unwrap();
    for (at, page) in leaves.iter().enumerate() {
        if pick(at) {
            bytes[(page - 1) * PAGE..page * PAGE].fill(0);
        }
    }
    fs::write(path, bytes).unwrap();
    // A file changed within the clock's resolution of its previous change has the same timestamp.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(1);
    fs::File::options().write(true).open(path).unwrap().set_modified(later).unwrap();
    leaves.len()
}

#[tokio::test]
async fn lost_turn_records_are_rebuilt() {
    let (table, index, threads) = ("turn", "sqlite_autoindex_turn_1", "thread");
    for (names, has_ids) in [
        (&[table][..], true),
        (&[table, index], false),
        (&[table, threads], true),
        (&[table, index, threads], false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        write_threads(dir.path()).await;
        assert!(zero_leaves(&dir.path().join("threads.db"), names, |_| true) > 1);

        let store = open_with(dir.path(), salvaging()).unwrap();
        let salvage = salvaged(&store).unwrap();
        assert_eq!(salvage.threads, THREADS as u64, "{names:?}");
        assert_eq!(salvage.lost.len(), THREADS, "{names:?}: {:?}", salvage.lost);
        assert!(salvage.lost.iter().all(|loss| loss.lost.contains("3 turns' own records")));
        let listed =
            store.threads(ListQuery { limit: 1000, ..ListQuery::default() }).await.unwrap();
        assert_eq!(listed.rows.len(), THREADS, "{names:?}");
        for number in 0..THREADS {
            let id = name(number);
            assert_eq!(store.history(&id).await.unwrap().len(), 3, "{names:?}");
            let found = turns(&store, &id).await;
            let expected = [("one", 1), ("two", 1), ("three", 0)];
            assert_eq!(found.len(), 3, "{names:?}: {found:?}");
            for ((turn, items), (turn_id, count)) in found.iter().zip(expected) {
                assert!(!has_ids || turn.id == turn_id, "{names:?}: {turn:?}");
                assert_eq!((turn.status, turn.error.as_deref()), (TurnStatus::Failed, Some(ERROR)));
                let text = format!("\"{id} {turn_id}\"");
                let right = items.iter().all(|item| item.payload == text);
                assert!(right && items.len() == count, "{names:?}: {items:?}");
            }
        }
        // The threads can continue.
        let id = name(7);
        store.open_thread(&id).await.unwrap();
        store.commit(vec![start(&id, "next", 9000), finish(&id, "next")]).await.unwrap();
        assert_eq!(store.last_turn(&id).await.unwrap().unwrap().id, "next");
        store.close().await.unwrap();
        let report = store::check::check(dir.path()).unwrap().unwrap();
        assert_eq!(report.problems, Vec::<String>::new(), "{names:?}");
    }
}

#[tokio::test]
async fn a_page_of_turns_reads_only_its_records() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("threads.db");
    write_threads(dir.path()).await;
    let original = fs::read(&path).unwrap();
    let pages = zero_leaves(&path, &["turn"], |_| false);
    assert!(pages > 1);
    for page in 0..pages {
        fs::write(&path, &original).unwrap();
        zero_leaves(&path, &["turn"], |at| at == page);
        let store = open_with(dir.path(), salvaging()).unwrap();
        let lost = salvaged(&store).unwrap().lost.len();
        assert!((5..THREADS).contains(&lost), "page {page}: {lost}");
        let mut failed = 0;
        for number in 0..THREADS {
            let turns = turns(&store, &name(number)).await;
            let ids: Vec<&str> = turns.iter().map(|(turn, _)| turn.id.as_str()).collect();
            assert_eq!(ids, ["one", "two", "three"], "page {page}");
            failed += turns.iter().filter(|(turn, _)| turn.status == TurnStatus::Failed).count();
            let items: usize = turns.iter().map(|(_, items)| items.len()).sum();
            assert_eq!(items, 2, "page {page}");
        }
        assert!(failed >= lost, "page {page}: {failed} turns of {lost} threads");
        store.close().await.unwrap();
    }
}
