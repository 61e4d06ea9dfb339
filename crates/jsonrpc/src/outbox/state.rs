//! The state that both ends of the queue share, and the path of messages through the disk.
//!
//! In order: the batch in progress, `queue`, the files, the messages on their way to the files,
//! `tail`. Messages pass through the disk from the moment the memory is full until the files are
//! empty again.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use bytes::Bytes;
use tokio::sync::{Notify, watch};

use crate::queued::{Outgoing, Pushed, Queued};
use crate::spool::{Done, Files, Job, Spool, Work};
use crate::{CloseReason, Limits};

/// Size of one write to disk, in bytes, and of one read, which happens ahead of the writes to the
/// client.
const SPOOLED_BYTES: usize = 1 << 20;

pub(crate) struct Shared {
    state: Mutex<State>,
    merge_above: usize,
    /// The connection waits for a peer that does not read, without a limit.
    pub(super) is_patient: bool,
    pub(super) closed: watch::Sender<Option<CloseReason>>,
    pub(super) progress: watch::Sender<Progress>,
    /// Notified when bytes are written or the outbox is closed.
    pub(super) freed: Notify,
}

#[derive(Default)]
pub(super) struct State {
    /// Bytes that may wait in memory.
    budget: usize,
    pub(super) queue: VecDeque<Queued>,
    queue_bytes: usize,
    pub(super) controls: Controls,
    /// Bytes in memory: of the queue, of the batch in progress, of the tail and of messages on
    /// their way to the disk.
    pub(super) held: usize,
    /// Total number of messages pushed.
    pub(super) pushed: u64,
    /// Total number of bytes written.
    pub(super) written_bytes: u64,
    /// Responses not yet written: the number of the push, and the length.
    answers: VecDeque<(u64, usize)>,
    pub(super) answer_bytes: usize,
    /// Bytes pushed while there was no room.
    excess: usize,
    pub(super) spool: Option<Arc<Spool>>,
    /// `Some` while messages pass through the disk.
    pub(super) spooled: Option<Spooled>,
    /// Why messages cannot be read back from disk.
    pub(super) lost: Option<io::ErrorKind>,
    pub(super) closed: Option<CloseReason>,
    /// Set while the receiver sleeps.
    pub(super) receiver: Option<Waker>,
}

/// Messages that pass through the disk.
pub(super) struct Spooled {
    /// `None` during a read or write.
    files: Option<Files>,
    /// Bytes in the files.
    bytes: usize,
    tail: VecDeque<Queued>,
    tail_bytes: usize,
    /// Bytes on their way to the files.
    leaving: usize,
    /// The disk had no room at the last attempt.
    is_refused: bool,
}

#[derive(Default)]
pub(super) struct Progress {
    /// Number of pushes written.
    pub(super) written: u64,
    pub(super) receiver_gone: bool,
}

/// The control frames that are written between messages, on transports that have them.
#[derive(Default)]
pub(crate) struct Controls {
    pub(crate) ping: bool,
    pub(crate) pongs: VecDeque<Bytes>,
}

impl Controls {
    pub(super) fn is_empty(&self) -> bool {
        !self.ping && self.pongs.is_empty()
    }
}

impl Shared {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            state: Mutex::new(State { budget: limits.outgoing_bytes, ..State::default() }),
            merge_above: limits.merge_above,
            is_patient: limits.stall.is_none(),
            closed: watch::Sender::new(None),
            progress: watch::Sender::new(Progress::default()),
            freed: Notify::new(),
        }
    }

    pub(super) fn push(this: &Arc<Self>, message: Pushed) -> Result<(), CloseReason> {
        let mut state = this.lock();
        if let Some(reason) = state.closed {
            return Err(reason);
        }
        let length = message.len();
        if !state.admit(length) && !this.is_patient {
            drop(state);
            Self::close(this, CloseReason::SlowClient);
            return Err(CloseReason::SlowClient);
        }
        state.pushed += 1;
        if let Pushed::Answer(_) = message {
            let push = state.pushed;
            state.answers.push_back((push, length));
            state.answer_bytes += length;
        }
        state.add(message, length, this.merge_above);
        if state.spooled.is_some() {
            Self::move_on(this, &mut state);
        }
        let waker = if state.queue.is_empty() { None } else { state.receiver.take() };
        drop(state);
        // Only a sleeping receiver has left a waker, so a push during a write wakes no task.
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    pub(crate) fn close(this: &Arc<Self>, reason: CloseReason) {
        let mut state = this.lock();
        let stays = state.closed.is_some_and(|old| !old.is_orderly() || reason.is_orderly());
        if stays {
            return;
        }
        state.closed = Some(reason);
        let mut dropped = (VecDeque::new(), None);
        if !reason.is_orderly() {
            dropped = (std::mem::take(&mut state.queue), state.spooled.take());
            (state.queue_bytes, state.held) = (0, 0);
        }
        let waker = state.receiver.take();
        // Sent under the lock, so that the watchers see reasons in the order they were set.
        this.closed.send_replace(Some(reason));
        drop(state);
        drop(dropped);
        this.freed.notify_waiters();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Starts the next step between memory and disk, if one is due and none is in progress.
    pub(super) fn move_on(this: &Arc<Self>, state: &mut State) {
        while let Some((files, work)) = state.next_work() {
            let shared = this.clone();
            let done = Box::new(move |files, done| Self::moved(&shared, files, done));
            let Err(refused) = Spool::order(Box::new(Job { files, work, done })) else { return };
            let (files, done) = *refused;
            state.moved(files, done);
        }
    }

    /// Handles the end of a step of the disk.
    fn moved(this: &Arc<Self>, files: Files, done: Done) {
        let mut state = this.lock();
        state.moved(files, done);
        Self::move_on(this, &mut state);
        let waker = state.receiver.take();
        drop(state);
        this.freed.notify_waiters();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn close_reason(&self) -> Option<CloseReason> {
        self.lock().closed
    }

    pub(super) fn control(&self, change: impl FnOnce(&mut Controls)) {
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

    pub(super) fn publish(&self, written: u64) {
        self.progress.send_if_modified(|progress| {
            let changed = progress.written != written;
            progress.written = written;
            // Notifying without receivers costs as much as a message. A receiver created later sees
            // the new value, because it reads it under the same lock.
            changed && self.progress.receiver_count() > 0
        });
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // No panic under this lock leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(super) fn waiting_bytes(&self) -> usize {
        self.held + self.spooled.as_ref().map_or(0, |spooled| spooled.bytes)
    }

    /// See [`crate::Outbox::is_full`].
    pub(super) fn is_full(&self) -> bool {
        match &self.spooled {
            // With a spool there is room until the disk refuses.
            None => self.spool.is_none() && self.held >= self.budget,
            Some(spooled) => {
                let held = spooled.tail_bytes + spooled.leaving;
                held >= self.budget || spooled.is_refused && held >= self.spooled_at_once()
            }
        }
    }

    /// [`SPOOLED_BYTES`], or less when the memory's budget is small.
    fn spooled_at_once(&self) -> usize {
        SPOOLED_BYTES.min(self.budget / 4).max(1)
    }

    /// Returns whether a message may be queued. Up to one budget is accepted without room, for
    /// producers that push without waiting for it.
    fn admit(&mut self, length: usize) -> bool {
        if !self.is_full() {
            self.excess = 0;
            return true;
        }
        let admitted = self.excess < self.budget;
        self.excess += length;
        admitted
    }

    fn add(&mut self, message: Pushed, length: usize, merge_above: usize) {
        if self.spooled.is_none()
            && self.held + length > self.budget
            && let Some(spool) = &self.spool
        {
            self.spooled = Some(Spooled::through(spool));
        }
        let merges = self.spooled.is_some() || self.held > merge_above;
        let (queue, bytes) = match &mut self.spooled {
            Some(spooled) => (&mut spooled.tail, &mut spooled.tail_bytes),
            None => (&mut self.queue, &mut self.queue_bytes),
        };
        if let Pushed::Message(Outgoing::Delta { head, text, tail }) = &message
            && merges
            && let Some(last) = queue.back_mut()
            && let Some(more) = last.merge(head, text, tail)
        {
            *bytes = bytes.saturating_add_signed(more);
            self.held = self.held.saturating_add_signed(more);
            return;
        }
        queue.push_back(Queued::from(message));
        *bytes += length;
        self.held += length;
    }

    /// Moves about `most` bytes of messages from the queue to `batch`; returns the number of bytes.
    pub(super) fn take_batch(&mut self, batch: &mut VecDeque<Queued>, most: usize) -> usize {
        if self.queue_bytes <= most {
            std::mem::swap(&mut self.queue, batch);
            return std::mem::take(&mut self.queue_bytes);
        }
        let mut bytes = 0;
        while bytes < most
            && let Some(next) = self.queue.pop_front()
        {
            bytes += next.len();
            batch.push_back(next);
        }
        self.queue_bytes -= bytes;
        bytes
    }

    /// Subtracts bytes that are no longer in memory.
    pub(super) fn free(&mut self, bytes: usize) {
        // A close may already have dropped them.
        self.held = self.held.saturating_sub(bytes);
    }

    /// Removes the responses up to a push; returns whether there were any.
    pub(super) fn answers_written(&mut self, push: u64) -> bool {
        let before = self.answers.len();
        while let Some((_, length)) = self.answers.pop_front_if(|(at, _)| *at <= push) {
            self.answer_bytes -= length;
        }
        self.answers.len() != before
    }

    /// Returns the next step of the disk. Reading messages that are due to be written comes first,
    /// then writing the messages after them; once the disk is empty, messages stay in memory
    /// again.
    fn next_work(&mut self) -> Option<(Files, Work)> {
        let at_once = self.spooled_at_once();
        let spooled = self.spooled.as_mut()?;
        let mut files = spooled.files.take()?;
        let is_low = self.queue_bytes < at_once;
        if is_low && spooled.bytes > 0 {
            return Some((files, Work::Read(at_once)));
        }
        if spooled.tail_bytes >= at_once {
            spooled.is_refused = !files.reserve(spooled.tail_bytes);
            if !spooled.is_refused {
                spooled.leaving = std::mem::take(&mut spooled.tail_bytes);
                return Some((files, Work::Write(std::mem::take(&mut spooled.tail))));
            }
        }
        if is_low && spooled.bytes == 0 {
            self.queue.append(&mut spooled.tail);
            self.queue_bytes += spooled.tail_bytes;
            self.spooled = None;
            return None;
        }
        spooled.files = Some(files);
        None
    }

    /// Applies the result of a step of the disk.
    fn moved(&mut self, files: Files, done: Done) {
        // A close may have dropped the messages.
        let Some(spooled) = &mut self.spooled else { return };
        spooled.files = Some(files);
        match done {
            Done::Written => {
                spooled.bytes += spooled.leaving;
                let written = std::mem::take(&mut spooled.leaving);
                self.free(written);
            }
            Done::NotWritten(mut messages) => {
                spooled.tail_bytes += std::mem::take(&mut spooled.leaving);
                messages.append(&mut spooled.tail);
                spooled.tail = messages;
            }
            Done::Read(messages) => {
                let bytes: usize = messages.iter().map(Queued::len).sum();
                spooled.bytes -= bytes;
                self.queue.extend(messages);
                self.queue_bytes += bytes;
                self.held += bytes;
            }
            Done::NotRead(error) => {
                spooled.files = None;
                self.lost = Some(error.kind());
            }
        }
    }
}

impl Spooled {
    fn through(spool: &Arc<Spool>) -> Self {
        Self {
            files: Some(spool.files()),
            bytes: 0,
            tail: VecDeque::new(),
            tail_bytes: 0,
            leaving: 0,
            is_refused: false,
        }
    }
}

/// Resolves with the reason of a close for which `matters` returns `true`; never, if none can
/// follow.
pub(super) async fn closed_when(
    mut closed: watch::Receiver<Option<CloseReason>>,
    matters: fn(CloseReason) -> bool,
) -> CloseReason {
    let reached = closed.wait_for(|reason| reason.is_some_and(matters)).await;
    if let Some(reason) = reached.ok().and_then(|reason| *reason) {
        return reason;
    }
    // Both ends are gone, so no other close can follow.
    std::future::pending().await
}
