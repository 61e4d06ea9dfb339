//! The error of this crate: what failed, in which file, and what to do next.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::ErrorCode;
use rusqlite::ffi;

/// Why an operation of the store failed. Cheap to clone: a failed group commit fails many callers.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The disk is full, or the page quota of the open options is reached.
    #[error("no space left to write {}; free some disk space, then try again", path.display())]
    Full {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// Another process holds the write lock for longer than the busy timeout.
    #[error("{} is locked by another process; try again, or stop the process that holds it", path.display())]
    Busy {
        /// The database file.
        path: PathBuf,
    },
    /// The file is damaged, or is not a database.
    #[error(
        "{} is damaged or is not a thread database ({detail}); end every server of this home and start \
         one: it copies what can be read into a new database and keeps the damaged file",
        path.display()
    )]
    Corrupt {
        /// The database file.
        path: PathBuf,
        /// SQLite's message.
        detail: String,
    },
    /// The database or its lock is not a regular file.
    #[error("{} is {what}; move it away, or set `sqlite_home` to another folder", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// The kind of the file.
        what: &'static str,
    },
    /// A file of the database was deleted, replaced or truncated while it was open.
    #[error("{} {what} while a server has it open: nothing is stored from now on. {advice}", path.display())]
    FilesChanged {
        /// The file.
        path: PathBuf,
        /// The event that concerned it.
        what: &'static str,
        /// Where the data is, and what to do.
        advice: String,
    },
    /// The file is the database of another program.
    #[error(
        "{} is another program's database; set `sqlite_home` to a folder of your own, or move the \
         file away",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a later version of this program.
    #[error(
        "{} has schema version {found}, this program knows versions up to {known}; \
         use the newer program, or another home folder",
        path.display()
    )]
    NewerSchema {
        /// The database file.
        path: PathBuf,
        /// Version in the file.
        found: i64,
        /// Latest version that this program can read.
        known: i64,
    },
    /// A program that does not know the new schema has the file open, so it cannot be migrated.
    #[error(
        "{} has an older schema and is in use by {holders}; stop that first, then the schema is \
         updated",
        path.display()
    )]
    OlderInUse {
        /// The database file.
        path: PathBuf,
        /// The processes that have it open.
        holders: String,
    },
    /// The linked version of SQLite can lose writes of concurrent processes.
    #[error(
        "SQLite {found} is linked, but {needed} or later is required; rebuild with the bundled SQLite"
    )]
    SqliteTooOld {
        /// The linked version.
        found: &'static str,
        /// The oldest version that works.
        needed: &'static str,
    },
    /// A file or folder of the store cannot be used.
    #[error("cannot {action} {}: {cause}{}", path.display(), advice(cause))]
    Io {
        /// The operation that failed, as a verb such as "create" or "lock".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        cause: Arc<io::Error>,
    },
    /// Another error of SQLite.
    #[error("cannot use {}: {cause}", path.display())]
    Sqlite {
        /// The database file.
        path: PathBuf,
        /// The cause.
        cause: Arc<rusqlite::Error>,
    },
    /// The owner name of the open options is not a valid file name, or in use.
    #[error("owner name `{owner}` {reason}; give every open store a unique name such as a UUID")]
    BadOwner {
        /// The name.
        owner: String,
        /// The fault.
        reason: &'static str,
    },
    /// The thread does not exist.
    #[error("thread {thread} is not stored")]
    ThreadNotFound {
        /// Id of the thread.
        thread: String,
    },
    /// The thread does not have the turn.
    #[error("turn {turn} is not stored in thread {thread}")]
    TurnNotFound {
        /// Id of the thread.
        thread: String,
        /// Id of the turn.
        turn: String,
    },
    /// A thread with this id exists.
    #[error("thread {thread} is already stored")]
    ThreadExists {
        /// Id of the thread.
        thread: String,
    },
    /// The thread has a turn with this id.
    #[error("turn {turn} is already stored in thread {thread}")]
    TurnExists {
        /// Id of the thread.
        thread: String,
        /// Id of the turn.
        turn: String,
    },
    /// The turn has ended; it cannot end again.
    #[error("turn {turn} of thread {thread} has already ended")]
    TurnFinished {
        /// Id of the thread.
        thread: String,
        /// Id of the turn.
        turn: String,
    },
    /// Another open store holds the thread's lease.
    #[error(
        "thread {thread} is open in another server ({holder}); use that server, or stop it first"
    )]
    Leased {
        /// Id of the thread.
        thread: String,
        /// The process that holds it.
        holder: String,
    },
    /// The store does not hold the thread's lease, which writing requires.
    #[error("thread {thread} is not open for writing; resume it first")]
    NotLeased {
        /// Id of the thread.
        thread: String,
    },
    /// A turn of the thread is in progress.
    #[error("a turn of thread {thread} is still running; wait for its end, or interrupt it")]
    TurnInFlight {
        /// Id of the thread.
        thread: String,
    },
    /// The thread has fewer turns than the rollback drops.
    #[error("thread {thread} has {}", too_few(*asked, *has))]
    TooFewTurns {
        /// Id of the thread.
        thread: String,
        /// Number of turns to drop.
        asked: u32,
        /// Number of turns of the thread.
        has: i64,
    },
    /// The thread has no such job.
    #[error("job {job} does not belong to the thread")]
    JobNotFound {
        /// Key of the job.
        job: i64,
    },
    /// The row of a job has its end, or another worker.
    #[error("row {number} of the job has already ended or been taken")]
    JobItemEnded {
        /// Number of the row.
        number: u32,
    },
    /// The cursor is not one of this list.
    #[error(
        "`cursor`: `{cursor}` is not a cursor of this list with these filters; use one that a page of \
         it returned, or start without one"
    )]
    BadCursor {
        /// The cursor.
        cursor: String,
    },
    /// A thread or a turn has the largest number of parts.
    #[error("{what} has reached its limit of {limit}; start a new thread")]
    TooMany {
        /// The full thing, such as a thread's turns or a turn's items.
        what: &'static str,
        /// The limit.
        limit: i64,
    },
    /// A line of an imported thread is invalid.
    #[error("line {line}: {why}")]
    ImportLine {
        /// From 1.
        line: usize,
        /// The fault.
        why: String,
    },
    /// The lines of a thread cannot be read or written.
    #[error("cannot read or write the lines of the thread: {0}")]
    Transfer(Arc<io::Error>),
    /// The store is closed.
    #[error("the thread store is closed; restart the server")]
    Closed,
}

/// Returns advice about a file that cannot be used.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; allow this user to read and write it, or set AGENT_HOME or `sqlite_home` to another folder"
        }
        _ => "",
    }
}

/// Why turns cannot be dropped from a thread with fewer, and how many can.
fn too_few(asked: u32, has: i64) -> String {
    match has {
        0 => "no turns, so there is nothing to drop".to_owned(),
        1 => format!("only 1 turn, so {asked} cannot be dropped; drop 1"),
        _ => format!("only {has} turns, so {asked} cannot be dropped; drop at most {has}"),
    }
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::StorageFull {
            return Self::Full { path: path.to_owned() };
        }
        Self::Io { action, path: path.to_owned(), cause: Arc::new(source) }
    }
}

/// An error inside of the crate. An error of SQLite gets the path of the database from
/// [`Failure::at`].
#[derive(Debug)]
pub(crate) enum Failure {
    Sql(rusqlite::Error),
    /// A row has an impossible value.
    Damaged(rusqlite::Error),
    Store(StoreError),
}

impl Failure {
    /// The public error, about the database at `path`.
    pub(crate) fn at(self, path: &Path) -> StoreError {
        let source = match self {
            Self::Store(error) => return error,
            Self::Damaged(source) => {
                let (path, detail) = (path.to_owned(), source.to_string());
                return StoreError::Corrupt { path, detail };
            }
            Self::Sql(source) if is_unreadable(&source) => {
                let (path, detail) = (path.to_owned(), source.to_string());
                return StoreError::Corrupt { path, detail };
            }
            Self::Sql(source) => source,
        };
        let path = path.to_owned();
        if source.sqlite_extended_error_code() == Some(ffi::SQLITE_IOERR_SHMSIZE) {
            // A full disk, where the shared index of the log could not grow.
            return StoreError::Full { path };
        }
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { path },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                StoreError::Corrupt { path, detail: source.to_string() }
            }
            _ => StoreError::Sqlite { path, cause: Arc::new(source) },
        }
    }

    /// Returns whether the error shows damage of the database.
    pub(crate) fn shows_damage(&self) -> bool {
        match self {
            Self::Damaged(_) => true,
            Self::Sql(source) if is_unreadable(source) => true,
            Self::Sql(source) => matches!(
                source.sqlite_error_code(),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
            ),
            Self::Store(error) => matches!(error, StoreError::Corrupt { .. }),
        }
    }

    /// Returns whether the connection must be replaced before it is used again.
    pub(crate) fn taints_connection(&self) -> bool {
        let Self::Sql(source) = self else { return false };
        matches!(
            source.sqlite_error_code(),
            Some(
                ErrorCode::SystemIoFailure
                    | ErrorCode::DatabaseCorrupt
                    | ErrorCode::NotADatabase
                    | ErrorCode::CannotOpen
                    | ErrorCode::OutOfMemory
            )
        )
    }
}

/// Returns whether a value has a type that is never stored in its column.
fn is_unreadable(error: &rusqlite::Error) -> bool {
    use rusqlite::Error;
    matches!(
        error,
        Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::Utf8Error(..)
    )
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
