//! Taking a request's body in: whole, bounded in size and in time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body, Incoming};

use crate::error::ApiError;
use crate::upstream::too_large;

/// Memory that is set aside on the word of a `Content-Length` alone.
const TRUSTED_LENGTH: u64 = 1 << 20;

/// The whole body.
///
/// # Errors
/// 413 past `most` bytes, 408 past `patience`, 400 when it ends too early.
pub async fn whole(body: &mut Incoming, most: u64, patience: Duration) -> Result<Bytes, ApiError> {
    let announced = body.size_hint();
    if announced.lower() > most {
        return Err(too_large());
    }
    let collected = tokio::time::timeout(patience, collect(body, most)).await;
    collected.unwrap_or_else(|_| Err(too_slow()))
}

/// 408.
pub fn too_slow() -> ApiError {
    let message = "The request's body did not come in time. Please send it faster.";
    ApiError::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message)
}

async fn collect(body: &mut Incoming, most: u64) -> Result<Bytes, ApiError> {
    let announced = body.size_hint().lower();
    let Some(first) = data(body).await? else { return Ok(Bytes::new()) };
    if first.len() as u64 > most {
        return Err(too_large());
    }
    // Most bodies come in one piece.
    if body.is_end_stream() || first.len() as u64 == announced {
        return Ok(first);
    }
    let expected = announced.max(first.len() as u64).min(TRUSTED_LENGTH);
    let mut whole = BytesMut::with_capacity(usize::try_from(expected).unwrap_or(0));
    whole.extend_from_slice(&first);
    while let Some(piece) = data(body).await? {
        if (whole.len() + piece.len()) as u64 > most {
            return Err(too_large());
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}

/// The next piece; `None` behind the last one.
///
/// # Errors
/// 400 when it ends too early.
pub async fn data(body: &mut Incoming) -> Result<Option<Bytes>, ApiError> {
    loop {
        let Some(frame) = body.frame().await else { return Ok(None) };
        let frame = frame.map_err(|_| {
            let message = "The request's body ended too early, or is not valid.";
            ApiError::bad_request("incomplete_body", message)
        })?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}
