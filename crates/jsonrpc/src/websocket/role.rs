//! The two ends of a WebSocket, which frame differently.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Which end of the connection we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Clients mask what they send.
    Client,
    /// Servers do not.
    Server,
}

impl Role {
    /// A new masking key, where our side masks. Nobody outside of the process can foresee it, as
    /// RFC 6455, section 10.3 demands.
    pub(crate) fn key(self) -> Option<[u8; 4]> {
        let random = || RandomState::new().build_hasher().finish();
        (self == Self::Client).then(|| random().to_ne_bytes()).map(|[a, b, c, d, ..]| [a, b, c, d])
    }
}
