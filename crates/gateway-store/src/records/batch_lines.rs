//! The lines of batches. The node that holds a line's lease runs the line. Its result is accepted
//! once, only from the holder, and in one transaction with the batch's counts.

use ratelimit::Micros;

use super::batches::Usage;
use super::{FAR_AHEAD, found};
use crate::Error;
use crate::database::{Database, Row, Statement};

/// A line of a batch's input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its index in the file, from 0.
    pub number: u64,
    /// The client's id of the line.
    pub custom_id: Box<str>,
    /// The request's body, as JSON.
    pub body: Box<str>,
    /// Estimated input tokens.
    pub tokens: u64,
}

/// The result of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// True if it goes into the error file.
    pub failed: bool,
    /// The line of the output or error file, as JSON.
    pub text: Box<str>,
    /// Its token usage.
    pub usage: Usage,
}

/// Inserts lines of a batch, at most 1000 per call. Idempotent.
///
/// # Errors
/// See [`Error`].
pub async fn insert(database: &Database, batch: &str, lines: &[Line]) -> Result<(), Error> {
    let insert = |line: &Line| {
        Statement::new(
            "INSERT INTO batch_lines (batch, line, custom_id, body, tokens, state, lease_until, \
             failed) VALUES ($1, $2, $3, $4, $5, 0, 0, 0) ON CONFLICT (batch, line) DO NOTHING",
            [
                batch.into(),
                line.number.into(),
                (&line.custom_id).into(),
                (&line.body).into(),
                line.tokens.into(),
            ],
        )
    };
    database.transact(lines.iter().map(insert).collect()).await.map(drop)
}

/// Leases at most `limit` lines that no node holds, until that moment.
///
/// # Errors
/// See [`Error`].
pub async fn claim(
    database: &Database,
    batch: &str,
    owner: &str,
    limit: u32,
    until: Micros,
    now: Micros,
) -> Result<Vec<Line>, Error> {
    // The outer condition is checked again under the row's lock, which excludes lines that another
    // node has claimed in the meantime.
    let update = Statement::new(
        "UPDATE batch_lines SET state = 1, lease_owner = $1, lease_until = $2 \
         WHERE batch = $3 AND line IN (SELECT line FROM batch_lines WHERE batch = $3 \
         AND state < 2 AND (lease_until < $4 OR lease_until > $6) ORDER BY line LIMIT $5) \
         AND state < 2 AND (lease_until < $4 OR lease_until > $6) \
         RETURNING line, custom_id, body, tokens",
        [
            owner.into(),
            until.into(),
            batch.into(),
            now.into(),
            limit.into(),
            now.saturating_add(FAR_AHEAD).into(),
        ],
    );
    let done = database.transact(vec![update]).await?;
    let rows = done.iter().flat_map(|done| &done.rows);
    let mut lines = rows.map(read).collect::<Result<Vec<_>, _>>()?;
    lines.sort_unstable_by_key(|line| line.number);
    Ok(lines)
}

/// Releases a line that was not run. Returns `None` if the owner does not hold it.
///
/// # Errors
/// See [`Error`].
pub async fn release(
    database: &Database,
    batch: &str,
    line: u64,
    owner: &str,
) -> Result<Option<()>, Error> {
    let update = Statement::new(
        "UPDATE batch_lines SET state = 0, lease_until = 0 \
         WHERE batch = $1 AND line = $2 AND lease_owner = $3 AND state = 1",
        [batch.into(), line.into(), owner.into()],
    );
    found(database.transact(vec![update.expecting(1)]).await.map(drop))
}

/// Extends the leases of all lines that a node holds.
///
/// # Errors
/// See [`Error`].
pub async fn renew(
    database: &Database,
    batch: &str,
    owner: &str,
    until: Micros,
) -> Result<(), Error> {
    let update = Statement::new(
        "UPDATE batch_lines SET lease_until = $1 \
         WHERE batch = $2 AND lease_owner = $3 AND state = 1",
        [until.into(), batch.into(), owner.into()],
    );
    database.transact(vec![update]).await.map(drop)
}

/// Releases all lines that a node holds; the node must run none of them. Returns their number.
///
/// # Errors
/// See [`Error`].
pub async fn release_all(database: &Database, batch: &str, owner: &str) -> Result<u64, Error> {
    let update = Statement::new(
        "UPDATE batch_lines SET state = 0, lease_until = 0 \
         WHERE batch = $1 AND lease_owner = $2 AND state = 1",
        [batch.into(), owner.into()],
    );
    let done = database.transact(vec![update]).await?;
    Ok(done.first().map_or(0, |done| done.affected))
}

/// Records the result of a line and counts it. Returns `None` if the owner no longer holds the
/// line: the result is then another node's.
///
/// # Errors
/// See [`Error`].
pub async fn finish(
    database: &Database,
    batch: &str,
    line: u64,
    owner: &str,
    outcome: &Outcome,
) -> Result<Option<()>, Error> {
    let statements = vec![
        Statement::new(
            "UPDATE batch_lines SET state = 2, failed = $1, result = $2 \
             WHERE batch = $3 AND line = $4 AND lease_owner = $5 AND state = 1",
            [
                outcome.failed.into(),
                (&outcome.text).into(),
                batch.into(),
                line.into(),
                owner.into(),
            ],
        )
        .expecting(1),
        count(batch, 1, outcome.failed),
        add(batch, outcome.usage),
    ];
    found(database.transact(statements).await.map(drop))
}

/// Finishes at most 100 lines that no node holds with one outcome, when a batch is cancelled,
/// expires or exceeds its spend limit. `text` creates the result of a line from its number and
/// `custom_id`. Returns the number of lines; 0 means that all lines are finished or running.
///
/// # Errors
/// See [`Error`].
pub async fn end_rest(
    database: &Database,
    batch: &str,
    owner: &str,
    until: Micros,
    now: Micros,
    text: impl Fn(u64, &str) -> Box<str>,
) -> Result<usize, Error> {
    let lines = claim(database, batch, owner, 100, until, now).await?;
    let mut statements: Vec<Statement> = lines
        .iter()
        .map(|line| {
            Statement::new(
                "UPDATE batch_lines SET state = 2, failed = 1, result = $1 \
                 WHERE batch = $2 AND line = $3 AND lease_owner = $4 AND state = 1",
                [
                    text(line.number, &line.custom_id).into(),
                    batch.into(),
                    line.number.into(),
                    owner.into(),
                ],
            )
            .expecting(1)
        })
        .collect();
    if !lines.is_empty() {
        statements.push(count(batch, lines.len(), true));
        database.transact(statements).await?;
    }
    Ok(lines.len())
}

/// Number of unfinished lines.
///
/// # Errors
/// See [`Error`].
pub async fn left(database: &Database, batch: &str) -> Result<u64, Error> {
    let sql = "SELECT COUNT(*) FROM batch_lines WHERE batch = $1 AND state < 2";
    let rows = database.query(Statement::new(sql, [batch.into()])).await?;
    rows.first().map_or(Ok(0), |row| row.count(0))
}

/// Results after line `after` (-1: from the first line), for the output or the error file.
///
/// # Errors
/// See [`Error`].
pub async fn results(
    database: &Database,
    batch: &str,
    failed: bool,
    after: i64,
    limit: u32,
) -> Result<Vec<(i64, Box<str>)>, Error> {
    let sql = "SELECT line, result FROM batch_lines WHERE batch = $1 AND line > $2 \
               AND state = 2 AND failed = $3 ORDER BY line LIMIT $4";
    let values = [batch.into(), after.into(), failed.into(), limit.into()];
    let rows = database.query(Statement::new(sql, values)).await?;
    rows.iter().map(|row| Ok((row.integer(0)?, row.text(1)?))).collect()
}

/// Deletes lines of a batch that has ended, because its files contain them. Returns whether lines
/// are left.
///
/// # Errors
/// See [`Error`].
pub async fn forget(database: &Database, batch: &str) -> Result<bool, Error> {
    let delete = Statement::new(
        "DELETE FROM batch_lines WHERE batch = $1 AND line IN \
         (SELECT line FROM batch_lines WHERE batch = $1 ORDER BY line LIMIT 5000)",
        [batch.into()],
    );
    let done = database.transact(vec![delete]).await?;
    Ok(done.first().is_some_and(|done| done.affected == 5000))
}

fn count(batch: &str, lines: usize, failed: bool) -> Statement {
    let sql = match failed {
        true => "UPDATE batches SET failed = failed + $1 WHERE id = $2",
        false => "UPDATE batches SET completed = completed + $1 WHERE id = $2",
    };
    Statement::new(sql, [lines.into(), batch.into()]).expecting(1)
}

fn add(batch: &str, usage: Usage) -> Statement {
    Statement::new(
        "UPDATE batches SET input_tokens = input_tokens + $1, cached_tokens = cached_tokens + $2, \
         output_tokens = output_tokens + $3, reasoning_tokens = reasoning_tokens + $4 \
         WHERE id = $5",
        [
            usage.input_tokens.into(),
            usage.cached_tokens.into(),
            usage.output_tokens.into(),
            usage.reasoning_tokens.into(),
            batch.into(),
        ],
    )
}

fn read(row: &Row) -> Result<Line, Error> {
    Ok(Line {
        number: row.count(0)?,
        custom_id: row.text(1)?,
        body: row.text(2)?,
        tokens: row.count(3)?,
    })
}
