//! A signal that ends work, set once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a search or a walk, from any thread. Clones are the same signal.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Ends the work, which notices it within about a millisecond of its own time.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether the work should end.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns whether `other` is the same signal.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
