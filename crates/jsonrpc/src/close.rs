//! Why a connection ends, and how a WebSocket says so.

use std::io;

use crate::websocket::Violation;

/// Why a connection takes no more messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// Our side is done with the connection; what is queued is still written.
    #[error("the connection was finished")]
    Finished,
    /// The program ends; what is queued is still written.
    #[error("the program is shutting down")]
    Shutdown,
    /// Our side gave the connection up; what is queued is dropped.
    #[error("the connection was given up")]
    Aborted,
    /// The client's queue is full, in memory and on disk, and it takes next to nothing of it; what
    /// is queued is dropped. See [`crate::Outbox::room`].
    #[error("the client reads too slowly: its queue of unread messages is full")]
    SlowClient,
    /// A write made no progress for [`crate::Limits::stall`]; what is queued is dropped.
    #[error("the client stopped reading")]
    Stalled,
    /// Messages that waited on disk cannot be read back.
    #[error("messages that waited on disk for the client cannot be read back: {0}")]
    SpoolFailed(io::ErrorKind),
    /// The peer does not answer pings.
    #[error("the client is silent and answers no ping")]
    Unresponsive,
    /// The peer ended the connection, with this code (RFC 6455, section 7.4).
    #[error("the other side left (code {code})")]
    Left {
        /// 1005 when it gave none, 1006 when the stream just ended.
        code: u16,
    },
    /// The peer broke the transport's rules; what is queued is still written: it was asked for
    /// before.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// The client did not begin with `initialize` in time, or too many did not.
    #[error("the connection was not initialized in time")]
    NotInitialized,
    /// Reading failed; what is queued is dropped.
    #[error("reading from the other side failed: {0}")]
    ReadFailed(io::ErrorKind),
    /// Writing failed; what is queued is dropped.
    #[error("writing to the other side failed: {0}")]
    WriteFailed(io::ErrorKind),
}

impl CloseReason {
    /// Whether what was queued before the close is still written.
    #[must_use]
    pub fn is_orderly(self) -> bool {
        matches!(self, Self::Finished | Self::Shutdown | Self::Violation(_))
    }

    /// The code that a WebSocket is closed with for this reason (RFC 6455, section 7.4); `None`
    /// when there is nobody to tell.
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
