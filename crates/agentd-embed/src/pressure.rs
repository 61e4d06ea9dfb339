//! The readers of an agent that are full, which pause the reading of its connection.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::feed::{Feed, STALL, alive};

/// The full readers, and the requests that wait.
#[derive(Default)]
pub(crate) struct Pressure {
    full: Mutex<Vec<Weak<Feed>>>,
    changed: Notify,
    /// Requests of this agent without an answer.
    waiting: AtomicUsize,
    is_over: AtomicBool,
}

/// A request that waits for its answer.
pub(crate) struct Waiting(Arc<Pressure>);

impl Pressure {
    /// A request waits for its answer until the value is dropped: the connection must be read.
    pub(crate) fn wait(self: &Arc<Self>) -> Waiting {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        self.wake();
        Waiting(self.clone())
    }

    /// A feed became full.
    pub(crate) fn add(&self, feed: Weak<Feed>) {
        let mut full = self.lock();
        if !full.iter().any(|known| known.ptr_eq(&feed)) {
            full.push(feed);
        }
    }

    /// Lets [`Pressure::hold`] look again.
    pub(crate) fn wake(&self) {
        self.changed.notify_waiters();
    }

    /// Never holds again.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.wake();
    }

    /// Waits until no feed is full, or a request waits for its answer. `tick` is called after each `every` of waiting.
    pub(crate) async fn hold(&self, every: Duration, tick: impl Fn()) {
        let mut next_tick = Instant::now() + every;
        loop {
            // From before the look at the feeds, so that no change is missed.
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let may_read = self.waiting.load(Ordering::Acquire) > 0;
            if may_read || self.is_over.load(Ordering::Acquire) {
                return;
            }
            let now = Instant::now();
            let Some(until) = self.relieved_at(now) else { return };
            tokio::select! {
                () = &mut changed => {}
                () = tokio::time::sleep_until(until.min(next_tick)) => {}
            }
            if Instant::now() >= next_tick {
                tick();
                next_tick += every;
            }
        }
    }

    /// Reduces feeds whose reader has taken nothing for too long, and returns when the next one will have; `None` if no
    /// feed is full.
    fn relieved_at(&self, now: Instant) -> Option<Instant> {
        let feeds = {
            let mut full = self.lock();
            if full.is_empty() {
                return None;
            }
            let feeds = alive(&mut full);
            full.retain(|weak| weak.upgrade().is_some_and(|feed| feed.full_since().is_some()));
            feeds
        };
        let mut first: Option<Instant> = None;
        for feed in feeds {
            let Some(since) = feed.full_since() else { continue };
            if since + STALL <= now {
                feed.reduce();
            } else {
                first = Some(first.map_or(since + STALL, |first| first.min(since + STALL)));
            }
        }
        first
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Feed>>> {
        self.full.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}
