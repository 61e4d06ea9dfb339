//! Reads of one thread: its row, its turns, their items, and the history for the model. Each
//! function runs inside one read transaction, so what it returns fits together.

use std::collections::HashMap;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::apply::{find_thread, find_turn, status_of};
use crate::error::Failure;
use crate::{
    Direction, ItemRow, Page, StoredThread, ThreadRecord, TurnRow, TurnsQuery, cursor, keys,
};

/// Columns that [`stored_thread`] reads, in its order.
pub(crate) const THREAD_COLUMNS: &str = "id, session_id, forked_from_id, preview, name, \
     model_provider, model, cwd, created_at, updated_at, source_kind, source, archived, git_info, \
     settings, cli_version, token_usage, extra, turn_count";

const TURN_COLUMNS: &str =
    "pk, id, status, started_at_ms, completed_at_ms, duration_ms, error, usage";

/// The thread with this id.
pub(crate) fn thread(conn: &Connection, id: &str) -> Result<Option<StoredThread>, Failure> {
    let sql = format!("SELECT {THREAD_COLUMNS} FROM thread WHERE id = ?1");
    Ok(conn.prepare_cached(&sql)?.query_row([id], stored_thread).optional()?)
}

/// A page of a thread's turns.
pub(crate) fn turns(
    conn: &Connection,
    thread: &str,
    query: &TurnsQuery,
) -> Result<Page<TurnRow>, Failure> {
    let mut range = keys::turns_of(find_thread(conn, thread)?);
    if let Some(cursor) = &query.cursor {
        let ordinal = cursor::read_turn(cursor)?;
        let place = range.start.saturating_add(ordinal);
        match query.direction {
            Direction::Ascending => range.start = place.saturating_add(1),
            Direction::Descending => range.end = place.min(range.end),
        }
    }
    let order = match query.direction {
        Direction::Ascending => "ASC",
        Direction::Descending => "DESC",
    };
    let limit = query.limit.max(1);
    let sql = format!(
        "SELECT {TURN_COLUMNS} FROM turn WHERE pk >= ?1 AND pk < ?2 ORDER BY pk {order} LIMIT ?3"
    );
    let rows = conn
        .prepare_cached(&sql)?
        .query_map(params![range.start, range.end, i64::from(limit) + 1], turn_row)?
        .collect::<Result<Vec<_>, _>>()?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(Page::cut(rows, limit, |row| cursor::write_turn(row.ordinal.into())))
}

/// The thread's newest turn.
pub(crate) fn last_turn(conn: &Connection, thread: &str) -> Result<Option<TurnRow>, Failure> {
    Ok(turns(conn, thread, &TurnsQuery { limit: 1, ..TurnsQuery::default() })?.rows.pop())
}

/// A turn's items in order.
pub(crate) fn items(conn: &Connection, thread: &str, turn: &str) -> Result<Vec<ItemRow>, Failure> {
    items_of(conn, find_turn(conn, thread, turn)?)
}

/// The items of the turn with this key, in order.
pub(crate) fn items_of(conn: &Connection, turn: i64) -> Result<Vec<ItemRow>, Failure> {
    let rows = items_between(conn, turn, turn)?;
    Ok(rows.into_iter().map(|(_, item)| item).collect())
}

/// A page of turns with their items: one statement for the turns and one for all their items, as
/// the turns of a page are neighbours.
pub(crate) fn turns_with_items(
    conn: &Connection,
    thread: &str,
    query: &TurnsQuery,
) -> Result<Page<(TurnRow, Vec<ItemRow>)>, Failure> {
    let first = keys::turns_of(find_thread(conn, thread)?).start;
    let page = turns(conn, thread, query)?;
    let ordinals = || page.rows.iter().map(|row| i64::from(row.ordinal));
    let (Some(low), Some(high)) = (ordinals().min(), ordinals().max()) else {
        return Ok(page.map(|row| (row, Vec::new())));
    };
    let mut items: HashMap<i64, Vec<ItemRow>> = HashMap::new();
    for (turn, item) in items_between(conn, first + low, first + high)? {
        items.entry(turn).or_default().push(item);
    }
    Ok(page.map(|row| {
        let own = items.remove(&(first + i64::from(row.ordinal))).unwrap_or_default();
        (row, own)
    }))
}

/// The raw model items of a thread in order; with `since`, from that turn on.
pub(crate) fn history(
    conn: &Connection,
    thread: &str,
    since: Option<&str>,
) -> Result<Vec<String>, Failure> {
    let turns = keys::turns_of(find_thread(conn, thread)?);
    let first = match since {
        Some(turn) => find_turn(conn, thread, turn)?,
        None => turns.start,
    };
    let range = keys::entries_of(first, turns.end - 1);
    let fragments = conn
        .prepare_cached("SELECT fragment FROM history WHERE pk >= ?1 AND pk < ?2 ORDER BY pk")?
        .query_map([range.start, range.end], |row| row.get(0))?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(fragments)
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

/// Items of a run of turns, each with its turn's key, in order.
fn items_between(conn: &Connection, first: i64, last: i64) -> Result<Vec<(i64, ItemRow)>, Failure> {
    let range = keys::entries_of(first, last);
    let items = conn
        .prepare_cached(
            "SELECT pk, id, kind, status, payload FROM item
             WHERE pk >= ?1 AND pk < ?2 ORDER BY pk",
        )?
        .query_map([range.start, range.end], |row| {
            let item = ItemRow {
                id: row.get(1)?,
                kind: row.get(2)?,
                status: row.get(3)?,
                payload: row.get(4)?,
            };
            Ok((keys::turn_of(row.get(0)?), item))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(items)
}

fn turn_row(row: &Row<'_>) -> rusqlite::Result<TurnRow> {
    let (key, code): (i64, i64) = (row.get(0)?, row.get(2)?);
    let out_of_range = |column, value| rusqlite::Error::IntegralValueOutOfRange(column, value);
    Ok(TurnRow {
        id: row.get(1)?,
        ordinal: u32::try_from(keys::ordinal(key)).map_err(|_| out_of_range(0, key))?,
        status: status_of(code).ok_or_else(|| {
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
