//! Why a call to the store has no result, and what errors of the two backends mean.

use rusqlite::ErrorCode;

/// What a call answers instead.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum DatabaseError {
    /// It is away, too slow, or has too much to do. A change that was under way may have happened.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The statement of that index did not touch as many rows as expected: nothing was changed.
    #[error("statement {0} of a transaction did not affect the expected rows")]
    Unmet(usize),
    /// There is such a row already, or one that is referred to is missing.
    #[error("the store rejects a row: {0}")]
    Conflict(String),
    /// Anything else: the statement, the file or its contents are wrong.
    #[error("the store reports an error: {0}")]
    Failed(String),
    /// A later version has written it.
    #[error(
        "the store has version {found}, and this program supports up to {known}; run the newer program, or restore a backup"
    )]
    Newer {
        /// The store's.
        found: i64,
        /// Ours.
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

/// What an error of SQLite means.
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
