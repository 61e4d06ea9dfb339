//! Opens regular files that are stored somewhere, and nothing else, without waiting for another program.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

use crate::error::Error;
use crate::file_kind::FileKind;
use crate::kernel;

/// The flag that refuses a symbolic link as the last component of a path.
#[cfg(unix)]
const NO_LINKS: i32 = libc::O_NOFOLLOW;
/// As above: there is none.
#[cfg(not(unix))]
const NO_LINKS: i32 = 0;

/// An open regular file.
#[derive(Debug)]
pub struct Opened {
    pub file: File,
    /// Of the open descriptor, not of the path, which may lead elsewhere by now.
    pub metadata: Metadata,
}

/// Opens a regular file for reading. Follows symbolic links.
///
/// # Errors
/// [`Error::NotRegular`] or [`Error::Io`].
pub fn open(path: &Path) -> Result<Opened, Error> {
    opened(OpenOptions::new().read(true), path, 0)
}

/// As [`open`], but refuses a symbolic link as the last component of the path.
///
/// # Errors
/// As [`open`].
pub fn open_without_links(path: &Path) -> Result<Opened, Error> {
    opened(OpenOptions::new().read(true), path, NO_LINKS)
}

/// Opens a regular file for reading and appending. Creates it if it does not exist, private to its
/// owner.
///
/// # Errors
/// As [`open`].
pub fn append(path: &Path) -> Result<Opened, Error> {
    opened(&mut appending(), path, 0)
}

fn appending() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// As [`append`], but refuses a symbolic link as the last component of the path.
///
/// # Errors
/// As [`open`].
pub fn append_without_links(path: &Path) -> Result<Opened, Error> {
    opened(&mut appending(), path, NO_LINKS)
}

/// Opens a regular file that exists for writing, and leaves its contents.
///
/// # Errors
/// As [`open`].
pub fn open_for_writing(path: &Path) -> Result<Opened, Error> {
    opened(OpenOptions::new().write(true), path, 0)
}

/// Checks that this process may read and write the file at `path`; for a folder, that it may use,
/// create and remove its entries. Opens nothing.
///
/// # Errors
/// It may not, or nothing exists at `path`.
#[cfg(unix)]
pub fn check_usable(path: &Path) -> io::Result<()> {
    use rustix::fs::Access;
    let mut wanted = Access::READ_OK | Access::WRITE_OK;
    if path.metadata()?.is_dir() {
        wanted |= Access::EXEC_OK;
    }
    Ok(rustix::fs::access(path, wanted)?)
}

/// On other systems, checks only that `path` exists.
#[cfg(not(unix))]
pub fn check_usable(path: &Path) -> io::Result<()> {
    path.metadata().map(drop)
}

#[cfg_attr(not(unix), allow(unused_variables))]
fn opened(options: &mut OpenOptions, path: &Path, flags: i32) -> Result<Opened, Error> {
    // Without O_NONBLOCK, opening a FIFO or a terminal waits for the other side.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        options,
        libc::O_NONBLOCK | libc::O_NOCTTY | flags,
    );
    let failed = |cause| Error::Io { path: path.to_owned(), cause };
    let file = options.open(path).map_err(|cause| refused(path, flags, cause))?;
    let metadata = file.metadata().map_err(failed)?;
    let not_regular = |kind| Err(Error::NotRegular { path: path.to_owned(), kind });
    if !metadata.is_file() {
        return not_regular(FileKind::new(metadata.file_type()));
    }
    // Of the open descriptor: a link can lead there from any path.
    if let Some(name) = kernel::file_system(&file).map_err(failed)? {
        return not_regular(FileKind::Kernel(name));
    }
    Ok(Opened { file, metadata })
}

/// The error about a path that cannot be opened. For sockets, folders opened for writing, devices
/// without a driver and links that are not followed, it names the kind of file.
fn refused(path: &Path, flags: i32, cause: io::Error) -> Error {
    let kind = match cause.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => None,
        _ => path.symlink_metadata().ok().map(|metadata| metadata.file_type()),
    };
    // If links are followed, the target is what could not be opened.
    let kind = match kind {
        Some(kind) if kind.is_symlink() && !is_refused_link(flags, &cause) => {
            path.metadata().ok().map(|metadata| metadata.file_type())
        }
        kind => kind,
    };
    match kind {
        Some(kind) if !kind.is_file() => {
            Error::NotRegular { path: path.to_owned(), kind: FileKind::new(kind) }
        }
        _ => Error::Io { path: path.to_owned(), cause },
    }
}

/// Returns whether the error is about a symbolic link at the end of the path, which is not
/// followed. Where links are followed, the same error is about a chain of them that is too long, or
/// a circle.
#[cfg_attr(not(unix), allow(unused_variables))]
fn is_refused_link(flags: i32, cause: &io::Error) -> bool {
    #[cfg(unix)]
    return flags & libc::O_NOFOLLOW != 0 && cause.raw_os_error() == Some(libc::ELOOP);
    #[cfg(not(unix))]
    return false;
}
