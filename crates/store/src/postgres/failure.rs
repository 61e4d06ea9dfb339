//! Errors of PostgreSQL and of connections to it, and how they read as those of a store.

use std::time::Duration;

use tokio_postgres::error::{DbError, SqlState};

use crate::StoreError;
use crate::error::Fault;

/// An error inside of this backend.
#[derive(Debug)]
pub(super) enum Failure {
    Store(StoreError),
    Database(tokio_postgres::Error),
    /// No connection was available or could be opened.
    NoConnection(String),
    /// No answer came in time. The statement may take effect.
    Late,
    /// No operation before this one ended in this time.
    Busy(Duration),
    /// A column has an impossible value.
    Damaged(String),
}

impl Failure {
    pub(super) fn damaged(detail: String) -> Self {
        Self::Damaged(detail)
    }

    /// True if it is worth to try again with another connection. What was sent may have taken
    /// effect.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::NoConnection(_) | Self::Late => true,
            Self::Database(error) => match error.as_db_error() {
                Some(reported) => is_outage(reported),
                None => is_of_connection(error),
            },
            Self::Store(_) | Self::Busy(_) | Self::Damaged(_) => false,
        }
    }

    /// True if the transaction conflicted with another one and did not take effect.
    pub(super) fn is_conflict(&self) -> bool {
        const CODES: [SqlState; 3] = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::LOCK_NOT_AVAILABLE,
        ];
        self.code().is_some_and(|code| CODES.contains(code))
    }

    /// True if a row with the same key exists.
    pub(super) fn is_duplicate(&self) -> bool {
        self.code() == Some(&SqlState::UNIQUE_VIOLATION)
    }

    /// True if the connection cannot be used again.
    pub(super) fn taints_connection(&self) -> bool {
        !matches!(self, Self::Store(_) | Self::Busy(_) | Self::Damaged(_)) && !self.is_duplicate()
    }

    pub(super) fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Database(error) => error.code(),
            _ => None,
        }
    }

    /// The public error, about the database at `place`.
    pub(super) fn at(self, place: &str) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::NoConnection(why) => unreachable(place, &why),
            Self::Late => unreachable(place, "it did not answer in time"),
            Self::Busy(time) => StoreError::Unavailable(Fault::new(format!(
                "{place} is too slow: as many operations as it has connections for took longer than \
                 {} s; see what its server is busy with, then try again",
                time.as_secs()
            ))),
            Self::Damaged(detail) => StoreError::Damaged(Fault::new(format!(
                "the threads in {place} are damaged ({detail}); restore a backup"
            ))),
            Self::Database(error) => {
                let why = described(&error);
                let found = match error.code() {
                    Some(code) if *code == SqlState::DISK_FULL => StoreError::Full(Fault::new(
                        format!("no space left in {place} ({why}); free some, then try again"),
                    )),
                    Some(code) if *code == SqlState::PROGRAM_LIMIT_EXCEEDED => {
                        StoreError::Unavailable(Fault::new(format!(
                            "{place} cannot store this ({why}); ids have at most 2.6 kB there"
                        )))
                    }
                    Some(code) if *code == SqlState::QUERY_CANCELED => {
                        StoreError::Unavailable(Fault::new(format!(
                            "{place} took too long ({why}); ask for less, or see what its server is \
                             busy with, then try again"
                        )))
                    }
                    Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                        StoreError::Unavailable(Fault::new(format!(
                            "{place} refuses this user ({why}); grant it all rights on the schema"
                        )))
                    }
                    Some(code) if LOGIN.contains(code) => {
                        StoreError::Unavailable(Fault::new(format!(
                            "{place} refuses the login: {why}; check the user in the URL and the password"
                        )))
                    }
                    Some(code) if *code == SqlState::INVALID_CATALOG_NAME => {
                        StoreError::Unavailable(Fault::new(format!(
                            "cannot use {place}: {why}; create the database, or correct its name in the URL"
                        )))
                    }
                    _ => unreachable(place, &why),
                };
                found.caused_by(error)
            }
        }
    }
}

/// Codes of a user, a password or a machine that may not log in.
const LOGIN: [SqlState; 2] =
    [SqlState::INVALID_PASSWORD, SqlState::INVALID_AUTHORIZATION_SPECIFICATION];

impl StoreError {
    fn caused_by(self, cause: tokio_postgres::Error) -> Self {
        match self {
            Self::Full(fault) => Self::Full(fault.caused_by(cause)),
            Self::Unavailable(fault) => Self::Unavailable(fault.caused_by(cause)),
            other => other,
        }
    }
}

fn unreachable(place: &str, why: &str) -> StoreError {
    StoreError::Unavailable(Fault::new(format!(
        "cannot use {place}: {why}; check that PostgreSQL runs and can be reached, then try again"
    )))
}

/// Classes: 08 connection, 53 resources except a full disk, 57 operator intervention except a
/// statement that was cancelled, also by its time limit, 58 system error; 25006: the server is a
/// standby or read-only.
fn is_outage(error: &DbError) -> bool {
    const NOT_PASSING: [SqlState; 2] = [SqlState::DISK_FULL, SqlState::QUERY_CANCELED];
    let code = error.code();
    let class = &code.code()[..2];
    *code == SqlState::READ_ONLY_SQL_TRANSACTION
        || (!NOT_PASSING.contains(code) && ["08", "53", "57", "58"].contains(&class))
}

/// A value of the wrong type is a fault of this program; all others concern the connection.
fn is_of_connection(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    !text.contains("serializ")
        && !text.contains("retrieving column")
        && !text.contains("unexpected")
}

/// The message with its cause, without the connection's parameters.
pub(super) fn described(error: &tokio_postgres::Error) -> String {
    if let Some(reported) = error.as_db_error() {
        return format!("{} ({})", reported.message(), reported.code().code());
    }
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
