//! The queue of outgoing messages of one connection: any thread pushes without waiting, one task
//! takes what waits and writes it.
//!
//! Bytes are counted, not messages. Up to [`Limits::outgoing_bytes`] wait in memory; beyond, they
//! wait on disk ([`Spool`]). Where there is no room on disk either, whoever makes messages waits
//! ([`Outbox::room`]). Size alone never closes a connection whose client reads: a write that makes no
//! progress does, and a client that takes next to nothing while others wait for it.

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

/// A client that others wait for takes [`LEAST_BYTES`] in so long, or is closed.
const WAITED_FOR: Duration = Duration::from_secs(2);
/// See [`WAITED_FOR`].
const LEAST_BYTES: u64 = 64 << 10;
/// Pings that wait for their answer.
const MOST_PONGS: usize = 64;

/// A queue with its two ends, bounded by `limits.outgoing_bytes`.
#[must_use]
pub fn outbox(limits: &Limits) -> (Outbox, OutboxReceiver) {
    let shared = Arc::new(Shared::new(limits));
    let outbox = Outbox { handle: Arc::new(Handle { shared: shared.clone() }) };
    (outbox, OutboxReceiver::new(shared))
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
    /// The reason for which the outbox is closed, which may be this very message: whoever pushes
    /// twice the budget without waiting for [`Outbox::room`] closes it as
    /// [`CloseReason::SlowClient`], where there is a [`Limits::stall`].
    pub fn push(&self, message: impl Into<Outgoing>) -> Result<(), CloseReason> {
        Shared::push(&self.handle.shared, Pushed::Message(message.into()))
    }

    /// Queues what the peer asked for. As [`Outbox::push`], but it counts in
    /// [`Outbox::answers_below`].
    ///
    /// # Errors
    /// As for [`Outbox::push`].
    pub fn push_answer(&self, answer: impl Into<Answer>) -> Result<(), CloseReason> {
        Shared::push(&self.handle.shared, Pushed::Answer(answer.into()))
    }

    /// From now on what finds no room in memory waits in files of `spool`. Later calls change
    /// nothing.
    pub fn spool_to(&self, spool: Arc<Spool>) {
        self.handle.shared.lock().spool.get_or_insert(spool);
    }

    /// Takes no more messages. After an orderly reason the queued ones are still written, after
    /// another they are dropped. The first orderly close can be cut short by a later disorderly
    /// one; otherwise the first reason stays.
    pub fn close(&self, reason: CloseReason) {
        Shared::close(&self.handle.shared, reason);
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

    /// Waits until everything pushed before this call is written and flushed, for as long as the peer
    /// takes something; one that takes nothing for `stall` is given up as [`CloseReason::Stalled`].
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

    /// Waits until nothing is written any more: the outbox is closed, and the stream ended with what
    /// the transport says at the end.
    pub async fn ended(&self) {
        let mut progress = self.handle.shared.progress.subscribe();
        // Fails when the queue is gone, which we hold.
        let _ = progress.wait_for(|progress| progress.receiver_gone).await;
    }

    /// Bytes that wait to be written, in memory and on disk, what is just being written included.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.handle.shared.lock().waiting_bytes()
    }

    /// Bytes of [`Outbox::queued_bytes`] that are in memory.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.handle.shared.lock().held
    }

    /// Bytes that the peer has taken so far, framing included.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.handle.shared.lock().written_bytes
    }

    /// Waits until fewer than `bytes` wait to be written and there is room, in memory or on disk, or
    /// the outbox is closed.
    pub async fn below(&self, bytes: usize) {
        self.until(|state| state.waiting_bytes() < bytes && !state.is_full()).await;
    }

    /// Waits until fewer than `bytes` of answers wait to be written, or the outbox is closed.
    pub async fn answers_below(&self, bytes: usize) {
        self.until(|state| state.answer_bytes < bytes).await;
    }

    /// Whether there is room neither in memory nor on disk.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.handle.shared.lock().is_full()
    }

    /// Waits until there is room, in memory or on disk, or the outbox is closed. A client that is
    /// waited for has to read: one that takes less than 64 KiB in two seconds is closed as
    /// [`CloseReason::SlowClient`], where [`Limits::stall`] limits its patience.
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
