//! Detects whether the process of a store is alive: each open store holds a lock on its own file,
//! which the kernel releases however the process ends. Does not depend on process ids, which are
//! reused.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
#[cfg(unix)]
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::StoreError;

/// Largest description of an owner, in bytes.
const MAX_DESCRIPTION: u64 = 4096;

/// The lock of an open store. Dropping it deletes the file and releases the lock.
#[derive(Debug)]
pub(crate) struct OwnerLock {
    file: File,
    path: PathBuf,
}

impl OwnerLock {
    /// Takes the lock for `owner` in the folder `owners`.
    pub(crate) fn acquire(owners: &Path, owner: &str, now_ms: i64) -> Result<Self, StoreError> {
        let bad = |reason| StoreError::BadOwner { owner: owner.to_owned(), reason };
        if owner.is_empty() || owner.starts_with('.') || owner.contains(['/', '\0']) {
            return Err(bad("cannot be a file name"));
        }
        let path = owners.join(owner);
        // Between creation and locking, a sweep of another store can delete the file as that of a
        // dead owner; then it is created again.
        loop {
            let mut options = File::options();
            options.read(true).write(true).create_new(true);
            #[cfg(unix)]
            options.mode(0o600);
            let file = match options.open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(bad("is already in use"));
                }
                other => other.map_err(|error| StoreError::io("create", &path, error))?,
            };
            file.lock().map_err(|error| StoreError::io("lock", &path, error))?;
            if is_still(&file, &path)? {
                let mut lock = Self { file, path };
                lock.describe(now_ms);
                return Ok(lock);
            }
        }
    }

    /// Describes the owner, for error messages. A failure is ignored, because a full disk must not
    /// prevent opening a store for reading.
    fn describe(&mut self, now_ms: i64) {
        let text = format!("pid = {}\nopened_at_ms = {now_ms}\n", std::process::id());
        let _ = self.file.write_all(text.as_bytes());
    }
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        // A remaining file is harmless: its lock is free, so the next sweep deletes it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns whether `owner` is dead; deletes the file of a dead owner.
pub(crate) fn is_dead(owners: &Path, owner: &str) -> Result<bool, StoreError> {
    let path = owners.join(owner);
    match lock_of(&path)? {
        Lock::Held => Ok(false),
        Lock::None => Ok(true),
        // Deleted while the lock is held, so that a store that is being opened notices it and
        // retries.
        Lock::Free(_held) => match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::io("remove", &path, error))
            }
            _ => Ok(true),
        },
    }
}

/// Returns whether `owner` is alive. Changes nothing.
pub(crate) fn is_alive(owners: &Path, owner: &str) -> Result<bool, StoreError> {
    Ok(matches!(lock_of(&owners.join(owner))?, Lock::Held))
}

/// The lock of an owner.
enum Lock {
    /// The owner does not exist; a file with its name, if any, is not that of an owner.
    None,
    /// The owner is alive.
    Held,
    /// The owner is dead; this holds its lock.
    Free(File),
}

fn lock_of(path: &Path) -> Result<Lock, StoreError> {
    let file = match files::open(path) {
        Ok(opened) => opened.file,
        Err(files::Error::NotRegular { .. }) => return Ok(Lock::None),
        Err(error) if error.is_not_found() => return Ok(Lock::None),
        Err(error) => return Err(StoreError::io("open", path, error.into_io())),
    };
    match file.try_lock() {
        Ok(()) => Ok(Lock::Free(file)),
        Err(TryLockError::WouldBlock) => Ok(Lock::Held),
        Err(TryLockError::Error(error)) => Err(StoreError::io("lock", path, error)),
    }
}

/// Describes an owner for messages.
pub(crate) fn described(owners: &Path, owner: &str) -> String {
    let text = files::read_utf8(&owners.join(owner), MAX_DESCRIPTION).unwrap_or_default();
    match text.lines().find_map(|line| line.strip_prefix("pid = ")) {
        Some(pid) => format!("process {pid}"),
        None => format!("owner {owner}"),
    }
}

/// Describes the living owners of this folder except `me`. Changes nothing; a missing folder has
/// none.
pub(crate) fn living(owners: &Path, me: &str) -> Result<Vec<String>, StoreError> {
    let failed = |error| StoreError::io("read", owners, error);
    let mut living = Vec::new();
    let entries = match fs::read_dir(owners) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(living),
        other => other.map_err(failed)?,
    };
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        if let Some(owner) = name.to_str().filter(|owner| *owner != me)
            && matches!(lock_of(&owners.join(owner))?, Lock::Held)
        {
            living.push(described(owners, owner));
        }
    }
    Ok(living)
}

/// Deletes the files of all dead owners.
pub(crate) fn sweep(owners: &Path) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("read", owners, error);
    for entry in fs::read_dir(owners).map_err(failed)? {
        if let Some(owner) = entry.map_err(failed)?.file_name().to_str() {
            is_dead(owners, owner)?;
        }
    }
    Ok(())
}

/// On systems where an open file cannot be deleted, checks only that the path exists.
#[cfg(not(unix))]
fn is_still(_file: &File, path: &Path) -> Result<bool, StoreError> {
    Ok(path.exists())
}

#[cfg(unix)]
fn is_still(file: &File, path: &Path) -> Result<bool, StoreError> {
    let held = file.metadata().map_err(|error| StoreError::io("read", path, error))?;
    match fs::metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError::io("read", path, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_until_its_holder_ends() {
        let dir = tempfile::tempdir().unwrap();
        let lock = OwnerLock::acquire(dir.path(), "a", 1).unwrap();
        assert!(!is_dead(dir.path(), "a").unwrap());
        assert!(OwnerLock::acquire(dir.path(), "a", 1).is_err(), "one name, one owner");
        drop(lock);
        assert!(is_dead(dir.path(), "a").unwrap());
        OwnerLock::acquire(dir.path(), "a", 2).unwrap();
    }

    #[test]
    fn a_sweep_deletes_only_dead_owners() {
        let dir = tempfile::tempdir().unwrap();
        let _lock = OwnerLock::acquire(dir.path(), "alive", 1).unwrap();
        fs::write(dir.path().join("dead"), "").unwrap();
        sweep(dir.path()).unwrap();
        assert!(dir.path().join("alive").exists());
        assert!(!dir.path().join("dead").exists());
    }

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        for owner in ["", ".", "..", "../x", "a/b", "a\0b"] {
            assert!(OwnerLock::acquire(dir.path(), owner, 1).is_err(), "{owner:?}");
        }
    }
}
