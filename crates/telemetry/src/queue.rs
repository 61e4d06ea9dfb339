//! The queue between those who record and the task that sends. It never makes a recorder wait: what does
//! not fit is dropped and counted.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::span::{Prompt, Span};

/// Most records that wait, as many as the OpenTelemetry SDKs keep.
pub(crate) const RECORDS: usize = 2048;
/// Most bytes of them together: prompts can be long.
const BYTES: usize = 4 << 20;
/// Records of one message.
pub(crate) const BATCH: usize = 512;

/// Something to send.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    Span(Box<Span>),
    Prompt(Box<Prompt>),
}

/// The bounded queue of records to send.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Something arrived, a batch is full, or the queue was closed.
    changed: Notify,
}

#[derive(Default)]
struct State {
    records: VecDeque<Record>,
    bytes: usize,
    dropped: u64,
    is_closed: bool,
}

impl Queue {
    /// Takes a record, or drops it.
    pub(crate) fn push(&self, record: Record) {
        let weight = record.weight();
        let mut state = self.lock();
        if state.is_closed || state.records.len() >= RECORDS || state.bytes + weight > BYTES {
            state.dropped += 1;
            return;
        }
        state.bytes += weight;
        state.records.push_back(record);
        if matches!(state.records.len(), 1 | BATCH) {
            self.changed.notify_one();
        }
    }

    /// Takes the records of the next message, oldest first.
    pub(crate) fn take(&self) -> Vec<Record> {
        let mut state = self.lock();
        let count = state.records.len().min(BATCH);
        let taken: Vec<Record> = state.records.drain(..count).collect();
        state.bytes -= taken.iter().map(Record::weight).sum::<usize>();
        taken
    }

    /// Records that were dropped since the last call.
    pub(crate) fn take_dropped(&self) -> u64 {
        std::mem::take(&mut self.lock().dropped)
    }

    /// Records that wait, and their bytes.
    pub(crate) fn load(&self) -> (usize, usize) {
        let state = self.lock();
        (state.records.len(), state.bytes)
    }

    /// Takes no more.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Waits until a record is there or the queue is closed.
    pub(crate) async fn filled(&self) {
        self.until(|state| !state.records.is_empty()).await;
    }

    /// Waits until a whole message is there or the queue is closed.
    pub(crate) async fn has_batch(&self) {
        self.until(|state| state.records.len() >= BATCH).await;
    }

    /// Waits until the queue is closed.
    pub(crate) async fn closed(&self) {
        self.until(|_| false).await;
    }

    /// The one task that sends calls this: a notification is for it alone.
    async fn until(&self, is_so: impl Fn(&State) -> bool) {
        loop {
            {
                let state = self.lock();
                if state.is_closed || is_so(&state) {
                    return;
                }
            }
            self.changed.notified().await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    fn weight(&self) -> usize {
        match self {
            Self::Span(span) => span.weight(),
            Self::Prompt(prompt) => prompt.weight(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::TraceContext;
    use crate::names;
    use crate::span::Attribute;

    fn prompt(bytes: usize) -> Record {
        let attributes = vec![Attribute::new(names::PROMPT, "x".repeat(bytes))];
        let context = TraceContext::root([1; 24]);
        Record::Prompt(Box::new(Prompt { context, at: 0, attributes }))
    }

    #[test]
    fn records_beyond_the_bound_are_dropped_and_counted() {
        let queue = Queue::default();
        (0..RECORDS + 3).for_each(|_| queue.push(prompt(1)));
        assert_eq!((queue.take_dropped(), queue.take_dropped()), (3, 0));
        for _ in 0..RECORDS / BATCH {
            assert_eq!(queue.take().len(), BATCH);
        }
        assert_eq!((queue.take().len(), queue.lock().bytes), (0, 0));
    }

    #[test]
    fn long_records_count_by_their_bytes() {
        let queue = Queue::default();
        (0..9).for_each(|_| queue.push(prompt(BYTES / 8)));
        assert_eq!((queue.take().len(), queue.take_dropped()), (7, 2));
        queue.push(prompt(BYTES));
        assert_eq!((queue.take().len(), queue.take_dropped()), (0, 1));
    }

    #[tokio::test]
    async fn a_closed_queue_wakes_its_reader_and_takes_no_more() {
        let queue = Queue::default();
        queue.push(prompt(1));
        queue.filled().await;
        queue.close();
        queue.has_batch().await;
        queue.closed().await;
        queue.push(prompt(1));
        assert_eq!((queue.take().len(), queue.take_dropped()), (1, 1));
    }
}
