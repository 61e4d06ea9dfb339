//! Digests of definitions, of tools and of servers.

use sha2::{Digest as _, Sha256};

/// Identifies a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 16]);

impl Digest {
    /// The digest that has these bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// The digest of this content.
    pub(crate) fn of_bytes(content: &[u8]) -> Self {
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(Sha256::digest(content)).for_each(|(to, from)| *to = from);
        Self(bytes)
    }
}
