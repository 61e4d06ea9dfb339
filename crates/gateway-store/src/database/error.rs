//! Why a call to the store has no result, and how errors of the two backends map to the causes.

use rusqlite::ErrorCode;

/// Why a call failed.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum DatabaseError {
    /// The store is unreachable, too slow or overloaded. A change in progress may have been made.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The statement of that index did not affect the expected number of rows; nothing was changed.
    #[error("statement {0} of a transaction did not affect the expected rows")]
    Unmet(usize),
    /// The row exists already, or a row that it refers to is missing.
    #[error("the store rejects a row: {0}")]
    Conflict(String),
    /// Any other error: in the statement, the file or its contents.
    #[error("the store reports an error: {0}")]
    Failed(String),
    /// A later version of the program wrote the store.
    #[error(
        "the store has version {found}, and this program supports up to {known}; run the newer program, or restore a backup"
    )]
    Newer {
        /// Schema version of the store.
        found: i64,
        /// Schema version of this program.
        known: i64,
    },
}

impl DatabaseError {
    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

/// Classifies an error of SQLite.
pub(super) fn sqlite_error(error: rusqlite::Error) -> DatabaseError {
    let rusqlite::Error::SqliteFailure(failure, _) = &error else {
        return DatabaseError::Failed(error.to_string());
    };
    match failure.code {
        ErrorCode::ConstraintViolation => DatabaseError::Conflict(error.to_string()),
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::OperationInterrupted
        | ErrorCode::SystemIoFailure
        | ErrorCode::DiskFull
        | ErrorCode::OutOfMemory
        | ErrorCode::ReadOnly
        | ErrorCode::PermissionDenied
        | ErrorCode::CannotOpen => DatabaseError::Unavailable(error.to_string()),
        _ => DatabaseError::Failed(error.to_string()),
    }
}
