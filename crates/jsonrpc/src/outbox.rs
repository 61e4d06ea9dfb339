//! The queue of outgoing messages of one connection: any thread pushes without waiting, one task
//! takes everything that waits and writes it. It counts bytes, not messages, and closes a
//! connection whose client is too slow instead of growing.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::sync::watch;

use crate::Limits;
use crate::queued::{Outgoing, Queued};
use crate::websocket::Violation;

/// Why a connection takes no more messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// Our side is done with the connection; what is queued is still written.
    #[error("the connection was finished")]
    Finished,
    /// The program ends; what is queued is still written.
    #[error("the program is shutting down")]
    Shutdown,
    /// Our side gave the connection up; what is queued is dropped.
    #[error("the connection was given up")]
    Aborted,
    /// More bytes waited for the client than [`Limits::outgoing_bytes`]; they are dropped.
    #[error("the client reads too slowly: its queue of unread messages is full")]
    SlowClient,
    /// A write made no progress for [`Limits::stall`].
    #[error("the client stopped reading")]
    Stalled,
    /// The peer does not answer pings.
    #[error("the client is silent and answers no ping")]
    Unresponsive,
    /// The peer ended the connection, with this code (RFC 6455, section 7.4).
    #[error("the other side left (code {code})")]
    Left {
        /// 1005 when it gave none, 1006 when the stream just ended.
        code: u16,
    },
    /// The peer broke the transport's rules; what is queued is still written: it was asked for
    /// before.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// The client did not begin with `initialize` in time, or too many did not.
    #[error("the connection was not initialized in time")]
    NotInitialized,
    /// Reading failed; what is queued is dropped.
    #[error("reading from the other side failed: {0}")]
    ReadFailed(io::ErrorKind),
    /// Writing failed; what is queued is dropped.
    #[error("writing to the other side failed: {0}")]
    WriteFailed(io::ErrorKind),
}

impl CloseReason {
    /// Whether what was queued before the close is still written.
    #[must_use]
    pub fn is_orderly(self) -> bool {
        matches!(self, Self::Finished | Self::Shutdown | Self::Violation(_))
    }

    /// The code that a WebSocket is closed with for this reason (RFC 6455, section 7.4); `None`
    /// when there is nobody to tell.
    #[must_use]
    pub fn code(self) -> Option<u16> {
        Some(match self {
            Self::Finished => 1000,
            Self::Shutdown => 1001,
            Self::SlowClient | Self::NotInitialized => 1008,
            Self::Violation(violation) => violation.code(),
            Self::Left { code: 1006 } => return None,
            Self::Left { code: 1005 } => 1000,
            Self::Left { code } => code,
            Self::Aborted | Self::Unresponsive => 1011,
            Self::Stalled | Self::ReadFailed(_) | Self::WriteFailed(_) => return None,
        })
    }
}

/// A queue with its two ends, bounded by `limits.outgoing_bytes`.
#[must_use]
pub fn outbox(limits: &Limits) -> (Outbox, OutboxReceiver) {
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        budget: limits.outgoing_bytes,
        merge_above: limits.merge_above,
        closed: watch::Sender::new(None),
        progress: watch::Sender::new(Progress::default()),
    });
    let outbox = Outbox { handle: Arc::new(Handle { shared: shared.clone() }) };
    (outbox, OutboxReceiver { shared, batch: VecDeque::new(), taken: 0, in_flight: 0 })
}

/// The sending end. Cheap to clone; usable from any thread; when the last clone is dropped the
/// queue is finished in good order.
#[derive(Clone)]
pub struct Outbox {
    handle: Arc<Handle>,
}

impl Outbox {
    /// Queues a message. Never waits; costs a lock and no allocation of its own.
    ///
    /// # Errors
    /// The reason for which the outbox is closed, which may be this very message: it is refused
    /// when the budget is used up, and closes the outbox as [`CloseReason::SlowClient`].
    pub fn push(&self, message: impl Into<Outgoing>) -> Result<(), CloseReason> {
        let shared = &*self.handle.shared;
        let mut state = shared.lock();
        if let Some(reason) = state.closed {
            return Err(reason);
        }
        if state.bytes >= shared.budget {
            drop(state);
            shared.close(CloseReason::SlowClient);
            return Err(CloseReason::SlowClient);
        }
        state.pushed += 1;
        state.add(message.into(), shared.merge_above);
        let waker = state.receiver.take();
        drop(state);
        // Only a receiver that sleeps has left a waker: while it writes, a push wakes nobody.
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Takes no more messages. After an orderly reason the queued ones are still written, after
    /// another they are dropped. The first orderly close can be cut short by a later disorderly
    /// one; otherwise the first reason stays.
    pub fn close(&self, reason: CloseReason) {
        self.handle.shared.close(reason);
    }

    /// Why the outbox is closed, `None` while it is open.
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.handle.shared.close_reason()
    }

    /// Waits until the outbox is closed, for whatever reason.
    pub async fn closed(&self) -> CloseReason {
        closed_when(self.handle.shared.closed.subscribe(), |_| true).await
    }

    /// Waits until everything pushed before this call is written and flushed.
    ///
    /// # Errors
    /// The reason for which it will not be written.
    pub async fn flushed(&self) -> Result<(), CloseReason> {
        let shared = &*self.handle.shared;
        let target = shared.lock().pushed;
        let mut progress = shared.progress.subscribe();
        let reached = progress.wait_for(|p| p.written >= target || p.receiver_gone).await;
        if reached.is_ok_and(|p| p.written >= target) {
            return Ok(());
        }
        Err(self.close_reason().unwrap_or(CloseReason::Aborted))
    }

    /// Waits until nothing is written any more: the outbox is closed, and the stream ended with what
    /// the transport says at the end.
    pub async fn ended(&self) {
        let mut progress = self.handle.shared.progress.subscribe();
        // Fails when the queue is gone, which we hold.
        let _ = progress.wait_for(|progress| progress.receiver_gone).await;
    }

    /// Bytes that wait to be written, what is just being written included.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.handle.shared.lock().bytes
    }

    /// Asks the peer whether it is there, where the transport can.
    pub(crate) fn ping(&self) {
        self.handle.shared.control(|controls| controls.ping = true);
    }

    /// Answers a ping. Of pings that come faster than answers are written the last ones are
    /// answered.
    pub(crate) fn pong(&self, payload: &[u8]) {
        self.handle.shared.control(|controls| {
            if controls.pongs.len() == MOST_PONGS {
                controls.pongs.pop_front();
            }
            controls.pongs.push_back(Bytes::copy_from_slice(payload));
        });
    }

    /// Resolves when the outbox is closed, and does not keep the queue open.
    pub(crate) fn closed_watch(&self) -> impl Future<Output = CloseReason> + Send + use<> {
        closed_when(self.handle.shared.closed.subscribe(), |_| true)
    }

    /// A handle that does not keep the queue open.
    pub(crate) fn downgrade(&self) -> WeakOutbox {
        WeakOutbox(Arc::downgrade(&self.handle))
    }

    /// Resolves when the outbox is closed in a way that leaves nothing to be written.
    pub(crate) fn broken(&self) -> impl Future<Output = CloseReason> + Send + use<> {
        closed_when(self.handle.shared.closed.subscribe(), |reason| !reason.is_orderly())
    }
}

/// See [`Outbox::downgrade`].
pub(crate) struct WeakOutbox(Weak<Handle>);

impl WeakOutbox {
    pub(crate) fn upgrade(&self) -> Option<Outbox> {
        self.0.upgrade().map(|handle| Outbox { handle })
    }
}

/// The receiving end, for the task that writes: [`OutboxReceiver::run`] for a stream of lines, or
/// [`take`](Self::take) and [`next_queued`](Self::next_queued) for a transport with frames of its
/// own. Dropping it closes the outbox.
pub struct OutboxReceiver {
    pub(crate) shared: Arc<Shared>,
    batch: VecDeque<Queued>,
    /// How many pushes went into the batches taken so far.
    taken: u64,
    /// Bytes of the batch that still count against the budget.
    in_flight: usize,
}

impl OutboxReceiver {
    /// Declares everything taken before as written, waits until something is queued and takes all
    /// of it; there may be control messages only. `false` once the outbox is closed and there is
    /// nothing left to write.
    pub async fn take(&mut self) -> bool {
        self.release(self.in_flight);
        self.batch.clear();
        self.batch.shrink_to(RETAINED_ENTRIES);
        self.shared.publish(self.taken);
        std::future::poll_fn(|cx| self.poll_take(cx)).await
    }

    /// The next message of the batch taken last, in the order of the pushes.
    pub fn next_queued(&mut self) -> Option<Queued> {
        self.batch.pop_front()
    }

    /// The control messages that wait.
    pub(crate) fn take_controls(&self) -> Controls {
        std::mem::take(&mut self.shared.lock().controls)
    }

    fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.shared.lock();
        if state.closed.is_some_and(|reason| !reason.is_orderly()) {
            return Poll::Ready(false);
        }
        if !state.queue.is_empty() {
            std::mem::swap(&mut state.queue, &mut self.batch);
            self.in_flight = state.bytes;
            self.taken = state.pushed;
            return Poll::Ready(true);
        }
        if !state.controls.is_empty() {
            return Poll::Ready(true);
        }
        if state.closed.is_some() {
            return Poll::Ready(false);
        }
        state.receiver = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Gives bytes that are written back to the budget.
    pub(crate) fn release(&mut self, bytes: usize) {
        let bytes = bytes.min(self.in_flight);
        if bytes == 0 {
            return;
        }
        self.in_flight -= bytes;
        let mut state = self.shared.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
    }

    /// Resolves when what is queued is not to be written any more.
    pub(crate) fn broken(&self) -> impl Future<Output = CloseReason> + Send + use<> {
        closed_when(self.shared.closed.subscribe(), |reason| !reason.is_orderly())
    }
}

impl Drop for OutboxReceiver {
    fn drop(&mut self) {
        // Without a receiver nothing would ever be written; a reason given before stays.
        if self.shared.lock().closed.is_none() {
            self.shared.close(CloseReason::Aborted);
        }
        self.shared.progress.send_modify(|progress| progress.receiver_gone = true);
    }
}

/// Room for so many entries is kept between batches.
const RETAINED_ENTRIES: usize = 32;
/// Pings that wait for their answer.
const MOST_PONGS: usize = 64;

/// What is written between messages, on transports that know such things.
#[derive(Default)]
pub(crate) struct Controls {
    pub(crate) ping: bool,
    pub(crate) pongs: VecDeque<Bytes>,
}

impl Controls {
    fn is_empty(&self) -> bool {
        !self.ping && self.pongs.is_empty()
    }
}

/// Closes the queue when the last [`Outbox`] is gone.
struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.shared.lock().closed.is_none() {
            self.shared.close(CloseReason::Finished);
        }
    }
}

pub(crate) struct Shared {
    state: Mutex<State>,
    budget: usize,
    merge_above: usize,
    closed: watch::Sender<Option<CloseReason>>,
    progress: watch::Sender<Progress>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Queued>,
    controls: Controls,
    /// Of the queue and of the batch that is being written.
    bytes: usize,
    /// How many messages were ever pushed.
    pushed: u64,
    closed: Option<CloseReason>,
    /// Set while the receiver sleeps.
    receiver: Option<Waker>,
}

#[derive(Default)]
struct Progress {
    /// How many pushes are written.
    written: u64,
    receiver_gone: bool,
}

impl Shared {
    pub(crate) fn close(&self, reason: CloseReason) {
        let mut state = self.lock();
        let stays = state.closed.is_some_and(|old| !old.is_orderly() || reason.is_orderly());
        if stays {
            return;
        }
        state.closed = Some(reason);
        let mut dropped = VecDeque::new();
        if !reason.is_orderly() {
            dropped = std::mem::take(&mut state.queue);
            state.bytes = 0;
        }
        let waker = state.receiver.take();
        // Told under the lock, so that the watchers see reasons in the order they were set.
        self.closed.send_replace(Some(reason));
        drop(state);
        drop(dropped);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn close_reason(&self) -> Option<CloseReason> {
        self.lock().closed
    }

    fn control(&self, change: impl FnOnce(&mut Controls)) {
        let mut state = self.lock();
        if state.closed.is_some() {
            return;
        }
        change(&mut state.controls);
        let waker = state.receiver.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn publish(&self, written: u64) {
        self.progress.send_if_modified(|progress| {
            let changed = progress.written != written;
            progress.written = written;
            // Waking nobody costs as much as a message. Who comes now sees the new value: it is
            // looked at under the same lock.
            changed && self.progress.receiver_count() > 0
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, message: Outgoing, merge_above: usize) {
        if let Outgoing::Delta { head, text, tail } = &message
            && self.bytes > merge_above
            && let Some(last) = self.queue.back_mut()
            && let Some(more) = last.merge(head, text, tail)
        {
            self.bytes = self.bytes.saturating_add_signed(more);
            return;
        }
        let queued = Queued::from(message);
        self.bytes += queued.len();
        self.queue.push_back(queued);
    }
}

async fn closed_when(
    mut closed: watch::Receiver<Option<CloseReason>>,
    matters: fn(CloseReason) -> bool,
) -> CloseReason {
    let reached = closed.wait_for(|reason| reason.is_some_and(matters)).await;
    if let Some(reason) = reached.ok().and_then(|reason| *reason) {
        return reason;
    }
    // Both ends are gone: what was to happen has happened, and nothing else ever will.
    std::future::pending().await
}
