//! Errors for retired interfaces (specification: Versioning, item 3) and unsupported methods.

use hyper::{Method, StatusCode, header};

use gateway_policy::error::ApiError;

/// 405, with the supported methods.
pub(crate) fn method(method: &Method, allowed: &'static str) -> ApiError {
    let message = format!("The method {method} is not allowed here. Please use one of: {allowed}.");
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
        .header(header::ALLOW, header::HeaderValue::from_static(allowed))
}

/// 404 `endpoint_retired`, with the replacement.
pub(crate) fn retired(path: &str) -> ApiError {
    if path.starts_with("/v1/engines") {
        let message = "The engines API was removed. Please name the model in the body instead \
                       (POST /v1/completions, POST /v1/embeddings).";
        return ApiError::not_found("endpoint_retired", message);
    }
    let what = if path.starts_with("/v1/threads") { "threads" } else { "assistants" };
    let message = format!(
        "The {what} API was shut down on 2026-08-26. Please use the responses API \
         (POST /v1/responses) and the conversations API (/v1/conversations) instead."
    );
    ApiError::not_found("endpoint_retired", message)
}
