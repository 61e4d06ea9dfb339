//! Reading the body of a form: bounded in size and time.

use axum::Form;
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use http_body_util::Limited;
use serde::de::DeserializeOwned;

use super::context::Context;
use super::page::Failure;

/// The fields of a form of at most `most` bytes.
///
/// # Errors
/// The body is too large or no form, or does not arrive in time.
pub(super) async fn read<T: DeserializeOwned>(
    context: &Context,
    request: Request,
    most: usize,
) -> Result<T, Failure> {
    let patience = context.services.settings.load().server.body_timeout;
    let (parts, body) = request.into_parts();
    let body = Body::new(Limited::new(body, most));
    let filled = Form::from_request(Request::from_parts(parts, body), &());
    match tokio::time::timeout(patience, filled).await {
        Ok(Ok(Form(filled))) => Ok(filled),
        Ok(Err(_)) => Err(Failure::Form),
        Err(_) => Err(Failure::Slow),
    }
}
