//! Reads regular files within a bound, even if they grow in the meantime.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::Error;
use crate::open::{Opened, open};

/// The contents of a regular file of at most `max_bytes`.
///
/// # Errors
/// See [`Error`].
pub fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>, Error> {
    open(path)?.read(path, max_bytes)
}

/// As [`read`], for text, in whatever encoding a person's editor stores it: see [`decoded`].
///
/// # Errors
/// See [`Error`].
pub fn read_text(path: &Path, max_bytes: u64) -> Result<String, Error> {
    text(path, read(path, max_bytes)?)
}

/// As [`read`], for UTF-8 exactly as it is stored, a byte order mark included: for what is written back, and
/// for what another program reads without decoding it.
///
/// # Errors
/// See [`Error`].
pub fn read_utf8(path: &Path, max_bytes: u64) -> Result<String, Error> {
    String::from_utf8(read(path, max_bytes)?).map_err(|_| Error::NotText(path.to_owned()))
}

/// The text of these bytes: UTF-8 with or without a byte order mark, or UTF-16 with one. The mark is no
/// part of the text.
///
/// # Errors
/// The bytes, if they are none of these.
pub fn decoded(mut bytes: Vec<u8>) -> Result<String, Vec<u8>> {
    let utf16 = |unit: fn([u8; 2]) -> u16| {
        let units = bytes[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
        let chars = char::decode_utf16(units);
        // The last unit can be cut off where only the start of a file is read.
        chars.map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    };
    match bytes.as_slice() {
        [0xff, 0xfe, ..] => return Ok(utf16(u16::from_le_bytes)),
        [0xfe, 0xff, ..] => return Ok(utf16(u16::from_be_bytes)),
        [0xef, 0xbb, 0xbf, ..] => drop(bytes.drain(..3)),
        _ => {}
    }
    String::from_utf8(bytes).map_err(std::string::FromUtf8Error::into_bytes)
}

/// The first `max_bytes` of a regular file, which may be longer.
///
/// # Errors
/// See [`Error`]; never `TooLarge`.
pub fn read_start(path: &Path, max_bytes: u64) -> Result<Vec<u8>, Error> {
    open(path)?.start(path, max_bytes)
}

/// As [`read_text`], for a file named on the command line: a descriptor that the shell passes on,
/// as in `--flag <(program)`, is read to its end although it is a pipe.
///
/// # Errors
/// See [`Error`].
pub fn read_argument(path: &Path, max_bytes: u64) -> Result<String, Error> {
    text(path, bounded(open_argument(path)?, path, 0, max_bytes)?)
}

/// Opens a file as [`read_argument`] does, for callers that read it in pieces.
///
/// # Errors
/// See [`Error`].
pub fn open_argument(path: &Path) -> Result<File, Error> {
    let descriptors = ["/dev/fd", "/proc/self/fd", "/dev/stdin"];
    if !descriptors.iter().any(|start| path.starts_with(start)) {
        return Ok(open(path)?.file);
    }
    File::open(path).map_err(|cause| Error::Io { path: path.to_owned(), cause })
}

impl Opened {
    /// The text, of at most `max_bytes`, as [`read_text`] decodes it; `path` is for errors.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn read_text(self, path: &Path, max_bytes: u64) -> Result<String, Error> {
        text(path, self.read(path, max_bytes)?)
    }

    /// The contents, of at most `max_bytes`; `path` is for errors.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn read(self, path: &Path, max_bytes: u64) -> Result<Vec<u8>, Error> {
        let length = self.metadata.len();
        if length > max_bytes {
            return Err(Error::TooLarge { path: path.to_owned(), max_bytes });
        }
        bounded(self.file, path, length, max_bytes)
    }

    /// The first `max_bytes`; `path` is for errors.
    ///
    /// # Errors
    /// See [`Error`]; never `TooLarge`.
    pub fn start(self, path: &Path, max_bytes: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::with_capacity(capacity(self.metadata.len().min(max_bytes)));
        let read = self.file.take(max_bytes).read_to_end(&mut bytes);
        read.map_err(|cause| Error::Io { path: path.to_owned(), cause })?;
        Ok(bytes)
    }
}

fn bounded(file: File, path: &Path, length: u64, max_bytes: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::with_capacity(capacity(length));
    // The file may grow while it is read, so one byte beyond the bound is read to detect that.
    let read = file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|cause| Error::Io { path: path.to_owned(), cause })?;
    if bytes.len() as u64 > max_bytes {
        return Err(Error::TooLarge { path: path.to_owned(), max_bytes });
    }
    Ok(bytes)
}

/// Initial capacity for a file of this length. Bounded, because a sparse file can claim any length.
fn capacity(length: u64) -> usize {
    const MAX: u64 = 1 << 20;
    usize::try_from(length.min(MAX)).unwrap_or(0)
}

fn text(path: &Path, bytes: Vec<u8>) -> Result<String, Error> {
    decoded(bytes).map_err(|_| Error::NotText(path.to_owned()))
}
