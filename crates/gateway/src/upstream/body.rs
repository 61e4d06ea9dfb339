//! The body of a request that is sent on: pieces in memory, or a stream that passes through.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// See the module.
#[derive(Debug)]
pub enum OutBody {
    /// Pieces in their order.
    Pieces(VecDeque<Bytes>),
    /// What a client sends, as it comes, and how many bytes of it may still come.
    Stream(Incoming, u64),
    /// The same, of which a part has come already.
    Resumed(VecDeque<Bytes>, Incoming, u64),
}

impl OutBody {
    /// No body.
    #[must_use]
    pub fn empty() -> Self {
        Self::Pieces(VecDeque::new())
    }

    /// One piece.
    #[must_use]
    pub fn whole(bytes: Bytes) -> Self {
        Self::Pieces(VecDeque::from([bytes]))
    }
}

/// Why a client's body stops.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It is longer than bodies may be.
    #[error("the request's body is too large")]
    TooLarge,
    /// The client went away.
    #[error("the request's body was cut: {0}")]
    Cut(#[from] hyper::Error),
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
            Self::Resumed(pieces, ..) if !pieces.is_empty() => {
                Poll::Ready(pieces.pop_front().map(|piece| Ok(Frame::data(piece))))
            }
            Self::Stream(incoming, left) | Self::Resumed(_, incoming, left) => {
                let frame = std::task::ready!(Pin::new(incoming).poll_frame(context));
                let Some(frame) = frame.transpose()? else { return Poll::Ready(None) };
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                match left.checked_sub(length) {
                    Some(rest) => *left = rest,
                    None => return Poll::Ready(Some(Err(BodyError::TooLarge))),
                }
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Pieces(pieces) => pieces.is_empty(),
            Self::Stream(incoming, _) => incoming.is_end_stream(),
            Self::Resumed(pieces, incoming, _) => pieces.is_empty() && incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Pieces(pieces) => {
                SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum())
            }
            Self::Stream(incoming, _) => incoming.size_hint(),
            Self::Resumed(pieces, incoming, _) => {
                let come: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
                let exact = incoming.size_hint().exact().and_then(|rest| rest.checked_add(come));
                exact.map_or_else(SizeHint::default, SizeHint::with_exact)
            }
        }
    }
}
