//! Ids of the responses that a script gave: a later request may continue them, unless they were not to be kept.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::check::{Fault, Path};

/// Most ids that are remembered; the oldest are forgotten, and no longer found.
const MAX_IDS: usize = 65_536;

/// Ids of responses that may be continued.
#[derive(Debug, Default)]
pub(crate) struct Issued(Mutex<Ids>);

#[derive(Debug, Default)]
struct Ids {
    known: HashSet<String>,
    order: VecDeque<String>,
}

impl Issued {
    /// Remembers a response.
    pub(crate) fn keep(&self, id: &str) {
        let mut ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.known.insert(id.to_owned()) {
            ids.order.push_back(id.to_owned());
        }
        if ids.order.len() > MAX_IDS
            && let Some(oldest) = ids.order.pop_front()
        {
            ids.known.remove(&oldest);
        }
    }

    /// Checks the response that a request of the Responses API continues.
    ///
    /// # Errors
    /// It was not given, or not kept.
    pub(crate) fn check(&self, body: &Value) -> Result<(), Fault> {
        let Some(id) = body["previous_response_id"].as_str() else { return Ok(()) };
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).known.contains(id) {
            return Ok(());
        }
        let at = Path::of("previous_response_id");
        let message = format!("Previous response with id '{id}' not found.");
        Err(Fault::coded(at, "previous_response_not_found", message))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_memory_is_bounded() {
        let issued = Issued::default();
        for id in 0..=MAX_IDS {
            issued.keep(&id.to_string());
        }
        let is_known = |id: &str| issued.check(&json!({"previous_response_id": id})).is_ok();
        assert!(!is_known("0") && is_known("1") && is_known(&MAX_IDS.to_string()));
        assert!(issued.check(&json!({})).is_ok());
    }
}
