//! The unfinished jobs of ephemeral threads: each in a store of its own, in memory, until it is
//! completed or its thread ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use session::ToolError;
use store::{Store, ThreadRecord, Write};

use super::NAME;
use super::outputs::WrittenOutputs;
use super::storing::unstored;

/// Unfinished jobs of a thread that are kept. A table and its results take up to 100 MiB or so.
const MAX_UNFINISHED: usize = 4;

/// Completed jobs of a thread whose output files are known; one beyond replaces none.
const MAX_WRITTEN: usize = 256;

/// The unfinished jobs of ephemeral threads. Cheap to clone; clones share their jobs.
#[derive(Clone, Default)]
pub(crate) struct EphemeralJobs(Arc<Mutex<Jobs>>);

#[derive(Default)]
struct Jobs {
    stores: HashMap<Key, Store>,
    /// The outputs of completed jobs: the same job may replace its own.
    written: HashMap<Key, WrittenOutputs>,
}

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
            let stores = self.jobs();
            if let Some(store) = stores.stores.get(&key) {
                return Ok(store.clone());
            }
            stores.stores.keys().filter(|(thread, _)| *thread == record.id).count()
        };
        if of_thread >= MAX_UNFINISHED {
            return Err(ToolError::new(format!(
                "{NAME}: {MAX_UNFINISHED} jobs of this thread are not finished, and an ephemeral \
                 thread keeps no more; continue one of them by the same call, or use a thread that \
                 is stored"
            )));
        }
        let store = Store::in_memory();
        let create = Write::CreateThread(Box::new(record));
        store.commit(vec![create]).await.map_err(|error| unstored(&error))?;
        self.jobs().stores.insert(key, store.clone());
        Ok(store)
    }

    /// The store of an unfinished job.
    pub(super) fn find(&self, thread: &str, fingerprint: [u8; 32]) -> Option<Store> {
        self.jobs().stores.get(&(thread.to_owned(), fingerprint)).cloned()
    }

    /// Returns the output of the last completed job of that fingerprint.
    pub(super) fn written(&self, thread: &str, fingerprint: [u8; 32]) -> WrittenOutputs {
        let key = (thread.to_owned(), fingerprint);
        self.jobs().written.get(&key).cloned().unwrap_or_default()
    }

    /// A job is completed, and its results are written.
    pub(super) async fn complete(&self, thread: &str, job: [u8; 32], store: &Store) {
        // Without it, the file counts as one of others.
        let latest = store.latest_job(thread, job).await.ok().flatten();
        let written = latest.map(|latest| WrittenOutputs::of_job(&latest.detail));
        {
            let mut jobs = self.jobs();
            let of_thread = jobs.written.keys().filter(|(of, _)| of == thread).count();
            let key = (thread.to_owned(), job);
            if of_thread < MAX_WRITTEN || jobs.written.contains_key(&key) {
                jobs.written.insert(key, written.unwrap_or_default());
            }
        }
        self.remove(thread, job);
    }

    fn remove(&self, thread: &str, fingerprint: [u8; 32]) {
        let removed = self.jobs().stores.remove(&(thread.to_owned(), fingerprint));
        // Not while the lock is held: the last clone of a store waits for its commits.
        drop(removed);
    }

    /// A call was refused: without a job its store is not kept.
    pub(super) async fn remove_unused(&self, thread: &str, fingerprint: [u8; 32]) {
        let Some(store) = self.find(thread, fingerprint) else { return };
        if matches!(store.latest_job(thread, fingerprint).await, Ok(None)) {
            self.remove(thread, fingerprint);
        }
    }

    /// A thread has ended.
    pub(crate) fn forget(&self, thread: &str) {
        let removed: Vec<_> = {
            let mut jobs = self.jobs();
            jobs.written.retain(|(of, _), _| of != thread);
            jobs.stores.extract_if(|(of, _), _| of == thread).collect()
        };
        drop(removed);
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
