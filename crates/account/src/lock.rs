//! The lock for changing what is stored: one task at a time, in one process at a time.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use files::Pool;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Instant, sleep};

use crate::error::Error;

/// Maximum wait for another process that refreshes. Longer than a refresh takes at most: two
/// requests of 30 s, to find the endpoint and to use it.
const WAIT: Duration = Duration::from_secs(90);
/// Pauses of that wait, the first and the longest: hundreds of processes that look more often starve the one
/// that refreshes.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(400));

/// The lock, until it is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct Locked {
    _process: File,
    _task: OwnedMutexGuard<()>,
}

/// A wait for the lock.
#[derive(Debug)]
pub(crate) struct LockWait {
    files: Pool,
    path: PathBuf,
    deadline: Instant,
    pause: Duration,
    /// `None` once the lock is taken.
    task: Option<OwnedMutexGuard<()>>,
}

impl LockWait {
    /// Begins to wait; other tasks of this process come first.
    pub(crate) async fn begin(files: Pool, path: PathBuf, tasks: Arc<Mutex<()>>) -> Self {
        let task = Some(tasks.lock_owned().await);
        Self { files, path, deadline: Instant::now() + WAIT, pause: PAUSES.0, task }
    }

    /// Waits until the lock is taken.
    ///
    /// # Errors
    /// [`Error::Busy`], or the lock cannot be used.
    pub(crate) async fn locked(mut self) -> Result<Locked, Error> {
        loop {
            if let Some(locked) = self.attempt().await? {
                return Ok(locked);
            }
        }
    }

    /// Takes the lock, or waits for a moment.
    ///
    /// # Errors
    /// As [`LockWait::locked`].
    pub(crate) async fn attempt(&mut self) -> Result<Option<Locked>, Error> {
        let path = self.path.clone();
        let tried = self.files.run(&self.path, move || try_lock(&path)).await;
        let tried = tried.unwrap_or_else(|error| Err(lock_failed(&self.path, error.into_io())));
        if let Some(process) = tried?
            && let Some(task) = self.task.take()
        {
            return Ok(Some(Locked { _process: process, _task: task }));
        }
        if Instant::now() >= self.deadline {
            return Err(Error::Busy { path: self.path.clone(), waited: WAIT });
        }
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
        Ok(None)
    }
}

/// Locks the file at `path` if no other process has; `None` if one has.
fn try_lock(path: &Path) -> Result<Option<File>, Error> {
    let opened = files::append(path).map_err(|error| lock_failed(path, error.into_io()))?;
    match opened.file.try_lock() {
        Ok(()) => Ok(Some(opened.file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(cause)) => Err(lock_failed(path, cause)),
    }
}

fn lock_failed(path: &Path, cause: std::io::Error) -> Error {
    Error::Storage { action: "lock", path: path.to_owned(), cause: cause.to_string() }
}
