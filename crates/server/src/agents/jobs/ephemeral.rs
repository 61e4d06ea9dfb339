//! The unfinished jobs of ephemeral threads: each in a store of its own, in memory, until it is
//! completed or its thread ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use session::ToolError;
use store::{Store, ThreadRecord, Write};

use super::NAME;
use super::run::unstored;
use crate::agents::AgentCaller;

/// Unfinished jobs of a thread that are kept. A table and its results take up to 100 MiB or so.
const MAX_UNFINISHED: usize = 4;

/// See the module. Cheap to clone; clones share their jobs.
#[derive(Clone, Default)]
pub(in crate::agents) struct EphemeralJobs(Arc<Mutex<HashMap<Key, Store>>>);

/// The thread and fingerprint of a job.
type Key = (String, [u8; 32]);

impl EphemeralJobs {
    /// The store of a job, which has its thread.
    ///
    /// # Errors
    /// The thread has too many unfinished jobs.
    pub(super) async fn open(
        &self,
        caller: &AgentCaller,
        fingerprint: [u8; 32],
    ) -> Result<Store, ToolError> {
        let key = (caller.id.clone(), fingerprint);
        let of_thread = {
            let stores = self.stores();
            if let Some(store) = stores.get(&key) {
                return Ok(store.clone());
            }
            stores.keys().filter(|(thread, _)| *thread == caller.id).count()
        };
        if of_thread >= MAX_UNFINISHED {
            return Err(ToolError::new(format!(
                "{NAME}: {MAX_UNFINISHED} jobs of this thread are not finished, and an ephemeral \
                 thread keeps no more; continue one of them by the same call, or use a thread that \
                 is stored"
            )));
        }
        let store = Store::in_memory().map_err(|error| unstored(&error))?;
        let create = Write::CreateThread(Box::new(record(caller)));
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
    pub(in crate::agents) fn forget(&self, thread: &str) {
        let removed: Vec<_> = self.stores().extract_if(|(of, _), _| of == thread).collect();
        drop(removed);
    }

    fn stores(&self) -> MutexGuard<'_, HashMap<Key, Store>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a store needs to know of a thread whose jobs it has.
fn record(caller: &AgentCaller) -> ThreadRecord {
    ThreadRecord {
        id: caller.id.clone(),
        session_id: caller.session_id.clone(),
        forked_from_id: None,
        preview: String::new(),
        name: None,
        model_provider: caller.settings.provider.clone(),
        model: caller.settings.model.clone(),
        cwd: caller.settings.cwd.display().to_string(),
        created_at: 0,
        updated_at: 0,
        source_kind: String::new(),
        source: "null".to_owned(),
        archived: false,
        git_info: None,
        settings: "{}".to_owned(),
        cli_version: String::new(),
        token_usage: None,
        extra: None,
    }
}
