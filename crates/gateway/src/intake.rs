//! Receives request bodies: bounded in size and in time, and in the memory of all of them together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderValue};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::upstream::{too_large, too_slow};
use gateway_policy::error::ApiError;

/// Memory that is allocated for an unverified `Content-Length`.
const TRUSTED_LENGTH: u64 = 1 << 20;

/// Memory for large bodies, in pieces of [`PIECE`] bytes. A body without room waits. Its announced
/// size counts against its organization's share, and only received bytes against the total, so that
/// no client can block others by announcing bytes that it does not send.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    whole: Arc<Semaphore>,
    /// The shares of organizations with bodies in memory.
    shares: Mutex<HashMap<Box<str>, Weak<Semaphore>>>,
}

/// A body's reservation of memory, until it is dropped.
#[derive(Debug)]
pub(crate) struct BodyReservation<'a> {
    room: &'a BodyMemory,
    organization: &'a str,
    held: Held,
}

#[derive(Debug, Default)]
struct Held {
    of_share: Option<OwnedSemaphorePermit>,
    of_whole: Option<OwnedSemaphorePermit>,
}

/// A body with its reservation of memory, until it is dropped.
#[derive(Debug)]
pub(crate) struct BufferedBody {
    /// The whole body.
    pub(crate) bytes: Bytes,
    _held: Held,
}

/// Memory for all large bodies, in bytes.
const ROOM: usize = 1 << 30;
/// The share of one organization.
const SHARE: usize = ROOM / 4;
/// Bodies up to this size need no reservation.
const PIECE: usize = 64 << 10;
/// Maximum wait of a body for room in its organization's share, which other bodies release.
const SHARE_PATIENCE: Duration = Duration::from_secs(15);
/// Maximum wait of a partly received body for room: a longer limit would let half-received bodies
/// wait for each other.
const ROOM_PATIENCE: Duration = Duration::from_secs(2);

impl Default for BodyMemory {
    fn default() -> Self {
        Self { whole: Arc::new(Semaphore::new(ROOM / PIECE)), shares: Mutex::default() }
    }
}

impl BodyMemory {
    /// A reservation for a body of this organization. It takes no memory until it grows.
    pub(crate) fn place<'a>(&'a self, organization: &'a str) -> BodyReservation<'a> {
        BodyReservation { room: self, organization, held: Held::default() }
    }

    fn share(&self, organization: &str) -> Arc<Semaphore> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(organization).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(SHARE / PIECE));
        shares.insert(organization.into(), Arc::downgrade(&share));
        share
    }
}

impl BodyReservation<'_> {
    /// Reserves memory for a body with `come` received bytes and `announced` bytes in all.
    ///
    /// # Errors
    /// 503 when no memory becomes available in time.
    pub(crate) async fn grow(&mut self, announced: u64, come: usize) -> Result<(), ApiError> {
        let announced = usize::try_from(announced).unwrap_or(usize::MAX);
        // A body larger than the total takes all of it.
        let more = missing(self.held.of_share.as_ref(), announced.max(come).min(SHARE));
        if more > 0 {
            let share = self.room.share(self.organization).acquire_many_owned(more);
            let got = tokio::time::timeout(SHARE_PATIENCE, share).await;
            add(&mut self.held.of_share, got.map_err(|_| busy())?)?;
        }
        let more = missing(self.held.of_whole.as_ref(), come.min(ROOM));
        if more > 0 {
            let whole = Arc::clone(&self.room.whole).acquire_many_owned(more);
            let got = tokio::time::timeout(ROOM_PATIENCE, whole).await;
            add(&mut self.held.of_whole, got.map_err(|_| busy())?)?;
        }
        Ok(())
    }
}

fn missing(held: Option<&OwnedSemaphorePermit>, size: usize) -> u32 {
    let held = held.map_or(0, OwnedSemaphorePermit::num_permits);
    u32::try_from((size / PIECE).saturating_sub(held)).unwrap_or(u32::MAX)
}

fn add(
    held: &mut Option<OwnedSemaphorePermit>,
    more: Result<OwnedSemaphorePermit, AcquireError>,
) -> Result<(), ApiError> {
    // The semaphores are never closed.
    let more = more.map_err(|_| busy())?;
    match held {
        Some(held) => held.merge(more),
        None => *held = Some(more),
    }
    Ok(())
}

fn busy() -> ApiError {
    let message = "Too many large requests are being received at the moment. Please try again in \
                   a second.";
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "server_overloaded", message)
        .header(header::RETRY_AFTER, HeaderValue::from_static("1"))
}

/// Reserves memory for a body that is made from a request.
///
/// # Errors
/// 503 without memory.
pub(crate) async fn reserved(
    length: u64,
    mut place: BodyReservation<'_>,
) -> Result<BufferedBody, ApiError> {
    place.grow(length, usize::try_from(length).unwrap_or(usize::MAX)).await?;
    Ok(BufferedBody { bytes: Bytes::new(), _held: place.held })
}

/// Receives the whole body.
///
/// # Errors
/// 413 past `most` bytes, 408 past `patience`, 400 when it ends early, 503 without memory.
pub(crate) async fn read_whole(
    body: &mut Incoming,
    most: u64,
    patience: Duration,
    mut place: BodyReservation<'_>,
) -> Result<BufferedBody, ApiError> {
    let announced = body.size_hint();
    if announced.lower() > most {
        return Err(too_large());
    }
    let collected = tokio::time::timeout(patience, collect(body, most, &mut place)).await;
    let collected = collected.unwrap_or_else(|_| Err(too_slow()));
    Ok(BufferedBody { bytes: collected?, _held: place.held })
}

async fn collect(
    body: &mut Incoming,
    most: u64,
    place: &mut BodyReservation<'_>,
) -> Result<Bytes, ApiError> {
    let announced = body.size_hint().lower();
    place.grow(announced, 0).await?;
    let Some(first) = data(body).await? else { return Ok(Bytes::new()) };
    if first.len() as u64 > most {
        return Err(too_large());
    }
    // Most bodies consist of one piece.
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
        place.grow(announced, whole.len() + piece.len()).await?;
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}

/// The next piece; `None` at the end.
///
/// # Errors
/// 400 when it ends early.
pub(crate) async fn data(body: &mut Incoming) -> Result<Option<Bytes>, ApiError> {
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

#[cfg(test)]
#[path = "intake_tests.rs"]
mod tests;
