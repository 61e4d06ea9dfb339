//! Runs work on files outside of the threads of an asynchronous runtime, and bounds what
//! unresponsive file systems cost: the caller's time, and the threads of the process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::error::Error;

/// Time limit of work on files, including the wait for a permit.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Concurrent work that is not overdue; further work waits for a permit.
const MAX_CONCURRENT: usize = 32;
/// Overdue work on one path; beyond it, work on that path is refused at once.
const MAX_OVERDUE_OF_PATH: usize = 4;
/// Overdue work in total, which occupies a thread each; beyond it, all work is refused at once.
const MAX_OVERDUE: usize = 128;

/// Runs work that can wait for a file system. Cheap to clone; clones share their bounds.
#[derive(Clone, Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// A permit for each piece of work that is not overdue.
    permits: Arc<Semaphore>,
    /// Number of overdue pieces of work by path.
    overdue: Mutex<HashMap<PathBuf, usize>>,
}

impl Default for Pool {
    fn default() -> Self {
        let permits = Arc::new(Semaphore::new(MAX_CONCURRENT));
        Self { shared: Arc::new(Shared { permits, overdue: Mutex::default() }) }
    }
}

impl Pool {
    /// Runs `work` on a blocking thread and waits at most [`ANSWER_TIMEOUT`] for it. Work that
    /// takes longer continues, but its result is dropped. `path` is the path that the work
    /// accesses.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::StillWaiting`], [`Error::Exhausted`] or [`Error::Panicked`].
    pub async fn run<T: Send + 'static>(
        &self,
        path: &Path,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        self.run_within(ANSWER_TIMEOUT, path, work).await
    }

    /// As [`Pool::run`], with another time limit.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::StillWaiting`], [`Error::Exhausted`] or [`Error::Panicked`].
    pub async fn run_within<T: Send + 'static>(
        &self,
        limit: Duration,
        path: &Path,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (sender, mut result) = oneshot::channel();
        let job = Box::new(move || {
            // The caller may have stopped waiting.
            let _ = sender.send(work());
        });
        self.finish(limit, path, job).await?;
        result.try_recv().map_err(|_| Error::Panicked { path: path.to_owned() })
    }

    /// Runs a job to its end. What it returns would make this another function for every kind of work.
    async fn finish(
        &self,
        limit: Duration,
        path: &Path,
        job: Box<dyn FnOnce() + Send>,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        let timed_out = || Error::TimedOut { path: path.to_owned(), after: limit };
        self.shared.check(path)?;
        let permit = timeout_at(deadline, self.shared.permits.clone().acquire_owned()).await;
        let permit = permit.map_err(|_| timed_out())?.expect("the semaphore is never closed");
        let (done, mut finished) = oneshot::channel();
        let (count, counted) = oneshot::channel::<()>();
        let mut job = tokio::task::spawn_blocking(move || {
            job();
            // The caller may have stopped waiting.
            let _ = done.send(());
        });
        let (shared, path_of_job) = (self.shared.clone(), path.to_owned());
        // In a task of its own, because the permit must be returned even if the caller is dropped.
        tokio::spawn(async move {
            if timeout_at(deadline, &mut job).await.is_ok() {
                return drop((permit, count));
            }
            let _overdue = Overdue::new(shared, path_of_job);
            drop((permit, count));
            // The caller already has its result, and a panic was reported when it happened.
            let _ = job.await;
        });
        match timeout_at(deadline, &mut finished).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Error::Panicked { path: path.to_owned() }),
            Err(_) => {
                // The overdue work is counted before the caller can send its next request; an error
                // means that it has been.
                let _ = counted.await;
                Err(timed_out())
            }
        }
    }
}

impl Shared {
    fn check(&self, path: &Path) -> Result<(), Error> {
        let overdue = self.overdue();
        if overdue.get(path).is_some_and(|count| *count >= MAX_OVERDUE_OF_PATH) {
            return Err(Error::StillWaiting {
                path: path.to_owned(),
                waiting: MAX_OVERDUE_OF_PATH,
            });
        }
        if overdue.values().sum::<usize>() >= MAX_OVERDUE {
            return Err(Error::Exhausted { waiting: MAX_OVERDUE });
        }
        Ok(())
    }

    fn overdue(&self) -> MutexGuard<'_, HashMap<PathBuf, usize>> {
        self.overdue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a piece of overdue work until it is dropped.
struct Overdue {
    shared: Arc<Shared>,
    path: PathBuf,
}

impl Overdue {
    fn new(shared: Arc<Shared>, path: PathBuf) -> Self {
        *shared.overdue().entry(path.clone()).or_default() += 1;
        Self { shared, path }
    }
}

impl Drop for Overdue {
    fn drop(&mut self) {
        let mut overdue = self.shared.overdue();
        if let Some(count) = overdue.get_mut(&self.path) {
            *count -= 1;
            if *count == 0 {
                overdue.remove(&self.path);
            }
        }
    }
}
