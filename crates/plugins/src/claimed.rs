//! Folders for work in progress. Each is claimed with a lock until it is dropped or its process ends, so
//! that others can tell what a killed process has left behind.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;

use crate::error::{Error, io_at};

/// The file in such a folder that is locked.
const LOCK: &str = ".claimed";

/// A folder that is deleted when it is dropped. Deleting blocks on the file system.
#[derive(Debug)]
pub(crate) struct Claimed {
    // Deleted before the lock is released: fields are dropped in this order.
    folder: TempDir,
    _lock: File,
}

impl Claimed {
    /// Makes a folder in `parent` whose name begins with `prefix`.
    pub(crate) fn create(parent: &Path, prefix: &str) -> Result<Self, Error> {
        let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(parent);
        let folder = folder.map_err(io_at(parent))?;
        let path = folder.path().join(LOCK);
        let lock = open(&path, OFlags::CREATE | OFlags::EXCL).map_err(io_at(&path))?;
        lock.lock().map_err(io_at(&path))?;
        Ok(Self { folder, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Deletes the folders of [`Claimed::create`] whose processes have ended. One that has no lock yet may be about
/// to get it, and stays until it is older than `grace`. What belongs to other users stays, as does what
/// cannot be deleted.
pub(crate) fn remove_abandoned(parent: &Path, prefix: &str, grace: Duration) {
    let own = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_named = entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes());
        let Ok(metadata) = path.symlink_metadata() else { continue };
        if !is_named || !metadata.is_dir() || metadata.uid() != own {
            continue;
        }
        let age = metadata.modified().ok().and_then(|time| time.elapsed().ok()).unwrap_or_default();
        if is_abandoned(&path, age >= grace) {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// Returns whether no process works in the folder.
pub(crate) fn is_abandoned(folder: &Path, without_lock: bool) -> bool {
    match open(&folder.join(LOCK), OFlags::empty()) {
        Ok(lock) => !matches!(lock.try_lock(), Err(TryLockError::WouldBlock)),
        Err(_) => without_lock,
    }
}

fn open(path: &Path, more: OFlags) -> rustix::io::Result<File> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | more;
    rustix::fs::open(path, flags, Mode::from_raw_mode(0o600)).map(File::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ended_processes_left_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, locked: bool| {
            let folder = parent.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("file"), "x").unwrap();
            if locked {
                std::fs::write(folder.join(LOCK), "").unwrap();
            }
            folder
        };
        let (left, other, young) =
            (make("work-1", true), make("else", true), make("work-2", false));
        std::os::unix::fs::symlink(&other, parent.path().join("work-3")).unwrap();
        let active = Claimed::create(parent.path(), "work-").unwrap();
        remove_abandoned(parent.path(), "work-", Duration::from_secs(3_600));
        assert!(!left.exists(), "its process has ended");
        assert!(other.join("file").exists() && young.exists() && active.path().exists());
        remove_abandoned(parent.path(), "work-", Duration::ZERO);
        assert!(!young.exists() && other.join("file").exists() && active.path().exists());
        let path = active.path().to_owned();
        drop(active);
        assert!(!path.exists());
    }
}
