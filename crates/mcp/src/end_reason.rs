//! Why a connection ended, as its transport knows it.

use std::sync::{Arc, Mutex, PoisonError};

/// Why a connection ended, for the message to the user. Shared with the transport.
#[derive(Clone, Default)]
pub(crate) struct EndReason(Arc<Mutex<Option<String>>>);

impl EndReason {
    /// Keeps the first reason.
    pub(crate) fn set(&self, reason: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
    }

    pub(crate) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
