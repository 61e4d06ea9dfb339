//! How far a commit reaches.

/// What a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// The end of the process, however it comes. A power cut may take the latest commits with it,
    /// never damage the file.
    #[default]
    Normal,
    /// A power cut too, at the price of a disk flush a commit.
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
