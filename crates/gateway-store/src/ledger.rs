//! The usage ledger: a row a request, from which usage, costs and exports are read, and the sums of
//! each month beside them, in the same transaction.
//!
//! Recording never waits. Rows are written in groups, some fifty milliseconds after they were
//! recorded; a process that is killed loses those. While the store is away they wait in memory.
//! Beyond [`MAX_ROWS`], requests of one minute, key, model and status are folded into one row, so
//! that every sum stays exact; beyond [`MAX_FOLDED`] of these they are lost, which is counted and
//! told. Who asks [`Ledger::has_room`] before it serves a request never loses one.

mod entry;
mod export;
mod queue;
mod spend;
mod usage;
mod writer;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use entry::{Endpoint, Entry};
pub use export::{Cursor, Exported, export};
use queue::Queue;
pub use queue::{MAX_FOLDED, MAX_ROWS};
pub use spend::{MonthSpend, month_spend, month_spend_by, month_spend_of};
use tokio::sync::{Notify, watch};
pub use usage::{GroupBy, MAX_SUMS, ModelUse, Sum, TooMany, UsageQuery, sums, users_of};

use crate::database::{Database, DatabaseError};

/// See the module. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    /// There is something to write.
    filled: Notify,
    /// Somebody waits for all to be written: groups are not gathered.
    hurry: Notify,
    /// How many requests are written or lost.
    done: watch::Sender<u64>,
    error: Mutex<Option<String>>,
}

/// How it goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Rows not yet written.
    pub waiting: usize,
    /// Requests that were lost, because the store was away for too long.
    pub lost_requests: u64,
    /// What they cost, in micro-dollars.
    pub lost_cost: u64,
    /// Why the last group is not written; `None`: it is.
    pub error: Option<String>,
}

impl Ledger {
    /// Begins to write, in a task of the current runtime that ends with the last clone and what is
    /// recorded. `writer` is another text for each process.
    #[must_use]
    pub fn start(database: Arc<Database>, writer: Box<str>) -> Self {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            filled: Notify::new(),
            hurry: Notify::new(),
            done: watch::channel(0).0,
            error: Mutex::default(),
        });
        tokio::spawn(writer::run(database, writer, Arc::clone(&shared)));
        Self(shared)
    }

    /// Takes an entry down. Never waits.
    pub fn record(&self, entry: Entry) {
        // The queue counts lost entries; [`Ledger::state`] reports them.
        let _ = self.0.queue().push(entry);
        self.0.filled.notify_one();
    }

    /// Whether an entry would be kept as a row of its own. Where not, the store has been away for
    /// long: a request should be refused rather than served.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.0.queue().has_room()
    }

    /// How it goes.
    #[must_use]
    pub fn state(&self) -> State {
        let error = self.0.error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let queue = self.0.queue();
        State { error, ..queue.state() }
    }

    /// Waits until all that was recorded before is written, for so long at most.
    ///
    /// # Errors
    /// What is left, when that took too long.
    pub async fn flush(&self, patience: Duration) -> Result<(), State> {
        let recorded = self.0.queue().recorded();
        let mut done = self.0.done.subscribe();
        self.0.hurry.notify_one();
        let written = done.wait_for(|done| *done >= recorded);
        match tokio::time::timeout(patience, written).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(self.state()),
        }
    }
}

impl Shared {
    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, error: Option<&DatabaseError>) {
        let mut told = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        *told = error.map(ToString::to_string);
    }
}

#[cfg(test)]
#[path = "ledger/ledger_tests.rs"]
mod tests;
