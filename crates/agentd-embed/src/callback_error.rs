//! The failures of callbacks and tools.

/// The failure of a callback or a tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallbackError {
    /// It returned an error, or what cannot be sent.
    #[error("{0}")]
    Failed(String),
    /// It panicked.
    #[error("it panicked")]
    Panicked,
    /// More functions that block run at the same time than may.
    #[error("512 callbacks of this agent block already")]
    TooMany,
}
