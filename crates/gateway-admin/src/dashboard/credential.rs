//! Credentials of the dashboard.

/// A valid credential.
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
