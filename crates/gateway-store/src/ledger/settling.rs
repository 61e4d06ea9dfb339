//! Entries that are written outside of the queue, for which a flush waits.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// The entries that are being written, by the order of their announcements.
#[derive(Debug)]
pub(super) struct Settlings {
    open: Mutex<Open>,
    ended: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    numbers: BTreeSet<u64>,
}

/// An entry that is being written.
#[derive(Debug)]
pub struct Settling {
    all: Arc<Settlings>,
    number: u64,
}

impl Default for Settlings {
    fn default() -> Self {
        Self { open: Mutex::default(), ended: watch::channel(()).0 }
    }
}

impl Settlings {
    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the entries that are announced by now.
    pub(super) fn wait(&self) -> impl Future<Output = ()> + '_ {
        let until = self.open().next;
        let mut ended = self.ended.subscribe();
        async move {
            let is_over = |_: &()| self.open().numbers.range(..until).next().is_none();
            // The sender lives as long as this value.
            let _ = ended.wait_for(is_over).await;
        }
    }
}

impl Settling {
    pub(super) fn begin(all: &Arc<Settlings>) -> Self {
        let mut open = all.open();
        let number = open.next;
        open.next += 1;
        open.numbers.insert(number);
        drop(open);
        Self { all: Arc::clone(all), number }
    }
}

impl Drop for Settling {
    fn drop(&mut self) {
        self.all.open().numbers.remove(&self.number);
        self.all.ended.send_replace(());
    }
}
