//! The threads that this node owns, with what an append needs, so that it reads nothing first. One
//! write at a time changes a thread.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

use super::rows::Fence;

/// A thread that this node owns.
#[derive(Debug, Clone)]
pub(super) struct Owned {
    pub(super) fence: Fence,
    /// `None` after a write that may have changed it in another way than an append does.
    pub(super) places: Option<Places>,
}

/// Where an append to a thread goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// The newest place.
    pub(super) last_ordinal: i64,
    /// The ordinals of the turns that this node runs, by id.
    pub(super) running: BTreeMap<String, i64>,
}

type Slot = Arc<tokio::sync::Mutex<Option<Owned>>>;

/// The threads that this node owns, by id.
#[derive(Debug, Default)]
pub(super) struct OwnedThreads(Mutex<HashMap<String, Slot>>);

/// Threads that one write holds, in the order of their ids, so that two writes never wait for each
/// other.
#[derive(Debug)]
pub(super) struct Held(pub(super) BTreeMap<String, OwnedMutexGuard<Option<Owned>>>);

impl OwnedThreads {
    /// Waits until no other write holds one of the threads.
    pub(super) async fn lock(&self, ids: BTreeSet<String>) -> Held {
        let mut held = BTreeMap::new();
        for id in ids {
            let owned = loop {
                let slot = Arc::clone(self.slots().entry(id.clone()).or_default());
                let owned = slot.lock_owned().await;
                // The write before this one may have removed the slot.
                if is_slot(self.slots().get(&id), &owned) {
                    break owned;
                }
            };
            held.insert(id, owned);
        }
        Held(held)
    }

    /// Ends the hold, and forgets the threads that this node does not own.
    pub(super) fn unlock(&self, held: Held) {
        let mut slots = self.slots();
        for (id, owned) in held.0 {
            if owned.is_none() && is_slot(slots.get(&id), &owned) {
                slots.remove(&id);
            }
        }
    }

    /// The node has lost all of its threads. Writes that hold one find that out themselves.
    pub(super) fn clear(&self) {
        self.slots().retain(|_, slot| slot.try_lock().is_err());
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<String, Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_slot(slot: Option<&Slot>, owned: &OwnedMutexGuard<Option<Owned>>) -> bool {
    slot.is_some_and(|slot| Arc::ptr_eq(slot, OwnedMutexGuard::mutex(owned)))
}

impl Held {
    /// The numbers that fence the next write to each known thread.
    pub(super) fn fences(&self) -> BTreeMap<String, Fence> {
        let known = |(id, owned): (&String, &OwnedMutexGuard<Option<Owned>>)| {
            Some((id.clone(), owned.as_ref()?.fence))
        };
        self.0.iter().filter_map(known).collect()
    }

    /// Sets what is known of a thread; `None` if nothing is.
    pub(super) fn set(&mut self, id: &str, owned: Option<Owned>) {
        if let Some(slot) = self.0.get_mut(id) {
            **slot = owned;
        }
    }

    /// Nothing is known any longer: what was sent may or may not have taken effect.
    pub(super) fn reset(&mut self) {
        self.0.values_mut().for_each(|slot| **slot = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(thread: i64) -> Option<Owned> {
        Some(Owned { fence: Fence { thread, epoch: 1, seq: 0 }, places: None })
    }

    fn only(id: &str) -> BTreeSet<String> {
        BTreeSet::from([id.to_owned()])
    }

    #[tokio::test]
    async fn what_a_write_learns_is_kept_after_it_waited_for_another() {
        let threads = OwnedThreads::default();
        let first = threads.lock(only("a")).await;
        let second = async {
            let mut second = threads.lock(only("a")).await;
            second.set("a", owned(7));
            threads.unlock(second);
        };
        // The second one waits when the first one ends, without the thread.
        tokio::join!(biased; second, async { threads.unlock(first) });
        let third = threads.lock(only("a")).await;
        assert_eq!(third.fences().get("a").map(|fence| fence.thread), Some(7));
    }

    #[tokio::test]
    async fn a_lost_lease_forgets_threads_except_those_in_use() {
        let threads = OwnedThreads::default();
        let mut free = threads.lock(only("free")).await;
        free.set("free", owned(1));
        threads.unlock(free);
        let mut used = threads.lock(only("used")).await;
        threads.clear();
        used.set("used", owned(2));
        threads.unlock(used);
        let both = BTreeSet::from(["free".to_owned(), "used".to_owned()]);
        let found = threads.lock(both).await.fences();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["used"]);
    }
}
