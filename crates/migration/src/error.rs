//! Why something cannot be taken over.

use std::path::{Path, PathBuf};

/// A file that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] files::Error),
    /// The file, or a folder above it, is a symbolic link.
    #[error("{}: it is a symbolic link, which is not followed; replace it by what it links to", .0.display())]
    Link(PathBuf),
    /// Nothing of what was found has a counterpart.
    #[error("{what}: nothing can be imported: {why}")]
    NoPart { what: String, why: String },
    /// The file's contents are not as expected.
    #[error("{}: {why}", .path.display())]
    Contents { path: PathBuf, why: String },
}

impl Error {
    pub(crate) fn contents(path: &Path, why: impl Into<String>) -> Self {
        Self::Contents { path: path.to_owned(), why: why.into() }
    }
}
