//! Connections that have not yet come in, bounded in number and time: whoever opens many and stays
//! silent pushes out their own, the oldest first, and not those that come in at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What ends a connection that waits.
type End = Box<dyn FnOnce() + Send>;

/// Those who wait.
pub(crate) struct Newcomers {
    most: usize,
    patience: Duration,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    /// In the order in which they came.
    all: BTreeMap<u64, (Instant, End)>,
}

/// A place among those who have not yet come in; dropping it says that they have.
pub struct Newcomer {
    newcomers: Arc<Newcomers>,
    number: u64,
}

impl Newcomers {
    /// At most `most`, each for `patience`.
    pub(crate) fn new(most: usize, patience: Duration) -> Arc<Self> {
        Arc::new(Self { most, patience, waiting: Mutex::default() })
    }

    /// Joins those who wait; when there are too many, whoever has waited longest is ended.
    pub(crate) fn join(self: &Arc<Self>, end: impl FnOnce() + Send + 'static) -> Newcomer {
        let mut waiting = self.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.all.insert(number, (Instant::now(), Box::new(end)));
        let over = waiting.all.len() > self.most;
        let oldest = over.then(|| waiting.all.pop_first()).flatten();
        drop(waiting);
        if let Some((_, (_, end))) = oldest {
            end();
        }
        Newcomer { newcomers: self.clone(), number }
    }

    /// Ends those whose time is over; gives when the next one's will be.
    pub(crate) fn sweep(&self) -> Instant {
        let now = Instant::now();
        let mut ends = Vec::new();
        let mut waiting = self.lock();
        let next = loop {
            match waiting.all.first_entry() {
                Some(first) if first.get().0 + self.patience <= now => ends.push(first.remove().1),
                Some(first) => break first.get().0 + self.patience,
                None => break now + self.patience,
            }
        };
        drop(waiting);
        ends.into_iter().for_each(|end| end());
        next
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        let left = self.newcomers.lock().all.remove(&self.number);
        // Outside of the lock: what ends a connection may hold anything.
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_oldest_goes_and_nobody_waits_for_ever() {
        let (ended, ends) = mpsc::channel();
        let newcomers = Newcomers::new(2, Duration::from_secs(10));
        let join = |number: i32| {
            let ended = ended.clone();
            newcomers.join(move || ended.send(number).unwrap())
        };
        let seen = || ends.try_iter().collect::<Vec<_>>();
        let first = join(1);
        let _second = join(2);
        drop(first);
        let _third = join(3);
        assert!(seen().is_empty());
        let _fourth = join(4);
        assert_eq!(seen(), [2]);
        tokio::time::advance(Duration::from_secs(4)).await;
        drop(_third);
        let _fifth = join(5);
        tokio::time::advance(Duration::from_secs(6)).await;
        let next = newcomers.sweep();
        assert_eq!(seen(), [4]);
        tokio::time::advance(next - Instant::now()).await;
        newcomers.sweep();
        assert_eq!(seen(), [5]);
    }
}
