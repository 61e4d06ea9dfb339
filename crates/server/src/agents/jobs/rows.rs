//! The rows that workers have. A row takes one result; once it is closed, it takes none.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::plan::JobPlan;

/// The rows of all running jobs, by the threads of their workers. Cheap to clone.
#[derive(Clone, Default)]
pub(in crate::agents) struct OpenRows(Arc<Mutex<HashMap<String, Arc<Row>>>>);

/// A row that a worker has.
pub(super) struct Row {
    /// The thread of the job.
    pub(super) thread: String,
    pub(super) job_key: i64,
    pub(super) job_id: String,
    pub(super) number: u32,
    pub(super) id: String,
    pub(super) plan: Arc<JobPlan>,
    /// Bytes that further results of the job may have.
    pub(super) room: Arc<AtomicU64>,
    /// Ends the job.
    pub(super) stop: watch::Sender<bool>,
    state: watch::Sender<RowState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowState {
    /// It waits for its result.
    Open,
    /// Its result is being stored.
    Reporting,
    /// Its result is stored.
    Reported,
    /// It takes no result.
    Closed,
}

/// Which row of which job.
pub(super) struct RowPlace {
    pub(super) thread: String,
    pub(super) job_key: i64,
    pub(super) job_id: String,
    pub(super) number: u32,
    pub(super) id: String,
}

impl Row {
    pub(super) fn new(
        place: RowPlace,
        plan: Arc<JobPlan>,
        room: Arc<AtomicU64>,
        stop: watch::Sender<bool>,
    ) -> Self {
        let RowPlace { thread, job_key, job_id, number, id } = place;
        let state = watch::Sender::new(RowState::Open);
        Self { thread, job_key, job_id, number, id, plan, room, stop, state }
    }

    /// Begins to store a result; `false` when the row takes none.
    pub(super) fn begin_report(&self) -> bool {
        self.change(RowState::Open, RowState::Reporting)
    }

    /// The result is stored, or could not be.
    pub(super) fn end_report(&self, is_stored: bool) {
        let to = if is_stored { RowState::Reported } else { RowState::Open };
        self.change(RowState::Reporting, to);
    }

    /// Whether the row takes no result, and has none.
    pub(super) fn is_closed(&self) -> bool {
        *self.state.borrow() == RowState::Closed
    }

    /// Waits for the result.
    pub(super) async fn reported(&self) {
        // The sender lives as long as `self`.
        let _ = self.state.subscribe().wait_for(|state| *state == RowState::Reported).await;
    }

    /// Takes no result from now on. Returns whether it has one; waits for one that is being stored.
    async fn close(&self) -> bool {
        let mut state = self.state.subscribe();
        while !self.change(RowState::Open, RowState::Closed) {
            let settled = state.wait_for(|state| *state != RowState::Reporting).await;
            match settled.map(|state| *state) {
                Ok(RowState::Reported) => return true,
                Ok(RowState::Open | RowState::Reporting) => {}
                Ok(RowState::Closed) | Err(_) => return false,
            }
        }
        false
    }

    /// Takes bytes of the room that the results of a job have; `false` when there are not as many.
    pub(super) fn take_room(&self, bytes: u64) -> bool {
        let take = |room: u64| room.checked_sub(bytes);
        self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    fn change(&self, from: RowState, to: RowState) -> bool {
        self.state.send_if_modified(|state| {
            let is_from = *state == from;
            if is_from {
                *state = to;
            }
            is_from
        })
    }
}

/// A row that a worker has, until this is dropped.
pub(super) struct HeldRow {
    rows: OpenRows,
    worker: String,
    row: Arc<Row>,
}

impl OpenRows {
    pub(super) fn open(&self, worker: &str, row: Row) -> HeldRow {
        let row = Arc::new(row);
        self.rows().insert(worker.to_owned(), row.clone());
        HeldRow { rows: self.clone(), worker: worker.to_owned(), row }
    }

    pub(super) fn of_worker(&self, worker: &str) -> Option<Arc<Row>> {
        self.rows().get(worker).cloned()
    }

    fn rows(&self) -> MutexGuard<'_, HashMap<String, Arc<Row>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldRow {
    /// Waits for the result.
    pub(super) async fn reported(&self) {
        self.row.reported().await;
    }

    /// See [`Row::close`].
    pub(super) async fn close(&self) -> bool {
        self.row.close().await
    }
}

impl Drop for HeldRow {
    fn drop(&mut self) {
        self.row.change(RowState::Open, RowState::Closed);
        self.rows.rows().remove(&self.worker);
    }
}
