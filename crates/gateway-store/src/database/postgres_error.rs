//! Classifies errors of PostgreSQL.

use tokio_postgres::error::SqlState;

use crate::Error;

pub(super) enum Failure {
    /// A conflict with another transaction: the whole transaction may be retried.
    Conflict(String),
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Conflict(why) => Self::unavailable(why),
            Failure::Other(error) => error,
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(reported) = error.as_db_error() else {
            let why = match std::error::Error::source(&error) {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            };
            // A value of the wrong type is a bug of this program; all other errors concern the
            // connection.
            let is_ours = why.contains("serializing parameter") || why.contains("deserializing");
            return Self::Other(match is_ours {
                true => Error::failed(why),
                false => Error::unavailable(why),
            });
        };
        let why = format!("{} ({})", reported.message(), reported.code().code());
        if [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED]
            .contains(reported.code())
        {
            return Self::Conflict(why);
        }
        // Classes: 08 connection, 23 constraint, 53 resources, 55 object not in the required state,
        // 57 operator intervention, 58 I/O; code 25006: the server is a standby.
        Self::Other(match reported.code().code() {
            "25006" => Error::unavailable(why),
            code => match &code[..2] {
                "23" => Error::conflict(why),
                "08" | "53" | "55" | "57" | "58" => Error::unavailable(why),
                _ => Error::failed(why),
            },
        })
    }
}

/// Classifies an error outside of a transaction.
pub(super) fn postgres_error(error: tokio_postgres::Error) -> Error {
    Failure::from(error).into()
}
