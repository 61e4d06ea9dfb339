//! The order of what runs in a thread: a turn or a compaction begins when the one before it, of the same
//! agent, has ended. Without it the input of a second turn would join the first, which then has both
//! answers. Turns of other clients are not waited for.

use std::sync::Arc;

use tokio::sync::{Mutex as Lock, OwnedMutexGuard};

/// The right to run something in one thread, handed out in the order of the requests for it.
#[derive(Default)]
pub(crate) struct ThreadOrder(Arc<Lock<()>>);

/// Its owner is the only one that runs something in its thread.
pub(crate) struct Place {
    _held: OwnedMutexGuard<()>,
}

impl ThreadOrder {
    /// Waits until nothing runs. A future that is dropped gives up its place in the queue.
    pub(crate) async fn take(&self) -> Place {
        Place { _held: self.0.clone().lock_owned().await }
    }

    /// Returns whether something runs.
    pub(crate) fn is_held(&self) -> bool {
        self.0.try_lock().is_err()
    }
}
