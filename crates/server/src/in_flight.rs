//! Work that was accepted and is not done: the end of the server waits for it.

use std::sync::Arc;

use tokio::sync::watch;

/// How much of one kind of work there is.
#[derive(Clone, Default)]
pub(crate) struct InFlight {
    count: Arc<watch::Sender<usize>>,
}

/// A piece of it; it is done when this is dropped.
pub(crate) struct Accepted {
    count: Arc<watch::Sender<usize>>,
}

impl InFlight {
    /// One more.
    pub(crate) fn accept(&self) -> Accepted {
        self.count.send_modify(|count| *count += 1);
        Accepted { count: self.count.clone() }
    }

    /// Waits until there is none.
    pub(crate) async fn done(&self) {
        // Fails when the sender is gone, which we hold.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        self.count.send_modify(|count| *count -= 1);
    }
}
