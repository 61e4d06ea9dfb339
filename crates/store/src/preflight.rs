//! Whether the files of a store are such that one can be opened on them: regular files and folders,
//! which the user may read and write. Changes nothing, opens nothing; servers and `agentd doctor`
//! ask the same question here.

use std::fs::{self, FileType};
use std::io;
use std::path::Path;

use crate::StoreError;
use crate::paths::{OWNERS, database_path, lock_path};
use crate::salvage::with_suffix;

/// Checks what there is of the store in `dir`. What is missing is made later.
///
/// # Errors
/// Something else stands in the place of a file or a folder, or the user may not read and write it.
pub(crate) fn check(dir: &Path) -> Result<(), StoreError> {
    let database = database_path(dir);
    let (log, index) = (with_suffix(&database, "-wal"), with_suffix(&database, "-shm"));
    for folder in [dir, &dir.join(OWNERS)] {
        check_kind(folder, FileType::is_dir)?;
    }
    for file in [&lock_path(dir), &database, &log, &index] {
        check_kind(file, FileType::is_file)?;
    }
    Ok(())
}

/// Opening a pipe would wait, opening a device may do anything; SQLite removes a log that it cannot
/// use.
fn check_kind(path: &Path, is_right: fn(&FileType) -> bool) -> Result<(), StoreError> {
    let kind = match fs::metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Made there, a file may be in a place that is only missing for now.
            return match fs::symlink_metadata(path) {
                Ok(_) => {
                    let what = "a symbolic link to something that is missing";
                    Err(StoreError::NotAFile { path: path.to_owned(), what })
                }
                Err(_) => Ok(()),
            };
        }
        Err(error) => return Err(StoreError::io("read", path, error)),
    };
    if is_right(&kind) {
        return files::check_usable(path).map_err(|error| StoreError::io("open", path, error));
    }
    let what = match () {
        () if kind.is_dir() => "a folder",
        () if kind.is_file() => "a file, and not a folder",
        () => "a pipe, a socket or a device",
    };
    Err(StoreError::NotAFile { path: path.to_owned(), what })
}
