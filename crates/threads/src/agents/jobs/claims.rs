//! Which jobs are being run: each by one call at a time.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use session::ToolError;
use tokio::sync::watch;
use tokio::time::timeout;

use super::NAME;

/// Maximum wait of a call for the end of an earlier one that was interrupted.
const WAIT: Duration = Duration::from_secs(20);

/// The running jobs, each with one call. Cheap to clone; clones share their jobs.
#[derive(Clone, Default)]
pub(in crate::agents) struct Claims(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// Threads and fingerprints of jobs.
    held: Mutex<HashSet<Key>>,
    changed: watch::Sender<()>,
}

type Key = (String, [u8; 32]);

/// The right to run a job, until it is dropped.
pub(super) struct Claim {
    claims: Claims,
    key: Key,
}

impl Claims {
    /// Claims a job of a thread.
    ///
    /// # Errors
    /// Another call runs it.
    pub(super) async fn claim(
        &self,
        thread: &str,
        fingerprint: [u8; 32],
    ) -> Result<Claim, ToolError> {
        let key = (thread.to_owned(), fingerprint);
        let mut changed = self.0.changed.subscribe();
        let claimed = async {
            loop {
                changed.mark_unchanged();
                if self.held().insert(key.clone()) {
                    return;
                }
                // The sender lives as long as `self`.
                let _ = changed.changed().await;
            }
        };
        timeout(WAIT, claimed).await.map_err(|_| {
            ToolError::new(format!(
                "{NAME}: another call with the same arguments runs this job; wait for its output"
            ))
        })?;
        Ok(Claim { claims: self.clone(), key })
    }

    fn held(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.held().remove(&self.key);
        self.claims.0.changed.send_replace(());
    }
}
