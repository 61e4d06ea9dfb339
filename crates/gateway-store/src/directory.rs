//! Who presents a key: the hot path's cache over the store. What was used lately answers without
//! the store and without an allocation; what is not known is one query, shared by all who ask for
//! it at once.
//!
//! Every node reads the store's list of changes four times a second, and at once after a change of
//! its own. While the store is away, keys that are known go on as they are; of others nothing is
//! known, and they are refused as unavailable. Keys that do not exist are remembered for a second.

mod changes;
mod load;
mod shard;
mod slots;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use ratelimit::Micros;
use shard::Shard;
use slots::{KeySlot, Slots};
use tokio::sync::OnceCell;

use crate::database::{Database, DatabaseError};
use crate::records::{key_text, keys};
use gateway_policy::dates::seconds;
use gateway_policy::environment::Clock;
use gateway_policy::tenants::Caller;

/// Keys kept, unless said otherwise: some 60 MB.
pub const CAPACITY: usize = 131_072;
/// How often the list of changes is read.
pub const POLL: Duration = Duration::from_millis(250);
/// Keys that are looked up in the store at once; more are refused as unavailable.
const MAX_LOADING: usize = 512;
/// How long a key that does not exist is remembered, and how many of them.
const UNKNOWN: (Micros, usize) = (1_000_000, 4096);
/// Polls between two times of upkeep: a minute.
const UPKEEP_EVERY: u32 = 240;
const SHARDS: usize = 64;

/// Why a key opens nothing.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Refusal {
    /// It does not exist, was revoked, has ended, or its project or organization has.
    #[error("the key is not valid")]
    Unknown,
    /// The store is away, and the key is not known here.
    #[error("the key cannot be checked now: {0}")]
    Unavailable(DatabaseError),
}

/// See the module.
pub struct Directory {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
    shards: Box<[Mutex<Shard>]>,
    slots: Mutex<Slots>,
    unknown: Mutex<HashMap<[u8; 32], Micros>>,
    loading: Mutex<HashMap<[u8; 32], Arc<Loading>>>,
    /// The number of the last change that was applied. Held while changes are applied: what is
    /// read again is read in their order.
    applied: tokio::sync::Mutex<u64>,
    in_touch: AtomicBool,
}

type Loading = OnceCell<Result<Arc<Caller>, Refusal>>;

impl Directory {
    /// Begins with nothing, and follows the store in a task of the current runtime until it is
    /// dropped. `capacity` bounds how many keys are kept.
    ///
    /// # Errors
    /// The store is away.
    pub async fn open(
        database: Arc<Database>,
        clock: Arc<dyn Clock>,
        capacity: usize,
    ) -> Result<Arc<Self>, DatabaseError> {
        let last = crate::records::changes::behind(&database, u64::MAX, 1).await?.last;
        let shard = |_| Mutex::new(Shard::new(capacity.div_ceil(SHARDS).max(1)));
        let directory = Arc::new(Self {
            database,
            clock,
            shards: (0..SHARDS).map(shard).collect(),
            slots: Mutex::default(),
            unknown: Mutex::default(),
            loading: Mutex::default(),
            applied: tokio::sync::Mutex::new(last),
            in_touch: AtomicBool::new(true),
        });
        tokio::spawn(follow(Arc::downgrade(&directory)));
        Ok(directory)
    }

    /// Whom that text stands for, if that is known here. Never waits; allocates only when something
    /// of the caller has changed since.
    ///
    /// # Errors
    /// Inside: it was known, and has ended since.
    pub fn cached(&self, text: &str) -> Option<Result<Arc<Caller>, Refusal>> {
        self.cached_hash(&key_text::hash(text), self.clock.now())
    }

    /// Whom that text stands for.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn caller(&self, text: &str) -> Result<Arc<Caller>, Refusal> {
        let hash = key_text::hash(text);
        if let Some(known) = self.cached_hash(&hash, self.clock.now()) {
            return known;
        }
        match key_text::kind(text) {
            Some(key_text::Kind::Project | key_text::Kind::ServiceAccount) => {}
            Some(key_text::Kind::Admin) | None => return Err(Refusal::Unknown),
        }
        if self.is_unknown(&hash) {
            return Err(Refusal::Unknown);
        }
        self.load_once(hash).await
    }

    /// Someone who asks on behalf of a project, when the key that began it may be gone: a batch.
    ///
    /// # Errors
    /// The project is archived or its organization ended, or the store is away.
    pub async fn on_behalf(&self, key: &str, project: &str) -> Result<Arc<Caller>, Refusal> {
        let slot = self.project(project).await?;
        let (organization, project) = slot.now().ok_or(Refusal::Unknown)?;
        let derived = Default::default();
        Ok(Arc::new(Caller { key: key.into(), organization, project, derived }))
    }

    /// Applies all changes that the store has: after a change of this node, so that it holds here
    /// at once.
    ///
    /// # Errors
    /// The store is away; the changes are applied when it is back.
    pub async fn catch_up(&self) -> Result<(), DatabaseError> {
        let result = self.apply_changes().await;
        self.in_touch.store(result.is_ok(), Ordering::Relaxed);
        result
    }

    /// Whether the last look at the store succeeded.
    #[must_use]
    pub fn is_in_touch(&self) -> bool {
        self.in_touch.load(Ordering::Relaxed)
    }

    /// How many keys are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// Whether no key is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes down when keys were last used: now and then, and at the end.
    ///
    /// # Errors
    /// The store is away; what was not written is tried again the next time.
    pub async fn write_last_used(&self) -> Result<(), DatabaseError> {
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

    /// What is due every minute: last uses are written, and what is too old is forgotten.
    async fn keep_up(&self) -> Result<(), DatabaseError> {
        self.write_last_used().await?;
        crate::records::prune(&self.database, self.clock.now()).await
    }

    fn cached_hash(&self, hash: &[u8; 32], now: Micros) -> Option<Result<Arc<Caller>, Refusal>> {
        let key = lock(self.shard(hash)).get(hash)?;
        Some(key.caller(now, seconds(now)).ok_or(Refusal::Unknown))
    }

    fn shard(&self, hash: &[u8; 32]) -> &Mutex<Shard> {
        &self.shards[usize::from(hash[31]) % SHARDS]
    }

    fn is_unknown(&self, hash: &[u8; 32]) -> bool {
        lock(&self.unknown).get(hash).is_some_and(|until| self.clock.now() < *until)
    }

    fn remember_unknown(&self, hash: [u8; 32]) {
        let now = self.clock.now();
        let mut unknown = lock(&self.unknown);
        if unknown.len() >= UNKNOWN.1 {
            unknown.retain(|_, until| now < *until);
        }
        if unknown.len() < UNKNOWN.1 {
            unknown.insert(hash, now + UNKNOWN.0);
        }
    }
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").field("keys", &self.len()).finish_non_exhaustive()
    }
}

/// Reads the list of changes for as long as the directory is used.
async fn follow(directory: Weak<Directory>) {
    let mut polls: u32 = 0;
    loop {
        tokio::time::sleep(POLL).await;
        let Some(directory) = directory.upgrade() else { return };
        // `is_in_touch` reports the error; the next poll tries again.
        let _ = directory.catch_up().await;
        polls = polls.wrapping_add(1);
        if polls.is_multiple_of(UPKEEP_EVERY) {
            // What was not done is done the next time.
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
