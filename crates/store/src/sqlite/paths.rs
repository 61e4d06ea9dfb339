//! The paths of a store's files, and their creation.

use std::fs::{self, DirBuilder, File, Permissions};
#[cfg(unix)]
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::StoreError;

/// The folder with the locks of the stores that have the database open.
pub(crate) const OWNERS: &str = "owners";

/// Content of the lock file after damage was found while the database was in use.
pub(crate) const DAMAGED: &str = "damaged\n";

/// The lock file in the folder of a store. Held while a store is opened; contains how the last one
/// ended: `closed SIZE MTIME` of the database, `damaged`, `open`, or nothing.
pub(crate) fn lock_path(dir: &Path) -> PathBuf {
    dir.join("threads.lock")
}

/// Notes that the database is damaged. The next store that opens it alone salvages it.
pub(crate) fn note_damage(database: &Path) -> Result<(), StoreError> {
    let path = lock_path(database.parent().unwrap_or(Path::new(".")));
    fs::write(&path, DAMAGED).map_err(|error| StoreError::io("write", &path, error))
}

/// The database in the folder of a store.
pub(crate) fn database_path(dir: &Path) -> PathBuf {
    dir.join("threads.db")
}

/// Creates `dir` and its missing parents, private to the user, and makes an existing `dir` private.
pub(crate) fn create_private_dir(dir: &Path) -> Result<(), StoreError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    builder.mode(0o700);
    builder.create(dir).map_err(|error| StoreError::io("create", dir, error))?;
    restrict(dir, 0o700)
}

/// Opens a file for reading and appending. Creates it private to the user if it does not exist.
pub(crate) fn create_private_file(path: &Path) -> Result<File, StoreError> {
    let opened = files::append(path);
    let opened = opened.map_err(|error| StoreError::io("open", path, error.into_io()))?;
    restrict(path, 0o600)?;
    Ok(opened.file)
}

/// On other systems, the location of the home makes it private.
#[cfg(not(unix))]
pub(crate) fn restrict(_path: &Path, _mode: u32) -> Result<(), StoreError> {
    Ok(())
}

#[cfg(unix)]
pub(crate) fn restrict(path: &Path, mode: u32) -> Result<(), StoreError> {
    let metadata = fs::metadata(path).map_err(|error| StoreError::io("read", path, error))?;
    if metadata.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(|error| StoreError::io("make private", path, error))
}
