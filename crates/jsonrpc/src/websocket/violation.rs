//! Violations of RFC 6455, and of this transport's own rules, by the peer.

/// The peer's violation of the protocol or of a rule of this transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Frames that are invalid, or invalid in this order.
    #[error("protocol error: {0}")]
    Protocol(&'static str),
    /// Text that is not UTF-8.
    #[error("a text message is not UTF-8")]
    NotUtf8,
    /// A binary message, which this transport does not use.
    #[error("binary messages are not understood; send text")]
    Binary,
    /// A message longer than the limit.
    #[error("a message is longer than {limit} bytes")]
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The incomplete messages of all connections together exceed the budget.
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
