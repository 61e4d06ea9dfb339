//! The order of what runs in a thread: a turn or a compaction begins when the one before it, of the same
//! connection, has ended. Without it the input of a second turn would join the first, which then has both
//! answers. Turns of other clients are not waited for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as Lock, OwnedMutexGuard};

/// The right to run something in one thread, handed out in the order of the requests for it.
#[derive(Clone)]
pub(crate) struct ThreadOrder(Arc<Lock<()>>);

/// Its owner is the only one that runs something in its thread.
pub(crate) struct Place {
    _held: OwnedMutexGuard<()>,
}

/// The orders of the threads of a connection: all objects for the same thread share one.
#[derive(Default)]
pub(crate) struct Orders(Mutex<HashMap<String, Weak<Lock<()>>>>);

impl Orders {
    pub(crate) fn of_thread(&self, id: &str) -> ThreadOrder {
        // Nothing under this lock leaves the table half changed.
        let mut orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(order) = orders.get(id).and_then(Weak::upgrade) {
            return ThreadOrder(order);
        }
        orders.retain(|_, order| order.strong_count() > 0);
        let order = Arc::new(Lock::new(()));
        orders.insert(id.to_owned(), Arc::downgrade(&order));
        ThreadOrder(order)
    }
}

impl ThreadOrder {
    /// Waits until nothing runs. A future that is dropped gives up its place in the queue.
    pub(crate) async fn take(&self) -> Place {
        Place { _held: self.0.clone().lock_owned().await }
    }
}
