//! The two ends of a WebSocket, which frame messages differently.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Which end of the connection we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The client, which masks what it sends.
    Client,
    /// The server, which does not.
    Server,
}

impl Role {
    /// Returns a new masking key if our side masks. It is unpredictable from outside the process,
    /// as RFC 6455, section 10.3 requires.
    pub(crate) fn key(self) -> Option<[u8; 4]> {
        let random = || RandomState::new().build_hasher().finish();
        (self == Self::Client).then(|| random().to_ne_bytes()).map(|[a, b, c, d, ..]| [a, b, c, d])
    }
}
