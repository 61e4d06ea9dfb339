//! Connections that have not completed a step yet (the HTTP handshake, `initialize`), bounded in
//! number and time. At the bound the oldest is closed, so that a peer that opens many and stays silent
//! evicts its own connections, not those that proceed at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Closes a pending connection.
type Close = Box<dyn FnOnce() + Send>;

/// A bounded set of pending connections.
pub(crate) struct PendingConnections {
    max: usize,
    timeout: Duration,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    next_number: u64,
    /// In order of arrival, with the time of arrival.
    by_number: BTreeMap<u64, (Instant, Close)>,
}

/// Membership of one connection in the set of pending ones. Dropping it takes the connection out:
/// it has completed the step, or has ended.
pub struct PendingConnection {
    set: Arc<PendingConnections>,
    number: u64,
}

impl PendingConnections {
    /// At most `max` connections, each for at most `timeout`.
    pub(crate) fn new(max: usize, timeout: Duration) -> Arc<Self> {
        Arc::new(Self { max, timeout, entries: Mutex::default() })
    }

    /// Adds a connection; `close` is called when its time is over, or when it is the oldest of too
    /// many.
    pub(crate) fn add(
        self: &Arc<Self>,
        close: impl FnOnce() + Send + 'static,
    ) -> PendingConnection {
        let mut entries = self.lock();
        let number = entries.next_number;
        entries.next_number += 1;
        entries.by_number.insert(number, (Instant::now(), Box::new(close)));
        let is_over = entries.by_number.len() > self.max;
        let oldest = is_over.then(|| entries.by_number.pop_first()).flatten();
        drop(entries);
        if let Some((_, (_, close))) = oldest {
            close();
        }
        PendingConnection { set: self.clone(), number }
    }

    /// Closes the connections whose time is over; returns when the next one's will be.
    pub(crate) fn close_expired(&self) -> Instant {
        let now = Instant::now();
        let mut expired = Vec::new();
        let mut entries = self.lock();
        let next = loop {
            match entries.by_number.first_entry() {
                Some(first) if first.get().0 + self.timeout <= now => {
                    expired.push(first.remove().1);
                }
                Some(first) => break first.get().0 + self.timeout,
                None => break now + self.timeout,
            }
        };
        drop(entries);
        expired.into_iter().for_each(|close| close());
        next
    }

    /// Returns the number of pending connections.
    pub(crate) fn count(&self) -> usize {
        self.lock().by_number.len()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        let removed = self.set.lock().by_number.remove(&self.number);
        // After the lock is released: dropping a closure may run any code.
        drop(removed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_oldest_is_closed_at_the_bound_and_all_after_the_timeout() {
        let (closed, closings) = mpsc::channel();
        let pending = PendingConnections::new(2, Duration::from_secs(10));
        let add = |number: i32| {
            let closed = closed.clone();
            pending.add(move || closed.send(number).unwrap())
        };
        let seen = || closings.try_iter().collect::<Vec<_>>();
        let first = add(1);
        let _second = add(2);
        drop(first);
        let _third = add(3);
        assert!(seen().is_empty());
        let _fourth = add(4);
        assert_eq!(seen(), [2]);
        tokio::time::advance(Duration::from_secs(4)).await;
        drop(_third);
        let _fifth = add(5);
        tokio::time::advance(Duration::from_secs(6)).await;
        let next = pending.close_expired();
        assert_eq!(seen(), [4]);
        tokio::time::advance(next - Instant::now()).await;
        pending.close_expired();
        assert_eq!(seen(), [5]);
    }
}
