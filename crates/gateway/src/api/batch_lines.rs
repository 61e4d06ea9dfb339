//! Batch lines as requests: the endpoints that a batch supports, and the validation of lines before
//! they run.

use bytes::Bytes;
use hyper::{HeaderMap, Method};

use super::relay::Whole;
use super::request_body::RequestBody;
use super::{Exchange, generate};
use crate::router::{self, Api, Generation, Route};
use gateway_body::Kind;
use gateway_policy::error::ApiError;

/// The endpoints of batch lines.
pub(crate) const ENDPOINTS: [&str; 7] = [
    "/v1/responses",
    "/v1/chat/completions",
    "/v1/embeddings",
    "/v1/completions",
    "/v1/moderations",
    "/v1/images/generations",
    "/v1/images/edits",
];

/// The properties of a line before it runs.
#[derive(Clone, Debug)]
pub(crate) struct LineRequest {
    /// The model's name in the line.
    pub(crate) model: Option<String>,
    /// Estimated input tokens.
    pub(crate) tokens: u64,
    /// True if it asks for a stream.
    pub(crate) streams: bool,
    /// True if it is a moderation, which has a default model.
    pub(crate) is_moderation: bool,
}

/// Reads the body of a line.
///
/// # Errors
/// 400, as for a client's request.
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

/// Runs a line. Returns the upstream's whole response.
///
/// # Errors
/// The same as for a client's request.
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

/// Checks that batches support an endpoint.
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
    fn every_batch_endpoint_generates() {
        for endpoint in ENDPOINTS {
            check_endpoint(endpoint).unwrap();
        }
        check_endpoint("/v1/audio/speech").unwrap_err();
        check_endpoint("").unwrap_err();
    }
}
