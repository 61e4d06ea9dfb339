//! One lock a thread, by id, held while the thread is loaded, unloaded, edited, archived or deleted.
//!
//! No deadlock: a task that holds one of these locks waits for no other one, and an actor waits for
//! its own only while it also takes commands (`Actor::next`). Under the lock of a thread its actor may
//! end, with its hooks, and so may the agents below it, which takes no lock of theirs. Requests about
//! other threads wait for none of that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

/// The locks that are held or waited for: at most one a request, and one an actor.
#[derive(Clone, Default)]
pub(crate) struct ThreadLocks {
    used: Arc<Mutex<HashMap<String, UsedLock>>>,
}

#[derive(Default)]
struct UsedLock {
    lock: Arc<tokio::sync::Mutex<()>>,
    /// Tasks that hold it or wait for it.
    users: usize,
}

/// The lock of one thread, held until this is dropped.
pub struct ThreadLock {
    // Released before the use ends.
    _held: OwnedMutexGuard<()>,
    _use: LockUse,
}

/// Keeps the entry of a lock.
struct LockUse {
    locks: ThreadLocks,
    thread: String,
}

impl ThreadLocks {
    /// Waits for the lock of a thread. Cancel safe, but for the place among those that wait.
    pub(crate) async fn lock(&self, thread: &str) -> ThreadLock {
        let lock = {
            let mut used = self.used();
            let entry = used.entry(thread.to_owned()).or_default();
            entry.users += 1;
            entry.lock.clone()
        };
        let lock_use = LockUse { locks: self.clone(), thread: thread.to_owned() };
        ThreadLock { _held: lock.lock_owned().await, _use: lock_use }
    }

    fn used(&self) -> MutexGuard<'_, HashMap<String, UsedLock>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LockUse {
    fn drop(&mut self) {
        let mut used = self.locks.used();
        if let Some(entry) = used.get_mut(&self.thread) {
            entry.users -= 1;
            if entry.users == 0 {
                used.remove(&self.thread);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    /// Whether a lock can be had without waiting.
    async fn is_free(locks: &ThreadLocks, thread: &str) -> bool {
        let mut lock = pin!(locks.lock(thread));
        poll_fn(|cx| Poll::Ready(lock.as_mut().poll(cx).is_ready())).await
    }

    #[tokio::test]
    async fn a_lock_excludes_its_own_thread_only() {
        let locks = ThreadLocks::default();
        let held = locks.lock("a").await;
        assert!(!is_free(&locks, "a").await);
        assert!(is_free(&locks, "b").await);
        drop(held);
        assert!(is_free(&locks, "a").await);
    }

    #[tokio::test]
    async fn unused_locks_are_not_kept() {
        let locks = ThreadLocks::default();
        let held = locks.lock("a").await;
        // A wait that is given up.
        assert!(!is_free(&locks, "a").await);
        assert_eq!(locks.used().len(), 1);
        drop(held);
        assert!(locks.used().is_empty());
    }

    #[tokio::test]
    async fn a_waiting_task_gets_a_released_lock() {
        let locks = ThreadLocks::default();
        let held = locks.lock("a").await;
        let waiting = tokio::spawn({
            let locks = locks.clone();
            async move { drop(locks.lock("a").await) }
        });
        tokio::task::yield_now().await;
        drop(held);
        waiting.await.unwrap();
        assert!(locks.used().is_empty());
    }
}
