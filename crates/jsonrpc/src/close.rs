//! Why a connection ends, and how a WebSocket reports it.

use std::io;

use crate::websocket::Violation;

/// Why a connection takes no more messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// Our side finished the connection; queued messages are still written.
    #[error("the connection was finished")]
    Finished,
    /// The program is shutting down; queued messages are still written.
    #[error("the program is shutting down")]
    Shutdown,
    /// Our side abandoned the connection; queued messages are dropped.
    #[error("the connection was given up")]
    Aborted,
    /// The client's queue is full, in memory and on disk, and the client reads almost nothing of
    /// it; queued messages are dropped. See [`crate::Outbox::room`].
    #[error("the client reads too slowly: its queue of unread messages is full")]
    SlowClient,
    /// A write made no progress for [`crate::Limits::stall`]; queued messages are dropped.
    #[error("the client stopped reading")]
    Stalled,
    /// Messages spooled to disk cannot be read back.
    #[error("messages that waited on disk for the client cannot be read back: {0}")]
    SpoolFailed(io::ErrorKind),
    /// The peer does not respond to pings.
    #[error("the client is silent and answers no ping")]
    Unresponsive,
    /// The peer closed the connection with this code (RFC 6455, section 7.4).
    #[error("the other side left (code {code})")]
    Left {
        /// 1005 if the peer sent no code, 1006 if the stream ended without a close frame.
        code: u16,
    },
    /// The peer violated the transport's rules; queued messages are still written, because they
    /// answer earlier, valid requests.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// The client did not send `initialize` in time, or too many connections were pending.
    #[error("the connection was not initialized in time")]
    NotInitialized,
    /// Reading failed; queued messages are dropped.
    #[error("reading from the other side failed: {0}")]
    ReadFailed(io::ErrorKind),
    /// Writing failed; queued messages are dropped.
    #[error("writing to the other side failed: {0}")]
    WriteFailed(io::ErrorKind),
}

impl CloseReason {
    /// Returns whether messages queued before the close are still written.
    #[must_use]
    pub fn is_orderly(self) -> bool {
        matches!(self, Self::Finished | Self::Shutdown | Self::Violation(_))
    }

    /// The close code of a WebSocket for this reason (RFC 6455, section 7.4); `None` when the peer
    /// can no longer receive one.
    #[must_use]
    pub fn code(self) -> Option<u16> {
        Some(match self {
            Self::Finished => 1000,
            Self::Shutdown => 1001,
            Self::SlowClient | Self::NotInitialized => 1008,
            Self::Violation(violation) => violation.code(),
            Self::Left { code: 1006 } => return None,
            Self::Left { code: 1005 } => 1000,
            Self::Left { code } => code,
            Self::Aborted | Self::Unresponsive | Self::SpoolFailed(_) => 1011,
            Self::Stalled | Self::ReadFailed(_) | Self::WriteFailed(_) => return None,
        })
    }
}
