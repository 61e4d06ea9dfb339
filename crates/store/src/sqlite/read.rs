//! Reads a thread: its row, its turns, their items, and the model's history. Each function runs
//! inside of one read transaction, so its result is consistent.

use std::collections::HashMap;
use std::ops::Range;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::cursor::{EntryPosition, query_tag};
use crate::sqlite::failure::Failure;
use crate::sqlite::lineage::Lineage;
use crate::sqlite::rows::find_thread;
use crate::sqlite::{content, joined, keys};
use crate::{
    Direction, Fragment, ItemRow, Page, Place, StoreError, StoredThread, ThreadRecord, TurnRow,
    TurnStatus, TurnsQuery,
};

/// The columns that [`stored_thread`] reads, in this order.
pub(crate) const THREAD_COLUMNS: &str = "id, session_id, forked_from_id, preview, name, \
     model_provider, model, cwd, created_at, updated_at, source_kind, source, archived, git_info, \
     settings, cli_version, token_usage, extra, turn_count";

const TURN_COLUMNS: &str =
    "pk, id, status, started_at_ms, completed_at_ms, duration_ms, error, usage";

/// The thread with this id.
pub(crate) fn thread(conn: &Connection, id: &str) -> Result<Option<StoredThread>, Failure> {
    let sql = format!("SELECT {THREAD_COLUMNS} FROM thread WHERE id = ?1 AND deleted = 0");
    Ok(conn.prepare_cached(&sql)?.query_row([id], stored_thread).optional()?)
}

/// A page of a thread's turns.
pub(crate) fn turns(
    conn: &Connection,
    thread: &str,
    query: &TurnsQuery,
) -> Result<Page<TurnRow>, Failure> {
    Ok(keyed_turns(conn, thread, query)?.map(|(_, row)| row))
}

/// A page of a thread's turns, with their keys.
fn keyed_turns(
    conn: &Connection,
    thread: &str,
    query: &TurnsQuery,
) -> Result<Page<(i64, TurnRow)>, Failure> {
    let lineage = Lineage::of(conn, find_thread(conn, thread)?)?;
    let tag = query_tag(&["turns", thread]);
    let behind = match &query.cursor {
        Some(cursor) => Some(EntryPosition::read(cursor, &tag)?.ordinal),
        None => None,
    };
    let limit = usize::try_from(query.limit.max(1)).unwrap_or(usize::MAX);
    let ascending = query.direction == Direction::Ascending;
    let sql = format!(
        "SELECT {TURN_COLUMNS} FROM turn WHERE pk >= ?1 AND pk < ?2 ORDER BY pk {} LIMIT ?3",
        order(query.direction)
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = Vec::new();
    for segment in directed(&lineage.segments, ascending) {
        let mut range = segment.turns()?;
        if let Some(behind) = behind {
            let place = keys::turn_key(segment.source, 0)?.saturating_add(behind);
            if ascending {
                range.start = range.start.max(place.saturating_add(1));
            } else {
                range.end = range.end.min(place);
            }
        }
        if range.start >= range.end {
            continue;
        }
        let left = (limit + 1).saturating_sub(rows.len());
        let found = statement
            .query_map(params![range.start, range.end, sql_limit(left)], |row| {
                Ok((row.get(0)?, turn_row(row)?))
            })?;
        for row in found {
            rows.push(row?);
        }
        if rows.len() > limit {
            break;
        }
    }
    let spot =
        |(_, row): &(i64, TurnRow)| EntryPosition { ordinal: row.ordinal.into(), position: 0 };
    Ok(Page::cut(rows, limit, |row| spot(row).write(&tag)))
}

/// The thread's newest turn.
pub(crate) fn last_turn(conn: &Connection, thread: &str) -> Result<Option<TurnRow>, Failure> {
    Ok(turns(conn, thread, &TurnsQuery { limit: 1, ..TurnsQuery::default() })?.rows.pop())
}

/// A turn's items in order.
pub(crate) fn items(conn: &Connection, thread: &str, turn: &str) -> Result<Vec<ItemRow>, Failure> {
    items_of(conn, visible_turn(conn, thread, turn)?.1)
}

fn visible_turn(conn: &Connection, thread: &str, turn: &str) -> Result<(Lineage, i64), Failure> {
    let lineage = Lineage::of(conn, find_thread(conn, thread)?)?;
    let found = lineage.find(conn, turn)?;
    let key = found.ok_or_else(|| StoreError::TurnNotFound {
        thread: thread.to_owned(),
        turn: turn.to_owned(),
    })?;
    Ok((lineage, key))
}

/// The position of a turn in a thread.
pub(crate) fn ordinal(conn: &Connection, thread: &str, turn: &str) -> Result<i64, Failure> {
    Ok(keys::ordinal(visible_turn(conn, thread, turn)?.1))
}

/// The items of the turn with this key, in order.
pub(crate) fn items_of(conn: &Connection, turn: i64) -> Result<Vec<ItemRow>, Failure> {
    let rows = items_between(conn, keys::entries_of(turn, turn), Direction::Ascending, None)?;
    Ok(rows.into_iter().map(|(_, item)| item).collect())
}

/// A page of turns with their items. Reads the items of adjacent turns with one statement.
pub(crate) fn turns_with_items(
    conn: &Connection,
    thread: &str,
    query: &TurnsQuery,
) -> Result<Page<(TurnRow, Vec<ItemRow>)>, Failure> {
    let page = keyed_turns(conn, thread, query)?;
    let mut wanted: Vec<i64> = page.rows.iter().map(|(key, _)| *key).collect();
    wanted.sort_unstable();
    let mut items: HashMap<i64, Vec<ItemRow>> = HashMap::new();
    for run in wanted.chunk_by(|one, next| one + 1 == *next) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        let range = keys::entries_of(*first, *last);
        for (key, item) in items_between(conn, range, Direction::Ascending, None)? {
            items.entry(keys::turn_of(key)).or_default().push(item);
        }
    }
    Ok(page.map(|(key, row)| {
        let own = items.remove(&key).unwrap_or_default();
        (row, own)
    }))
}

/// A page of the items of a thread, or of `turn` only, each with the id of its turn.
pub(crate) fn items_page(
    conn: &Connection,
    thread: &str,
    turn: Option<&str>,
    query: &TurnsQuery,
) -> Result<Page<(String, ItemRow)>, Failure> {
    let ascending = query.direction == Direction::Ascending;
    let tag = query_tag(&["items", thread, turn.unwrap_or_default()]);
    let behind = match &query.cursor {
        Some(cursor) => Some(EntryPosition::read(cursor, &tag)?),
        None => None,
    };
    let mut ranges = Vec::new();
    match turn {
        Some(turn) => {
            let (_, key) = visible_turn(conn, thread, turn)?;
            ranges.push(keys::entries_of(key, key));
        }
        None => {
            let lineage = Lineage::of(conn, find_thread(conn, thread)?)?;
            for segment in directed(&lineage.segments, ascending) {
                let turns = segment.turns()?;
                if turns.start < turns.end {
                    ranges.push(keys::entries_of(turns.start, turns.end - 1));
                }
            }
        }
    }
    let limit = usize::try_from(query.limit.max(1)).unwrap_or(usize::MAX);
    let mut rows = Vec::new();
    for mut range in ranges {
        if let Some(behind) = behind {
            // The same position, relative to the thread of this range.
            let place = keys::entry_at(range.start, behind.ordinal, behind.position);
            if ascending {
                range.start = range.start.max(place.saturating_add(1));
            } else {
                range.end = range.end.min(place);
            }
        }
        let left = (limit + 1).saturating_sub(rows.len());
        if range.start < range.end && left > 0 {
            rows.extend(items_between(conn, range, query.direction, Some(left))?);
        }
    }
    let page = Page::cut(rows, limit, |(key, _)| {
        let ordinal = keys::ordinal(keys::turn_of(*key));
        EntryPosition { ordinal, position: keys::position(*key) }.write(&tag)
    });
    let mut ids: HashMap<i64, String> = HashMap::new();
    let mut by_key = conn.prepare_cached("SELECT id FROM turn WHERE pk = ?1")?;
    for (key, _) in &page.rows {
        let turn = keys::turn_of(*key);
        if let std::collections::hash_map::Entry::Vacant(free) = ids.entry(turn) {
            free.insert(by_key.query_row([turn], |row| row.get(0))?);
        }
    }
    Ok(page.map(|(key, item)| (ids.get(&keys::turn_of(key)).cloned().unwrap_or_default(), item)))
}

/// The model items of a thread in order, from where its history last started over, and whether many
/// of them are outside of pieces.
pub(crate) fn history(conn: &Connection, thread: &str) -> Result<(Vec<Fragment>, bool), Failure> {
    let lineage = Lineage::of(conn, find_thread(conn, thread)?)?;
    let mut begins = conn.prepare_cached(
        "SELECT pk FROM history INDEXED BY history_anew
         WHERE anew = 1 AND pk >= ?1 AND pk < ?2 ORDER BY pk DESC LIMIT 1",
    )?;
    let mut ranges = Vec::new();
    for segment in lineage.segments.iter().rev() {
        let mut range = segment.history()?;
        let begin: Option<i64> =
            begins.query_row([range.start, range.end], |row| row.get(0)).optional()?;
        range.start = begin.unwrap_or(range.start);
        ranges.push(range);
        if begin.is_some() {
            break;
        }
    }
    let (mut fragments, mut loose) = (Vec::new(), 0);
    for range in ranges.into_iter().rev() {
        loose += joined::read(conn, range, &mut fragments)?;
    }
    Ok((fragments, loose > joined::LOOSE))
}

/// At most `limit` places of a thread after an ordinal, in order, with their contents.
pub(crate) fn places(
    conn: &Connection,
    thread: &str,
    behind: Option<u32>,
    limit: usize,
) -> Result<Vec<Place>, Failure> {
    let lineage = Lineage::of(conn, find_thread(conn, thread)?)?;
    let sql = format!("SELECT {TURN_COLUMNS} FROM turn WHERE pk = ?1");
    let mut places = Vec::new();
    for segment in &lineage.segments {
        let from =
            behind.map_or(segment.first, |ordinal| segment.first.max(i64::from(ordinal) + 1));
        for ordinal in from..=segment.last {
            if places.len() >= limit {
                return Ok(places);
            }
            let key = keys::turn_key(segment.source, ordinal)?;
            let turn = conn.prepare_cached(&sql)?.query_row([key], turn_row).optional()?;
            let mut range = keys::entries_of(key, key);
            range.end = range.end.min(segment.history_end);
            let history = joined::fragments_between(conn, range)?;
            let history = history.into_iter().map(|(_, found, anew)| (found, anew)).collect();
            let items = items_of(conn, key)?;
            let ordinal = u32::try_from(ordinal).unwrap_or(u32::MAX);
            places.push(Place { ordinal, turn, items, history });
        }
    }
    Ok(places)
}

/// Reads a row of [`THREAD_COLUMNS`].
pub(crate) fn stored_thread(row: &Row<'_>) -> rusqlite::Result<StoredThread> {
    let record = ThreadRecord {
        id: row.get(0)?,
        session_id: row.get(1)?,
        forked_from_id: row.get(2)?,
        preview: row.get(3)?,
        name: row.get(4)?,
        model_provider: row.get(5)?,
        model: row.get(6)?,
        cwd: row.get(7)?,
        created_at: row.get(8)?,
        updated_at: row.get(9)?,
        source_kind: row.get(10)?,
        source: row.get(11)?,
        archived: row.get(12)?,
        git_info: row.get(13)?,
        settings: row.get(14)?,
        cli_version: row.get(15)?,
        token_usage: row.get(16)?,
        extra: row.get(17)?,
    };
    Ok(StoredThread { record, turn_count: row.get(18)? })
}

/// The items with these keys, in this direction, each with its key.
fn items_between(
    conn: &Connection,
    range: Range<i64>,
    direction: Direction,
    limit: Option<usize>,
) -> Result<Vec<(i64, ItemRow)>, Failure> {
    let sql = format!(
        "SELECT pk, id, kind, status, payload, packed FROM item
         WHERE pk >= ?1 AND pk < ?2 ORDER BY pk {} LIMIT ?3",
        order(direction)
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let limit = limit.map_or(-1, sql_limit);
    let mut rows = statement.query(params![range.start, range.end, limit])?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        let payload = content::load(conn, row.get(4)?, row.get(5)?)?;
        let item = ItemRow { id: row.get(1)?, kind: row.get(2)?, status: row.get(3)?, payload };
        items.push((row.get(0)?, item));
    }
    Ok(items)
}

fn directed<T>(all: &[T], ascending: bool) -> Box<dyn Iterator<Item = &T> + '_> {
    if ascending { Box::new(all.iter()) } else { Box::new(all.iter().rev()) }
}

fn order(direction: Direction) -> &'static str {
    match direction {
        Direction::Ascending => "ASC",
        Direction::Descending => "DESC",
    }
}

fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn turn_row(row: &Row<'_>) -> rusqlite::Result<TurnRow> {
    let (key, code): (i64, i64) = (row.get(0)?, row.get(2)?);
    let out_of_range = |column, value| rusqlite::Error::IntegralValueOutOfRange(column, value);
    Ok(TurnRow {
        id: row.get(1)?,
        ordinal: u32::try_from(keys::ordinal(key)).map_err(|_| out_of_range(0, key))?,
        status: TurnStatus::from_code(code).ok_or_else(|| {
            let unknown = format!("turn status {code}").into();
            rusqlite::Error::FromSqlConversionFailure(2, Type::Integer, unknown)
        })?,
        started_at_ms: row.get(3)?,
        completed_at_ms: row.get(4)?,
        duration_ms: row.get(5)?,
        error: row.get(6)?,
        usage: row.get(7)?,
    })
}
