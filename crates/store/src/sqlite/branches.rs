//! Forks and rollbacks: threads that show the turns of others, or fewer of their own. No row of a turn
//! is copied, and none is deleted while a thread shows it.

use rusqlite::{Connection, OptionalExtension, params};

use crate::sqlite::failure::Failure;
use crate::sqlite::lineage::Lineage;
use crate::sqlite::rows::{create_thread, find_thread, leased_thread};
use crate::sqlite::{keys, removal};
use crate::{StoreError, ThreadRecord};

/// Stores `record` as a thread that starts with the turns of `parent`, up to and including
/// `last_turn`, or else up to the first turn in progress.
pub(crate) fn fork(
    conn: &Connection,
    owner: &str,
    record: &ThreadRecord,
    parent: &str,
    last_turn: Option<&str>,
) -> Result<(), Failure> {
    let source = find_thread(conn, parent)?;
    let mut lineage = Lineage::of(conn, source)?;
    let newest = lineage.segments.last().map_or(0, |segment| segment.last);
    let finished = match first_in_flight(conn, source)? {
        Some(turn) => keys::ordinal(turn) - 1,
        None => newest,
    };
    let end = match last_turn {
        None => finished,
        Some(id) => {
            let (thread, turn) = (parent.to_owned(), id.to_owned());
            let found = lineage.find(conn, id)?;
            let key = found.ok_or(StoreError::TurnNotFound { thread, turn })?;
            let ordinal = keys::ordinal(key);
            if ordinal > finished {
                return Err(StoreError::TurnInFlight { thread: parent.to_owned() }.into());
            }
            ordinal
        }
    };
    lineage.cut(end);
    if let Some(last) = lineage.segments.last_mut() {
        let range = last.history()?;
        let newest: Option<i64> = conn
            .prepare_cached(
                "SELECT pk FROM history WHERE pk >= ?1 AND pk < ?2 ORDER BY pk DESC LIMIT 1",
            )?
            .query_row([range.start, range.end], |row| row.get(0))
            .optional()?;
        last.history_end = newest.map_or(range.start, |key| key + 1);
    }
    let thread = create_thread(conn, owner, record)?;
    lineage.write(conn, thread)?;
    let place = keys::ordinal(keys::turn_key(thread, end + 1)?);
    conn.prepare_cached(
        "UPDATE thread SET open_from = ?2, last_ordinal = ?2, turn_count = ?3 WHERE pk = ?1",
    )?
    .execute(params![thread, place, lineage.turns()])?;
    Ok(())
}

/// Hides the last turns of a thread. Their rows stay, because forks may share them.
pub(crate) fn roll_back(
    conn: &Connection,
    owner: &str,
    id: &str,
    turns: u32,
) -> Result<(), Failure> {
    let thread = leased_thread(conn, owner, id)?;
    if first_in_flight(conn, thread)?.is_some() {
        return Err(StoreError::TurnInFlight { thread: id.to_owned() }.into());
    }
    let mut lineage = Lineage::of(conn, thread)?;
    let has = lineage.turns();
    let too_few = || StoreError::TooFewTurns { thread: id.to_owned(), asked: turns, has };
    if i64::from(turns) > has {
        return Err(too_few().into());
    }
    let newest = lineage.segments.last().map_or(0, |segment| segment.last);
    lineage.cut(lineage.ordinal_before(turns.into()).ok_or_else(too_few)?);
    let sources = removal::sources(conn, thread)?;
    lineage.write(conn, thread)?;
    let place = keys::ordinal(keys::turn_key(thread, newest + 1)?);
    conn.prepare_cached("UPDATE thread SET open_from = ?2, last_ordinal = ?2 WHERE pk = ?1")?
        .execute([thread, place])?;
    removal::collect(conn, &sources)
}

/// The key of the thread's oldest turn in progress, which is always one of its own.
fn first_in_flight(conn: &Connection, thread: i64) -> Result<Option<i64>, Failure> {
    Ok(conn
        .prepare_cached(
            "SELECT min(pk) FROM turn INDEXED BY turn_in_flight WHERE status = 0 AND thread = ?1",
        )?
        .query_row([thread], |row| row.get(0))?)
}
