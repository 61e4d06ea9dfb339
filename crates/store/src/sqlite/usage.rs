//! The rows of what responses used.

use rusqlite::{Connection, Row, params};

use crate::sqlite::failure::Failure;
use crate::sqlite::rows::leased_thread;
use crate::{UsageQuery, UsageRecord, UsageRow};

/// Adds a row, and stores the totals of the thread.
pub(crate) fn add(
    conn: &Connection,
    owner: &str,
    thread: &str,
    token_usage: &str,
    usage: &UsageRecord,
) -> Result<(), Failure> {
    let key = leased_thread(conn, owner, thread)?;
    conn.prepare_cached("UPDATE thread SET token_usage = ?2 WHERE pk = ?1")?
        .execute(params![key, token_usage])?;
    conn.prepare_cached(
        "INSERT INTO usage (thread, turn, at_ms, project, provider, model, service_tier, input,
             cached_input, cache_write, output, reasoning_output, cost)
         SELECT ?2, ?3, ?4, cwd, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13 FROM thread WHERE pk = ?1",
    )?
    .execute(params![
        key,
        thread,
        usage.turn,
        usage.at_ms,
        usage.provider,
        usage.model,
        usage.service_tier,
        usage.input,
        usage.cached_input,
        usage.cache_write,
        usage.output,
        usage.reasoning_output,
        usage.cost
    ])?;
    Ok(())
}

/// Removes the names of a thread that is deleted. What it cost was spent all the same.
pub(crate) fn forget_thread(conn: &Connection, thread: &str) -> Result<(), Failure> {
    conn.prepare_cached("UPDATE usage SET thread = NULL, turn = NULL WHERE thread = ?1")?
        .execute([thread])?;
    Ok(())
}

/// Rows in the order in which they were added.
pub(crate) fn read(conn: &Connection, query: UsageQuery) -> Result<Vec<UsageRow>, Failure> {
    let UsageQuery { after, from_ms, to_ms, limit } = query;
    let rows = conn
        .prepare_cached(
            "SELECT pk, thread, turn, at_ms, project, provider, model, service_tier, input,
                 cached_input, cache_write, output, reasoning_output, cost
             FROM usage WHERE pk > ?1 AND at_ms >= ?2 AND at_ms < ?3 ORDER BY pk LIMIT ?4",
        )?
        .query_map(params![after, from_ms, to_ms, limit], row)?
        .collect::<Result<_, _>>()?;
    Ok(rows)
}

fn row(row: &Row<'_>) -> rusqlite::Result<UsageRow> {
    let record = UsageRecord {
        turn: row.get(2)?,
        at_ms: row.get(3)?,
        provider: row.get(5)?,
        model: row.get(6)?,
        service_tier: row.get(7)?,
        input: row.get(8)?,
        cached_input: row.get(9)?,
        cache_write: row.get(10)?,
        output: row.get(11)?,
        reasoning_output: row.get(12)?,
        cost: row.get(13)?,
    };
    Ok(UsageRow { key: row.get(0)?, thread: row.get(1)?, project: row.get(4)?, record })
}
