//! Classifies errors of SQLite.

use rusqlite::ErrorCode;

use crate::{Error, ErrorKind};

pub(super) fn sqlite_error(error: rusqlite::Error) -> Error {
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation) => ErrorKind::Conflict,
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::OperationInterrupted
            | ErrorCode::SystemIoFailure
            | ErrorCode::DiskFull
            | ErrorCode::OutOfMemory
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::CannotOpen,
        ) => ErrorKind::Unavailable,
        _ => ErrorKind::Failed,
    };
    Error::new(kind).caused_by(error)
}
