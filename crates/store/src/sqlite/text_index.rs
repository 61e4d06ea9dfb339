//! The index of the words of ended turns. A turn is added to `unindexed` when it ends, and to the index
//! by a later write of its own, so that ending a turn costs one small row.
//!
//! `unindexed` has ranges of keys: one turn each, and one range for all turns of a file of an earlier
//! version, which is worked off from its end. `turn_words` keeps the indexed words, because removing a
//! turn from the index needs exactly these; then nothing of them remains in the file.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::ItemTexts;
use crate::sqlite::failure::Failure;
use crate::sqlite::{content, keys, log_writes};
use crate::text::{MAX_WORDS, Words};

/// Bytes of words that are prepared for one transaction; the last turn may exceed them.
const MAX_BATCH: usize = 128 << 10;
/// Largest text in `turn_words`, in bytes: a word has 40 characters of up to 4 bytes, and a space.
const MAX_PACKED: usize = MAX_WORDS * 161;

/// The index, and the list of its words. Created with the first turn, because they take as long to
/// create as many tables.
const INDEX: &str = "
CREATE VIRTUAL TABLE turn_search USING fts5 (
    words, content = '', columnsize = 0, detail = none, tokenize = 'ascii'
);
INSERT INTO turn_search (turn_search, rank) VALUES ('secure-delete', 1);
CREATE VIRTUAL TABLE turn_word USING fts5vocab (turn_search, row);
";

/// The turns to index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unindexed {
    /// Those that have ended since the file has an index.
    Ended,
    /// Those of earlier versions, too.
    All,
}

/// Words of turns, for one transaction.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Turns with their words; empty for a turn without text.
    turns: Vec<(i64, String)>,
    /// TurnRanges of `unindexed`, and what remains of each.
    ranges: Vec<(TurnRange, Option<i64>)>,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// A row of `unindexed`; both ends included.
#[derive(Debug, Clone, Copy)]
struct TurnRange {
    last: i64,
    first: i64,
}

/// Notes that a turn has ended.
pub(crate) fn add_ended(conn: &Connection, turn: i64) -> Result<(), Failure> {
    conn.prepare_cached(
        "INSERT INTO unindexed (last, first) VALUES (?1, ?1) ON CONFLICT (last) DO NOTHING",
    )?
    .execute([turn])?;
    Ok(())
}

/// Notes that the index lacks all turns.
pub(crate) fn index_later(conn: &Connection) -> Result<(), Failure> {
    conn.execute_batch(
        "DELETE FROM unindexed;
         INSERT INTO unindexed (last, first) SELECT max(pk), 0 FROM turn HAVING max(pk) IS NOT NULL",
    )?;
    Ok(())
}

/// Returns whether turns that have ended are not indexed.
pub(crate) fn is_partial(conn: &Connection) -> Result<bool, Failure> {
    Ok(conn.prepare_cached("SELECT 1 FROM unindexed")?.exists([])?)
}

/// Reads at most `limit` turns that are not indexed, the newest first.
pub(crate) fn prepare(
    conn: &Connection,
    texts: &ItemTexts,
    which: Unindexed,
    limit: usize,
) -> Result<Batch, Failure> {
    let condition = match which {
        Unindexed::Ended => "WHERE first = last",
        Unindexed::All => "",
    };
    let ranges: Vec<TurnRange> = conn
        .prepare_cached(&format!(
            "SELECT last, first FROM unindexed {condition} ORDER BY last DESC
             LIMIT ?1"
        ))?
        .query_map([i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
            Ok(TurnRange { last: row.get(0)?, first: row.get(1)? })
        })?
        .collect::<Result<_, _>>()?;
    let mut ended = conn.prepare_cached(
        "SELECT pk FROM turn WHERE pk >= ?1 AND pk <= ?2 AND status <> 0 ORDER BY pk DESC LIMIT ?3",
    )?;
    let (mut batch, mut bytes) = (Batch::default(), 0);
    for range in ranges {
        let left = limit - batch.turns.len();
        if left == 0 || bytes >= MAX_BATCH {
            break;
        }
        let ends = (range.first, range.last, i64::try_from(left).unwrap_or(i64::MAX));
        let turns: Vec<i64> = ended.query_map(ends, |row| row.get(0))?.collect::<Result<_, _>>()?;
        let mut remains = None;
        let more_may_follow = turns.len() == left;
        let mut unread = turns.into_iter().peekable();
        while let Some(turn) = unread.next_if(|_| bytes < MAX_BATCH) {
            let words = words_of(conn, texts, turn)?;
            bytes += words.len();
            batch.turns.push((turn, words));
            remains = Some(turn - 1).filter(|last| *last >= range.first);
        }
        if unread.peek().is_none() && !more_may_follow {
            remains = None;
        }
        batch.ranges.push((range, remains));
    }
    Ok(batch)
}

/// The words of a turn.
fn words_of(conn: &Connection, texts: &ItemTexts, turn: i64) -> Result<String, Failure> {
    let mut words = Words::default();
    for_texts(conn, texts, turn, |text| {
        words.add(&text);
        !words.is_full()
    })?;
    Ok(words.joined())
}

/// Calls `f` with the text of each item of a turn, in order, while it returns `true`.
pub(crate) fn for_texts(
    conn: &Connection,
    texts: &ItemTexts,
    turn: i64,
    mut f: impl FnMut(String) -> bool,
) -> Result<(), Failure> {
    let range = keys::entries_of(turn, turn);
    let mut items = conn.prepare_cached(
        "SELECT kind, payload, packed FROM item WHERE pk >= ?1 AND pk < ?2 ORDER BY pk",
    )?;
    let mut rows = items.query([range.start, range.end])?;
    while let Some(row) = rows.next()? {
        let kind: String = row.get(0)?;
        if !texts.kinds.contains(&kind.as_str()) {
            continue;
        }
        let payload = content::load(conn, row.get(1)?, row.get(2)?)?;
        if let Some(text) = (texts.text)(&kind, &payload)
            && !f(text)
        {
            break;
        }
    }
    Ok(())
}

/// Stores a batch. Turns that were indexed or deleted since it was read are skipped.
pub(crate) fn store(conn: &mut Connection, batch: &Batch) -> Result<(), Failure> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let conn = &*transaction;
    for (turn, words) in &batch.turns {
        if !words.is_empty() && is_missing(conn, *turn)? {
            insert(conn, *turn, words)?;
        }
    }
    for (range, remains) in &batch.ranges {
        conn.prepare_cached("DELETE FROM unindexed WHERE last = ?1 AND first = ?2")?
            .execute([range.last, range.first])?;
        if let Some(last) = remains {
            conn.prepare_cached("INSERT OR IGNORE INTO unindexed (last, first) VALUES (?1, ?2)")?
                .execute([*last, range.first])?;
        }
        // It may have ended while the range, whose last turn it is, was read.
        let was_read = batch.turns.iter().any(|(turn, _)| *turn == range.last);
        if !was_read && has_ended(conn, range.last)? {
            add_ended(conn, range.last)?;
        }
    }
    log_writes::in_one_piece(|| transaction.commit())?;
    Ok(())
}

fn has_ended(conn: &Connection, turn: i64) -> Result<bool, Failure> {
    Ok(conn.prepare_cached("SELECT 1 FROM turn WHERE pk = ?1 AND status <> 0")?.exists([turn])?)
}

/// Returns whether a turn is stored and not indexed.
fn is_missing(conn: &Connection, turn: i64) -> Result<bool, Failure> {
    Ok(conn
        .prepare_cached(
            "SELECT 1 FROM turn WHERE pk = ?1 AND pk NOT IN (SELECT turn FROM turn_words)",
        )?
        .exists([turn])?)
}

fn insert(conn: &Connection, turn: i64, words: &str) -> Result<(), Failure> {
    if !has_index(conn)? {
        conn.execute_batch(INDEX)?;
    }
    conn.prepare_cached("INSERT INTO turn_words (turn, packed) VALUES (?1, ?2)")?
        .execute(params![turn, content::pack(words.as_bytes())])?;
    conn.prepare_cached("INSERT INTO turn_search (rowid, words) VALUES (?1, ?2)")?
        .execute(params![turn, words])?;
    Ok(())
}

/// Returns whether any turn is indexed.
pub(crate) fn has_index(conn: &Connection) -> Result<bool, Failure> {
    Ok(conn
        .prepare_cached("SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'turn_word'")?
        .query_row([], |row| row.get(0))?)
}

/// Removes the turns with these keys.
pub(crate) fn erase(conn: &Connection, turns: &std::ops::Range<i64>) -> Result<(), Failure> {
    let ends = [turns.start, turns.end];
    conn.prepare_cached("DELETE FROM unindexed WHERE first = last AND last >= ?1 AND last < ?2")?
        .execute(ends)?;
    let mut next = conn.prepare_cached(
        "SELECT turn, packed FROM turn_words WHERE turn >= ?1 AND turn < ?2 LIMIT 1",
    )?;
    while let Some((turn, packed)) = next
        .query_row(ends, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)))
        .optional()?
    {
        let words = content::unpack(&packed, MAX_PACKED)?;
        conn.prepare_cached(
            "INSERT INTO turn_search (turn_search, rowid, words) VALUES ('delete', ?1, ?2)",
        )?
        .execute(params![turn, words])?;
        conn.prepare_cached("DELETE FROM turn_words WHERE turn = ?1")?.execute([turn])?;
    }
    Ok(())
}
