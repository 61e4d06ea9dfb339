//! Reading of files below a root: regular files of bounded size, and no links.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::bounds::{FOLDER_ENTRIES, SETTINGS_BYTES, TEXT_BYTES};
use crate::error::Error;

/// Checks that nothing on the way from `root` to `path` is a symbolic link; what does not exist is none.
///
/// # Errors
/// [`Error::Link`]; [`Error::Contents`] when `path` is not below `root`.
pub fn unlinked(root: &Path, path: &Path) -> Result<(), Error> {
    let outside = || Error::contents(path, format!("it is not below {}", root.display()));
    let relative = path.strip_prefix(root).map_err(|_| outside())?;
    let mut at = root.to_owned();
    for component in relative.components() {
        let std::path::Component::Normal(name) = component else { return Err(outside()) };
        at.push(name);
        match std::fs::symlink_metadata(&at) {
            Ok(metadata) if metadata.file_type().is_symlink() => return Err(Error::Link(at)),
            Ok(_) => {}
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(cause) => return Err(files::Error::Io { path: at, cause }.into()),
        }
    }
    Ok(())
}

/// The bytes of a file; `None` when it does not exist.
pub(crate) fn bytes(root: &Path, path: &Path, most: u64) -> Result<Option<Vec<u8>>, Error> {
    unlinked(root, path)?;
    let read = files::open_without_links(path).and_then(|opened| opened.read(path, most));
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The text of a file, without a byte order mark.
pub(crate) fn text(root: &Path, path: &Path) -> Result<Option<String>, Error> {
    let Some(bytes) = bytes(root, path, TEXT_BYTES)? else { return Ok(None) };
    decoded(path, bytes).map(Some)
}

/// The text of a file with these bytes.
pub(crate) fn decoded(path: &Path, bytes: Vec<u8>) -> Result<String, Error> {
    files::decoded(bytes).map_err(|_| Error::contents(path, "it is not text in UTF-8 or UTF-16"))
}

/// The value in a file of JSON, which must be an object and have no member twice: which one counts would be a
/// guess.
pub(crate) fn json(root: &Path, path: &Path) -> Result<Option<Value>, Error> {
    let Some(bytes) = bytes(root, path, SETTINGS_BYTES)? else { return Ok(None) };
    match hooks::read_json(decoded(path, bytes)?.as_bytes()) {
        Ok(value @ Value::Object(_)) => Ok(Some(value)),
        Ok(_) => Err(Error::contents(path, "it must be a JSON object")),
        Err(error) => Err(Error::contents(path, format!("it is not valid JSON: {error}"))),
    }
}

/// The entries of a folder, sorted; none when it does not exist.
pub(crate) fn entries(root: &Path, folder: &Path) -> Result<Vec<PathBuf>, Error> {
    unlinked(root, folder)?;
    let failed = |cause| Error::from(files::Error::Io { path: folder.to_owned(), cause });
    let listing = match std::fs::read_dir(folder) {
        Ok(listing) => listing,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(failed(cause)),
    };
    let mut found = Vec::new();
    for entry in listing {
        if found.len() >= FOLDER_ENTRIES {
            let why =
                format!("it has more than {FOLDER_ENTRIES} entries; none of them is taken over");
            return Err(Error::contents(folder, why));
        }
        found.push(entry.map_err(failed)?.path());
    }
    found.sort();
    Ok(found)
}
