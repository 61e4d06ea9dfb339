//! Maps errors of the store to responses of the API.

use gateway_policy::error::ApiError;
use hyper::StatusCode;

use crate::{Error, ErrorKind};

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        if error.is_unavailable() {
            return Self::store_unavailable();
        }
        let conflict = match error.kind() {
            ErrorKind::Repeated => Some(("already_done", "This was done already.")),
            ErrorKind::Changed => {
                Some(("record_changed", "Somebody else has changed this in the meantime."))
            }
            _ => None,
        };
        if let Some((code, message)) = conflict {
            return Self::new(StatusCode::CONFLICT, code, message);
        }
        // Only administrators receive this error, and they may read the cause.
        let message = format!("The gateway's store failed to run a statement: {error}.");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "store_error", message)
    }
}
