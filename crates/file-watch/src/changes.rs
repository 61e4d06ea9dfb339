//! The changed paths of one watch, from the thread that finds them to the owner of the watch: folded,
//! and within bounds that lead to an overflow.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Changes that follow each other within this time are reported together.
pub const QUIET: Duration = Duration::from_millis(50);
/// Changes are reported after this time at the latest, even while others follow.
pub const LONGEST_DELAY: Duration = Duration::from_millis(500);
/// Paths that wait in one watch. One more, and the change is an overflow.
pub const MAX_PATHS: usize = 10_000;
/// Bytes of the paths that wait in one watch. More, and the change is an overflow.
pub const MAX_BYTES: usize = 1 << 20;

/// The changes since the last report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Paths that were created, removed, renamed, or whose contents or metadata changed, in order. Of an
    /// overflow, the watched path.
    ///
    /// A path that does not exist, or is not a folder, takes all below it along. A folder can have taken the place of another, so
    /// whatever was in it and is not listed in it now is gone; everything in it that is new to it is named
    /// too, at all depths of a recursive watch.
    pub paths: Vec<PathBuf>,
    /// Anything at and below the watched path may have changed.
    pub overflow: bool,
}

/// Bytes of paths that wait in all watches of a watcher.
pub(crate) struct Budget {
    used: AtomicUsize,
    limit: usize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), limit })
    }

    fn take(&self, bytes: usize) -> bool {
        let take = |used: usize| (used + bytes <= self.limit).then_some(used + bytes);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The shared end of a watch's queue of changed paths.
pub(crate) struct Changes {
    watched: PathBuf,
    budget: Arc<Budget>,
    waiting: Mutex<Waiting>,
    news: Notify,
}

#[derive(Default)]
struct Waiting {
    paths: HashSet<PathBuf>,
    bytes: usize,
    overflow: bool,
    /// When the first and the last of them were added; `None` when nothing waits.
    times: Option<(Instant, Instant)>,
}

impl Changes {
    pub(crate) fn new(watched: PathBuf, budget: Arc<Budget>) -> Arc<Self> {
        Arc::new(Self { watched, budget, waiting: Mutex::default(), news: Notify::new() })
    }

    pub(crate) fn watched(&self) -> &Path {
        &self.watched
    }

    pub(crate) fn add(&self, path: &Path) {
        let mut waiting = self.lock();
        if !waiting.overflow && !waiting.paths.contains(path) {
            let bytes = path.as_os_str().len();
            let has_room = waiting.paths.len() < MAX_PATHS && waiting.bytes + bytes <= MAX_BYTES;
            if has_room && self.budget.take(bytes) {
                waiting.bytes += bytes;
                waiting.paths.insert(path.to_owned());
            } else {
                self.set_overflow(&mut waiting);
            }
        }
        self.touch(waiting);
    }

    /// Changes were lost. The caller has made sure that all later ones are found.
    pub(crate) fn overflow(&self) {
        let mut waiting = self.lock();
        self.set_overflow(&mut waiting);
        self.touch(waiting);
    }

    /// Waits until there are changes, and no others have followed for [`QUIET`], or the first has waited for
    /// [`LONGEST_DELAY`].
    pub(crate) async fn ready(&self) {
        loop {
            let times = self.lock().times;
            let Some((first, last)) = times else {
                self.news.notified().await;
                continue;
            };
            let due = (last + QUIET).min(first + LONGEST_DELAY);
            if due <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(due).await;
        }
    }

    /// Returns the pending changes; empty when there are none.
    pub(crate) fn take(&self) -> Change {
        let waiting = std::mem::take(&mut *self.lock());
        self.budget.give_back(waiting.bytes);
        if waiting.overflow {
            return Change { paths: vec![self.watched.clone()], overflow: true };
        }
        let mut paths: Vec<PathBuf> = waiting.paths.into_iter().collect();
        paths.sort_unstable_by(|one, other| one.as_os_str().cmp(other.as_os_str()));
        Change { paths, overflow: false }
    }

    fn set_overflow(&self, waiting: &mut Waiting) {
        self.budget.give_back(waiting.bytes);
        *waiting = Waiting { overflow: true, times: waiting.times, ..Waiting::default() };
    }

    fn touch(&self, mut waiting: MutexGuard<'_, Waiting>) {
        let now = Instant::now();
        let is_first = waiting.times.is_none();
        let first = waiting.times.map_or(now, |(first, _)| first);
        waiting.times = Some((first, now));
        drop(waiting);
        if is_first {
            self.news.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        let bytes = self.lock().bytes;
        self.budget.give_back(bytes);
    }
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
