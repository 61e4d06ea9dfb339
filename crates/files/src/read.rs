//! Reads regular files within a bound, also when they grow meanwhile.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::open::{FileKind, Opened, open};

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("{}: it is {kind}, not a regular file", .path.display())]
    NotRegular { path: PathBuf, kind: FileKind },
    #[error("{}: it is larger than {}", .path.display(), size(*.max_bytes))]
    TooLarge { path: PathBuf, max_bytes: u64 },
    #[error("{}: it is not UTF-8 text", .0.display())]
    NotText(PathBuf),
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl ReadError {
    /// Whether there is nothing at the path.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        use io::ErrorKind::{NotADirectory, NotFound};
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), NotFound | NotADirectory))
    }

    /// The error without the path, for callers whose own error names it.
    #[must_use]
    pub fn into_io(self) -> io::Error {
        let kind = match &self {
            Self::Io { .. } => io::ErrorKind::Other,
            Self::NotRegular { .. } => io::ErrorKind::InvalidInput,
            Self::TooLarge { .. } => io::ErrorKind::FileTooLarge,
            Self::NotText(_) => io::ErrorKind::InvalidData,
        };
        match self {
            Self::Io { source, .. } => source,
            Self::NotRegular { kind: found, .. } => {
                io::Error::new(kind, format!("it is {found}, not a regular file"))
            }
            Self::TooLarge { max_bytes, .. } => {
                io::Error::new(kind, format!("it is larger than {}", size(max_bytes)))
            }
            Self::NotText(_) => io::Error::new(kind, "it is not UTF-8 text"),
        }
    }
}

/// `20 MiB`, `64 KiB`, `100 bytes`: the largest unit that is exact.
fn size(bytes: u64) -> String {
    match bytes {
        0 => "0 bytes".to_owned(),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

/// The contents of a regular file of at most `max_bytes`.
///
/// # Errors
/// See [`ReadError`].
pub fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>, ReadError> {
    open(path)?.read(path, max_bytes)
}

/// As [`read`], for text.
///
/// # Errors
/// See [`ReadError`].
pub fn read_text(path: &Path, max_bytes: u64) -> Result<String, ReadError> {
    text(path, read(path, max_bytes)?)
}

/// The first `max_bytes` of a regular file, which may be longer.
///
/// # Errors
/// See [`ReadError`]; never `TooLarge`.
pub fn read_start(path: &Path, max_bytes: u64) -> Result<Vec<u8>, ReadError> {
    open(path)?.start(path, max_bytes)
}

/// As [`read_text`], for a file that the user named on the command line: there a descriptor that
/// the user's shell passed on, as in `--flag <(program)`, is read to its end although it is a pipe.
///
/// # Errors
/// See [`ReadError`].
pub fn read_argument(path: &Path, max_bytes: u64) -> Result<String, ReadError> {
    text(path, bounded(open_argument(path)?, path, 0, max_bytes)?)
}

/// Opens a file as [`read_argument`] does, for callers that read it piece by piece.
///
/// # Errors
/// See [`ReadError`].
pub fn open_argument(path: &Path) -> Result<File, ReadError> {
    let passed_on = ["/dev/fd", "/proc/self/fd", "/dev/stdin"];
    if !passed_on.iter().any(|start| path.starts_with(start)) {
        return Ok(open(path)?.file);
    }
    File::open(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })
}

impl Opened {
    /// The contents, of at most `max_bytes`; `path` is for errors.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read(self, path: &Path, max_bytes: u64) -> Result<Vec<u8>, ReadError> {
        let length = self.metadata.len();
        if length > max_bytes {
            return Err(ReadError::TooLarge { path: path.to_owned(), max_bytes });
        }
        bounded(self.file, path, length, max_bytes)
    }

    /// The first `max_bytes`; `path` is for errors.
    ///
    /// # Errors
    /// See [`ReadError`]; never `TooLarge`.
    pub fn start(self, path: &Path, max_bytes: u64) -> Result<Vec<u8>, ReadError> {
        let mut bytes = Vec::with_capacity(room(self.metadata.len().min(max_bytes)));
        let read = self.file.take(max_bytes).read_to_end(&mut bytes);
        read.map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
        Ok(bytes)
    }
}

fn bounded(file: File, path: &Path, length: u64, max_bytes: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::with_capacity(room(length));
    // The file may grow while it is read: the bound is on what is read, and one byte more tells.
    let read = file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    if bytes.len() as u64 > max_bytes {
        return Err(ReadError::TooLarge { path: path.to_owned(), max_bytes });
    }
    Ok(bytes)
}

/// What is reserved before anything is read. A sparse file claims a length that it does not have,
/// so larger ones grow as they are read.
fn room(length: u64) -> usize {
    const MOST: u64 = 1 << 20;
    usize::try_from(length.min(MOST)).unwrap_or(0)
}

fn text(path: &Path, bytes: Vec<u8>) -> Result<String, ReadError> {
    String::from_utf8(bytes).map_err(|_| ReadError::NotText(path.to_owned()))
}
