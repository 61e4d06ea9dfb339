//! A connection to another server of this home, in the place of one client.

use std::sync::Arc;

use jsonrpc::{Client, Limits};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::elsewhere::questions::Questions;

/// Sent after the handshake in the place of a client whose dialect returns turns with a thread. Only servers know it.
pub(crate) const TURNS_WITH_THREAD: &str = "server/turnsWithThread";

/// Longest line of a link. Both ends are of the same user, and what one of them made the other one takes.
const LINE_BYTES: usize = usize::MAX / 2;

/// A connection to another server. Dropping it closes it.
pub(super) struct Link {
    pub(super) number: u64,
    pub(super) client: Client,
    pub(super) questions: Arc<Questions>,
    pub(super) relaying: AbortHandle,
    pub(super) ended: watch::Receiver<bool>,
    /// When the server was last asked whether it is alive, and the answer.
    pub(super) alive: tokio::sync::Mutex<Option<(Instant, bool)>>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.relaying.abort();
    }
}

impl Link {
    pub(super) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Waits until the threads that were joined through it are taken care of.
    pub(super) async fn ended(&self) {
        // Without its relay it has ended, too.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }

    /// Returns whether requests can be sent.
    pub(super) fn is_open(&self) -> bool {
        !self.has_ended() && self.client.outbox().close_reason().is_none()
    }
}

/// The bounds of a connection between two servers.
pub(super) fn limits() -> Limits {
    Limits { line_bytes: LINE_BYTES, ..crate::connection_limits() }
}
