//! Turns to run operations: fewer than there are connections, so that a renewal of the lease always
//! gets one, and some of them for writes only, which slow reads do not delay.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use super::failure::Failure;
use crate::StoreError;

/// Longest wait for a turn.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(12);

/// The use of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    Write,
}

/// The turns of a store.
#[derive(Debug)]
pub(super) struct Permits {
    all: Arc<Semaphore>,
    reads: Arc<Semaphore>,
    count: u32,
    longest: Duration,
}

/// A turn; dropped, it is free for another operation.
#[derive(Debug)]
pub(super) struct Permit {
    _turn: OwnedSemaphorePermit,
    _read: Option<OwnedSemaphorePermit>,
}

impl Permits {
    /// Turns for a pool of so many connections, of which there are at least 3.
    pub(super) fn new(connections: usize, longest: Duration) -> Self {
        let count = connections - 1;
        let reads = count - count.div_ceil(4);
        Self {
            all: Arc::new(Semaphore::new(count)),
            reads: Arc::new(Semaphore::new(reads)),
            count: u32::try_from(count).unwrap_or(u32::MAX),
            longest,
        }
    }

    /// Waits for a turn.
    pub(super) async fn acquire(&self, of: Use) -> Result<Permit, Failure> {
        let acquire = async {
            let read = match of {
                Use::Read => Some(Arc::clone(&self.reads).acquire_owned().await?),
                Use::Write => None,
            };
            Ok(Permit { _turn: Arc::clone(&self.all).acquire_owned().await?, _read: read })
        };
        match tokio::time::timeout(self.longest, acquire).await {
            Ok(acquired) => acquired.map_err(|_: AcquireError| StoreError::Closed.into()),
            Err(_) => Err(Failure::Busy(self.longest)),
        }
    }

    /// Waits until all operations have ended.
    pub(super) async fn wait_for_all(&self) {
        // An error would mean that turns are no longer taken.
        let _ = self.all.acquire_many(self.count).await;
    }

    /// Refuses operations from now on, also those that wait.
    pub(super) fn close(&self) {
        self.reads.close();
        self.all.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reads_leave_turns_to_writes() {
        for (connections, reads, writes) in [(3, 1, 1), (4, 2, 1), (8, 5, 2)] {
            let permits = Permits::new(connections, Duration::from_millis(1));
            let mut taken = Vec::new();
            for _ in 0..reads {
                taken.push(permits.acquire(Use::Read).await.unwrap());
            }
            let refused = permits.acquire(Use::Read).await;
            assert!(matches!(refused, Err(Failure::Busy(_))), "{refused:?}");
            for _ in 0..writes {
                taken.push(permits.acquire(Use::Write).await.unwrap());
            }
            let refused = permits.acquire(Use::Write).await;
            assert!(matches!(refused, Err(Failure::Busy(_))), "{refused:?}");
            drop(taken);
            permits.wait_for_all().await;
        }
    }

    #[tokio::test]
    async fn closed_turns_refuse_waiting_operations() {
        let permits = Permits::new(3, Duration::from_secs(60));
        let _held = permits.acquire(Use::Read).await.unwrap();
        let (waiting, ()) =
            tokio::join!(biased; permits.acquire(Use::Read), async { permits.close() });
        let is_closed = matches!(waiting, Err(Failure::Store(StoreError::Closed)));
        assert!(is_closed, "{waiting:?}");
    }
}
