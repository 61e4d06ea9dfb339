//! Calls that wait for the client's input between two requests (revision 2026-07-28: `input_required`).
//! The client hands back a `requestState`: a random number that names the call here, once, and only for
//! the same tool and arguments. So it can neither be forged nor used for another call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::JsonObject;

use super::Random;
use crate::turn::{Ask, RunningTurn};

/// Maximum wait of a call for the client; then its turn is interrupted. The number of calls is
/// bounded by the agent.
const MAX_WAIT: Duration = Duration::from_secs(30 * 60);
/// Random bytes of a state.
const STATE_BYTES: usize = 32;

/// A call that waits.
pub(crate) struct SuspendedCall {
    pub(crate) turn: RunningTurn,
    /// The questions to the client.
    pub(crate) asks: Vec<Ask>,
    pub(crate) tool: String,
    pub(crate) arguments: JsonObject,
}

pub(crate) struct Suspended {
    calls: Mutex<HashMap<String, SuspendedCall>>,
    random: Random,
}

impl Suspended {
    pub(crate) fn new(random: Random) -> Self {
        Self { calls: Mutex::default(), random }
    }

    /// Keeps the call and returns the state that names it.
    pub(crate) fn put(self: &Arc<Self>, call: SuspendedCall) -> String {
        let mut bytes = [0; STATE_BYTES];
        (self.random)(&mut bytes);
        let state = const_hex::encode(bytes);
        self.calls().insert(state.clone(), call);
        let (suspended, name) = (Arc::downgrade(self), state.clone());
        tokio::spawn(async move {
            tokio::time::sleep(MAX_WAIT).await;
            if let Some(suspended) = suspended.upgrade() {
                // Dropping the call interrupts its turn.
                let expired = suspended.calls().remove(&name);
                drop(expired);
            }
        });
        state
    }

    /// Takes the call that a state names.
    ///
    /// # Errors
    /// There is none, or it is a call of another tool or with other arguments, which keeps waiting.
    pub(crate) fn take(
        &self,
        state: &str,
        tool: &str,
        arguments: &JsonObject,
    ) -> Result<SuspendedCall, String> {
        let mut calls = self.calls();
        let Some(call) = calls.get(state) else {
            let minutes = MAX_WAIT.as_secs() / 60;
            return Err(format!(
                "`requestState`: no call waits under it. It was used before, the call was \
                 cancelled, or the answer took more than {minutes} minutes"
            ));
        };
        if call.tool != tool || call.arguments != *arguments {
            return Err("`requestState`: it belongs to a call of another tool or with other \
                        arguments: repeat that call unchanged"
                .to_owned());
        }
        calls.remove(state).ok_or_else(String::new)
    }

    /// Interrupts all calls that wait.
    pub(crate) fn clear(&self) {
        let calls = std::mem::take(&mut *self.calls());
        drop(calls);
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<String, SuspendedCall>> {
        // Nothing under this lock leaves the table half changed.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
