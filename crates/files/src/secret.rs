//! Reads files that hold a secret, such as a token, and checks who else can read or write them.

use std::path::Path;

use crate::error::Error;
use crate::open::{open, open_without_links};
use crate::read::decoded;

/// Longest secret, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// A secret from a file.
pub struct SecretFile {
    /// Without surrounding white space; never empty.
    pub text: String,
    /// A warning for the operator if other users can read the file.
    pub warning: Option<String>,
}

impl std::fmt::Debug for SecretFile {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretFile").field("warning", &self.warning).finish_non_exhaustive()
    }
}

/// Reads the secret in a file of at most 64 KiB. Group and others must not be able to write the
/// file, and it must belong to root or to the user of this process. If they can read it, that is
/// only a warning, because container platforms mount secrets world-readable.
///
/// # Errors
/// See [`Error`].
pub fn read_secret(path: &Path) -> Result<SecretFile, Error> {
    let opened = open(path)?;
    let warning = check(path, &opened.metadata)?;
    let bytes = opened.read(path, MAX_BYTES)?;
    let text = decoded(bytes).map_err(|_| Error::NotText(path.to_owned()))?;
    match text.trim() {
        "" => Err(Error::Empty(path.to_owned())),
        text => Ok(SecretFile { text: text.to_owned(), warning }),
    }
}

/// Reads a secret file that this program wrote, of at most `max_bytes`, with a warning for the user if
/// other users can read it. Unlike [`read_secret`], it follows no symbolic link.
///
/// # Errors
/// See [`Error`].
pub fn read_own_secret(path: &Path, max_bytes: u64) -> Result<(Vec<u8>, Option<String>), Error> {
    let opened = open_without_links(path)?;
    let warning = check(path, &opened.metadata)?;
    Ok((opened.read(path, max_bytes)?, warning))
}

#[cfg(unix)]
fn check(path: &Path, metadata: &std::fs::Metadata) -> Result<Option<String>, Error> {
    use std::os::unix::fs::MetadataExt;
    const OTHERS_WRITE: u32 = 0o022;
    const OTHERS_READ: u32 = 0o044;
    let mode = metadata.mode() & 0o777;
    let owner = metadata.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(Error::Foreign { path: path.to_owned(), owner });
    }
    if mode & OTHERS_WRITE != 0 {
        return Err(Error::Writable { path: path.to_owned(), mode });
    }
    Ok((mode & OTHERS_READ != 0).then(|| {
        let path = path.display();
        format!(
            "{path}: other users can read this secret (mode {mode:03o}); unless the container \
             platform mounts it so, run `chmod 600 {path}` and make a new secret"
        )
    }))
}

#[cfg(not(unix))]
fn check(_: &Path, _: &std::fs::Metadata) -> Result<Option<String>, Error> {
    Ok(None)
}
