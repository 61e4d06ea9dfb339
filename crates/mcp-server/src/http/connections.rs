//! The connections that are open at once. One without an admitted request in progress is idle, and gives
//! way to a new one at the bound, the longest idle first: a client that opens many and stays silent keeps no
//! client out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The open connections.
pub(super) struct Connections {
    places: Arc<Semaphore>,
    idle: Mutex<Idle>,
    became_idle: Notify,
}

#[derive(Default)]
struct Idle {
    next_number: u64,
    /// In the order in which they became idle, with what closes them.
    by_number: BTreeMap<u64, CancellationToken>,
}

/// One of them. Dropped, it leaves its place.
pub(super) struct Connection {
    all: Arc<Connections>,
    closed: CancellationToken,
    /// Its place among the idle ones, while it is idle.
    number: Mutex<Option<u64>>,
    _place: OwnedSemaphorePermit,
}

/// A request in progress. Dropped, its connection is idle again.
pub(super) struct Busy(Arc<Connection>);

impl Connections {
    /// At most `max` of them.
    pub(super) fn new(max: usize) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(max));
        Arc::new(Self { places, idle: Mutex::default(), became_idle: Notify::new() })
    }

    /// A place for a new connection, once there is one. `None` never comes while the set is in use.
    pub(super) async fn admit(self: &Arc<Self>) -> Option<Arc<Connection>> {
        let place = loop {
            // Before the look, so that none is missed.
            let became_idle = self.became_idle.notified();
            if let Ok(place) = self.places.clone().try_acquire_owned() {
                break place;
            }
            let oldest = self.lock().by_number.pop_first();
            match oldest {
                Some((_, oldest)) => {
                    oldest.cancel();
                    break self.places.clone().acquire_owned().await.ok()?;
                }
                None => tokio::select! {
                    place = self.places.clone().acquire_owned() => break place.ok()?,
                    () = became_idle => {}
                },
            }
        };
        let connection = Connection {
            all: self.clone(),
            closed: CancellationToken::new(),
            number: Mutex::default(),
            _place: place,
        };
        connection.rest();
        Some(Arc::new(connection))
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Resolves when another one needs the place.
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Begins a request.
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.leave_idle();
        Busy(self.clone())
    }

    fn rest(&self) {
        let mut idle = self.all.lock();
        let number = idle.next_number;
        idle.next_number += 1;
        idle.by_number.insert(number, self.closed.clone());
        drop(idle);
        *self.number() = Some(number);
        self.all.became_idle.notify_one();
    }

    fn leave_idle(&self) {
        let number = self.number().take();
        if let Some(number) = number {
            self.all.lock().by_number.remove(&number);
        }
    }

    fn number(&self) -> MutexGuard<'_, Option<u64>> {
        self.number.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.leave_idle();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.rest();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use super::*;

    async fn waits<T>(admitted: impl Future<Output = T> + Unpin) -> bool {
        tokio::time::timeout(Duration::ZERO, admitted).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connection_gives_way_and_busy_ones_stay() {
        let all = Connections::new(2);
        let first = all.admit().await.unwrap();
        let second = all.admit().await.unwrap();
        let busy = first.busy();
        let mut third = Box::pin(all.admit());
        assert!(waits(&mut third).await);
        second.closed().await;
        drop(second);
        let third = third.await.unwrap();
        let busy_too = third.busy();
        let mut fourth = Box::pin(all.admit());
        assert!(waits(&mut fourth).await);
        assert!(!first.closed.is_cancelled() && !third.closed.is_cancelled());
        drop(busy);
        assert!(waits(&mut fourth).await);
        first.closed().await;
        drop(first);
        fourth.await.unwrap();
        drop(busy_too);
        assert!(!third.closed.is_cancelled());
    }
}
