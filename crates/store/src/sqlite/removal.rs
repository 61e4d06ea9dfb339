//! Deletes threads. The thread itself can no longer be found; its turns are deleted with the last
//! fork that shows them.

use std::ops::Range;

use rusqlite::{Connection, params};

use crate::sqlite::failure::Failure;
use crate::sqlite::rows::leased_thread;
use crate::sqlite::{content, jobs, joined, keys, queue, search, text_index, usage};

/// Deletes a thread, and turns of deleted ancestors that only it shows.
pub(crate) fn remove(conn: &Connection, owner: &str, id: &str) -> Result<(), Failure> {
    let thread = leased_thread(conn, owner, id)?;
    let mut sources = sources(conn, thread)?;
    conn.prepare_cached("DELETE FROM segment WHERE thread = ?1")?.execute([thread])?;
    search::remove(conn, thread)?;
    jobs::remove_of(conn, thread)?;
    queue::remove_of(conn, thread)?;
    usage::forget_thread(conn, id)?;
    conn.prepare_cached(
        "UPDATE thread SET deleted = 1, id = 'deleted:' || pk, turn_count = 0, lease = NULL,
             preview = '', name = NULL, cwd = '', source = '', settings = '', model = '',
             model_provider = '', git_info = NULL, token_usage = NULL, extra = NULL
         WHERE pk = ?1",
    )?
    .execute([thread])?;
    sources.push(thread);
    collect(conn, &sources)
}

/// The threads whose turns a thread shows.
pub(crate) fn sources(conn: &Connection, thread: i64) -> Result<Vec<i64>, Failure> {
    let sources = conn
        .prepare_cached("SELECT DISTINCT source FROM segment WHERE thread = ?1 AND source <> ?1")?
        .query_map([thread], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    Ok(sources)
}

/// Deletes the rows of the deleted ones of `threads` that no thread shows.
pub(crate) fn collect(conn: &Connection, threads: &[i64]) -> Result<(), Failure> {
    for &source in threads {
        let deleted: bool = conn
            .prepare_cached("SELECT deleted FROM thread WHERE pk = ?1")?
            .query_row([source], |row| row.get(0))?;
        if deleted {
            purge(conn, source)?;
        }
    }
    Ok(())
}

/// Deletes the rows of a deleted thread that no fork shows, and the thread if none remains.
fn purge(conn: &Connection, thread: i64) -> Result<(), Failure> {
    let shown = conn
        .prepare_cached("SELECT first, last FROM segment WHERE source = ?1 ORDER BY first, last")?
        .query_map([thread], |row| Ok(row.get(0)?..row.get::<_, i64>(1)? + 1))?
        .collect::<Result<Vec<Range<i64>>, _>>()?;
    let all = keys::turns_of(thread);
    let mut from = all.start;
    for ordinals in &shown {
        if all.start + ordinals.start > from {
            erase(conn, from..all.start + ordinals.start)?;
        }
        from = from.max(all.start + ordinals.end);
    }
    erase(conn, from..all.end)?;
    if shown.is_empty() {
        conn.prepare_cached("DELETE FROM thread WHERE pk = ?1")?.execute([thread])?;
    }
    Ok(())
}

/// Deletes the turns with these keys, their items and their history.
fn erase(conn: &Connection, turns: Range<i64>) -> Result<(), Failure> {
    let entries = keys::entries_of(turns.start, turns.end - 1);
    joined::erase(conn, &entries)?;
    text_index::erase(conn, &turns)?;
    for table in ["item", "history"] {
        let mut packed = conn.prepare(&format!(
            "SELECT packed FROM {table} WHERE pk >= ?1 AND pk < ?2 AND packed IS NOT NULL"
        ))?;
        let mut rows = packed.query([entries.start, entries.end])?;
        while let Some(row) = rows.next()? {
            let packed: Vec<u8> = row.get(0)?;
            content::release(conn, Some(&packed))?;
        }
        conn.execute(
            &format!("DELETE FROM {table} WHERE pk >= ?1 AND pk < ?2"),
            params![entries.start, entries.end],
        )?;
    }
    conn.execute("DELETE FROM turn WHERE pk >= ?1 AND pk < ?2", [turns.start, turns.end])?;
    Ok(())
}
