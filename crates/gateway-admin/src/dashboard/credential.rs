//! What opens the dashboard.

/// A secret that opens something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Credential {
    /// The configured token: all organizations.
    Token,
    /// An admin key: its organization.
    Key {
        /// `key_…`.
        id: Box<str>,
        /// `org-…`.
        organization: Box<str>,
    },
}
