//! The stored part of a thread's queue: its changes, its pause, and the message that leaves it with the
//! start of a turn.

use protocol::{ThreadQueuePause, ThreadQueuePauseReason};
use session::{Id, Record, TurnStatus};
use store::{QueueWrite, ThreadChanges, Write};

use super::Journal;
use services::error::Error;
use services::thread_port::Extra;

/// Changes of the queue that are stored together with records of the session.
#[derive(Default)]
pub(super) struct QueueChanges {
    /// A turn that is about to be stored, and the message that it is the turn of.
    taking: Option<(Id, String)>,
    /// True if the records of the batch have the start of that turn.
    is_in_batch: bool,
    /// The message that left the queue.
    taken: Option<String>,
    /// True if the end of a turn pauses the queue, unless the turn completed.
    pauses: bool,
}

impl QueueChanges {
    /// The batch was stored, or not.
    pub(super) fn stored(&mut self, is_stored: bool) {
        if std::mem::take(&mut self.is_in_batch) && is_stored {
            self.taken = self.taking.take().map(|(_, message)| message);
        }
    }
}

impl Journal {
    /// Why the queue waits although no turn runs.
    pub(crate) fn queue_pause(&self) -> Option<&ThreadQueuePause> {
        self.extra.queue_pause.as_ref()
    }

    /// The start of this turn is stored next: the message leaves the queue with it.
    pub(crate) fn take_queued(&mut self, turn: Id, message: String) {
        self.queued.taking = Some((turn, message));
    }

    /// The message that has left the queue since the last call.
    pub(crate) fn taken(&mut self) -> Option<String> {
        self.queued.taken.take()
    }

    /// Sets whether a turn that is interrupted or fails pauses the queue.
    pub(crate) fn pause_queue_at_end(&mut self, pauses: bool) {
        self.queued.pauses = pauses;
    }

    /// The further writes of a record; the pause follows.
    pub(super) fn queue_writes(&mut self, record: &Record) -> Vec<Write> {
        match record {
            Record::TurnStarted { turn, .. } => {
                let taking = self.queued.taking.clone().filter(|(taking, _)| taking == turn);
                let Some((_, id)) = taking else { return Vec::new() };
                self.queued.is_in_batch = true;
                let mut writes = vec![self.queue_write(QueueWrite::Remove { id })];
                writes.extend(self.set_pause(None));
                writes
            }
            Record::TurnFinished { status, .. } if self.queued.pauses => {
                let reason = match status {
                    TurnStatus::Interrupted => ThreadQueuePauseReason::Interrupted,
                    TurnStatus::Failed => ThreadQueuePauseReason::Failed,
                    TurnStatus::Completed | TurnStatus::InProgress => return Vec::new(),
                };
                let pause = ThreadQueuePause { reason, message: None };
                self.set_pause(Some(pause)).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Stores a change of the queue. `ends_pause`: the queue was empty, or is then.
    pub(crate) async fn change_queue(
        &mut self,
        write: QueueWrite,
        ends_pause: bool,
    ) -> Result<(), Error> {
        let before = self.extra.clone();
        let mut writes = vec![self.queue_write(write)];
        if ends_pause {
            writes.extend(self.set_pause(None));
        }
        self.commit_queue(writes, before).await
    }

    /// Pauses the queue.
    pub(crate) async fn pause_queue(&mut self, pause: ThreadQueuePause) -> Result<(), Error> {
        let before = self.extra.clone();
        let writes = self.set_pause(Some(pause.clone())).into_iter().collect();
        let outcome = self.commit_queue(writes, before).await;
        // Here the queue waits even if that is not stored.
        self.extra.queue_pause = Some(pause);
        outcome
    }

    async fn commit_queue(&mut self, writes: Vec<Write>, before: Extra) -> Result<(), Error> {
        if self.ephemeral {
            return Ok(());
        }
        let outcome = self.commit(writes).await;
        if outcome.is_err() {
            self.extra = before;
        }
        outcome
    }

    /// Sets the pause, and returns the write that stores it if it is another one.
    fn set_pause(&mut self, pause: Option<ThreadQueuePause>) -> Option<Write> {
        if self.extra.queue_pause == pause {
            return None;
        }
        self.extra.queue_pause = pause;
        let extra = Some(Some(self.extra.json()));
        let changes = Box::new(ThreadChanges { extra, ..ThreadChanges::default() });
        Some(Write::UpdateThread { thread: self.id.to_string(), changes })
    }

    fn queue_write(&self, write: QueueWrite) -> Write {
        Write::Queue { thread: self.id.to_string(), write }
    }
}
