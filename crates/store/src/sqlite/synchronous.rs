//! The durability of commits.

/// The failures that a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// Any end of the process. A power failure can lose the latest commits, but never damages the
    /// file.
    #[default]
    Normal,
    /// A power failure as well, at the cost of a disk flush per commit.
    Full,
}

impl Synchronous {
    pub(crate) fn pragma(self) -> &'static str {
        match self {
            Self::Normal => "NORMAL",
            Self::Full => "FULL",
        }
    }
}
