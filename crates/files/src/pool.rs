//! Runs work on files off the threads of an asynchronous runtime, and bounds what file systems
//! that do not answer can cost: time for the caller, threads for the process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

/// How long work on files may take, the wait for its turn included.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Work under way that is not overdue; further work waits for its turn.
const MAX_UNDER_WAY: usize = 32;
/// Overdue work of one place; from then on work there is refused at once.
const MAX_OVERDUE_OF_PLACE: usize = 4;
/// Overdue work in all; from then on all work is refused at once. Each holds a thread.
const MAX_OVERDUE: usize = 128;

/// Runs work that may wait for a file system. Cheap to clone: all clones share their bounds.
#[derive(Clone, Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// One permit for each piece of work that is not overdue.
    turns: Arc<Semaphore>,
    /// Overdue work by place.
    overdue: Mutex<HashMap<PathBuf, usize>>,
}

/// Why work on files has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    #[error(
        "{}: the file system did not answer within {} s; look at what is mounted there, and try \
         again when it answers", .place.display(), .after.as_secs()
    )]
    TimedOut { place: PathBuf, after: Duration },
    #[error(
        "{}: the file system has not answered {MAX_OVERDUE_OF_PLACE} earlier requests; look at \
         what is mounted there, and try again when it answers", .place.display()
    )]
    StillWaiting { place: PathBuf },
    #[error(
        "{MAX_OVERDUE} requests wait for file systems that do not answer, so no further file is \
         opened; look at what is mounted, or start the server again"
    )]
    Exhausted,
    #[error("{}: reading failed inside the program; please report it", .place.display())]
    Panicked { place: PathBuf },
}

impl Default for Pool {
    fn default() -> Self {
        let turns = Arc::new(Semaphore::new(MAX_UNDER_WAY));
        Self { shared: Arc::new(Shared { turns, overdue: Mutex::default() }) }
    }
}

impl Pool {
    /// Runs `work` on a thread of its own and waits for it, for [`ANSWER_TIMEOUT`] at most. Past
    /// that it goes on without anybody waiting for it. `place` is the path that the work is about.
    ///
    /// # Errors
    /// See [`Unanswered`].
    pub async fn run<T: Send + 'static>(
        &self,
        place: &Path,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unanswered> {
        self.run_within(ANSWER_TIMEOUT, place, work).await
    }

    /// As [`Pool::run`], with another bound on the time.
    ///
    /// # Errors
    /// See [`Unanswered`].
    pub async fn run_within<T: Send + 'static>(
        &self,
        limit: Duration,
        place: &Path,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unanswered> {
        let deadline = Instant::now() + limit;
        let timed_out = || Unanswered::TimedOut { place: place.to_owned(), after: limit };
        self.shared.check(place)?;
        let turn = timeout_at(deadline, self.shared.turns.clone().acquire_owned()).await;
        let turn = turn.map_err(|_| timed_out())?.expect("the semaphore is never closed");
        let (sender, mut result) = oneshot::channel();
        let (count, counted) = oneshot::channel::<()>();
        let mut job = tokio::task::spawn_blocking(move || {
            // Whoever asked may have gone away.
            let _ = sender.send(work());
        });
        let (shared, place_of_job) = (self.shared.clone(), place.to_owned());
        // Not by the caller: the turn is given back also when the caller goes away.
        tokio::spawn(async move {
            if timeout_at(deadline, &mut job).await.is_ok() {
                return drop((turn, count));
            }
            let _overdue = Overdue::new(shared, place_of_job);
            drop((turn, count));
            // A panic was reported when it happened; the caller has its answer.
            let _ = job.await;
        });
        match timeout_at(deadline, &mut result).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(_)) => Err(Unanswered::Panicked { place: place.to_owned() }),
            Err(_) => {
                // From here on the next request knows of it; an error is what it means.
                let _ = counted.await;
                Err(timed_out())
            }
        }
    }
}

impl Shared {
    fn check(&self, place: &Path) -> Result<(), Unanswered> {
        let overdue = self.overdue();
        if overdue.get(place).is_some_and(|count| *count >= MAX_OVERDUE_OF_PLACE) {
            return Err(Unanswered::StillWaiting { place: place.to_owned() });
        }
        if overdue.values().sum::<usize>() >= MAX_OVERDUE {
            return Err(Unanswered::Exhausted);
        }
        Ok(())
    }

    fn overdue(&self) -> MutexGuard<'_, HashMap<PathBuf, usize>> {
        self.overdue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts one piece of overdue work for as long as it lasts.
struct Overdue {
    shared: Arc<Shared>,
    place: PathBuf,
}

impl Overdue {
    fn new(shared: Arc<Shared>, place: PathBuf) -> Self {
        *shared.overdue().entry(place.clone()).or_default() += 1;
        Self { shared, place }
    }
}

impl Drop for Overdue {
    fn drop(&mut self) {
        let mut overdue = self.shared.overdue();
        if let Some(count) = overdue.get_mut(&self.place) {
            *count -= 1;
            if *count == 0 {
                overdue.remove(&self.place);
            }
        }
    }
}
