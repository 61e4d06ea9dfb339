//! The bounds of one connection, in one place. Each field documents what happens at its bound.

use std::time::Duration;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The bounds of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest line, in bytes without its newline. A longer one is skipped and answered with an
    /// error; the connection stays open.
    pub line_bytes: usize,
    /// Most messages read and not yet taken. At the bound the reader stops reading, so that the
    /// peer's writes block.
    pub incoming_messages: usize,
    /// Most bytes of lines read and not yet taken; an empty queue accepts a line of any size. At
    /// the bound the reader stops reading.
    pub incoming_bytes: usize,
    /// Keeps the text of each message with the message, for a program that forwards messages:
    /// [`crate::Inbox::recv_line`]. Messages in the queue then take twice their length.
    pub keep_text: bool,
    /// Bytes that may wait in memory to be written. Messages beyond it wait on disk if there is a
    /// [`crate::Spool`]; otherwise producers wait ([`crate::Outbox::room`]).
    pub outgoing_bytes: usize,
    /// Above this many waiting bytes, consecutive deltas of one frame are merged into one message.
    pub merge_above: usize,
    /// A write without progress for this time closes the connection:
    /// [`crate::CloseReason::Stalled`]. With `None`, the connection waits for a peer that does not
    /// read for as long as it is open, even without room for more.
    pub stall: Option<Duration>,
    /// A WebSocket that receives nothing for this time is pinged; after the same time again without
    /// data it is closed: [`crate::CloseReason::Unresponsive`].
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
            keep_text: false,
            outgoing_bytes: 8 * MIB,
            merge_above: 64 * KIB,
            stall: Some(Duration::from_secs(30)),
            keepalive: Duration::from_secs(30),
            events: 4096,
        }
    }
}
