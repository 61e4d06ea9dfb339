//! Batches: their state, counts and timestamps, and the node that runs each. Their lines are in
//! `batch_lines`; this module runs nothing.

use ratelimit::Micros;

use super::page::{self, Listed, Page, Source};
use super::{FAR_AHEAD, batch_lines, found};
use crate::Error;
use crate::database::{Database, Row, Statement};

const COLUMNS: &str = "id, organization, project, api_key, endpoint, model, input_file, \
    output_file, error_file, status, metadata, errors, queued_tokens, total, completed, failed, \
    created_at, expires_at, in_progress_at, finalizing_at, cancelling_at, ended_at, \
    output_expires_after, expiring_at, input_tokens, cached_tokens, output_tokens, reasoning_tokens";

/// The states of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the wire")]
pub enum Status {
    Validating,
    Failed,
    InProgress,
    Finalizing,
    Completed,
    Expired,
    Cancelling,
    Cancelled,
}

impl Status {
    const ALL: [Self; 8] = [
        Self::Validating,
        Self::Failed,
        Self::InProgress,
        Self::Finalizing,
        Self::Completed,
        Self::Expired,
        Self::Cancelling,
        Self::Cancelled,
    ];

    /// The name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Validating => "validating",
            Self::Failed => "failed",
            Self::InProgress => "in_progress",
            Self::Finalizing => "finalizing",
            Self::Completed => "completed",
            Self::Expired => "expired",
            Self::Cancelling => "cancelling",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns whether the state is final.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Failed | Self::Completed | Self::Expired | Self::Cancelled)
    }

    /// The column with the timestamp at which the state begins.
    fn moment(self) -> Option<&'static str> {
        match self {
            Self::Validating => None,
            Self::InProgress => Some("in_progress_at"),
            Self::Finalizing => Some("finalizing_at"),
            Self::Cancelling => Some("cancelling_at"),
            _ => Some("ended_at"),
        }
    }
}

/// A batch. Timestamps are Unix seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the wire")]
pub struct Batch {
    pub id: Box<str>,
    pub organization: Box<str>,
    pub project: Box<str>,
    /// The id of the key that created it.
    pub key: Box<str>,
    pub endpoint: Box<str>,
    pub model: Box<str>,
    pub input_file: Box<str>,
    pub output_file: Option<Box<str>>,
    pub error_file: Option<Box<str>>,
    pub status: Status,
    /// JSON.
    pub metadata: Option<Box<str>>,
    /// JSON: the list of errors of a failed batch.
    pub errors: Option<Box<str>>,
    /// The tokens that it holds in the queue until it ends.
    pub queued_tokens: u64,
    pub total: u64,
    pub completed: u64,
    pub failed: u64,
    pub created_at: i64,
    pub expires_at: i64,
    pub in_progress_at: Option<i64>,
    pub finalizing_at: Option<i64>,
    pub cancelling_at: Option<i64>,
    /// When it completed, failed, expired or was cancelled.
    pub ended_at: Option<i64>,
    /// Lifetime of its output files, in seconds; `None`: until they are deleted.
    pub output_expires_after: Option<i64>,
    /// When its time ran out before all of its lines were run.
    pub expiring_at: Option<i64>,
    /// Token usage of its lines.
    pub usage: Usage,
}

/// Token usage of a batch's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the wire")]
pub struct Usage {
    pub input_tokens: u64,
    /// Part of the input tokens.
    pub cached_tokens: u64,
    pub output_tokens: u64,
    /// Part of the output tokens.
    pub reasoning_tokens: u64,
}

/// Inserts a batch, leased to `owner` until that moment.
///
/// # Errors
/// See [`Error`].
pub async fn insert(
    database: &Database,
    batch: &Batch,
    owner: &str,
    until: Micros,
) -> Result<(), Error> {
    let sql = "INSERT INTO batches (id, organization, project, api_key, endpoint, model, \
               input_file, status, metadata, errors, queued_tokens, total, completed, failed, \
               created_at, expires_at, ended_at, output_expires_after, lease_owner, lease_until) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, \
               $17, $18, $19, $20)";
    let values = [
        (&batch.id).into(),
        (&batch.organization).into(),
        (&batch.project).into(),
        (&batch.key).into(),
        (&batch.endpoint).into(),
        (&batch.model).into(),
        (&batch.input_file).into(),
        batch.status.name().into(),
        batch.metadata.clone().into(),
        batch.errors.clone().into(),
        batch.queued_tokens.into(),
        batch.total.into(),
        batch.completed.into(),
        batch.failed.into(),
        batch.created_at.into(),
        batch.expires_at.into(),
        batch.ended_at.into(),
        batch.output_expires_after.into(),
        owner.into(),
        until.into(),
    ];
    database.transact(vec![Statement::new(sql, values)]).await.map(drop)
}

/// A project's batch of that id.
///
/// # Errors
/// See [`Error`].
pub async fn get(database: &Database, project: &str, id: &str) -> Result<Option<Batch>, Error> {
    let sql = format!("SELECT {COLUMNS} FROM batches WHERE id = $1 AND project = $2");
    let statement = Statement::composed(sql, vec![id.into(), project.into()]);
    database.query(statement).await?.first().map(read).transpose()
}

/// A page of a project's batches.
///
/// # Errors
/// See [`Error`].
pub async fn list(database: &Database, project: &str, page: &Page) -> Result<Listed<Batch>, Error> {
    let (value, condition) = (project.into(), "project = $1");
    let source = Source { columns: COLUMNS, table: "batches", condition, key: "id", value };
    page::list(database, source, page, read).await
}

/// The batch of that id, in any project.
///
/// # Errors
/// See [`Error`].
pub async fn find(database: &Database, id: &str) -> Result<Option<Batch>, Error> {
    let sql = format!("SELECT {COLUMNS} FROM batches WHERE id = $1");
    let rows = database.query(Statement::composed(sql, vec![id.into()])).await?;
    rows.first().map(read).transpose()
}

/// Returns whether there is an unfinished batch that no node holds.
///
/// # Errors
/// See [`Error`].
pub async fn waits(database: &Database, now: Micros) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM batches WHERE ended_at IS NULL AND (lease_until < $1 OR lease_until > $2) \
               LIMIT 1";
    let ahead = now.saturating_add(FAR_AHEAD);
    Ok(!database.query(Statement::new(sql, [now.into(), ahead.into()])).await?.is_empty())
}

/// Records that the time of a batch ran out before all of its lines were run. Returns `None` if it
/// is not in progress.
///
/// # Errors
/// See [`Error`].
pub async fn expire(database: &Database, id: &str, at: i64) -> Result<Option<()>, Error> {
    let update = Statement::new(
        "UPDATE batches SET expiring_at = COALESCE(expiring_at, $1) \
         WHERE id = $2 AND status = 'in_progress'",
        [at.into(), id.into()],
    );
    found(database.transact(vec![update.expecting(1)]).await.map(drop))
}

/// Deletes lines of batches that have ended, because their files contain them. A few thousand per
/// call; returns whether there may be more.
///
/// # Errors
/// See [`Error`].
pub async fn tidy(database: &Database) -> Result<bool, Error> {
    let sql = "SELECT id FROM batches WHERE ended_at IS NOT NULL AND lines_kept = 1 \
               ORDER BY id LIMIT 1";
    let rows = database.query(Statement::new(sql, [])).await?;
    let Some(row) = rows.first() else { return Ok(false) };
    let id = row.text(0)?;
    if !batch_lines::forget(database, &id).await? {
        let sql = "UPDATE batches SET lines_kept = 0 WHERE id = $1";
        database.transact(vec![Statement::new(sql, [id.into()])]).await?;
    }
    Ok(true)
}

/// An organization's queued tokens and batches by model, as batches name it. Models with most
/// tokens first, at most a thousand.
///
/// # Errors
/// See [`Error`].
pub async fn queued(database: &Database, organization: &str) -> Result<Vec<Queued>, Error> {
    let sql = "SELECT model, CAST(SUM(queued_tokens) AS BIGINT) AS tokens, COUNT(*) FROM batches \
               WHERE ended_at IS NULL AND organization = $1 \
               GROUP BY model ORDER BY tokens DESC, model LIMIT 1000";
    let rows = database.query(Statement::new(sql, [organization.into()])).await?;
    let read = |row: &Row| {
        Ok(Queued { model: row.text(0)?, tokens: row.count(1)?, batches: row.count(2)? })
    };
    rows.iter().map(read).collect()
}

/// The queue of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Queued {
    pub model: Box<str>,
    pub tokens: u64,
    pub batches: u64,
}

/// Leases the oldest unfinished batch that no other node holds, until that moment. The owner renews
/// the lease before it expires.
///
/// # Errors
/// See [`Error`].
pub async fn claim(
    database: &Database,
    owner: &str,
    until: Micros,
    now: Micros,
) -> Result<Option<Batch>, Error> {
    let sql = format!(
        "UPDATE batches SET lease_owner = $1, lease_until = $2 WHERE id = \
         (SELECT id FROM batches WHERE ended_at IS NULL AND (lease_until < $3 OR lease_until > $4) \
         ORDER BY id LIMIT 1) AND (lease_until < $3 OR lease_until > $4) AND ended_at IS NULL \
         RETURNING {COLUMNS}"
    );
    let ahead = now.saturating_add(FAR_AHEAD);
    let values = vec![owner.into(), until.into(), now.into(), ahead.into()];
    let done = database.transact(vec![Statement::composed(sql, values)]).await?;
    done.first().and_then(|done| done.rows.first()).map(read).transpose()
}

/// Extends the lease of a batch; a moment in the past releases it. Returns `None` if another node
/// holds the batch, or it has ended.
///
/// # Errors
/// See [`Error`].
pub async fn renew(
    database: &Database,
    id: &str,
    owner: &str,
    until: Micros,
) -> Result<Option<()>, Error> {
    let update = Statement::new(
        "UPDATE batches SET lease_until = $1 \
         WHERE id = $2 AND lease_owner = $3 AND ended_at IS NULL",
        [until.into(), id.into(), owner.into()],
    );
    found(database.transact(vec![update.expecting(1)]).await.map(drop))
}

/// Further values that are set when a state begins.
#[derive(Clone, Debug, Default)]
pub struct Outcome<'a> {
    /// The file with the answers.
    pub output_file: Option<&'a str>,
    /// The file with the errors.
    pub error_file: Option<&'a str>,
    /// JSON: the list of errors of a failed batch.
    pub errors: Option<&'a str>,
}

/// Moves a batch from one of the states `from` to `to`. Returns `None` if it is in another state.
///
/// # Errors
/// See [`Error`].
pub async fn advance(
    database: &Database,
    id: &str,
    from: &[Status],
    to: Status,
    outcome: &Outcome<'_>,
    at: i64,
) -> Result<Option<()>, Error> {
    let from: Vec<String> = from.iter().map(|status| format!("'{}'", status.name())).collect();
    let moment = to.moment().map(|column| format!(", {column} = $2")).unwrap_or_default();
    let sql = format!(
        "UPDATE batches SET status = $1, output_file = COALESCE($3, output_file), \
         error_file = COALESCE($4, error_file), errors = COALESCE($5, errors){moment} \
         WHERE id = $6 AND status IN ({}) AND $2 >= 0",
        from.join(", ")
    );
    let values = vec![
        to.name().into(),
        at.into(),
        outcome.output_file.into(),
        outcome.error_file.into(),
        outcome.errors.into(),
        id.into(),
    ];
    let update = Statement::composed(sql, values).expecting(1);
    found(database.transact(vec![update]).await.map(drop))
}

fn read(row: &Row) -> Result<Batch, Error> {
    let status = row.text(9)?;
    let status = Status::ALL.into_iter().find(|known| known.name() == &*status);
    let unknown = || Error::failed("a batch is in an unknown state");
    Ok(Batch {
        id: row.text(0)?,
        organization: row.text(1)?,
        project: row.text(2)?,
        key: row.text(3)?,
        endpoint: row.text(4)?,
        model: row.text(5)?,
        input_file: row.text(6)?,
        output_file: row.optional_text(7)?,
        error_file: row.optional_text(8)?,
        status: status.ok_or_else(unknown)?,
        metadata: row.optional_text(10)?,
        errors: row.optional_text(11)?,
        queued_tokens: row.count(12)?,
        total: row.count(13)?,
        completed: row.count(14)?,
        failed: row.count(15)?,
        created_at: row.integer(16)?,
        expires_at: row.integer(17)?,
        in_progress_at: row.optional_integer(18)?,
        finalizing_at: row.optional_integer(19)?,
        cancelling_at: row.optional_integer(20)?,
        ended_at: row.optional_integer(21)?,
        output_expires_after: row.optional_integer(22)?,
        expiring_at: row.optional_integer(23)?,
        usage: Usage {
            input_tokens: row.count(24)?,
            cached_tokens: row.count(25)?,
            output_tokens: row.count(26)?,
            reasoning_tokens: row.count(27)?,
        },
    })
}
