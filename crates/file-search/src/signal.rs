//! A signal that something has changed, for threads and tasks that wait: a query, an index.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Signal {
    state: Mutex<State>,
    raised: Condvar,
}

#[derive(Debug, Default)]
struct State {
    count: u64,
    /// Tasks that wait for the next change.
    tasks: Vec<Waker>,
}

impl Signal {
    /// Number of changes so far.
    pub(crate) fn count(&self) -> u64 {
        self.lock().count
    }

    pub(crate) fn raise(&self) {
        let mut state = self.lock();
        state.count += 1;
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        self.raised.notify_all();
        tasks.into_iter().for_each(Waker::wake);
    }

    /// Ready if there were more than `seen` changes; otherwise the task is woken by the next one.
    pub(crate) fn poll(&self, seen: u64, task: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.count > seen {
            return Poll::Ready(());
        }
        if !state.tasks.iter().any(|known| known.will_wake(task.waker())) {
            state.tasks.push(task.waker().clone());
        }
        Poll::Pending
    }

    /// Waits until there were more than `seen` changes, for `limit` at most.
    pub(crate) fn wait(&self, seen: u64, limit: Option<Duration>) {
        let guard = self.lock();
        let unseen = |state: &mut State| state.count <= seen;
        // What a waiting thread does next does not depend on why it woke up.
        match limit {
            Some(limit) => drop(self.raised.wait_timeout_while(guard, limit, unseen)),
            None => drop(self.raised.wait_while(guard, unseen)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
