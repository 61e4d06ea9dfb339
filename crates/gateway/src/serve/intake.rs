//! Taking a request's body in: whole, bounded in size and in time, and all of them together in what
//! they take of memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::ApiError;
use crate::upstream::{too_large, too_slow};

/// Memory that is set aside on the word of a `Content-Length` alone.
const TRUSTED_LENGTH: u64 = 1 << 20;

/// Room for large bodies, in pieces of [`PIECE`] bytes. Who finds none waits.
#[derive(Debug)]
pub struct Room(Arc<Semaphore>);

/// A body, and its place in the room until it is dropped.
#[derive(Debug)]
pub struct Taken {
    /// All of it.
    pub bytes: Bytes,
    _place: Option<OwnedSemaphorePermit>,
}

/// All large bodies together.
const ROOM: usize = 1 << 30;
/// Bodies up to this size need no room.
const PIECE: usize = 64 << 10;

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ROOM / PIECE)))
    }
}

/// The whole body.
///
/// # Errors
/// 413 past `most` bytes, 408 past `patience`, 400 when it ends too early.
pub async fn whole(
    body: &mut Incoming,
    most: u64,
    patience: Duration,
    room: &Room,
) -> Result<Taken, ApiError> {
    let announced = body.size_hint();
    if announced.lower() > most {
        return Err(too_large());
    }
    let mut place = None;
    let collected = collect(body, most, room, &mut place);
    let collected = tokio::time::timeout(patience, collected).await;
    let collected = collected.unwrap_or_else(|_| Err(too_slow()));
    Ok(Taken { bytes: collected?, _place: place })
}

/// Makes room for a body that has grown to `size` bytes.
///
/// # Errors
/// None while the gateway runs.
pub async fn grow(
    room: &Room,
    place: &mut Option<OwnedSemaphorePermit>,
    size: usize,
) -> Result<(), ApiError> {
    let held = place.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
    // One that is larger than the room takes all of it.
    let more = (size.min(ROOM) / PIECE).saturating_sub(held);
    if more == 0 {
        return Ok(());
    }
    let more = u32::try_from(more).unwrap_or(u32::MAX);
    let closed = |_| ApiError::store_unavailable();
    let more = Arc::clone(&room.0).acquire_many_owned(more).await.map_err(closed)?;
    match place {
        Some(place) => place.merge(more),
        None => *place = Some(more),
    }
    Ok(())
}

async fn collect(
    body: &mut Incoming,
    most: u64,
    room: &Room,
    place: &mut Option<OwnedSemaphorePermit>,
) -> Result<Bytes, ApiError> {
    let announced = body.size_hint().lower();
    // What is announced is set aside at once: bodies that wait for each other half read would all
    // wait in vain.
    grow(room, place, usize::try_from(announced.min(most)).unwrap_or(0)).await?;
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
        grow(room, place, whole.len() + piece.len()).await?;
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
