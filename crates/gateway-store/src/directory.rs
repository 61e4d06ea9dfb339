//! Finds the caller of a key: the hot path's cache over the store. Recently used keys are
//! answered without the store and without an allocation; an unknown key costs one query, which
//! concurrent requests for the key share.
//!
//! Every node reads the store's list of changes four times a second, and immediately after a change
//! of its own. While the store is unreachable, known keys keep working and unknown keys are refused
//! as unavailable. Keys that do not exist are remembered for a second.

mod changes;
mod load;
mod shard;
mod slots;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use ratelimit::{Micros, SteadyTime};
use shard::Shard;
use slots::{KeySlot, Slots};
use tokio::sync::OnceCell;

use crate::Error;
use crate::database::Database;
use crate::records::{key_text, keys};
use gateway_policy::dates::seconds;
use gateway_policy::environment::{Clock, ExpiryClock};
use gateway_policy::tenants::Caller;

/// Default number of cached keys: some 60 MB.
pub const CAPACITY: usize = 131_072;
/// Interval between reads of the list of changes.
pub const POLL: Duration = Duration::from_millis(250);
/// Most concurrent look-ups of keys in the store; further keys are refused as unavailable.
const MAX_LOADING: usize = 512;
/// Time that a key that does not exist is remembered, and the maximum number of such keys.
const UNKNOWN: (Micros, usize) = (1_000_000, 4096);
/// Polls between two runs of upkeep: one minute.
const UPKEEP_EVERY: u32 = 240;
const SHARDS: usize = 64;

/// The directory of keys.
pub struct Directory {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
    /// For the deletion of what has expired.
    expiry: ExpiryClock,
    shards: Box<[Mutex<Shard>]>,
    slots: Mutex<Slots>,
    unknown: Mutex<HashMap<[u8; 32], SteadyTime>>,
    loading: Mutex<HashMap<[u8; 32], Arc<Loading>>>,
    /// The number of the last applied change. Locked while changes are applied, so that slots are
    /// reloaded in the order of changes.
    applied: tokio::sync::Mutex<u64>,
    in_touch: AtomicBool,
}

type Loading = OnceCell<Result<Arc<Caller>, Error>>;

impl Directory {
    /// Opens an empty directory and follows the store's changes in a task of the current runtime
    /// until the directory is dropped. `capacity` bounds the number of cached keys.
    ///
    /// # Errors
    /// The store is unreachable.
    pub async fn open(
        database: Arc<Database>,
        clock: Arc<dyn Clock>,
        capacity: usize,
    ) -> Result<Arc<Self>, Error> {
        let last = crate::records::changes::behind(&database, u64::MAX, 1).await?.last;
        let shard = |_| Mutex::new(Shard::new(capacity.div_ceil(SHARDS).max(1)));
        let directory = Arc::new(Self {
            database,
            expiry: ExpiryClock::new(Arc::clone(&clock)),
            clock,
            shards: (0..SHARDS).map(shard).collect(),
            slots: Mutex::default(),
            unknown: Mutex::default(),
            loading: Mutex::default(),
            applied: tokio::sync::Mutex::new(last),
            in_touch: AtomicBool::new(true),
        });
        tokio::spawn(follow(Arc::downgrade(&directory)));
        // Apart from what follows changes, since after an upgrade it reads all keys.
        tokio::spawn(complete_search(Arc::clone(&directory.database)));
        Ok(directory)
    }

    /// The caller with that key, if cached. Never waits; allocates only when something of the
    /// caller has changed since.
    ///
    /// # Errors
    /// Inside: the key was cached, and has ended since.
    pub fn cached(&self, text: &str) -> Option<Result<Arc<Caller>, Error>> {
        self.cached_hash(&key_text::hash(text), self.clock.now())
    }

    /// The caller with that key.
    ///
    /// # Errors
    /// The key is not valid, or the store is unreachable and the key is not cached.
    pub async fn caller(&self, text: &str) -> Result<Arc<Caller>, Error> {
        let hash = key_text::hash(text);
        if let Some(known) = self.cached_hash(&hash, self.clock.now()) {
            return known;
        }
        match key_text::kind(text) {
            Some(key_text::Kind::Project | key_text::Kind::ServiceAccount) => {}
            Some(key_text::Kind::Admin) | None => return Err(Error::unknown_key()),
        }
        if self.is_unknown(&hash) {
            return Err(Error::unknown_key());
        }
        self.load_once(hash).await
    }

    /// The caller for work on behalf of a project whose original key may be gone: a batch. While the
    /// key exists, its models are those that it may use.
    ///
    /// # Errors
    /// The project is archived, its organization has ended, or the store is unreachable.
    pub async fn on_behalf(&self, key: &str, project: &str) -> Result<Arc<Caller>, Error> {
        let slot = self.project(project).await?;
        let (organization, project) = slot.now().ok_or_else(Error::unknown_key)?;
        let of_key = keys::get(&self.database, &project.id, key).await?;
        let (models, derived) = (of_key.and_then(|key| key.models), Default::default());
        Ok(Arc::new(Caller { key: key.into(), organization, project, models, derived }))
    }

    /// Applies all changes in the store. Called after a change of this node, so that the change
    /// takes effect here immediately.
    ///
    /// # Errors
    /// The store is unreachable; the changes are applied when it is back.
    pub async fn catch_up(&self) -> Result<(), Error> {
        let result = self.apply_changes().await;
        self.in_touch.store(result.is_ok(), Ordering::Relaxed);
        result
    }

    /// Returns whether the last poll of the store succeeded.
    #[must_use]
    pub fn is_in_touch(&self) -> bool {
        self.in_touch.load(Ordering::Relaxed)
    }

    /// Number of cached keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// Returns whether no key is cached.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Persists the times of last use. Called every minute and at shutdown.
    ///
    /// # Errors
    /// The store is unreachable; the next call writes what was not written.
    pub async fn write_last_used(&self) -> Result<(), Error> {
        let mut used = Vec::new();
        for shard in &self.shards {
            used.extend(lock(shard).used());
        }
        for part in used.chunks(500) {
            let lines: Vec<_> = part.iter().map(|(key, at)| (key.id.clone(), *at)).collect();
            keys::touch(&self.database, &lines).await?;
            part.iter().for_each(|(key, at)| key.wrote(*at));
        }
        Ok(())
    }

    /// Runs the upkeep of every minute: persists last uses and prunes old rows.
    async fn keep_up(&self) -> Result<(), Error> {
        self.write_last_used().await?;
        crate::records::prune(&self.database, self.expiry.now()).await
    }

    fn cached_hash(&self, hash: &[u8; 32], now: Micros) -> Option<Result<Arc<Caller>, Error>> {
        let key = lock(self.shard(hash)).get(hash)?;
        Some(key.caller(now, seconds(now)).ok_or_else(Error::unknown_key))
    }

    fn shard(&self, hash: &[u8; 32]) -> &Mutex<Shard> {
        &self.shards[usize::from(hash[31]) % SHARDS]
    }

    fn is_unknown(&self, hash: &[u8; 32]) -> bool {
        lock(&self.unknown).get(hash).is_some_and(|until| self.clock.steady() < *until)
    }

    fn remember_unknown(&self, hash: [u8; 32]) {
        let now = self.clock.steady();
        let mut unknown = lock(&self.unknown);
        if unknown.len() >= UNKNOWN.1 {
            unknown.retain(|_, until| now < *until);
        }
        if unknown.len() < UNKNOWN.1 {
            unknown.insert(hash, now.after(UNKNOWN.0));
        }
    }
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").field("keys", &self.len()).finish_non_exhaustive()
    }
}

/// Makes keys that an earlier version created known to the search.
async fn complete_search(database: Arc<Database>) {
    // The upkeep does what this did not.
    let _ = crate::records::key_search::complete(&database).await;
}

/// Polls the list of changes for as long as the directory is used.
async fn follow(directory: Weak<Directory>) {
    let mut polls: u32 = 0;
    loop {
        tokio::time::sleep(POLL).await;
        let Some(directory) = directory.upgrade() else { return };
        // `is_in_touch` reports the error; the next poll tries again.
        let _ = directory.catch_up().await;
        polls = polls.wrapping_add(1);
        if polls.is_multiple_of(UPKEEP_EVERY) {
            // The next upkeep does what this one did not.
            let _ = directory.keep_up().await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "directory/directory_tests.rs"]
mod tests;
