//! What can go wrong in the store, told so that a person knows which file it is about and what to
//! do next. Nothing here decides what a client of the server is told.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::ErrorCode;
use rusqlite::ffi;

/// A failed operation of the store. Cheap to clone: one failed group commit answers many callers.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The disk (or the page quota of the open options) has no room left.
    #[error("no space left to write {}; free some disk space, then try again", path.display())]
    Full {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// Another process held the write lock for longer than the busy timeout.
    #[error("{} is locked by another process; try again, or stop the process that holds it", path.display())]
    Busy {
        /// The database file.
        path: PathBuf,
    },
    /// The file is damaged or is no database.
    #[error(
        "{} is damaged or is not a thread database ({detail}). The next server that has it alone \
         saves what can be read of it and keeps the damaged file: restart all servers of this home; \
         `agentd doctor` looks closer",
        path.display()
    )]
    Corrupt {
        /// The database file.
        path: PathBuf,
        /// SQLite's own words.
        detail: String,
    },
    /// Something that is no file stands where the database or its lock should be.
    #[error("{} is {what}; move it away, or set `sqlite_home` to another folder", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What is there, for people.
        what: &'static str,
    },
    /// A file of the database was deleted, replaced or truncated while it was open.
    #[error("{} {what} while a server has it open: nothing more is stored. {advice}", path.display())]
    FilesChanged {
        /// The file.
        path: PathBuf,
        /// What happened to it, for people.
        what: &'static str,
        /// Where the data is, and what to do.
        advice: String,
    },
    /// The file is a database of another program.
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
    /// An older program has the file open, which is to be brought up to date.
    #[error(
        "{} is of an older version and in use by {holders}; end that first, then it is brought up to \
         date",
        path.display()
    )]
    OlderInUse {
        /// The database file.
        path: PathBuf,
        /// Who has it open, for people.
        holders: String,
    },
    /// The program is linked with an SQLite that can lose writes of several processes.
    #[error(
        "SQLite {found} is linked, {needed} or later is needed; rebuild with the bundled SQLite"
    )]
    SqliteTooOld {
        /// Version that is linked.
        found: &'static str,
        /// Oldest version that will do.
        needed: &'static str,
    },
    /// A file or folder of the store could not be used.
    #[error("cannot {action} {}: {source}{}", path.display(), advice(source))]
    Io {
        /// What was tried, as a verb: "create", "lock".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: Arc<io::Error>,
    },
    /// SQLite failed in a way that has no kind of its own here.
    #[error("cannot use {}: {source}", path.display())]
    Sqlite {
        /// The database file.
        path: PathBuf,
        /// The cause.
        source: Arc<rusqlite::Error>,
    },
    /// The owner name of the open options cannot be a file name, or is taken.
    #[error("owner name `{owner}` {reason}; give every open store a unique name such as a UUID")]
    BadOwner {
        /// The name as given.
        owner: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// No such thread.
    #[error("thread {thread} is not stored")]
    ThreadNotFound {
        /// Id of the thread.
        thread: String,
    },
    /// The thread has no such turn.
    #[error("turn {turn} is not stored in thread {thread}")]
    TurnNotFound {
        /// Id of the thread.
        thread: String,
        /// Id of the turn.
        turn: String,
    },
    /// A thread with this id is stored already.
    #[error("thread {thread} is stored already")]
    ThreadExists {
        /// Id of the thread.
        thread: String,
    },
    /// The thread has a turn with this id already.
    #[error("turn {turn} is stored already in thread {thread}")]
    TurnExists {
        /// Id of the thread.
        thread: String,
        /// Id of the turn.
        turn: String,
    },
    /// The turn has its final status already; a turn ends once.
    #[error("turn {turn} of thread {thread} has ended already")]
    TurnFinished {
        /// Id of the thread.
        thread: String,
        /// Id of the turn.
        turn: String,
    },
    /// Another open store has the thread.
    #[error("thread {thread} is open in another server ({holder}); use that one, or end it first")]
    Leased {
        /// Id of the thread.
        thread: String,
        /// Who has it, for people.
        holder: String,
    },
    /// The store does not have the thread's lease, without which it may not write to it.
    #[error("thread {thread} is not open for writing; resume it first")]
    NotLeased {
        /// Id of the thread.
        thread: String,
    },
    /// A turn of the thread has not ended.
    #[error("a turn of thread {thread} is still running; wait for its end, or interrupt it")]
    TurnInFlight {
        /// Id of the thread.
        thread: String,
    },
    /// The thread has fewer turns than are to be dropped.
    #[error("thread {thread} has {has} turns, {asked} cannot be dropped")]
    TooFewTurns {
        /// Id of the thread.
        thread: String,
        /// How many were to go.
        asked: u32,
        /// How many there are.
        has: i64,
    },
    /// A cursor that no page of this list gave out.
    #[error(
        "`cursor`: `{cursor}` was not given out by this list with these filters; use one that a \
         page of it returned, or begin without one"
    )]
    BadCursor {
        /// The cursor as given.
        cursor: String,
    },
    /// A thread or turn has as many parts as can be numbered.
    #[error("{what} has reached its limit of {limit}; start a new thread")]
    TooMany {
        /// What is full: a thread's turns, a turn's items …
        what: &'static str,
        /// The limit.
        limit: i64,
    },
    /// The store was closed.
    #[error("the thread store is closed")]
    Closed,
}

/// What to do about a file that cannot be used, where it helps to say so.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; let this user read and write it, or set AGENT_HOME or `sqlite_home` to another folder"
        }
        _ => "",
    }
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::StorageFull {
            return Self::Full { path: path.to_owned() };
        }
        Self::Io { action, path: path.to_owned(), source: Arc::new(source) }
    }
}

/// An error on its way up: SQLite's errors get their path where the connection is known.
#[derive(Debug)]
pub(crate) enum Failure {
    Sql(rusqlite::Error),
    /// What a row says cannot be.
    Damaged(rusqlite::Error),
    Store(StoreError),
}

impl Failure {
    /// The error as callers see it, about the database at `path`.
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
            // The shared index beside the log could not grow: the way a full disk looks from there.
            return StoreError::Full { path };
        }
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { path },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                StoreError::Corrupt { path, detail: source.to_string() }
            }
            _ => StoreError::Sqlite { path, source: Arc::new(source) },
        }
    }

    /// Whether the database is damaged.
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

    /// Whether the connection that failed should be replaced before it is used again.
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

/// Whether a value is not what its column holds: nobody stored it like this.
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
