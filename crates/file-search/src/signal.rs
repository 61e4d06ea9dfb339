//! A signal that something has changed, for the threads of sessions: a query, an index.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Signal {
    count: Mutex<u64>,
    raised: Condvar,
}

impl Signal {
    /// Number of changes so far.
    pub(crate) fn count(&self) -> u64 {
        *self.lock()
    }

    pub(crate) fn raise(&self) {
        *self.lock() += 1;
        self.raised.notify_all();
    }

    /// Waits until there were more than `seen` changes, for `limit` at most.
    pub(crate) fn wait(&self, seen: u64, limit: Option<Duration>) {
        let guard = self.lock();
        let unseen = |count: &mut u64| *count <= seen;
        // What a waiting thread does next does not depend on why it woke up.
        match limit {
            Some(limit) => drop(self.raised.wait_timeout_while(guard, limit, unseen)),
            None => drop(self.raised.wait_while(guard, unseen)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
