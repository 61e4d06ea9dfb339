//! Errors of the files and of SQLite, and how they read as those of a store.

use std::io;
use std::path::Path;

use rusqlite::ErrorCode;
use rusqlite::ffi;

use crate::StoreError;
use crate::error::Fault;

impl StoreError {
    /// A file or folder of the store cannot be used. `action` is a verb such as "create" or "lock".
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::StorageFull {
            return full(path);
        }
        let text = format!("cannot {action} {}: {source}{}", path.display(), advice(&source));
        Self::Unavailable(Fault::new(text).caused_by(source))
    }

    /// The database or its lock is `what` in place of a regular file.
    pub(crate) fn not_a_file(path: &Path, what: &str) -> Self {
        let path = path.display();
        Self::Foreign(Fault::new(format!(
            "{path} is {what}; move it away, or set `sqlite_home` to another folder"
        )))
    }

    /// The file is the database of another program.
    pub(crate) fn foreign(path: &Path) -> Self {
        Self::Foreign(Fault::new(format!(
            "{} is another program's database; set `sqlite_home` to a folder of your own, or move the \
             file away",
            path.display()
        )))
    }

    /// `what` happened to a file of the database while it was open.
    pub(crate) fn files_changed(path: &Path, what: &str, advice: &str) -> Self {
        let path = path.display();
        Self::TakenAway(Fault::new(format!(
            "{path} {what} while a server has it open: nothing is stored from now on. {advice}"
        )))
    }

    /// The file is damaged, or is not a database.
    pub(crate) fn corrupt(path: &Path, detail: &str) -> Self {
        damaged(path, Detail(detail.to_owned()))
    }

    /// The file was written by a later version of this program.
    pub(crate) fn newer_schema(path: &Path, found: i64, known: i64) -> Self {
        Self::Newer(Fault::new(format!(
            "{} has schema version {found}, this program knows versions up to {known}; use the newer \
             program, or another home folder",
            path.display()
        )))
    }

    /// A program that does not know the new schema has the file open, so it cannot be migrated.
    pub(crate) fn older_in_use(path: &Path, holders: &str) -> Self {
        Self::OlderInUse(Fault::new(format!(
            "{} has an older schema and is in use by {holders}; stop that first, then the schema is \
             updated",
            path.display()
        )))
    }

    /// The linked version of SQLite can lose writes of concurrent processes.
    pub(crate) fn sqlite_too_old(found: &str, needed: &str) -> Self {
        Self::Unavailable(Fault::new(format!(
            "SQLite {found} is linked, but {needed} or later is required; rebuild with the bundled SQLite"
        )))
    }
}

impl Fault {
    /// The detail of damage.
    pub(crate) fn detail(&self) -> String {
        self.cause().map_or_else(|| self.to_string(), ToString::to_string)
    }

    /// Returns whether it is an error of SQLite that has no kind of its own.
    pub(crate) fn is_of_sqlite(&self) -> bool {
        self.cause().is_some_and(|cause| cause.is::<rusqlite::Error>())
    }
}

/// The detail of damage, as the cause of a [`Fault`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Detail(String);

fn damaged(path: &Path, cause: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    let text = format!(
        "{} is damaged or is not a thread database ({cause}); end every server of this home and start \
         one: it copies what can be read into a new database and keeps the damaged file",
        path.display()
    );
    StoreError::Damaged(Fault::new(text).caused_by(cause))
}

fn full(path: &Path) -> StoreError {
    let path = path.display();
    StoreError::Full(Fault::new(format!(
        "no space left to write {path}; free some disk space, then try again"
    )))
}

fn busy(path: &Path) -> StoreError {
    let path = path.display();
    StoreError::Unavailable(Fault::new(format!(
        "{path} is locked by another process; try again, or stop the process that holds it"
    )))
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
            Self::Damaged(source) => return damaged(path, source),
            Self::Sql(source) if is_unreadable(&source) => return damaged(path, source),
            Self::Sql(source) => source,
        };
        if source.sqlite_extended_error_code() == Some(ffi::SQLITE_IOERR_SHMSIZE) {
            // A full disk, where the shared index of the log could not grow.
            return full(path);
        }
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => full(path),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => busy(path),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => damaged(path, source),
            _ => {
                let text = format!("cannot use {}: {source}", path.display());
                StoreError::Unavailable(Fault::new(text).caused_by(source))
            }
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
            Self::Store(error) => matches!(error, StoreError::Damaged(_)),
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
