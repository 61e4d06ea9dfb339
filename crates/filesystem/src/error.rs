//! The error of this crate: what failed, with which path, and what to do next.

use std::io;
use std::path::{Path, PathBuf};

/// Why an operation on a file or folder failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system reports an error.
    #[error("{}: {action}: {cause}", .path.display())]
    Io { path: PathBuf, action: &'static str, cause: io::Error },
    /// The path cannot be opened as a regular file, or is larger than a message may be.
    #[error(transparent)]
    File(#[from] files::Error),
    /// The operation would do something other than what its caller can mean.
    #[error("{}: {reason}", .path.display())]
    Refused { path: PathBuf, reason: String },
}

impl Error {
    /// For `map_err`: an error of the system at `path` while doing `action`, a present participle
    /// such as "creating the folder".
    pub(crate) fn io<E: Into<io::Error>>(
        path: &Path,
        action: &'static str,
    ) -> impl FnOnce(E) -> Self {
        move |cause| Error::Io { path: path.to_owned(), action, cause: cause.into() }
    }

    pub(crate) fn refused(path: &Path, reason: impl Into<String>) -> Self {
        Error::Refused { path: path.to_owned(), reason: reason.into() }
    }

    /// The same error for a path below `from` that is known to the caller as one below `to`.
    pub(crate) fn moved(mut self, from: &Path, to: &Path) -> Self {
        if let Error::Io { path, .. } | Error::Refused { path, .. } = &mut self
            && let Ok(below) = path.strip_prefix(from)
        {
            *path = to.join(below);
        }
        self
    }

    /// Returns whether the path does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        match self {
            Error::Io { cause, .. } | Error::File(files::Error::Io { cause, .. }) => {
                cause.kind() == io::ErrorKind::NotFound
            }
            _ => false,
        }
    }
}
