//! Detects that the files of an open database were deleted, replaced or truncated. SQLite continues
//! to use the files that it has open, and what it then stores is lost with the process.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::StoreError;
use crate::sqlite::salvage::{LogIndex, bytes_of_log, with_suffix};

/// Attempts to read the log's index when it contradicts the log, which another process may just be
/// emptying.
const INDEX_ATTEMPTS: usize = 3;

/// The identity and the size of the files of an open database.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    /// Device and inode of the database.
    opened: OnceLock<(u64, u64)>,
    /// Smallest size of the database in bytes, since it never shrinks.
    bytes: AtomicU64,
    /// The detected change; nothing is stored after it.
    changed: OnceLock<StoreError>,
}

impl Identity {
    /// Records the opened database, of `bytes` bytes. The rest of a longer file has no meaning.
    pub(crate) fn note(&self, path: &Path, bytes: u64) -> Result<(), StoreError> {
        let metadata = fs::metadata(path).map_err(|error| StoreError::io("read", path, error))?;
        self.bytes.store(metadata.len().min(bytes), Ordering::Relaxed);
        // A database is opened only once.
        let _ = self.opened.set(id(&metadata));
        Ok(())
    }

    /// Checks that the path still names the opened database, with one `stat` call.
    ///
    /// # Errors
    /// It does not, or did not in an earlier check.
    pub(crate) fn check(&self, path: &Path) -> Result<(), StoreError> {
        let Some(opened) = self.opened.get() else { return Ok(()) };
        if let Some(error) = self.changed.get() {
            return Err(error.clone());
        }
        // Loaded before the size is read: another thread may record a larger size between the two.
        let known_bytes = self.bytes.load(Ordering::Acquire);
        let what = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => "was deleted or moved away",
            // Unknown; the next read or write shows it.
            Err(_) => return Ok(()),
            Ok(metadata) if !metadata.is_file() || id(&metadata) != *opened => {
                "was replaced by another file"
            }
            Ok(metadata) if metadata.len() < known_bytes => {
                return Err(self.fail(path, "was truncated", saved_later(path)));
            }
            Ok(metadata) => {
                self.bytes.fetch_max(metadata.len(), Ordering::Release);
                return Ok(());
            }
        };
        Err(self.fail(path, what, held_open()))
    }

    /// As [`Identity::check`], and checks that the log, which had `pages` pages after the latest
    /// commit, is at its path.
    ///
    /// # Errors
    /// As for [`Identity::check`].
    pub(crate) fn check_log(&self, path: &Path, pages: u32) -> Result<(), StoreError> {
        self.check(path)?;
        if self.opened.get().is_none() {
            return Ok(());
        }
        let (log, index) = (with_suffix(path, "-wal"), with_suffix(path, "-shm"));
        let mut expected = bytes_of_log(pages);
        for _ in 0..INDEX_ATTEMPTS {
            let bytes = match fs::metadata(&log) {
                Ok(metadata) => metadata.len(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
                // Unknown; the next read or write shows it.
                Err(_) => return Ok(()),
            };
            if bytes >= expected {
                return Ok(());
            }
            // Another process may have emptied the log; then the index shows it.
            expected = LogIndex::read(&index)?.map_or(expected, |index| index.bytes_of_log());
        }
        Err(self.fail(&log, "was deleted or truncated", saved_later(path)))
    }

    fn fail(&self, path: &Path, what: &'static str, advice: String) -> StoreError {
        let error = StoreError::files_changed(path, what, &advice);
        self.changed.get_or_init(|| error).clone()
    }
}

fn held_open() -> String {
    let process = std::process::id();
    let place = match cfg!(target_os = "linux") {
        true => format!(" (find it with `ls -l /proc/{process}/fd` and copy it from there)"),
        false => String::new(),
    };
    format!(
        "The stored data is in the file that process {process} still has open{place}. Restore the \
         file, then restart the server"
    )
}

fn saved_later(path: &Path) -> String {
    format!(
        "Restore a copy of it, or restart the server, which saves what is left in {} and its log",
        path.display()
    )
}

#[cfg(unix)]
fn id(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}

/// On other systems, an open file cannot be deleted or replaced.
#[cfg(not(unix))]
fn id(_: &Metadata) -> (u64, u64) {
    (0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_during_concurrent_checks_is_not_taken_for_truncation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("database");
        let file = fs::File::create(&path).unwrap();
        let identity = Identity::default();
        identity.note(&path, 0).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..2000).for_each(|_| identity.check(&path).unwrap()));
            }
            (0..2000).for_each(|bytes| file.set_len(bytes).unwrap());
        });
        file.set_len(1).unwrap();
        assert!(identity.check(&path).is_err());
    }
}
