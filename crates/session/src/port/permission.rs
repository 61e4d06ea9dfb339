//! Permissions beyond the sandbox policy: requested by the model, granted by the user for a turn or
//! for as long as the thread is loaded.

pub use policy::Permissions;

/// The lifetime of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantScope {
    /// Until the end of the turn.
    Turn,
    /// As long as the thread is loaded.
    Session,
}

impl GrantScope {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Session => "session",
        }
    }
}

/// The user's grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The permissions.
    pub permissions: Permissions,
    /// The lifetime of the permissions.
    pub scope: GrantScope,
}
