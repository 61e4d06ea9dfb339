//! Breaches of RFC 6455, and of this transport's own rules, by the peer.

/// How a peer broke the rules of the protocol, or those of this transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Frames that may not be, or not in this order.
    #[error("protocol error: {0}")]
    Protocol(&'static str),
    /// Text that is not UTF-8.
    #[error("a text message is not UTF-8")]
    NotUtf8,
    /// A binary message: there is nothing that one could say.
    #[error("binary messages are not understood; send text")]
    Binary,
    /// A message beyond the limit.
    #[error("a message is longer than {limit} bytes")]
    TooLong {
        /// The most, in bytes.
        limit: usize,
    },
    /// The unfinished messages of all connections together are too long.
    #[error("the server has too much unfinished; try again later")]
    Overloaded,
}

impl Violation {
    /// The code to close the connection with (RFC 6455, section 7.4.1).
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Self::Protocol(_) => 1002,
            Self::NotUtf8 => 1007,
            Self::Binary => 1003,
            Self::TooLong { .. } => 1009,
            Self::Overloaded => 1013,
        }
    }
}
