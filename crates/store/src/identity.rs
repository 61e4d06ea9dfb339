//! Notices that the files of an open database were deleted, replaced or truncated behind its back:
//! SQLite goes on with the files that it has open, and what it stores then is gone with the process.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::StoreError;
use crate::salvage::{LogIndex, bytes_of_log, with_suffix};

/// Looks at the log's index are repeated so often when they contradict the log: another process may
/// just be emptying it.
const LOOKS: usize = 3;

/// The files of an open database, as they were when it was opened and as they grew.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    /// Device and inode of the database.
    opened: OnceLock<(u64, u64)>,
    /// Bytes that the database has at least: it never shrinks.
    bytes: AtomicU64,
    /// What was found; from then on nothing is stored.
    changed: OnceLock<StoreError>,
}

impl Identity {
    /// Notes what was opened: a database of so many bytes. Of a longer file the rest means nothing.
    pub(crate) fn note(&self, path: &Path, bytes: u64) -> Result<(), StoreError> {
        let metadata = fs::metadata(path).map_err(|error| StoreError::io("read", path, error))?;
        self.bytes.store(metadata.len().min(bytes), Ordering::Relaxed);
        // A database is opened once.
        let _ = self.opened.set(id(&metadata));
        Ok(())
    }

    /// Checks that the database is still the one that was opened. Costs one look at its path.
    ///
    /// # Errors
    /// It is not, or was not at an earlier check.
    pub(crate) fn check(&self, path: &Path) -> Result<(), StoreError> {
        let Some(opened) = self.opened.get() else { return Ok(()) };
        if let Some(error) = self.changed.get() {
            return Err(error.clone());
        }
        let what = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => "was deleted or moved away",
            // Nothing is known: a read or a write will tell.
            Err(_) => return Ok(()),
            Ok(metadata) if !metadata.is_file() || id(&metadata) != *opened => {
                "was replaced by something else"
            }
            Ok(metadata) if metadata.len() < self.bytes.load(Ordering::Relaxed) => {
                return Err(self.fail(path, "was truncated", saved_later(path)));
            }
            Ok(metadata) => {
                self.bytes.fetch_max(metadata.len(), Ordering::Relaxed);
                return Ok(());
            }
        };
        Err(self.fail(path, what, held_open()))
    }

    /// Checks that the database is still the one that was opened, and that its log, which had so
    /// many `pages` after the latest commit, is where the next process looks for it.
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
        for _ in 0..LOOKS {
            let bytes = match fs::metadata(&log) {
                Ok(metadata) => metadata.len(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
                // Nothing is known: a read or a write will tell.
                Err(_) => return Ok(()),
            };
            if bytes >= expected {
                return Ok(());
            }
            // Another process may have emptied it: then the index says so.
            expected = LogIndex::read(&index)?.map_or(expected, |index| index.bytes_of_log());
        }
        Err(self.fail(&log, "was deleted or truncated", saved_later(path)))
    }

    fn fail(&self, path: &Path, what: &'static str, advice: String) -> StoreError {
        let error = StoreError::FilesChanged { path: path.to_owned(), what, advice };
        self.changed.get_or_init(|| error).clone()
    }
}

fn held_open() -> String {
    let process = std::process::id();
    let place = match cfg!(target_os = "linux") {
        true => format!(" (`ls -l /proc/{process}/fd` shows it; copy it from there)"),
        false => String::new(),
    };
    format!(
        "What was stored is in the file that process {process} still has open{place}. Put it back \
         in its place, then restart the server"
    )
}

fn saved_later(path: &Path) -> String {
    format!(
        "Put a copy of it back, or restart the server: it saves what is left in {} and its log",
        path.display()
    )
}

#[cfg(unix)]
fn id(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}

/// Elsewhere an open file cannot be deleted or replaced.
#[cfg(not(unix))]
fn id(_: &Metadata) -> (u64, u64) {
    (0, 0)
}
