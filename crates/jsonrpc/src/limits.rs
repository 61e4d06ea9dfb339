//! The bounds of one connection, in one place. What happens at each bound is written at its field.

use std::time::Duration;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The bounds of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest line, in bytes without its newline. A longer one is skipped and answered with an
    /// error; the connection lives on.
    pub line_bytes: usize,
    /// Most messages that were read and not yet taken. At the bound the reader stops reading, so
    /// that the peer's writes wait.
    pub incoming_messages: usize,
    /// Most bytes of lines that were read and not yet taken; one line is always let through. At the
    /// bound the reader stops reading.
    pub incoming_bytes: usize,
    /// Bytes that may wait in memory to be written. What comes beyond waits on disk where there is a
    /// [`crate::Spool`]; otherwise whoever makes messages waits ([`crate::Outbox::room`]).
    pub outgoing_bytes: usize,
    /// Above this many waiting bytes, consecutive deltas of one frame are merged into one message.
    pub merge_above: usize,
    /// A write that makes no progress for so long closes the connection:
    /// [`crate::CloseReason::Stalled`]. `None`: a peer that does not read is waited for, for as long
    /// as the connection is open, also when there is no room for more.
    pub stall: Option<Duration>,
    /// A WebSocket on which nothing came for so long is pinged; when nothing comes for as long again
    /// it is closed: [`crate::CloseReason::Unresponsive`].
    pub keepalive: Duration,
    /// Most notifications and requests that a [`crate::Client`] has read and its user has not. At
    /// the bound the client stops reading the connection.
    pub events: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes: 16 * MIB,
            incoming_messages: 256,
            incoming_bytes: 32 * MIB,
            outgoing_bytes: 8 * MIB,
            merge_above: 64 * KIB,
            stall: Some(Duration::from_secs(30)),
            keepalive: Duration::from_secs(30),
            events: 4096,
        }
    }
}
