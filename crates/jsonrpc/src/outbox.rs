//! The queue of outgoing messages of one connection: any thread pushes without waiting, one task
//! takes the queued messages and writes them.
//!
//! The bounds count bytes, not messages. Up to [`Limits::outgoing_bytes`] wait in memory, and more
//! on disk ([`Spool`]). When the disk has no room either, producers wait ([`Outbox::room`]). Size
//! alone never closes the connection of a client that reads. A write without progress does, and so
//! does a client that reads almost nothing while producers wait for it.

mod receiver;
mod state;

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use crate::queued::{Answer, Outgoing, Pushed};
use crate::spool::Spool;
use crate::{CloseReason, Limits};

pub use receiver::OutboxReceiver;
pub(crate) use state::Shared;
use state::closed_when;

/// While producers wait, a client must read [`LEAST_BYTES`] in this time, or it is closed.
const WAITED_FOR: Duration = Duration::from_secs(2);
/// See [`WAITED_FOR`].
const LEAST_BYTES: u64 = 64 << 10;
/// Most pings whose pongs are queued.
const MOST_PONGS: usize = 64;

/// Creates both ends of a queue bounded by `limits.outgoing_bytes`.
#[must_use]
pub fn outbox(limits: &Limits) -> (Outbox, OutboxReceiver) {
    let shared = Arc::new(Shared::new(limits));
    let outbox = Outbox { handle: Arc::new(Handle { shared: shared.clone() }) };
    (outbox, OutboxReceiver::new(shared))
}

/// The sending end. Cheap to clone and usable from any thread; dropping the last clone closes the
/// queue in good order.
#[derive(Clone)]
pub struct Outbox {
    handle: Arc<Handle>,
}

impl Outbox {
    /// Queues a message without waiting. Takes a lock, and makes no allocation of its own.
    ///
    /// # Errors
    /// The reason for which the outbox is closed, possibly caused by this message: pushing twice
    /// the budget without waiting for [`Outbox::room`] closes it as [`CloseReason::SlowClient`] if
    /// there is a [`Limits::stall`].
    pub fn push(&self, message: impl Into<Outgoing>) -> Result<(), CloseReason> {
        Shared::push(&self.handle.shared, Pushed::Message(message.into()))
    }

    /// Queues a response to the peer. Like [`Outbox::push`], but it counts in
    /// [`Outbox::answers_below`].
    ///
    /// # Errors
    /// As for [`Outbox::push`].
    pub fn push_answer(&self, answer: impl Into<Answer>) -> Result<(), CloseReason> {
        Shared::push(&self.handle.shared, Pushed::Answer(answer.into()))
    }

    /// Spools messages that find no room in memory to files of `spool` from now on. Later calls
    /// have no effect.
    pub fn spool_to(&self, spool: Arc<Spool>) {
        self.handle.shared.lock().spool.get_or_insert(spool);
    }

    /// Stops accepting messages. After an orderly reason queued messages are still written, after
    /// another they are dropped. A disorderly close replaces an earlier orderly one; otherwise the
    /// first reason is kept.
    pub fn close(&self, reason: CloseReason) {
        Shared::close(&self.handle.shared, reason);
    }

    /// The reason of the close, `None` while the outbox is open.
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.handle.shared.close_reason()
    }

    /// Waits until the outbox is closed, for any reason.
    pub async fn closed(&self) -> CloseReason {
        closed_when(self.handle.shared.closed.subscribe(), |_| true).await
    }

    /// Waits until every message pushed before this call is written and flushed.
    ///
    /// # Errors
    /// The reason for which they will not be written.
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

    /// Waits until every message pushed before this call is written and flushed, for as long as the
    /// peer makes progress. Without progress for `stall`, the outbox is closed as
    /// [`CloseReason::Stalled`].
    pub async fn drained(&self, stall: Duration) {
        let mut flushed = std::pin::pin!(self.flushed());
        loop {
            let before = self.written_bytes();
            if timeout(stall, flushed.as_mut()).await.is_ok() {
                return;
            }
            if self.written_bytes() == before {
                return self.close(CloseReason::Stalled);
            }
        }
    }

    /// Waits until writing has ended: the outbox is closed, and the transport has written the end
    /// of the stream.
    pub async fn ended(&self) {
        let mut progress = self.handle.shared.progress.subscribe();
        // Fails only when the queue is gone, and we hold it.
        let _ = progress.wait_for(|progress| progress.receiver_gone).await;
    }

    /// Bytes that wait to be written, in memory and on disk, including a write in progress.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.handle.shared.lock().waiting_bytes()
    }

    /// The part of [`Outbox::queued_bytes`] that is in memory.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.handle.shared.lock().held
    }

    /// Total bytes that the peer has accepted, including framing.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.handle.shared.lock().written_bytes
    }

    /// Waits until fewer than `bytes` wait to be written and there is room in memory or on disk, or
    /// the outbox is closed.
    pub async fn below(&self, bytes: usize) {
        self.until(|state| state.waiting_bytes() < bytes && !state.is_full()).await;
    }

    /// Waits until fewer than `bytes` of responses wait to be written, or the outbox is closed.
    pub async fn answers_below(&self, bytes: usize) {
        self.until(|state| state.answer_bytes < bytes).await;
    }

    /// Returns whether there is room neither in memory nor on disk.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.handle.shared.lock().is_full()
    }

    /// Waits until there is room in memory or on disk, or the outbox is closed. Meanwhile the
    /// client has to read: if it takes less than 64 KiB in two seconds and there is a
    /// [`Limits::stall`], the outbox is closed as [`CloseReason::SlowClient`].
    pub async fn room(&self) {
        loop {
            let before = self.written_bytes();
            let room = self.until(|state| !state.is_full());
            if self.handle.shared.is_patient {
                return room.await;
            }
            if timeout(WAITED_FOR, room).await.is_ok() {
                return;
            }
            if self.written_bytes() - before < LEAST_BYTES {
                return self.close(CloseReason::SlowClient);
            }
        }
    }

    async fn until(&self, reached: impl Fn(&state::State) -> bool) {
        let shared = &*self.handle.shared;
        loop {
            let mut freed = std::pin::pin!(shared.freed.notified());
            freed.as_mut().enable();
            let is_done = {
                let state = shared.lock();
                state.closed.is_some() || reached(&state)
            };
            if is_done {
                return;
            }
            freed.await;
        }
    }

    /// Pings the peer, if the transport supports it.
    pub fn ping(&self) {
        self.handle.shared.control(|controls| controls.ping = true);
    }

    /// Answers a ping. When pings arrive faster than pongs are written, only the latest are
    /// answered.
    pub(crate) fn pong(&self, payload: &[u8]) {
        self.handle.shared.control(|controls| {
            if controls.pongs.len() == MOST_PONGS {
                controls.pongs.pop_front();
            }
            controls.pongs.push_back(Bytes::copy_from_slice(payload));
        });
    }

    /// Resolves when the outbox is closed, without keeping the queue open.
    pub(crate) fn closed_watch(&self) -> impl Future<Output = CloseReason> + Send + use<> {
        closed_when(self.handle.shared.closed.subscribe(), |_| true)
    }

    /// A handle that does not keep the queue open.
    pub(crate) fn downgrade(&self) -> WeakOutbox {
        WeakOutbox(Arc::downgrade(&self.handle))
    }

    /// Resolves when the outbox is closed and its queued messages are dropped.
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

/// Closes the queue when the last [`Outbox`] is gone.
struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.shared.lock().closed.is_none() {
            Shared::close(&self.shared, CloseReason::Finished);
        }
    }
}
