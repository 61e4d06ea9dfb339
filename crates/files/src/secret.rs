//! Files that hold a secret: a token, a shared key. Says who else can reach them.

use std::path::{Path, PathBuf};

use crate::open::open;
use crate::read::ReadError;

/// Longest secret that is read, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// A secret that was read.
pub struct SecretFile {
    /// Without the white space around it; never empty.
    pub text: String,
    /// What the operator should know: that others can read the file.
    pub warning: Option<String>,
}

impl std::fmt::Debug for SecretFile {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretFile").field("warning", &self.warning).finish_non_exhaustive()
    }
}

/// Why a secret cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Others may have put a secret of their own there.
    #[error(
        "{path}: others can change this file (mode {mode:03o}); run `chmod 600 {path}`, and make a \
         new secret if somebody may have changed it", path = .path.display()
    )]
    Writable { path: PathBuf, mode: u32 },
    #[error(
        "{path}: the file belongs to another user ({owner}); it must belong to root or to the user \
         that runs the server", path = .path.display()
    )]
    Foreign { path: PathBuf, owner: u32 },
    #[error("{}: the file is empty", .0.display())]
    Empty(PathBuf),
}

/// Reads the secret in a file of at most 64 KiB. Group and others must not be able to write it,
/// and it must belong to root or to us. That they can read it is a warning only: container
/// platforms mount secrets world-readable.
///
/// # Errors
/// See [`SecretError`].
pub fn read_secret(path: &Path) -> Result<SecretFile, SecretError> {
    let opened = open(path)?;
    let warning = check(path, &opened.metadata)?;
    let bytes = opened.read(path, MAX_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|_| ReadError::NotText(path.to_owned()))?;
    match text.trim() {
        "" => Err(SecretError::Empty(path.to_owned())),
        text => Ok(SecretFile { text: text.to_owned(), warning }),
    }
}

#[cfg(unix)]
fn check(path: &Path, metadata: &std::fs::Metadata) -> Result<Option<String>, SecretError> {
    use std::os::unix::fs::MetadataExt;
    const OTHERS_WRITE: u32 = 0o022;
    const OTHERS_READ: u32 = 0o044;
    let mode = metadata.mode() & 0o777;
    let owner = metadata.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(SecretError::Foreign { path: path.to_owned(), owner });
    }
    if mode & OTHERS_WRITE != 0 {
        return Err(SecretError::Writable { path: path.to_owned(), mode });
    }
    Ok((mode & OTHERS_READ != 0).then(|| {
        let path = path.display();
        format!(
            "{path}: other users can read this secret (mode {mode:03o}); unless the platform \
             mounts it that way, run `chmod 600 {path}` and make a new secret"
        )
    }))
}

#[cfg(not(unix))]
fn check(_: &Path, _: &std::fs::Metadata) -> Result<Option<String>, SecretError> {
    Ok(None)
}
