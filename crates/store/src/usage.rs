//! What responses of models used and cost: one row for each response, which stays when its thread is
//! deleted, without the thread's name. Threads that are older than this table have one row with
//! what is known of them.

use rusqlite::{Connection, Row, params};

use crate::failure::Failure;
use crate::rows::leased_thread;

/// What a response used. Token counts and cost are `None` where they are not known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageRecord {
    /// Id of the turn.
    pub turn: Option<String>,
    /// Unix milliseconds.
    pub at_ms: i64,
    /// Provider id.
    pub provider: String,
    /// Model id.
    pub model: String,
    /// Service tier, if it is not the provider's default.
    pub service_tier: Option<String>,
    /// All input tokens.
    pub input: Option<i64>,
    /// Of these, tokens read from the provider's prompt cache.
    pub cached_input: Option<i64>,
    /// Of these, tokens written to it.
    pub cache_write: Option<i64>,
    /// All output tokens.
    pub output: Option<i64>,
    /// Of these, tokens spent on reasoning.
    pub reasoning_output: Option<i64>,
    /// In picodollars (10^-12 US dollars).
    pub cost: Option<i64>,
}

/// A stored [`UsageRecord`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRow {
    /// Grows with each row.
    pub key: i64,
    /// Id of the thread, unless it was deleted.
    pub thread: Option<String>,
    /// Folder of the thread at that time.
    pub project: String,
    /// What was used.
    pub record: UsageRecord,
}

/// Which rows to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageQuery {
    /// Only rows behind the one with this key.
    pub after: i64,
    /// Only rows from this time on, in Unix milliseconds.
    pub from_ms: i64,
    /// Only rows before this time.
    pub to_ms: i64,
    /// Most rows.
    pub limit: u32,
}

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
