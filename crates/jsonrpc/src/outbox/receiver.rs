//! The receiving end of the outgoing queue, for the task that writes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::state::{Controls, Shared, closed_when};
use crate::CloseReason;
use crate::queued::Queued;

/// Size of a batch, in bytes: all of it counts as written at the same time.
const BATCH_BYTES: usize = 1 << 20;
/// Capacity, in entries, kept between batches.
const RETAINED_ENTRIES: usize = 32;

/// The receiving end, for the task that writes: [`OutboxReceiver::run`] for a stream of lines, or
/// [`take`](Self::take) and [`next_queued`](Self::next_queued) for a transport with its own frames.
/// Dropping it closes the outbox.
pub struct OutboxReceiver {
    pub(crate) shared: Arc<Shared>,
    batch: VecDeque<Queued>,
    /// Number of pushes in the batches taken so far.
    taken: u64,
    /// Bytes of the batch that still count against the budget.
    in_flight: usize,
    /// The part returned last was not the last of its message.
    within_message: bool,
}

impl OutboxReceiver {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, batch: VecDeque::new(), taken: 0, in_flight: 0, within_message: false }
    }

    /// Marks everything taken before as written, waits until something is queued and takes the next
    /// batch, which may consist of control messages only. `false` once the outbox is closed and
    /// nothing is left to write.
    pub async fn take(&mut self) -> bool {
        self.batch.clear();
        self.batch.shrink_to(RETAINED_ENTRIES);
        self.finish_batch();
        std::future::poll_fn(|cx| self.poll_take(cx)).await
    }

    /// Returns the next message of the last batch, in the order of the pushes, or a part of one;
    /// the other parts follow directly.
    pub fn next_queued(&mut self) -> Option<Queued> {
        let next = self.batch.pop_front()?;
        self.within_message = !next.ends();
        Some(next)
    }

    /// Takes the queued control messages.
    pub(crate) fn take_controls(&self) -> Controls {
        std::mem::take(&mut self.shared.lock().controls)
    }

    fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.shared.lock();
        if state.closed.is_some_and(|reason| !reason.is_orderly()) {
            return Poll::Ready(false);
        }
        if state.queue.is_empty() {
            Shared::move_on(&self.shared, &mut state);
        }
        if let Some(kind) = state.lost.take() {
            drop(state);
            Shared::close(&self.shared, CloseReason::SpoolFailed(kind));
            return Poll::Ready(false);
        }
        if !state.queue.is_empty() {
            self.in_flight = state.take_batch(&mut self.batch, BATCH_BYTES);
            self.taken += self.batch.iter().map(|queued| u64::from(queued.pushes())).sum::<u64>();
            // The disk reads the next messages while this batch is written.
            Shared::move_on(&self.shared, &mut state);
            return Poll::Ready(true);
        }
        if !state.controls.is_empty() && !self.within_message {
            return Poll::Ready(true);
        }
        if state.closed.is_some() && state.spooled.is_none() {
            return Poll::Ready(false);
        }
        state.receiver = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Returns written bytes to the budget.
    pub(crate) fn release(&mut self, written: usize) {
        let bytes = written.min(self.in_flight);
        self.in_flight -= bytes;
        let mut state = self.shared.lock();
        state.written_bytes += written as u64;
        state.free(bytes);
        Shared::move_on(&self.shared, &mut state);
        drop(state);
        self.shared.freed.notify_waiters();
    }

    fn finish_batch(&mut self) {
        let bytes = std::mem::take(&mut self.in_flight);
        let mut state = self.shared.lock();
        state.free(bytes);
        let answered = state.answers_written(self.taken);
        drop(state);
        if bytes > 0 || answered {
            self.shared.freed.notify_waiters();
        }
        self.shared.publish(self.taken);
    }

    /// Resolves when queued messages are no longer to be written.
    pub(crate) fn broken(&self) -> impl Future<Output = CloseReason> + Send + use<> {
        closed_when(self.shared.closed.subscribe(), |reason| !reason.is_orderly())
    }
}

impl Drop for OutboxReceiver {
    fn drop(&mut self) {
        // Without a receiver no message would ever be written. An earlier reason is kept.
        if self.shared.lock().closed.is_none() {
            Shared::close(&self.shared, CloseReason::Aborted);
        }
        self.shared.progress.send_modify(|progress| progress.receiver_gone = true);
    }
}
