//! The searches in progress. Somebody waits for them, so that what can be done later waits for their end.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The registry of searches in progress.
#[derive(Debug, Default)]
pub(crate) struct Searches {
    count: Mutex<usize>,
    rested: Condvar,
}

/// A search in progress, until it is dropped.
#[must_use]
pub(crate) struct Searching<'s>(&'s Searches);

impl Searches {
    pub(crate) fn begin(&self) -> Searching<'_> {
        *self.lock() += 1;
        Searching(self)
    }

    /// Waits until no search is in progress, for `limit` at most.
    pub(crate) fn wait_for_rest(&self, limit: Duration) {
        let busy = |count: &mut usize| *count > 0;
        // What follows is done in any case.
        drop(self.rested.wait_timeout_while(self.lock(), limit, busy));
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Searching<'_> {
    fn drop(&mut self) {
        *self.0.lock() -= 1;
        self.0.rested.notify_all();
    }
}
