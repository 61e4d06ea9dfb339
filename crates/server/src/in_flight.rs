//! Counts accepted work that is not done. The end of the server waits for it.
//!
//! A server that shuts down drains first: `session::Input::Drain` lets each turn reach a point
//! where neither a response nor a tool's work is cut off (`session/src/turn/ending.rs`,
//! `end_at_safe_point`), and requests in progress are answered.

use std::sync::Arc;

use tokio::sync::watch;

/// A counter of one kind of work.
#[derive(Clone, Default)]
pub(crate) struct InFlight {
    count: Arc<watch::Sender<usize>>,
}

/// A piece of work, done when this is dropped.
pub(crate) struct Accepted {
    count: Arc<watch::Sender<usize>>,
}

impl InFlight {
    /// Counts one more.
    pub(crate) fn accept(&self) -> Accepted {
        self.count.send_modify(|count| *count += 1);
        Accepted { count: self.count.clone() }
    }

    /// Returns the number of items in flight.
    pub(crate) fn count(&self) -> usize {
        *self.count.borrow()
    }

    /// Waits until none is left.
    pub(crate) async fn done(&self) {
        // Fails only when the sender is dropped, which `self` holds.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        self.count.send_modify(|count| *count -= 1);
    }
}
