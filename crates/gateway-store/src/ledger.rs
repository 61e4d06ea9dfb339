//! The usage ledger: one row per request, from which usage, costs and exports are computed, and
//! monthly sums, updated in the same transaction.
//!
//! Recording never waits. Rows are written in groups, some 50 ms after they were recorded; those of a
//! process that is killed are in its [`Journal`]. While the store is unreachable, rows wait in memory. Beyond
//! [`MAX_ROWS`], requests of one minute, key, model and status are folded into one row, so that
//! every sum stays exact; beyond [`MAX_FOLDED`] of these, rows are lost, counted and reported. A
//! caller that checks [`Ledger::has_room`] before it serves a request never loses one.

mod entry;
mod export;
mod queue;
mod settling;
mod spend;
mod usage;
mod writer;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use entry::{Ended, Endpoint, Entry};
pub use export::{Cursor, Exported, export, is_empty};
use queue::Queue;
pub use queue::{MAX_FOLDED, MAX_ROWS};
pub use settling::Settling;
pub use spend::{
    MonthSpend, busiest_projects, month_commitment_of, month_spend, month_spend_by, month_spend_of,
};
use tokio::sync::{Notify, watch};
pub use usage::{GroupBy, MAX_SUMS, ModelUse, Sum, TooMany, UsageQuery, sums, users_of};
pub use writer::recording;
pub(crate) use writer::writing_group;

use crate::Error;
use crate::database::Database;
use crate::journal::{Identity, Journal, OpenRequest};

/// The ledger. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    journal: Option<Journal>,
    queue: Mutex<Queue>,
    /// Notified when there are rows to write.
    filled: Notify,
    /// Notified when a flush waits: the writer does not gather a group.
    hurry: Notify,
    /// Number of requests that are written or lost.
    done: watch::Sender<u64>,
    error: Mutex<Option<String>>,
    settlings: Arc<settling::Settlings>,
}

/// The state of the writer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Rows not yet written.
    pub waiting: usize,
    /// Requests that were lost because the store was unreachable for too long.
    pub lost_requests: u64,
    /// The cost of the lost requests, in micro-dollars.
    pub lost_cost: u64,
    /// Why the last group is not written; `None` after a success.
    pub error: Option<String>,
}

impl Ledger {
    /// Starts the writer, in a task of the current runtime that ends when the last clone is dropped
    /// and all rows are written. `writer` is unique to each process.
    #[must_use]
    pub fn start(database: Arc<Database>, writer: Box<str>) -> Self {
        Self::start_with(database, writer, None)
    }

    /// The same, with a journal of what is not written yet.
    #[must_use]
    pub fn with_journal(database: Arc<Database>, writer: Box<str>, journal: Journal) -> Self {
        Self::start_with(database, writer, Some(journal))
    }

    fn start_with(database: Arc<Database>, writer: Box<str>, journal: Option<Journal>) -> Self {
        let shared = Arc::new(Shared {
            journal,
            queue: Mutex::default(),
            filled: Notify::new(),
            hurry: Notify::new(),
            done: watch::channel(0).0,
            error: Mutex::default(),
            settlings: Default::default(),
        });
        tokio::spawn(writer::run(database, writer, Arc::clone(&shared)));
        Self(shared)
    }

    /// Takes a slot of the journal for a request that is to be admitted.
    ///
    /// # Errors
    /// The disk is full, or all slots are in use.
    pub fn begin(&self, identity: &Identity<'_>) -> std::io::Result<OpenRequest> {
        OpenRequest::begin(self.0.journal.as_ref(), identity)
    }

    /// Records an entry. Never waits.
    pub fn record(&self, entry: Entry) {
        self.push(entry, None);
    }

    /// Records the entry of a request in the journal. Never waits.
    pub fn settle(&self, entry: Entry, mut request: OpenRequest) {
        request.end(&entry);
        self.push(entry, Some(request));
    }

    fn push(&self, entry: Entry, request: Option<OpenRequest>) {
        // The queue counts lost entries; [`Ledger::state`] reports them.
        let _ = self.0.queue().push(entry, request);
        self.0.filled.notify_one();
    }

    /// The journal, if there is one.
    #[must_use]
    pub fn journal(&self) -> Option<&Journal> {
        self.0.journal.as_ref()
    }

    /// Announces an entry that is written outside of the queue, until the guard is dropped: a flush waits for it.
    #[must_use]
    pub fn settling(&self) -> Settling {
        Settling::begin(&self.0.settlings)
    }

    /// Returns whether a new entry would be kept as a row of its own. If not, the store has been
    /// unreachable for long, and requests should be refused.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.0.queue().has_room()
    }

    /// The state of the writer.
    #[must_use]
    pub fn state(&self) -> State {
        let error = self.0.error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let queue = self.0.queue();
        State { error, ..queue.state() }
    }

    /// Waits until all entries recorded or announced so far are written, at most for `patience`.
    ///
    /// # Errors
    /// The timeout passed; the state reports the remaining rows.
    pub async fn flush(&self, patience: Duration) -> Result<(), State> {
        let recorded = self.0.queue().recorded();
        let mut done = self.0.done.subscribe();
        self.0.hurry.notify_one();
        let settled = self.0.settlings.wait();
        let written = async {
            settled.await;
            done.wait_for(|done| *done >= recorded).await.is_ok()
        };
        match tokio::time::timeout(patience, written).await {
            Ok(true) => Ok(()),
            _ => Err(self.state()),
        }
    }
}

impl Shared {
    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, error: Option<&Error>) {
        let mut last_error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        *last_error = error.map(ToString::to_string);
    }
}

#[cfg(test)]
pub(crate) use tests::entry as tests_entry;

#[cfg(test)]
#[path = "ledger/ledger_tests.rs"]
mod tests;
