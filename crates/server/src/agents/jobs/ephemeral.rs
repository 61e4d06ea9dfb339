//! The unfinished jobs of ephemeral threads: each in a store of its own, in memory, until it is
//! completed or its thread ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use session::ToolError;
use store::{Store, ThreadRecord, Write};

use super::NAME;
use super::storing::unstored;

/// Unfinished jobs of a thread that are kept. A table and its results take up to 100 MiB or so.
const MAX_UNFINISHED: usize = 4;

/// See the module. Cheap to clone; clones share their jobs.
#[derive(Clone, Default)]
pub(crate) struct EphemeralJobs(Arc<Mutex<HashMap<Key, Store>>>);

/// The thread and fingerprint of a job.
type Key = (String, [u8; 32]);

impl EphemeralJobs {
    /// The store of a job, which has the record of its thread.
    ///
    /// # Errors
    /// The thread has too many unfinished jobs.
    pub(super) async fn open(
        &self,
        record: ThreadRecord,
        fingerprint: [u8; 32],
    ) -> Result<Store, ToolError> {
        let key = (record.id.clone(), fingerprint);
        let of_thread = {
            let stores = self.stores();
            if let Some(store) = stores.get(&key) {
                return Ok(store.clone());
            }
            stores.keys().filter(|(thread, _)| *thread == record.id).count()
        };
        if of_thread >= MAX_UNFINISHED {
            return Err(ToolError::new(format!(
                "{NAME}: {MAX_UNFINISHED} jobs of this thread are not finished, and an ephemeral \
                 thread keeps no more; continue one of them by the same call, or use a thread that \
                 is stored"
            )));
        }
        let store = Store::in_memory().map_err(|error| unstored(&error))?;
        let create = Write::CreateThread(Box::new(record));
        store.commit(vec![create]).await.map_err(|error| unstored(&error))?;
        self.stores().insert(key, store.clone());
        Ok(store)
    }

    /// A job is completed.
    pub(super) fn remove(&self, thread: &str, fingerprint: [u8; 32]) {
        let removed = self.stores().remove(&(thread.to_owned(), fingerprint));
        // Not while the lock is held: the last clone of a store waits for its commits.
        drop(removed);
    }

    /// A thread has ended.
    pub(crate) fn forget(&self, thread: &str) {
        let removed: Vec<_> = self.stores().extract_if(|(of, _), _| of == thread).collect();
        drop(removed);
    }

    fn stores(&self) -> MutexGuard<'_, HashMap<Key, Store>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
