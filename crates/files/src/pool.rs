//! Runs work on files outside of the threads of an asynchronous runtime, and bounds what
//! unresponsive file systems cost: the caller's time, and the threads of the process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
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
        let (done, finished) = oneshot::channel();
        let cost = Cost::of_permit(permit);
        let ending = cost.clone();
        tokio::task::spawn_blocking(move || {
            // Before the end is sent, and by a panic, too.
            let ending = Ending(ending);
            job();
            drop(ending);
            // The caller may have stopped waiting.
            let _ = done.send(());
        });
        let mut waiting = Waiting {
            finished,
            cost: Some(cost),
            deadline,
            shared: self.shared.clone(),
            path: path.to_owned(),
        };
        let finished = timeout_at(deadline, &mut waiting.finished).await;
        let cost = waiting.cost.take();
        match finished {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Error::Panicked { path: path.to_owned() }),
            Err(_) => {
                // Counted before the caller can send its next request.
                cost.iter().for_each(|cost| cost.become_overdue(&self.shared, path));
                Err(timed_out())
            }
        }
    }
}

/// The cost of a running job: a permit until its deadline, afterwards a place among the overdue ones.
/// It is shared by the job, which ends it, and by its caller, who keeps the time: a task that only
/// waits for the deadline would have to be woken for every job.
#[derive(Clone)]
struct Cost(Arc<Mutex<State>>);

enum State {
    InTime(#[expect(dead_code, reason = "returned by dropping it")] OwnedSemaphorePermit),
    Overdue(#[expect(dead_code, reason = "counted until it is dropped")] Overdue),
    Ended,
}

impl Cost {
    fn of_permit(permit: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(Mutex::new(State::InTime(permit))))
    }

    fn become_overdue(&self, shared: &Arc<Shared>, path: &Path) {
        let mut state = self.state();
        if matches!(*state, State::InTime(_)) {
            *state = State::Overdue(Overdue::new(shared.clone(), path.to_owned()));
        }
    }

    fn has_ended(&self) -> bool {
        matches!(*self.state(), State::Ended)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the cost of a job when it is dropped.
struct Ending(Cost);

impl Drop for Ending {
    fn drop(&mut self) {
        *self.0.state() = State::Ended;
    }
}

/// A caller that waits for its job. When it is dropped before the end, a task keeps the time in its
/// place.
struct Waiting {
    finished: oneshot::Receiver<()>,
    /// `None` once the wait is over.
    cost: Option<Cost>,
    deadline: Instant,
    shared: Arc<Shared>,
    path: PathBuf,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(cost) = self.cost.take().filter(|cost| !cost.has_ended()) else { return };
        // Without a runtime, no further work is asked for.
        let Ok(runtime) = Handle::try_current() else { return };
        let (shared, path, deadline) = (self.shared.clone(), self.path.clone(), self.deadline);
        // Ends with its job, so that callers that give up leave no task until the deadline.
        let (_, unused) = oneshot::channel();
        let finished = std::mem::replace(&mut self.finished, unused);
        runtime.spawn(async move {
            if timeout_at(deadline, finished).await.is_err() {
                cost.become_overdue(&shared, &path);
            }
        });
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
