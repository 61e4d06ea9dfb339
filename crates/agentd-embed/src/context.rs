//! The context of a callback: whom it is for, and whether its answer is still wanted.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::blocking::Threads;

/// A value of the application.
pub(crate) type UserValue = Arc<dyn Any + Send + Sync>;

/// For whom a callback runs, and whether its answer is still wanted. A future is dropped when it is not, that is, when
/// the question was answered elsewhere or its turn has ended; a function that blocks has to ask.
#[derive(Clone)]
pub struct CallContext(Arc<Inner>);

struct Inner {
    thread_id: Option<String>,
    turn_id: Option<String>,
    call_id: Option<String>,
    user: Option<UserValue>,
    is_cancelled: Mutex<bool>,
    changed: Condvar,
    cancelled: watch::Sender<bool>,
    threads: Arc<Threads>,
}

impl CallContext {
    pub(crate) fn new(
        (thread_id, turn_id, call_id): (Option<String>, Option<String>, Option<String>),
        user: Option<UserValue>,
        threads: Arc<Threads>,
    ) -> Self {
        let (is_cancelled, changed) = (Mutex::new(false), Condvar::new());
        let cancelled = watch::Sender::new(false);
        Self(Arc::new(Inner {
            thread_id,
            turn_id,
            call_id,
            user,
            is_cancelled,
            changed,
            cancelled,
            threads,
        }))
    }

    /// The thread that asks; `None` for a question that is about no thread.
    #[must_use]
    pub fn thread_id(&self) -> Option<&str> {
        self.0.thread_id.as_deref()
    }

    /// The turn that asks.
    #[must_use]
    pub fn turn_id(&self) -> Option<&str> {
        self.0.turn_id.as_deref()
    }

    /// The call or the item that asks.
    #[must_use]
    pub fn call_id(&self) -> Option<&str> {
        self.0.call_id.as_deref()
    }

    /// The application's own value of the turn ([`crate::TurnOptions::context`]), or else of the thread
    /// ([`crate::Agent::context`]), if it is of this type.
    #[must_use]
    pub fn user<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.user.clone()?.downcast().ok()
    }

    /// Returns whether the answer is no longer wanted.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.0.cancelled.borrow()
    }

    /// Waits until the answer is no longer wanted.
    pub async fn cancelled(&self) {
        // The sender is a part of this value.
        let _ = self.0.cancelled.subscribe().wait_for(|is_cancelled| *is_cancelled).await;
    }

    /// Waits on this thread until the answer is no longer wanted, for at most this time, and returns whether it is no
    /// longer. For functions that block.
    #[must_use]
    pub fn wait_cancelled(&self, limit: Duration) -> bool {
        let guard = self.0.is_cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.changed.wait_timeout_while(guard, limit, |is_cancelled| !*is_cancelled);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    pub(crate) fn cancel(&self) {
        self.0.cancelled.send_replace(true);
        *self.0.is_cancelled.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }

    pub(crate) fn threads(&self) -> &Arc<Threads> {
        &self.0.threads
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext")
            .field("thread_id", &self.0.thread_id)
            .field("turn_id", &self.0.turn_id)
            .field("call_id", &self.0.call_id)
            .finish_non_exhaustive()
    }
}
