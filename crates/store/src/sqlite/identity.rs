//! Detects that the files of an open database were deleted, replaced or truncated. SQLite continues
//! to use the files that it has open, and what it then stores is lost with the process.

use std::fs::{self, File, Metadata};
use std::io::{self, Seek as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

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
    /// The log's index, once it was read. It stays open until the process ends: when a process closes any descriptor
    /// of a file, the system releases all its locks on that file. SQLite's locks are on the index, and without
    /// them, the next process that opens the database truncates it under this one.
    index: OnceLock<&'static Mutex<File>>,
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
            expected = self.read_index(&index)?.map_or(expected, |index| index.bytes_of_log());
        }
        Err(self.fail(&log, "was deleted or truncated", saved_later(path)))
    }

    fn read_index(&self, path: &Path) -> Result<Option<LogIndex>, StoreError> {
        let file = match self.index.get() {
            Some(file) => *file,
            None => {
                let Some(file) = LogIndex::open(path)? else { return Ok(None) };
                // Of two threads that get here, the file of one is not kept, but stays open as well.
                let file: &'static Mutex<File> = Box::leak(Box::new(Mutex::new(file)));
                self.index.get_or_init(|| file)
            }
        };
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        file.rewind().map_err(|error| StoreError::io("read", path, error))?;
        LogIndex::read_open(path, &mut *file)
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
        let file = File::create(&path).unwrap();
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

    /// Locks of this process on a file, as the system lists them.
    #[cfg(target_os = "linux")]
    fn locks(path: &Path) -> Vec<String> {
        use std::os::unix::fs::MetadataExt as _;
        let inode = format!(":{} ", fs::metadata(path).unwrap().ino());
        let process = format!(" {} ", std::process::id());
        let all = fs::read_to_string("/proc/locks").unwrap();
        let ours = all.lines().filter(|line| line.contains(&inode) && line.contains(&process));
        // Without its number in the list.
        ours.filter_map(|line| Some(line.split_once(':')?.1.trim().to_owned())).collect()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_locks_of_sqlite_outlive_a_look_at_the_index() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("database");
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.execute_batch(
            "PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)",
        )
        .unwrap();
        let index = with_suffix(&path, "-shm");
        let before = locks(&index);
        assert!(!before.is_empty(), "SQLite has a lock while the database is open");
        let identity = Identity::default();
        identity.note(&path, 0).unwrap();
        // As if another process had emptied the log: the index has to be read.
        for _ in 0..2 {
            identity.check_log(&path, 1_000).unwrap();
        }
        assert!(identity.index.get().is_some());
        assert_eq!(locks(&index), before);
    }
}
