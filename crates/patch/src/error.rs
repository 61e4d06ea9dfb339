//! Why a patch does not apply.

/// Why a file could not be read, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReadError(String);

impl ReadError {
    /// With these words.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Why the patch does not apply. Nothing of it does then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// A file cannot be read.
    #[error("{}", named(path, source))]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: ReadError,
    },
    /// A file to change or delete is not there.
    #[error("{0}: there is no such file")]
    Missing(String),
    /// A file is named by two operations that do not go together.
    #[error(
        "{0}: named twice in one patch, and not only to update it; put all changes of a file \
         together"
    )]
    Twice(String),
    /// The lines of a hunk were not found.
    #[error("{path}: hunk {hunk}, line {line} of the patch: {why}")]
    NotFound {
        /// The file.
        path: String,
        /// From 1.
        hunk: usize,
        /// The first line that does not fit, from 1, counted in the text of the patch.
        line: usize,
        /// Which lines were not found, what the file has instead, and what would be right.
        why: String,
    },
    /// Finding the hunks of a file takes too long.
    #[error("{0}: the patch is too costly to apply; split it, or repeat the file's lines exactly")]
    TooCostly(String),
}

/// Why a file cannot be read, with its path once.
fn named(path: &str, ReadError(why): &ReadError) -> String {
    if why.starts_with(path) { why.clone() } else { format!("{path}: {why}") }
}
