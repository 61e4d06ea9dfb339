//! Applies changes in their order, one poll at a time. A change that cannot be applied, because the
//! store is unreachable, is applied by the next poll.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use super::{Directory, lock};
use crate::Error;
use crate::records::changes::{self, Change};
use crate::records::{ids, organizations, projects};
use gateway_policy::dates::seconds;

/// Changes per read.
const PART: u32 = 1000;
/// One in this many applied changes also prunes old changes.
const PRUNE_EVERY: u64 = 256;

impl Directory {
    pub(super) async fn apply_changes(&self) -> Result<(), Error> {
        let mut applied = self.applied.lock().await;
        loop {
            let behind = changes::behind(&self.database, *applied, PART).await?;
            let next = behind.changes.first().map_or(behind.last, |(sequence, _)| *sequence);
            let is_whole = match behind.changes.is_empty() {
                true => behind.last == *applied,
                false => next == *applied + 1,
            };
            // Changes are missing: this node was away too long, or the store was restored from a
            // backup.
            if !is_whole {
                self.forget_all();
                *applied = behind.last;
                return Ok(());
            }
            let Some((last, _)) = behind.changes.last() else { return Ok(()) };
            let mut done = HashSet::new();
            for change in behind.changes.iter().filter_map(|(_, change)| change.as_ref()) {
                if done.insert(change) {
                    self.apply(change).await?;
                }
            }
            if last / PRUNE_EVERY != *applied / PRUNE_EVERY {
                let before = seconds(self.expiry.now()) - changes::KEPT;
                changes::prune(&self.database, before).await?;
            }
            *applied = *last;
        }
    }

    async fn apply(&self, change: &Change) -> Result<(), Error> {
        let (organization, project) = {
            let mut slots = lock(&self.slots);
            slots.epoch += 1;
            match change {
                Change::Key(_) => (None, None),
                Change::Organization(id) => {
                    (slots.organizations.get(id).and_then(Weak::upgrade), None)
                }
                Change::Project(id) => (None, slots.projects.get(id).and_then(Weak::upgrade)),
            }
        };
        if let Change::Key(hash) = change
            && let Some(hash) = ids::unhex(hash)
        {
            lock(self.shard(&hash)).remove(&hash);
            lock(&self.unknown).remove(&hash);
        }
        if let Some(slot) = organization {
            let now = organizations::get(&self.database, &slot.id).await?;
            slot.current.store(now.map(Arc::new));
        }
        if let Some(slot) = project
            && let Some(now) = projects::get(&self.database, &slot.id).await?
        {
            slot.current.store(Arc::new(now.project));
        }
        Ok(())
    }

    fn forget_all(&self) {
        let mut slots = lock(&self.slots);
        slots.epoch += 1;
        slots.organizations.clear();
        slots.projects.clear();
        drop(slots);
        for shard in &self.shards {
            lock(shard).clear();
        }
        lock(&self.unknown).clear();
    }
}
