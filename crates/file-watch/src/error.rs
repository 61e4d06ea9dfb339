//! The error of this crate: why a path cannot be watched, and what to do next.

use std::io;
use std::path::PathBuf;

/// Why a watch cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path is relative.
    #[error("{}: a watched path must be absolute", .0.display())]
    Relative(PathBuf),
    /// The watcher has as many watches as it may.
    #[error("{0} paths are watched already, which is the most; end another watch first")]
    TooMany(usize),
    /// The path has to be examined at intervals, and as many paths as possible already are.
    #[error(
        "{}: {reason}, and {limit} paths are examined at intervals already, which is the most; end another \
         watch first", .path.display()
    )]
    TooManyPolled { path: PathBuf, reason: String, limit: usize },
    /// A thread cannot be started.
    #[error("the thread that watches files cannot be started: {0}")]
    Thread(io::Error),
}

/// Why a path has to be examined at intervals instead of being watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unwatchable {
    pub(crate) reason: String,
    /// True if a limit is the reason, which other paths meet as well.
    pub(crate) is_limit: bool,
}

impl Unwatchable {
    pub(crate) fn limit(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_limit: true }
    }

    pub(crate) fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_limit: false }
    }
}
