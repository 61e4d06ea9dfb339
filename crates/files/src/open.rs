//! Opens regular files, and only these, without waiting for another program.

use std::fmt;
use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io;
use std::path::Path;

use crate::read::ReadError;

/// A regular file that is open.
#[derive(Debug)]
pub struct Opened {
    pub file: File,
    /// Of the opened descriptor, not of what the path names by now.
    pub metadata: Metadata,
}

/// What stands at a path that is not a regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    Folder,
    Fifo,
    Socket,
    Device,
    /// A symbolic link, where links are not followed.
    Link,
    Other,
}

impl FileKind {
    fn of(kind: FileType) -> Self {
        #[cfg(unix)]
        {
            use std::os::unix::fs::FileTypeExt;
            if kind.is_fifo() {
                return Self::Fifo;
            }
            if kind.is_socket() {
                return Self::Socket;
            }
            if kind.is_char_device() || kind.is_block_device() {
                return Self::Device;
            }
        }
        match () {
            () if kind.is_dir() => Self::Folder,
            () if kind.is_symlink() => Self::Link,
            () => Self::Other,
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Folder => "a folder",
            Self::Fifo => "a named pipe (FIFO)",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Link => "a symbolic link",
            Self::Other => "something else",
        })
    }
}

/// Opens a regular file for reading. Follows symbolic links.
///
/// # Errors
/// [`ReadError::NotRegular`] for everything but a regular file, [`ReadError::Io`].
pub fn open(path: &Path) -> Result<Opened, ReadError> {
    opened(OpenOptions::new().read(true), path, 0)
}

/// As [`open`]; a symbolic link as the last name of the path is refused.
///
/// # Errors
/// As [`open`].
pub fn open_without_links(path: &Path) -> Result<Opened, ReadError> {
    #[cfg(unix)]
    let flags = libc::O_NOFOLLOW;
    #[cfg(not(unix))]
    let flags = 0;
    opened(OpenOptions::new().read(true), path, flags)
}

/// Opens a regular file for reading and appending. Creates it, private to its owner, where there
/// is none.
///
/// # Errors
/// As [`open`].
pub fn append(path: &Path) -> Result<Opened, ReadError> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    opened(&mut options, path, 0)
}

/// Whether this process may read and write the file at `path`; of a folder, whether it may use,
/// make and remove what is in it. Opens nothing.
///
/// # Errors
/// It may not, or there is nothing.
#[cfg(unix)]
pub fn check_usable(path: &Path) -> io::Result<()> {
    use rustix::fs::Access;
    let mut wanted = Access::READ_OK | Access::WRITE_OK;
    if path.metadata()?.is_dir() {
        wanted |= Access::EXEC_OK;
    }
    Ok(rustix::fs::access(path, wanted)?)
}

/// Elsewhere only the attempt tells.
#[cfg(not(unix))]
pub fn check_usable(path: &Path) -> io::Result<()> {
    path.metadata().map(drop)
}

#[cfg_attr(not(unix), allow(unused_variables))]
fn opened(options: &mut OpenOptions, path: &Path, flags: i32) -> Result<Opened, ReadError> {
    // Opening a FIFO or a terminal would otherwise wait for the other side. Rust sets O_CLOEXEC.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        options,
        libc::O_NONBLOCK | libc::O_NOCTTY | flags,
    );
    let failed = |source| ReadError::Io { path: path.to_owned(), source };
    let file = options.open(path).map_err(|source| refused(path, source))?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(ReadError::NotRegular {
            path: path.to_owned(),
            kind: FileKind::of(metadata.file_type()),
        });
    }
    Ok(Opened { file, metadata })
}

/// Sockets, folders opened for writing, devices without a driver and links that are not followed
/// cannot be opened at all: says what they are rather than repeat the system's error.
fn refused(path: &Path, source: io::Error) -> ReadError {
    let kind = match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => None,
        _ => path.symlink_metadata().ok().map(|metadata| metadata.file_type()),
    };
    // Behind a link that is followed stands what could not be opened.
    let kind = match kind {
        Some(kind) if kind.is_symlink() && !is_refused_link(&source) => {
            path.metadata().ok().map(|metadata| metadata.file_type())
        }
        kind => kind,
    };
    match kind {
        Some(kind) if !kind.is_file() => {
            ReadError::NotRegular { path: path.to_owned(), kind: FileKind::of(kind) }
        }
        _ => ReadError::Io { path: path.to_owned(), source },
    }
}

/// Whether the error says that the path ends in a link. A chain of too many links has the same
/// error; then "a symbolic link" is right as well.
fn is_refused_link(source: &io::Error) -> bool {
    #[cfg(unix)]
    return source.raw_os_error() == Some(libc::ELOOP);
    #[cfg(not(unix))]
    return false;
}
