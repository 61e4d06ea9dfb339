//! Files that the gateway stores: input and output of batches. Contents are stored in chunks, so
//! that no side ever holds a whole file. A file can be read once it is complete.

use super::found;
use super::page::{self, Listed, Page, Source};
use crate::Error;
use crate::database::{Database, Row, Statement};

const COLUMNS: &str = "id, project, purpose, filename, bytes, created_at, expires_at";
/// Largest chunk, in bytes.
pub const CHUNK: usize = 256 << 10;

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// `file-…`.
    pub id: Box<str>,
    /// Id of its project.
    pub project: Box<str>,
    /// `batch` or `batch_output`.
    pub purpose: Box<str>,
    /// The file name given at upload.
    pub filename: Box<str>,
    /// Its size in bytes.
    pub bytes: u64,
    /// Unix seconds.
    pub created_at: i64,
    /// Expiry in Unix seconds.
    pub expires_at: Option<i64>,
}

/// Creates an incomplete, empty file.
///
/// # Errors
/// See [`Error`].
pub async fn insert(database: &Database, file: &File) -> Result<(), Error> {
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

/// Appends at most [`CHUNK`] bytes at offset `start`. Idempotent. Returns `None` if the file is
/// deleted or complete.
///
/// # Errors
/// See [`Error`].
pub async fn append(
    database: &Database,
    id: &str,
    start: u64,
    data: &[u8],
) -> Result<Option<()>, Error> {
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

/// Marks the file as complete. Returns `None` if it is deleted.
///
/// # Errors
/// See [`Error`].
pub async fn complete(database: &Database, id: &str) -> Result<Option<()>, Error> {
    let update = Statement::new("UPDATE files SET complete = 1 WHERE id = $1", [id.into()]);
    found(database.transact(vec![update.expecting(1)]).await.map(drop))
}

/// A project's complete file of that id.
///
/// # Errors
/// See [`Error`].
pub async fn get(
    database: &Database,
    project: &str,
    id: &str,
    now: i64,
) -> Result<Option<File>, Error> {
    let sql = "SELECT id, project, purpose, filename, bytes, created_at, expires_at FROM files \
               WHERE id = $1 AND project = $2 AND complete = 1 AND COALESCE(expires_at, $3) >= $3";
    let values = [id.into(), project.into(), now.into()];
    let rows = database.query(Statement::new(sql, values)).await?;
    rows.first().map(read).transpose()
}

/// A page of a project's complete files, of one purpose if given.
///
/// # Errors
/// See [`Error`].
pub async fn list(
    database: &Database,
    project: &str,
    purpose: Option<Purpose>,
    page: &Page,
) -> Result<Listed<File>, Error> {
    let condition = match purpose {
        None => "project = $1 AND complete = 1",
        Some(Purpose::Batch) => "project = $1 AND complete = 1 AND purpose = 'batch'",
        Some(Purpose::BatchOutput) => "project = $1 AND complete = 1 AND purpose = 'batch_output'",
    };
    let value = project.into();
    let source = Source { columns: COLUMNS, table: "files", condition, key: "id", value };
    page::list(database, source, page, read).await
}

/// The purposes of stored files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Input of a batch.
    Batch,
    /// Output and errors of a batch.
    BatchOutput,
}

impl Purpose {
    /// The name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::BatchOutput => "batch_output",
        }
    }
}

/// The chunk with the byte at `start`, from that byte on. Returns `None` at the end of the file.
///
/// # Errors
/// See [`Error`].
pub async fn read_at(
    database: &Database,
    id: &str,
    start: u64,
) -> Result<Option<Box<[u8]>>, Error> {
    let sql = "SELECT start, data FROM file_chunks WHERE file = $1 AND start <= $2 \
               ORDER BY start DESC LIMIT 1";
    let rows = database.query(Statement::new(sql, [id.into(), start.into()])).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let within = usize::try_from(start - row.count(0)?).unwrap_or(usize::MAX);
    Ok(row.bytes(1)?.get(within..).filter(|rest| !rest.is_empty()).map(Into::into))
}

/// Deletes a project's file. Returns `None` if no file has that id.
///
/// # Errors
/// See [`Error`].
pub async fn delete(database: &Database, project: &str, id: &str) -> Result<Option<()>, Error> {
    let sql = "DELETE FROM files WHERE id = $1 AND project = $2";
    let statements = vec![
        Statement::new(sql, [id.into(), project.into()]).expecting(1),
        Statement::new("DELETE FROM file_chunks WHERE file = $1", [id.into()]),
    ];
    found(database.transact(statements).await.map(drop))
}

/// Deletes some files that have expired, and some whose upload was abandoned a day ago. Returns
/// their number.
///
/// # Errors
/// See [`Error`].
pub async fn prune(database: &Database, now: i64) -> Result<usize, Error> {
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

/// Returns the progress of writing a file: its bytes, and whether it is complete. Returns `None` if
/// it is deleted.
///
/// # Errors
/// See [`Error`].
pub async fn progress(database: &Database, id: &str) -> Result<Option<(u64, bool)>, Error> {
    let sql = "SELECT bytes, complete FROM files WHERE id = $1";
    let rows = database.query(Statement::new(sql, [id.into()])).await?;
    rows.first().map(|row| Ok((row.count(0)?, row.boolean(1)?))).transpose()
}

fn read(row: &Row) -> Result<File, Error> {
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
