//! A bounded part of the cached keys. When full, the clock algorithm evicts: the first key that was
//! not used since the hand last passed.

use std::collections::HashMap;
use std::sync::Arc;

use super::slots::KeySlot;

#[derive(Debug)]
pub(super) struct Shard {
    positions: HashMap<[u8; 32], usize>,
    ring: Vec<CachedKey>,
    hand: usize,
    capacity: usize,
}

#[derive(Debug)]
struct CachedKey {
    key: Arc<KeySlot>,
    used: bool,
}

impl Shard {
    pub(super) fn new(capacity: usize) -> Self {
        Self { positions: HashMap::new(), ring: Vec::new(), hand: 0, capacity }
    }

    pub(super) fn get(&mut self, hash: &[u8; 32]) -> Option<Arc<KeySlot>> {
        let cached = &mut self.ring[*self.positions.get(hash)?];
        cached.used = true;
        Some(Arc::clone(&cached.key))
    }

    pub(super) fn insert(&mut self, key: Arc<KeySlot>) {
        let hash = key.hash;
        let cached = CachedKey { key, used: true };
        if let Some(at) = self.positions.get(&hash) {
            self.ring[*at] = cached;
            return;
        }
        let at = if self.ring.len() < self.capacity {
            self.ring.push(cached);
            self.ring.len() - 1
        } else {
            let at = self.victim();
            self.positions.remove(&self.ring[at].key.hash);
            self.ring[at] = cached;
            at
        };
        self.positions.insert(hash, at);
    }

    pub(super) fn remove(&mut self, hash: &[u8; 32]) {
        let Some(at) = self.positions.remove(hash) else { return };
        self.ring.swap_remove(at);
        if let Some(moved) = self.ring.get(at) {
            self.positions.insert(moved.key.hash, at);
        }
    }

    pub(super) fn clear(&mut self) {
        self.positions.clear();
        self.ring.clear();
        self.hand = 0;
    }

    pub(super) fn len(&self) -> usize {
        self.ring.len()
    }

    /// Keys whose last use is not persisted, with that use.
    pub(super) fn used(&self) -> Vec<(Arc<KeySlot>, i64)> {
        let unwritten =
            |cached: &CachedKey| Some((Arc::clone(&cached.key), cached.key.unwritten()?));
        self.ring.iter().filter_map(unwritten).collect()
    }

    /// The index of the slot to replace. Ends after two turns at most.
    fn victim(&mut self) -> usize {
        loop {
            self.hand = (self.hand + 1) % self.ring.len();
            let cached = &mut self.ring[self.hand];
            if !std::mem::take(&mut cached.used) {
                return self.hand;
            }
        }
    }
}
