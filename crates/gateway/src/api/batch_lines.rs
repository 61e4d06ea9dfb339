//! Lines of batches are requests like any other: which of them a batch may hold, and what is read
//! in them before they run.

use bytes::Bytes;
use hyper::{HeaderMap, Method};

use super::relay::Whole;
use super::request_body::RequestBody;
use super::{Exchange, generate};
use crate::serve::router::{self, Api, Generation, Route};
use gateway_body::Kind;
use gateway_policy::error::ApiError;

/// What the lines of a batch may be for.
pub(crate) const ENDPOINTS: [&str; 7] = [
    "/v1/responses",
    "/v1/chat/completions",
    "/v1/embeddings",
    "/v1/completions",
    "/v1/moderations",
    "/v1/images/generations",
    "/v1/images/edits",
];

/// What must be known of a line before it runs.
#[derive(Clone, Debug)]
pub(crate) struct LineRequest {
    /// The model, as the line calls it.
    pub(crate) model: Option<String>,
    /// Its estimate of input tokens.
    pub(crate) tokens: u64,
    /// It asks for a stream.
    pub(crate) streams: bool,
    /// There is a default model for it.
    pub(crate) is_moderation: bool,
}

/// Reads the body of a line.
///
/// # Errors
/// 400, as a client would be answered.
pub(crate) fn read_line(endpoint: &str, body: &Bytes) -> Result<LineRequest, ApiError> {
    let generation = generation(endpoint)?;
    let asked =
        RequestBody::read(body, generation, &HeaderMap::new()).map_err(|(error, _)| error)?;
    Ok(LineRequest {
        model: asked.model(body).map(Into::into),
        tokens: asked.input_estimate(),
        streams: asked.streams(),
        is_moderation: generation.kind == Kind::Moderations,
    })
}

/// Runs a line: the whole answer of its model server.
///
/// # Errors
/// What a client would be answered instead.
pub(crate) async fn line(
    exchange: &mut Exchange,
    endpoint: &str,
    body: Bytes,
) -> Result<Whole, ApiError> {
    let generation = generation(endpoint)?;
    generate::whole(exchange, generation, endpoint, body).await
}

fn generation(endpoint: &str) -> Result<Generation, ApiError> {
    let unknown = || {
        let known = ENDPOINTS.join(", ");
        let message = format!("Batches do not support this endpoint. Please use one of {known}.");
        ApiError::invalid_value("endpoint", message)
    };
    if !ENDPOINTS.contains(&endpoint) {
        return Err(unknown());
    }
    let segments = router::segments(endpoint)?;
    match router::api(&Method::POST, &segments) {
        Route::Api(Api::Generate(generation)) => Ok(generation),
        _ => Err(unknown()),
    }
}

/// Checks that a batch may be for an endpoint.
///
/// # Errors
/// 400 `invalid_value`.
pub(super) fn check_endpoint(endpoint: &str) -> Result<(), ApiError> {
    generation(endpoint).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_is_one_that_generates() {
        for endpoint in ENDPOINTS {
            check_endpoint(endpoint).unwrap();
        }
        check_endpoint("/v1/audio/speech").unwrap_err();
        check_endpoint("").unwrap_err();
    }
}
