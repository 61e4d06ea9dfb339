//! Files that live in the gateway: what batches read and write. Contents are kept in chunks, so
//! that neither side ever holds a whole file. A file can be read once it is complete.

use super::found;
use super::page::{self, Listed, Page, Source};
use crate::database::{Database, DatabaseError, Row, Statement};

const COLUMNS: &str = "id, project, purpose, filename, bytes, created_at, expires_at";
/// Largest chunk, in bytes.
pub const CHUNK: usize = 256 << 10;

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// `file-…`.
    pub id: Box<str>,
    /// Whose it is.
    pub project: Box<str>,
    /// `batch` or `batch_output`.
    pub purpose: Box<str>,
    /// As it was uploaded.
    pub filename: Box<str>,
    /// Its size.
    pub bytes: u64,
    /// Unix seconds.
    pub created_at: i64,
    /// Unix seconds; from then on it is gone.
    pub expires_at: Option<i64>,
}

/// Begins a file, without contents.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn insert(database: &Database, file: &File) -> Result<(), DatabaseError> {
    let insert = Statement::new(
        "INSERT INTO files (id, project, purpose, filename, bytes, complete, created_at, \
         expires_at) VALUES ($1, $2, $3, $4, 0, 0, $5, $6)",
        [
            (&file.id).into(),
            (&file.project).into(),
            (&file.purpose).into(),
            (&file.filename).into(),
            file.created_at.into(),
            file.expires_at.into(),
        ],
    );
    database.transact(vec![insert]).await.map(drop)
}

/// Adds at most [`CHUNK`] bytes behind the first `start`. Doing it again does nothing. `None`: the
/// file is gone or complete.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn append(
    database: &Database,
    id: &str,
    start: u64,
    data: &[u8],
) -> Result<Option<()>, DatabaseError> {
    let size = start.saturating_add(data.len() as u64);
    let statements = vec![
        Statement::new(
            "UPDATE files SET bytes = $1 WHERE id = $2 AND complete = 0 AND bytes IN ($1, $3)",
            [size.into(), id.into(), start.into()],
        )
        .expecting(1),
        Statement::new(
            "INSERT INTO file_chunks (file, start, data) VALUES ($1, $2, $3) \
             ON CONFLICT (file, start) DO NOTHING",
            [id.into(), start.into(), data.into()],
        ),
    ];
    found(database.transact(statements).await.map(drop))
}

/// Says that all of it is there. `None`: it is gone.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn complete(database: &Database, id: &str) -> Result<Option<()>, DatabaseError> {
    let update = Statement::new("UPDATE files SET complete = 1 WHERE id = $1", [id.into()]);
    found(database.transact(vec![update.expecting(1)]).await.map(drop))
}

/// A project's complete file of that id.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn get(
    database: &Database,
    project: &str,
    id: &str,
    now: i64,
) -> Result<Option<File>, DatabaseError> {
    let sql = "SELECT id, project, purpose, filename, bytes, created_at, expires_at FROM files \
               WHERE id = $1 AND project = $2 AND complete = 1 AND COALESCE(expires_at, $3) >= $3";
    let values = [id.into(), project.into(), now.into()];
    let rows = database.query(Statement::new(sql, values)).await?;
    rows.first().map(read).transpose()
}

/// A part of a project's complete files, of one purpose if given.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn list(
    database: &Database,
    project: &str,
    purpose: Option<Purpose>,
    page: &Page,
) -> Result<Listed<File>, DatabaseError> {
    let condition = match purpose {
        None => "project = $1 AND complete = 1",
        Some(Purpose::Batch) => "project = $1 AND complete = 1 AND purpose = 'batch'",
        Some(Purpose::BatchOutput) => "project = $1 AND complete = 1 AND purpose = 'batch_output'",
    };
    let value = project.into();
    let source = Source { columns: COLUMNS, table: "files", condition, key: "id", value };
    page::list(database, source, page, read).await
}

/// What files of the gateway are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Input of a batch.
    Batch,
    /// Output and errors of a batch.
    BatchOutput,
}

impl Purpose {
    /// As on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::BatchOutput => "batch_output",
        }
    }
}

/// The chunk that holds the byte at `start`, from there on. `None`: the file ends there.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn read_at(
    database: &Database,
    id: &str,
    start: u64,
) -> Result<Option<Box<[u8]>>, DatabaseError> {
    let sql = "SELECT start, data FROM file_chunks WHERE file = $1 AND start <= $2 \
               ORDER BY start DESC LIMIT 1";
    let rows = database.query(Statement::new(sql, [id.into(), start.into()])).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let within = usize::try_from(start - row.count(0)?).unwrap_or(usize::MAX);
    Ok(row.bytes(1)?.get(within..).filter(|rest| !rest.is_empty()).map(Into::into))
}

/// Deletes a project's file. `None`: there is no such one.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn delete(
    database: &Database,
    project: &str,
    id: &str,
) -> Result<Option<()>, DatabaseError> {
    let sql = "DELETE FROM files WHERE id = $1 AND project = $2";
    let statements = vec![
        Statement::new(sql, [id.into(), project.into()]).expecting(1),
        Statement::new("DELETE FROM file_chunks WHERE file = $1", [id.into()]),
    ];
    found(database.transact(statements).await.map(drop))
}

/// Deletes a few files that have expired, and some whose upload ended in the middle a day ago.
/// Says how many.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn prune(database: &Database, now: i64) -> Result<usize, DatabaseError> {
    let expired = "SELECT id, project FROM files WHERE expires_at < $1 LIMIT 16";
    let torn = "SELECT id, project FROM files WHERE complete = 0 AND created_at < $1 LIMIT 16";
    let mut pruned = 0;
    for (sql, before) in [(expired, now), (torn, now - 86_400)] {
        let rows = database.query(Statement::new(sql, [before.into()])).await?;
        for row in &rows {
            delete(database, &row.text(1)?, &row.text(0)?).await?;
        }
        pruned += rows.len();
    }
    Ok(pruned)
}

/// How far a file was written: its bytes, and whether that is all of it. `None`: it is gone.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn progress(database: &Database, id: &str) -> Result<Option<(u64, bool)>, DatabaseError> {
    let sql = "SELECT bytes, complete FROM files WHERE id = $1";
    let rows = database.query(Statement::new(sql, [id.into()])).await?;
    rows.first().map(|row| Ok((row.count(0)?, row.boolean(1)?))).transpose()
}

fn read(row: &Row) -> Result<File, DatabaseError> {
    Ok(File {
        id: row.text(0)?,
        project: row.text(1)?,
        purpose: row.text(2)?,
        filename: row.text(3)?,
        bytes: row.count(4)?,
        created_at: row.integer(5)?,
        expires_at: row.optional_integer(6)?,
    })
}
