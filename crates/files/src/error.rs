//! The error of this crate: why a file cannot be used, where, and what to do next.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::file_kind::FileKind;

/// Why a file, or work on files, has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not a regular file.
    #[error("{}: it is {kind}, not a regular file", .path.display())]
    NotRegular { path: PathBuf, kind: FileKind },
    /// Larger than the caller's bound.
    #[error("{}: it is larger than {}", .path.display(), size(*.max_bytes))]
    TooLarge { path: PathBuf, max_bytes: u64 },
    /// Not UTF-8.
    #[error("{}: it is not UTF-8 text", .0.display())]
    NotText(PathBuf),
    /// The operating system reports an error.
    #[error("{}: {cause}", .path.display())]
    Io { path: PathBuf, cause: io::Error },
    /// A secret that other users can replace.
    #[error(
        "{path}: other users can change this file (mode {mode:03o}); run `chmod 600 {path}`, and make \
         a new secret if another user may have changed it", path = .path.display()
    )]
    Writable { path: PathBuf, mode: u32 },
    /// A secret of another user.
    #[error(
        "{path}: the file belongs to another user ({owner}); it must belong to root or to the user \
         that runs the server", path = .path.display()
    )]
    Foreign { path: PathBuf, owner: u32 },
    /// An empty secret.
    #[error("{}: the file is empty; write the secret to it", .0.display())]
    Empty(PathBuf),
    /// The file system did not respond in time.
    #[error(
        "{}: the file system did not respond within {} s; check what is mounted there, and try \
         again when it responds", .path.display(), .after.as_secs()
    )]
    TimedOut { path: PathBuf, after: Duration },
    /// Earlier work on the same path still waits.
    #[error(
        "{}: the file system has not responded to {waiting} earlier requests; check what is mounted \
         there, and try again when it responds", .path.display()
    )]
    StillWaiting { path: PathBuf, waiting: usize },
    /// Too much work waits, on any path.
    #[error(
        "{waiting} requests wait for file systems that do not respond, so no further file is opened; \
         check what is mounted, or restart the server"
    )]
    Exhausted { waiting: usize },
    /// The work panicked.
    #[error("{}: reading failed inside the program; please report it", .path.display())]
    Panicked { path: PathBuf },
}

impl Error {
    /// Returns whether nothing exists at the path.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        use io::ErrorKind::{NotADirectory, NotFound};
        matches!(self, Self::Io { cause, .. } if matches!(cause.kind(), NotFound | NotADirectory))
    }

    /// The error without its path, for callers whose own error names the path.
    #[must_use]
    pub fn into_io(self) -> io::Error {
        let (kind, message) = match self {
            Self::Io { cause, .. } => return cause,
            Self::NotRegular { kind, .. } => {
                (io::ErrorKind::InvalidInput, format!("it is {kind}, not a regular file"))
            }
            Self::TooLarge { max_bytes, .. } => {
                (io::ErrorKind::FileTooLarge, format!("it is larger than {}", size(max_bytes)))
            }
            Self::NotText(_) => (io::ErrorKind::InvalidData, "it is not UTF-8 text".to_owned()),
            Self::TimedOut { .. } | Self::StillWaiting { .. } | Self::Exhausted { .. } => {
                (io::ErrorKind::TimedOut, self.to_string())
            }
            other => (io::ErrorKind::Other, other.to_string()),
        };
        io::Error::new(kind, message)
    }
}

/// `20 MiB`, `64 KiB`, `100 bytes`: the size in the largest unit that is exact.
fn size(bytes: u64) -> String {
    match bytes {
        0 => "0 bytes".to_owned(),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}
