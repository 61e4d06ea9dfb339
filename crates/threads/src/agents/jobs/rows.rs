//! The rows that workers have. A row takes one result; once it is closed, it takes none.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use session::FailureKind;
use store::Store;
use tokio::sync::watch;

use super::course::Course;
use super::plan::JobPlan;

/// The rows of all running jobs, by the threads of their workers. Cheap to clone.
#[derive(Clone, Default)]
pub(in crate::agents) struct OpenRows(Arc<Mutex<HashMap<String, Arc<Row>>>>);

/// A row that a worker has.
pub(super) struct Row {
    pub(super) place: RowPlace,
    pub(super) plan: Arc<JobPlan>,
    /// Where the job is stored.
    pub(super) store: Store,
    pub(super) room: Room,
    pub(super) course: Course,
    state: watch::Sender<RowState>,
    /// Why the last turn of the worker failed, if it did.
    failure: Mutex<Option<FailureKind>>,
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

/// Which row of which job, and who works on it.
pub(super) struct RowPlace {
    /// The thread of the job.
    pub(super) thread: String,
    pub(super) job_key: i64,
    pub(super) job_id: String,
    pub(super) number: u32,
    pub(super) id: String,
    /// The thread of the worker.
    pub(super) worker: String,
}

/// Bytes that further results of a job may have. Clones share them.
#[derive(Clone)]
pub(super) struct Room(Arc<AtomicU64>);

/// Bytes taken for one result. Dropped before it is kept, they are given back.
pub(super) struct RoomShare {
    room: Room,
    bytes: u64,
}

impl Room {
    pub(super) fn new(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }

    /// Takes bytes; `None` when there are not as many.
    pub(super) fn take(&self, bytes: u64) -> Option<RoomShare> {
        let take = |room: u64| room.checked_sub(bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        Some(RoomShare { room: self.clone(), bytes })
    }
}

impl RoomShare {
    /// The result is stored.
    pub(super) fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for RoomShare {
    fn drop(&mut self) {
        self.room.0.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// A result that is being stored. Dropped before it is stored, the row waits for one again.
pub(super) struct Reporting {
    row: Arc<Row>,
    is_stored: bool,
}

impl Reporting {
    pub(super) fn row(&self) -> &Row {
        &self.row
    }

    /// The result is stored.
    pub(super) fn stored(mut self) {
        self.is_stored = true;
    }
}

impl Drop for Reporting {
    fn drop(&mut self) {
        let to = if self.is_stored { RowState::Reported } else { RowState::Open };
        self.row.change(RowState::Reporting, to);
    }
}

impl Row {
    pub(super) fn new(
        place: RowPlace,
        (plan, store): (Arc<JobPlan>, Store),
        room: Room,
        course: Course,
    ) -> Self {
        let state = watch::Sender::new(RowState::Open);
        Self { place, plan, store, room, course, state, failure: Mutex::default() }
    }

    /// Begins to store a result; `None` when the row takes none.
    pub(super) fn begin_report(self: &Arc<Self>) -> Option<Reporting> {
        let begins = self.change(RowState::Open, RowState::Reporting);
        begins.then(|| Reporting { row: self.clone(), is_stored: false })
    }

    /// Returns whether the row takes no result, and has none.
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

    fn failure(&self) -> MutexGuard<'_, Option<FailureKind>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
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
    row: Arc<Row>,
}

impl OpenRows {
    pub(super) fn open(&self, row: Row) -> HeldRow {
        let row = Arc::new(row);
        self.rows().insert(row.place.worker.clone(), row.clone());
        HeldRow { rows: self.clone(), row }
    }

    /// A turn of an agent ended. Ignores agents that are no workers.
    pub(in crate::agents) fn turn_ended(&self, agent: &str, failure: Option<FailureKind>) {
        if let Some(row) = self.of_worker(agent) {
            *row.failure() = failure;
        }
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

    /// Why the last turn of the worker failed, if it did.
    pub(super) fn failure(&self) -> Option<FailureKind> {
        *self.row.failure()
    }

    /// See [`Row::close`].
    pub(super) async fn close(&self) -> bool {
        self.row.close().await
    }
}

impl Drop for HeldRow {
    fn drop(&mut self) {
        self.row.change(RowState::Open, RowState::Closed);
        self.rows.rows().remove(&self.row.place.worker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_that_no_stored_result_takes_is_given_back() {
        let room = Room::new(10);
        let share = room.take(8).unwrap();
        assert!(room.take(3).is_none());
        drop(share);
        room.take(10).unwrap().keep();
        assert!(room.take(1).is_none());
    }
}
