//! Maps errors of the store to responses of the API.

use gateway_policy::error::ApiError;
use hyper::StatusCode;

use crate::database::DatabaseError;

impl From<DatabaseError> for ApiError {
    fn from(error: DatabaseError) -> Self {
        if error.is_unavailable() {
            return Self::store_unavailable();
        }
        // Only administrators receive this error, and they may read the cause.
        let message = format!("The gateway's store failed to run a statement: {error}.");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "store_error", message)
    }
}
