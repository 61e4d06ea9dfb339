//! The error of this crate: what is wrong with a patch, where, and what to do next.

use std::path::Path;

/// Why a text is not a patch, or why a patch does not apply. Nothing of the patch applies then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not a patch.
    #[error("{}{message}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
    Syntax {
        /// From 1, counted in the text as given; `None` if the error concerns the whole text.
        line: Option<usize>,
        /// What was found and what was expected.
        message: String,
    },
    /// A file cannot be read.
    #[error("{message}")]
    Read {
        /// The file and the reason.
        message: String,
    },
    /// A file to change or delete does not exist.
    #[error("{0}: there is no such file; check the path")]
    Missing(String),
    /// Two operations on a file contradict each other.
    #[error(
        "{0}: named by two operations of one patch that are not both updates; put all changes of a \
         file into one operation"
    )]
    Twice(String),
    /// The lines of a hunk were not found.
    #[error("{path}: hunk {hunk}, line {line} of the patch: {why}")]
    NotFound {
        /// The file.
        path: String,
        /// From 1.
        hunk: usize,
        /// The first line that does not match, from 1, counted in the text of the patch.
        line: usize,
        /// Which lines were not found, what the file has instead, and how to correct the patch.
        why: String,
    },
    /// Finding the hunks of a file takes too long.
    #[error("{0}: applying the patch takes too long; split it, or repeat the file's lines exactly")]
    TooCostly(String),
}

impl Error {
    /// The error about a file that cannot be read; `why` may name the path.
    pub fn read(path: &Path, why: impl Into<String>) -> Self {
        let (path, why) = (path.display().to_string(), why.into());
        let message = if why.starts_with(&path) { why } else { format!("{path}: {why}") };
        Self::Read { message }
    }
}
