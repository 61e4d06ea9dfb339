//! What a client of the API sees of an error of the store.

use gateway_policy::error::ApiError;
use hyper::StatusCode;

use crate::database::DatabaseError;

impl From<DatabaseError> for ApiError {
    fn from(error: DatabaseError) -> Self {
        if error.is_unavailable() {
            return Self::store_unavailable();
        }
        // Only administrators get here, and may read the cause.
        let message = format!("The gateway's store failed to run a statement: {error}.");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "store_error", message)
    }
}
