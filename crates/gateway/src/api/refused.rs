//! Interfaces that are no more (specification: Versioning, item 3).

use crate::error::ApiError;

/// 404 `endpoint_retired`, with the date and what replaces it.
pub(super) fn retired(path: &str) -> ApiError {
    let what = if path.starts_with("/v1/threads") { "threads" } else { "assistants" };
    let message = format!(
        "The {what} API was shut down on 2026-08-26. Please use the responses API \
         (POST /v1/responses) and the conversations API (/v1/conversations) instead."
    );
    ApiError::not_found("endpoint_retired", message)
}
