//! Functions of the application that learn of every notification.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::Notification;

type Learn = Box<dyn Fn(&Notification) + Send + Sync>;

/// The functions, in the order in which they were added.
#[derive(Default)]
pub(crate) struct Handlers(Mutex<Vec<Weak<Learn>>>);

/// A function that learns of notifications, until this is dropped: [`crate::Agent::on_notification`].
#[must_use = "the function is removed when this is dropped"]
pub struct NotificationHandle {
    _learn: Arc<Learn>,
}

impl Handlers {
    pub(crate) fn add(
        &self,
        learn: impl Fn(&Notification) + Send + Sync + 'static,
    ) -> NotificationHandle {
        let learn: Arc<Learn> = Arc::new(Box::new(learn));
        let mut handlers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        handlers.retain(|known| known.strong_count() > 0);
        handlers.push(Arc::downgrade(&learn));
        NotificationHandle { _learn: learn }
    }

    pub(crate) fn call(&self, notification: &Notification) {
        // Without the lock: a function may add or drop handles.
        let handlers: Vec<_> = {
            let handlers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            handlers.iter().filter_map(Weak::upgrade).collect()
        };
        for learn in handlers {
            // A panic is no reason to lose events.
            if catch_unwind(AssertUnwindSafe(|| learn(notification))).is_err() {
                tracing::error!("a handler of notifications panicked at `{}`", notification.method);
            }
        }
    }
}
