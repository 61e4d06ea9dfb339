//! Loads unknown keys from the store: once for all concurrent requests, and again when a change was
//! applied in the meantime, so that nothing outdated is ever cached.

use std::sync::Arc;
use std::sync::Weak;

use arc_swap::{ArcSwap, ArcSwapOption};

use super::slots::{OrganizationSlot, ProjectSlot};
use super::{Directory, KeySlot, MAX_LOADING, lock};
use crate::Error;
use crate::records::{keys, organizations, projects};
use gateway_policy::dates::seconds;
use gateway_policy::tenants::Caller;

/// Most reloads because of concurrent changes, before the key is refused for now.
const ATTEMPTS: u32 = 16;

const CHANGES_TOO_QUICKLY: &str = "the key or its project changes too quickly";

impl Directory {
    /// Runs one query for all concurrent requests for that key.
    pub(super) async fn load_once(&self, hash: [u8; 32]) -> Result<Arc<Caller>, Error> {
        let loading = {
            let mut loading = lock(&self.loading);
            if let Some(same) = loading.get(&hash) {
                Arc::clone(same)
            } else if loading.len() >= MAX_LOADING {
                return Err(Error::unavailable("too many keys are being looked up"));
            } else {
                Arc::clone(loading.entry(hash).or_default())
            }
        };
        let _forget = Forget { directory: self, hash };
        // The first request runs the look-up; if it is cancelled, the next one takes over.
        loading.get_or_init(|| self.load(hash)).await.clone()
    }

    async fn load(&self, hash: [u8; 32]) -> Result<Arc<Caller>, Error> {
        for _ in 0..ATTEMPTS {
            let epoch = lock(&self.slots).epoch;
            let found = keys::by_hash(&self.database, &hash).await?;
            let Some(key) = found else {
                self.remember_unknown(hash);
                return Err(Error::unknown_key());
            };
            let project = self.project(&key.project).await?;
            let slot = KeySlot::new(hash, key, project).map(Arc::new);
            let slots = lock(&self.slots);
            if slots.epoch != epoch {
                continue;
            }
            let Some(slot) = slot else {
                drop(slots);
                self.remember_unknown(hash);
                return Err(Error::unknown_key());
            };
            lock(self.shard(&hash)).insert(Arc::clone(&slot));
            drop(slots);
            let now = self.clock.now();
            return slot.caller(now, seconds(now)).ok_or_else(Error::unknown_key);
        }
        Err(Error::unavailable(CHANGES_TOO_QUICKLY))
    }

    /// The slot of a project.
    pub(super) async fn project(&self, id: &str) -> Result<Arc<ProjectSlot>, Error> {
        for _ in 0..ATTEMPTS {
            let epoch = {
                let slots = lock(&self.slots);
                if let Some(slot) = slots.projects.get(id).and_then(Weak::upgrade) {
                    return Ok(slot);
                }
                slots.epoch
            };
            let found = projects::get(&self.database, id).await?;
            let found = found.ok_or_else(Error::unknown_key)?;
            let organization = self.organization(&found.organization).await?;
            let mut slots = lock(&self.slots);
            if let Some(slot) = slots.projects.get(id).and_then(Weak::upgrade) {
                return Ok(slot);
            }
            if slots.epoch != epoch {
                continue;
            }
            let current = ArcSwap::from_pointee(found.project);
            let slot = Arc::new(ProjectSlot { id: id.into(), organization, current });
            slots.projects.insert(id.into(), Arc::downgrade(&slot));
            slots.sweep();
            return Ok(slot);
        }
        Err(Error::unavailable(CHANGES_TOO_QUICKLY))
    }

    async fn organization(&self, id: &str) -> Result<Arc<OrganizationSlot>, Error> {
        for _ in 0..ATTEMPTS {
            let epoch = {
                let slots = lock(&self.slots);
                if let Some(slot) = slots.organizations.get(id).and_then(Weak::upgrade) {
                    return Ok(slot);
                }
                slots.epoch
            };
            let found = organizations::get(&self.database, id).await?;
            let mut slots = lock(&self.slots);
            if let Some(slot) = slots.organizations.get(id).and_then(Weak::upgrade) {
                return Ok(slot);
            }
            if slots.epoch != epoch {
                continue;
            }
            let current = ArcSwapOption::from(found.map(Arc::new));
            let slot = Arc::new(OrganizationSlot { id: id.into(), current });
            slots.organizations.insert(id.into(), Arc::downgrade(&slot));
            slots.sweep();
            return Ok(slot);
        }
        Err(Error::unavailable(CHANGES_TOO_QUICKLY))
    }
}

/// Removes a look-up from the list, even when the waiting request is cancelled.
struct Forget<'a> {
    directory: &'a Directory,
    hash: [u8; 32],
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        let mut loading = lock(&self.directory.loading);
        // The list holds one reference and this guard another; the last waiting request removes the
        // entry.
        let is_last = loading
            .get(&self.hash)
            .is_some_and(|loading| loading.initialized() || Arc::strong_count(loading) <= 2);
        if is_last {
            loading.remove(&self.hash);
        }
    }
}
