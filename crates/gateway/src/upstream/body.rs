//! The body of a forwarded request: pieces in memory, or a stream.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Sleep;

use super::Failure;

/// Most bytes of a stream that are held for a signature.
pub(super) const MAX_SIGNED: usize = 32 << 20;

/// The body of a forwarded request. A clone of a stream is the same stream.
#[derive(Clone, Debug)]
pub(crate) enum OutBody {
    /// Pieces in order.
    Pieces(VecDeque<Bytes>),
    /// A client's body while it is received.
    Stream(Arc<Mutex<Stream>>),
}

impl OutBody {
    /// An empty body.
    #[must_use]
    pub(crate) fn empty() -> Self {
        Self::Pieces(VecDeque::new())
    }

    /// A client's body, bounded in size and time.
    #[must_use]
    pub(crate) fn stream(incoming: Incoming, most: u64, patience: Duration) -> Self {
        let due = Box::pin(tokio::time::sleep(patience));
        Self::of_stream(Stream { come: None, incoming, left: most, due, is_begun: false })
    }

    /// The same, for a partly received body.
    #[must_use]
    pub(crate) fn resumed(come: Bytes, incoming: Incoming, most: u64, patience: Duration) -> Self {
        let due = Box::pin(tokio::time::sleep(patience));
        let come = Some(come).filter(|come| !come.is_empty());
        Self::of_stream(Stream { come, incoming, left: most, due, is_begun: false })
    }

    fn of_stream(stream: Stream) -> Self {
        Self::Stream(Arc::new(Mutex::new(stream)))
    }

    /// The body for another attempt; `None` for a stream that an attempt has begun to read.
    #[must_use]
    pub(crate) fn again(&self) -> Option<Self> {
        match self {
            Self::Pieces(_) => Some(self.clone()),
            Self::Stream(stream) => (!locked(stream).is_begun).then(|| self.clone()),
        }
    }

    /// All of it; `None` for a stream.
    pub(super) fn bytes(&self) -> Option<Bytes> {
        match self {
            Self::Pieces(pieces) if pieces.len() == 1 => pieces.front().cloned(),
            Self::Pieces(pieces) => {
                let mut whole = Vec::with_capacity(pieces.iter().map(Bytes::len).sum());
                pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
                Some(whole.into())
            }
            Self::Stream(_) => None,
        }
    }

    /// The body with all of it in memory, for a signature.
    ///
    /// # Errors
    /// A stream ends early, or has more than [`MAX_SIGNED`] bytes.
    pub(crate) async fn held(mut self) -> Result<Self, Failure> {
        if matches!(self, Self::Pieces(_)) {
            return Ok(self);
        }
        let (mut pieces, mut length) = (VecDeque::new(), 0);
        while let Some(frame) = self.frame().await {
            let Ok(data) = frame.map_err(|error| Failure::from(&error))?.into_data() else {
                continue;
            };
            length += data.len();
            if length > MAX_SIGNED {
                return Err(Failure::Unsignable);
            }
            pieces.push_back(data);
        }
        Ok(Self::Pieces(pieces))
    }

    /// One piece.
    #[must_use]
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self::Pieces(VecDeque::from([bytes]))
    }
}

/// A client's body while it is received.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The received part.
    come: Option<Bytes>,
    incoming: Incoming,
    /// Most bytes that may follow.
    left: u64,
    /// The deadline.
    due: Pin<Box<Sleep>>,
    /// True once an attempt has begun to read it.
    is_begun: bool,
}

fn locked(stream: &Mutex<Stream>) -> MutexGuard<'_, Stream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a client's body is cut off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// It is too large.
    #[error("the request's body is too large")]
    TooLarge,
    /// It was not received in time.
    #[error("the request's body is too slow")]
    TooSlow,
    /// The client disconnected.
    #[error("the request's body was cut: {0}")]
    Cut(hyper::Error),
}

impl From<hyper::Error> for BodyError {
    fn from(error: hyper::Error) -> Self {
        Self::Cut(error)
    }
}

impl Stream {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.is_begun = true;
        if let Some(come) = self.come.take() {
            return Poll::Ready(Some(Ok(Frame::data(come))));
        }
        let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(context) else {
            let late = self.due.as_mut().poll(context);
            return late.map(|()| Some(Err(BodyError::TooSlow)));
        };
        let Some(frame) = frame.transpose()? else { return Poll::Ready(None) };
        let length = frame.data_ref().map_or(0, |data| data.len() as u64);
        match self.left.checked_sub(length) {
            Some(rest) => self.left = rest,
            None => return Poll::Ready(Some(Err(BodyError::TooLarge))),
        }
        Poll::Ready(Some(Ok(frame)))
    }
}

impl Body for OutBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Pieces(pieces) => {
                Poll::Ready(pieces.pop_front().map(|piece| Ok(Frame::data(piece))))
            }
            Self::Stream(stream) => locked(stream).poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Pieces(pieces) => pieces.is_empty(),
            Self::Stream(stream) => {
                let stream = locked(stream);
                stream.come.is_none() && stream.incoming.is_end_stream()
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Pieces(pieces) => {
                SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum())
            }
            Self::Stream(stream) => {
                let stream = locked(stream);
                let come = stream.come.as_ref().map_or(0, |come| come.len() as u64);
                let exact = stream.incoming.size_hint().exact();
                let exact = exact.and_then(|rest| rest.checked_add(come));
                exact.map_or_else(SizeHint::default, SizeHint::with_exact)
            }
        }
    }
}
