//! Checks that the files of a store are regular files and folders which the user may read and
//! write. Changes and opens nothing; used by servers and by `agentd doctor`.

use std::fs::{self, FileType};
use std::io;
use std::path::Path;

use crate::StoreError;
use crate::sqlite::paths::{OWNERS, database_path, lock_path};
use crate::sqlite::salvage::with_suffix;

/// Checks the existing files of the store in `dir`.
///
/// # Errors
/// A file or a folder is of another kind, or the user may not read and write it.
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

/// Checks the kind of a file before it is opened: opening a pipe waits, opening a device can have
/// any effect, and SQLite deletes a log that it cannot use.
fn check_kind(path: &Path, is_right: fn(&FileType) -> bool) -> Result<(), StoreError> {
    let kind = match fs::metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A file created at the target could be in a location that is only temporarily missing.
            return match fs::symlink_metadata(path) {
                Ok(found) if found.is_symlink() => {
                    let what = "a dangling symbolic link";
                    Err(StoreError::not_a_file(path, what))
                }
                // Another server made it meanwhile.
                Ok(_) => check_kind(path, is_right),
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
        () if kind.is_file() => "a file, not a folder",
        () => "a pipe, a socket or a device",
    };
    Err(StoreError::not_a_file(path, what))
}
