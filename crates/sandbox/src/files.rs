//! Changing files for patches: within the policy, through no symbolic link that was
//! not there when the policy was checked, and all changes or none.

#[cfg(unix)]
mod apply;
#[cfg(unix)]
mod folder;
#[cfg(unix)]
mod step;

#[cfg(not(unix))]
use std::io;
use std::path::PathBuf;

#[cfg(unix)]
pub use apply::{apply, apply_approved, destinations};

#[cfg(not(unix))]
use crate::error::Error;
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

/// Where folders cannot be held open, nothing is changed: what was checked may not be what is
/// written.
#[cfg(not(unix))]
pub fn apply(changes: &[Change], _limits: Option<&Resolved>) -> Result<(), Error> {
    let Some(change) = changes.first() else { return Ok(()) };
    let why = "files cannot be changed safely on this system; run the server on Linux";
    let source = io::Error::new(io::ErrorKind::Unsupported, why);
    Err(Error::io_at(&change.path, source))
}

/// As [`apply`].
#[cfg(not(unix))]
pub fn apply_approved(changes: &[Change], _approved: &[PathBuf]) -> Result<(), Error> {
    apply(changes, None)
}

/// As [`apply`].
#[cfg(not(unix))]
pub fn destinations(changes: &[Change]) -> Result<Vec<PathBuf>, Error> {
    apply(changes, None).map(|()| Vec::new())
}
