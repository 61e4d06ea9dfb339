//! The state of a node that asks upstreams for answers that come later, and its shutdown.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

/// Longest wait for started questions at shutdown. Another node asks again for those that are cut off.
const GRACE: Duration = Duration::from_secs(5);

/// The state of a node that asks.
#[derive(Debug, Default)]
pub(crate) struct Poller {
    wake: Arc<Notify>,
    stop: watch::Sender<bool>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Poller {
    /// Signals that an answer is due.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// The signal of [`Poller::wake`].
    pub(crate) fn woken(&self) -> Arc<Notify> {
        Arc::clone(&self.wake)
    }

    /// True once it must stop.
    pub(crate) fn stopped(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// The task that asks.
    pub(crate) fn set_task(&self, task: JoinHandle<()>) {
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// Lets started questions finish, and asks no more.
    pub(crate) async fn stop(&self) {
        self.stop.send_replace(true);
        let Some(mut task) = self.take_task() else { return };
        if tokio::time::timeout(GRACE, &mut task).await.is_err() {
            task.abort();
        }
    }

    /// Ends everything at once, as a crash does.
    #[cfg(feature = "test-support")]
    pub(crate) fn abort(&self) {
        if let Some(task) = self.take_task() {
            task.abort();
        }
    }

    fn take_task(&self) -> Option<JoinHandle<()>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
