//! The requests of a server that await their answers: how many there may be before its messages are no
//! longer read. It reads nothing itself: both transports wait for room.

use std::collections::BTreeSet;

use rmcp::model::RequestId;
use tokio::sync::watch;

/// Requests of a server that have no answer, or whose answer is being written. More than the questions to
/// the user that can be open, so that these never stop the messages.
pub(crate) const MAX_REQUESTS: usize = 64;

/// The requests of one connection that await their answers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Intake {
    requests: watch::Sender<BTreeSet<String>>,
}

impl Default for Intake {
    fn default() -> Self {
        Self { requests: watch::Sender::new(BTreeSet::new()) }
    }
}

impl Intake {
    /// Waits until a further request of the server can be taken.
    pub(crate) async fn room(&self) {
        let has_room = |requests: &BTreeSet<String>| requests.len() < MAX_REQUESTS;
        // The sender is `self`.
        let _ = self.requests.subscribe().wait_for(has_room).await;
    }

    /// Counts a request; `false` if one with this id awaits its answer already.
    pub(crate) fn begin(&self, id: &RequestId) -> bool {
        let mut is_new = false;
        self.requests.send_modify(|requests| is_new = requests.insert(key(id)));
        is_new
    }

    pub(crate) fn finish(&self, id: &RequestId) {
        self.requests.send_if_modified(|requests| requests.remove(&key(id)));
    }
}

/// Numbers and strings are different ids.
fn key(id: &RequestId) -> String {
    match id {
        RequestId::Number(number) => format!("n{number}"),
        RequestId::String(text) => format!("s{text}"),
    }
}
