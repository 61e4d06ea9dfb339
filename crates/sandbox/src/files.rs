//! Changing files for patches: within the policy, through no symbolic link that was
//! not there when the policy was checked, and all changes or none.

#[cfg(unix)]
mod apply;
#[cfg(unix)]
mod folder;
#[cfg(unix)]
mod step;

use std::io;
use std::path::PathBuf;

#[cfg(unix)]
pub use apply::{apply, apply_approved, destinations};

use crate::policy::Denied;
#[cfg(not(unix))]
use crate::policy::Resolved;

/// One change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Absolute.
    pub path: PathBuf,
    pub action: Action,
}

/// What to do to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Gives the file this content; creates it when it does not exist. Behind a symbolic link,
    /// the file that it leads to is written.
    Write {
        contents: Vec<u8>,
        /// Create missing folders above it.
        create_parents: bool,
        /// The file whose permission bits it gets: where it was before a move. `None` keeps those
        /// of an existing file.
        mode_of: Option<PathBuf>,
    },
    /// Removes the file; of a symbolic link, the link.
    Remove,
}

/// Why changes were not made. Unless it is [`ApplyError::NotRestored`], no file has changed.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error("{} leads elsewhere than when it was approved; nothing was changed", .0.display())]
    Moved(PathBuf),
    #[error("{} is changed more than once", .0.display())]
    Twice(PathBuf),
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    /// A change failed and undoing the ones before it did as well.
    #[error("{failure}; these files could not be restored: {}", list(.files))]
    NotRestored { failure: Box<ApplyError>, files: Vec<PathBuf> },
}

/// Where folders cannot be held open, nothing is changed: what was checked may not be what is
/// written.
#[cfg(not(unix))]
pub fn apply(changes: &[Change], _limits: Option<&Resolved>) -> Result<(), ApplyError> {
    let Some(change) = changes.first() else { return Ok(()) };
    let why = "files cannot be changed safely on this system; run the server on Linux";
    let source = io::Error::new(io::ErrorKind::Unsupported, why);
    Err(ApplyError::Io { path: change.path.clone(), source })
}

/// As [`apply`].
#[cfg(not(unix))]
pub fn apply_approved(changes: &[Change], _approved: &[PathBuf]) -> Result<(), ApplyError> {
    apply(changes, None)
}

/// As [`apply`].
#[cfg(not(unix))]
pub fn destinations(changes: &[Change]) -> Result<Vec<PathBuf>, ApplyError> {
    apply(changes, None).map(|()| Vec::new())
}

fn list(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}
