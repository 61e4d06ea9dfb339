//! The rows of queues. The key of a row contains its thread, so that the rows of a thread are
//! adjacent without an index; `position` orders them.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};

use crate::sqlite::failure::Failure;
use crate::sqlite::rows::leased_thread;
use crate::{QueueWrite, QueuedEntry, StoreError};

/// Bits of a row's key that hold its number.
const NUMBER_BITS: u32 = 20;

/// Applies a change on behalf of the store named `owner`.
pub(crate) fn apply(
    conn: &Connection,
    owner: &str,
    thread: &str,
    write: &QueueWrite,
) -> Result<(), Failure> {
    let key = leased_thread(conn, owner, thread)?;
    match write {
        QueueWrite::Add(QueuedEntry { id, payload }) => {
            if find(conn, key, id)?.is_some() {
                return Err(StoreError::queue_changed(thread, id).into());
            }
            // A number is used again only after the queue was empty, which no other row depends on.
            conn.prepare_cached(
                "INSERT INTO queued (pk, thread, position, id, payload)
                 SELECT coalesce(max(pk), ?1 << ?2) + 1, ?1, coalesce(max(position), 0) + 1, ?3, ?4
                 FROM queued WHERE pk > ?1 << ?2 AND pk < (?1 + 1) << ?2",
            )?
            .execute(params![key, NUMBER_BITS, id, payload])?;
            Ok(())
        }
        QueueWrite::Replace(QueuedEntry { id, payload }) => {
            let row = found(conn, (key, thread), id)?;
            conn.prepare_cached("UPDATE queued SET payload = ?2 WHERE pk = ?1")?
                .execute(params![row, payload])?;
            Ok(())
        }
        QueueWrite::Remove { id } => {
            let row = found(conn, (key, thread), id)?;
            conn.prepare_cached("DELETE FROM queued WHERE pk = ?1")?.execute([row])?;
            Ok(())
        }
        QueueWrite::Reorder { ids } => reorder(conn, (key, thread), ids),
    }
}

fn reorder(conn: &Connection, (key, thread): (i64, &str), ids: &[String]) -> Result<(), Failure> {
    let mut rows: HashMap<String, i64> = conn
        .prepare_cached("SELECT id, pk FROM queued WHERE pk > ?1 << ?2 AND pk < (?1 + 1) << ?2")?
        .query_map([key, NUMBER_BITS.into()], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut place = conn.prepare_cached("UPDATE queued SET position = ?2 WHERE pk = ?1")?;
    for (position, id) in (1_i64..).zip(ids) {
        let row = rows.remove(id).ok_or_else(|| StoreError::queue_changed(thread, id))?;
        place.execute([row, position])?;
    }
    match rows.into_keys().next() {
        Some(left) => Err(StoreError::queue_changed(thread, &left).into()),
        None => Ok(()),
    }
}

/// The entries of a thread, in order.
pub(crate) fn read(conn: &Connection, thread: i64) -> Result<Vec<QueuedEntry>, Failure> {
    Ok(conn
        .prepare_cached(
            "SELECT id, payload FROM queued WHERE pk > ?1 << ?2 AND pk < (?1 + 1) << ?2
             ORDER BY position",
        )?
        .query_map([thread, NUMBER_BITS.into()], |row| {
            Ok(QueuedEntry { id: row.get(0)?, payload: row.get(1)? })
        })?
        .collect::<Result<_, _>>()?)
}

/// Deletes the queue of a thread.
pub(crate) fn remove_of(conn: &Connection, thread: i64) -> Result<(), Failure> {
    conn.prepare_cached("DELETE FROM queued WHERE pk > ?1 << ?2 AND pk < (?1 + 1) << ?2")?
        .execute([thread, NUMBER_BITS.into()])?;
    Ok(())
}

/// Deletes entries without a thread, which a salvage can leave.
pub(crate) fn sweep(conn: &Connection) -> Result<(), Failure> {
    conn.execute(
        "DELETE FROM queued WHERE thread NOT IN (SELECT pk FROM thread WHERE deleted = 0)",
        [],
    )?;
    Ok(())
}

/// The thread inside the key of a row.
pub(crate) fn thread_of(row: i64) -> i64 {
    row >> NUMBER_BITS
}

fn found(conn: &Connection, (key, thread): (i64, &str), id: &str) -> Result<i64, Failure> {
    find(conn, key, id)?.ok_or_else(|| StoreError::queue_changed(thread, id).into())
}

fn find(conn: &Connection, thread: i64, id: &str) -> Result<Option<i64>, Failure> {
    Ok(conn
        .prepare_cached(
            "SELECT pk FROM queued WHERE pk > ?1 << ?2 AND pk < (?1 + 1) << ?2 AND id = ?3",
        )?
        .query_row(params![thread, NUMBER_BITS, id], |row| row.get(0))
        .optional()?)
}
