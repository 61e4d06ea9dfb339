//! The progress of a job, for its clients.

use serde_json::{Value, json};
use store::JobItemCounts;
use tokio::sync::mpsc;
use tokio::time::Instant;

use services::allowed::MachineInput;

/// Sends the progress of one call to its thread, on the way of its outcome: nothing overtakes it.
pub(in crate::agents) struct ProgressSender {
    call: u64,
    sender: mpsc::Sender<MachineInput>,
}

impl ProgressSender {
    pub(in crate::agents) fn new(call: u64, sender: mpsc::Sender<MachineInput>) -> Self {
        Self { call, sender }
    }

    /// Sends a message, unless the thread is too busy to take it: the next one says more.
    pub(super) fn send(&self, message: &Value) {
        let _ = self.sender.try_send(self.input(message));
    }

    /// Sends the last message of a call, which no later one replaces.
    pub(super) async fn send_last(&self, message: &Value) {
        // A thread that has ended needs no progress.
        let _ = self.sender.send(self.input(message)).await;
    }

    fn input(&self, message: &Value) -> MachineInput {
        MachineInput::AgentsProgressed { request: self.call, message: message.to_string() }
    }
}

/// The rows of a job by status, and since when this call works on them.
pub(super) struct Tally {
    pub(super) counts: JobItemCounts,
    start: Instant,
    /// Rows that ended during this call.
    ended: u32,
}

impl Tally {
    pub(super) fn new(counts: JobItemCounts) -> Self {
        Self { counts, start: Instant::now(), ended: 0 }
    }

    /// A worker got a row.
    pub(super) fn started(&mut self) {
        self.counts.pending = self.counts.pending.saturating_sub(1);
        self.counts.running += 1;
    }

    /// A row has its result.
    pub(super) fn completed(&mut self) {
        self.end();
        self.counts.completed += 1;
    }

    /// A row has an error.
    pub(super) fn failed(&mut self) {
        self.end();
        self.counts.failed += 1;
    }

    /// A row was cut off.
    pub(super) fn stopped(&mut self) {
        self.end();
        self.counts.stopped += 1;
    }

    fn end(&mut self) {
        self.counts.running = self.counts.running.saturating_sub(1);
        self.ended += 1;
    }

    /// The message for clients. The time that remains is that of as many rows at the pace so far;
    /// without a finished row there is none.
    pub(super) fn message(&self, job: &str) -> Value {
        let JobItemCounts { pending, running, completed, failed, stopped, cancelled, .. } =
            self.counts;
        let remaining = pending + running;
        let elapsed = self.start.elapsed().as_secs_f64();
        let eta = (self.ended > 0)
            .then(|| (elapsed / f64::from(self.ended) * f64::from(remaining)).ceil());
        json!({
            "jobId": job,
            "total": pending + running + completed + failed + stopped + cancelled,
            "pending": pending,
            "running": running,
            "completed": completed,
            "failed": failed,
            "stopped": stopped,
            "cancelled": cancelled,
            "etaSeconds": eta,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_remaining_time_follows_from_the_pace() {
        let mut tally =
            Tally::new(JobItemCounts { pending: 10, completed: 5, ..Default::default() });
        assert_eq!(tally.message("j")["etaSeconds"], Value::Null);
        (0..4).for_each(|_| tally.started());
        tokio::time::advance(Duration::from_secs(6)).await;
        tally.completed();
        tally.failed();
        let expected = json!({ "jobId": "j", "total": 15, "pending": 6, "running": 2,
            "completed": 6, "failed": 1, "stopped": 0, "cancelled": 0, "etaSeconds": 24.0 });
        assert_eq!(tally.message("j"), expected);
    }
}
