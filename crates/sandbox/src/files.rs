//! Changes files for patches: within the policy, atomically, and through no symbolic link that did
//! not exist when the policy was checked.

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
use crate::resolved::Resolved;

/// A change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Absolute.
    pub path: PathBuf,
    pub action: Action,
}

/// The action on a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Writes or creates the file. Follows a symbolic link.
    Write {
        contents: Vec<u8>,
        /// True to create missing parent folders.
        create_parents: bool,
        /// The file to copy permission bits from: for a move, the old path. `None` keeps those of
        /// an existing file.
        mode_of: Option<PathBuf>,
    },
    /// Deletes the file, or the symbolic link itself.
    Remove,
}

/// Refuses all changes on systems where folders cannot be held open: the checked path could differ
/// from the written one.
#[cfg(not(unix))]
pub fn apply(changes: &[Change], _limits: Option<&Resolved>) -> Result<(), Error> {
    let Some(change) = changes.first() else { return Ok(()) };
    let why = "files cannot be changed safely on this system; run the server on Linux";
    let source = io::Error::new(io::ErrorKind::Unsupported, why);
    Err(Error::io_at(&change.path, source))
}

/// As [`apply`].
#[cfg(not(unix))]
pub fn apply_approved(
    changes: &[Change],
    _approved: &[PathBuf],
    limits: Option<&Resolved>,
) -> Result<(), Error> {
    apply(changes, limits)
}

/// As [`apply`].
#[cfg(not(unix))]
pub fn destinations(changes: &[Change]) -> Result<Vec<PathBuf>, Error> {
    apply(changes, None).map(|()| Vec::new())
}
