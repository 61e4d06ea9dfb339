//! Permissions beyond the sandbox policy: requested by the model, granted by the user for a turn or
//! for as long as the thread is loaded.

pub use policy::Permissions;

/// How long a grant lasts.
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

/// What the user grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The permissions.
    pub permissions: Permissions,
    /// How long they last.
    pub scope: GrantScope,
}
