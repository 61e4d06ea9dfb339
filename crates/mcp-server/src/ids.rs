//! The ids of requests: their form, and which are in use.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ErrorData, RequestId};
use serde_json::Value;

/// The ids of a connection's requests that have no answer yet. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct RunningIds {
    ids: Arc<Mutex<HashSet<RequestId>>>,
}

impl RunningIds {
    /// Notes a request.
    ///
    /// # Errors
    /// One with its id runs.
    pub(crate) fn begin(&self, id: &RequestId) -> Result<(), ErrorData> {
        match self.lock().insert(id.clone()) {
            true => Ok(()),
            false => Err(ErrorData::invalid_request(
                format!("Invalid request: a request with the id {id} runs already; use another id"),
                None,
            )),
        }
    }

    /// Notes that a request no longer needs an answer. Returns whether it needed one.
    pub(crate) fn end(&self, id: &RequestId) -> bool {
        self.lock().remove(id)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the mistake in the id of a request, if the message is one.
pub(crate) fn problem(message: &Value) -> Option<ErrorData> {
    message.get("method")?;
    let id = message.get("id")?;
    if serde_json::from_value::<RequestId>(id.clone()).is_ok() {
        return None;
    }
    let text = "Invalid request: `id` must be a string or an integer";
    Some(ErrorData::invalid_request(text, None))
}
