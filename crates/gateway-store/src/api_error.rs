//! Maps errors of the store to responses of the API.

use gateway_policy::error::ApiError;
use hyper::StatusCode;

use crate::Error;

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        if error.is_unavailable() {
            return Self::store_unavailable();
        }
        // Only administrators receive this error, and they may read the cause.
        let message = format!("The gateway's store failed to run a statement: {error}.");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "store_error", message)
    }
}
