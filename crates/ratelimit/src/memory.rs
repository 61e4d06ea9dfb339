//! All meters of a process, in memory, and in a state file where there is one. A decision takes one
//! lock, that of the organization's share of the table: so it is atomic over everything that a
//! request draws on, and decisions of different organizations seldom meet.
//!
//! Bounds: [`MAX_OPEN`] reservations are open at once, and more are refused as unavailable. One
//! that nobody settles within [`crate::ABANDONED_AFTER`] is closed as it was reserved, unless it holds something.
//! A meter that is as good as new, and that no open reservation has drawn on, is dropped when its
//! turn comes to be looked at.

use std::hash::BuildHasher;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use crate::shard::{Entry, Open, Shard};
use crate::state::{self, StateError, StateFile};
use crate::{Bound, Decision, Draw, MAX_OPEN, Micros, RequestId, State, Unavailable};

/// Shares of the table.
const SHARDS: usize = 64;
/// Bytes of an organization's name that decide on its share of the table.
const LEADING: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct Memory {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    open: AtomicUsize,
    most_open: usize,
    file: Option<StateFile>,
}

impl Default for Memory {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let (hasher, open) = (RandomState::default(), AtomicUsize::new(0));
        Self { shards, hasher, open, most_open: MAX_OPEN, file: None }
    }
}

impl Memory {
    /// Opens the state file at `path`, made if need be: what was used when its last process ended,
    /// however it ended, is used. Errors: the file is in use, damaged, or no such file; it is never
    /// begun anew.
    pub fn open(path: &Path, now: Micros) -> Result<Self, StateError> {
        let mut memory = Self::default();
        let file = StateFile::open(path, |record, place| {
            let meter = state::not_ahead(record.meter, now);
            let entry = Entry::new(record.name, meter, Some(place));
            let organization = entry.name.split(|byte| *byte == 0).next().unwrap_or(&[]);
            let hash = memory.hash(&entry.name);
            let at = memory.share(organization);
            lock(&memory.shards[at]).insert(hash, entry, |name| memory.hash(name));
        })?;
        memory.file = Some(file);
        Ok(memory)
    }

    /// Takes all of `draws` at the time `now`, or nothing. A request that is reserved already, and
    /// not settled, is answered as it was. Errors: a bound of this process is reached.
    pub fn reserve(
        &self,
        organization: &str,
        request: RequestId,
        draws: &[Draw<'_>],
        now: Micros,
    ) -> Result<Decision, Unavailable> {
        let mut shard = self.shard(organization);
        let now = shard.turn(now);
        if let Some(open) = shard.open.get(&request) {
            return Ok(Decision::Admitted(open.reserved.iter().map(|one| one.state).collect()));
        }
        let closed = shard.sweep(now, self.file.as_ref(), |name| self.hash(name));
        self.open.fetch_sub(closed, Ordering::Relaxed);
        if self.open.load(Ordering::Relaxed) >= self.most_open {
            return Err(Unavailable::Full(format!("{} requests are open", self.most_open)));
        }
        let mut places: SmallVec<[usize; 8]> = SmallVec::new();
        for draw in draws {
            places.push(self.place(&mut shard, organization, draw, now)?);
        }
        let (decision, open) = shard.decide(&places, draws, now);
        for place in &places {
            shard.keep(*place, self.file.as_ref())?;
        }
        if let Some(open) = open {
            self.open.fetch_add(1, Ordering::Relaxed);
            shard.open.insert(request, open);
        }
        Ok(decision)
    }

    /// Replaces what `request` reserved by what it really took, in the order of its draws; a draw
    /// for which there is no number stays as it was reserved. Only the first time counts: `false`
    /// for a request that is not open.
    pub fn settle(
        &self,
        organization: &str,
        request: RequestId,
        actual: &[Option<u64>],
        now: Micros,
    ) -> bool {
        let mut shard = self.shard(organization);
        let now = shard.turn(now);
        let Some(Open { reserved, .. }) = shard.open.remove(&request) else { return false };
        self.open.fetch_sub(1, Ordering::Relaxed);
        for (at, one) in reserved.iter().enumerate() {
            shard.settle(one, actual.get(at).copied().flatten(), now, self.file.as_ref());
        }
        true
    }

    /// How these meters stand at `now`. Nothing is taken and nothing made.
    #[must_use]
    pub fn look(&self, organization: &str, draws: &[Draw<'_>], now: Micros) -> Vec<State> {
        let shard = self.shard(organization);
        let now = now.max(shard.latest());
        let mut states = Vec::with_capacity(draws.len());
        for draw in draws {
            let name = state::name(organization, draw.meter);
            let found = shard.find(self.hash(&name), &name);
            let meter = found.map(|place| shard.meter(place).clone());
            states.push(meter.map_or_else(
                || State::unused(draw.bound),
                |mut meter| {
                    meter.follow(draw.bound, now);
                    meter.state(draw.bound)
                },
            ));
        }
        states
    }

    /// Raises a spend meter to at least this much in its month. Other kinds are left alone. Errors:
    /// the state file cannot take it.
    pub fn seed(
        &self,
        organization: &str,
        meter: &str,
        bound: Bound,
        at_least: u64,
    ) -> Result<(), Unavailable> {
        if !matches!(bound, Bound::Spend { .. }) {
            return Ok(());
        }
        let mut shard = self.shard(organization);
        let draw = Draw { meter, bound, amount: 0 };
        let place = self.place(&mut shard, organization, &draw, 0)?;
        shard.raise(place, bound, at_least);
        shard.keep(place, self.file.as_ref())
    }

    /// Writes the state file through to the disk: call it once a second, off the request's path.
    pub fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), StateFile::sync)
    }

    /// Requests that are reserved and not settled.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Meters that are kept.
    #[must_use]
    pub fn meters(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// Where the draw's meter is, made if need be, brought to `now`.
    fn place(
        &self,
        shard: &mut Shard,
        organization: &str,
        draw: &Draw<'_>,
        now: Micros,
    ) -> Result<usize, Unavailable> {
        let name = state::name(organization, draw.meter);
        let hash = self.hash(&name);
        if let Some(place) = shard.find(hash, &name) {
            shard.follow(place, draw.bound, now);
            return Ok(place);
        }
        let entry = Entry::made(&name, draw.bound, self.file.as_ref(), now)?;
        Ok(shard.insert(hash, entry, |name| self.hash(name)))
    }

    fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name)
    }

    fn shard(&self, organization: &str) -> MutexGuard<'_, Shard> {
        lock(&self.shards[self.share(organization.as_bytes())])
    }

    fn share(&self, organization: &[u8]) -> usize {
        self.hasher.hash_one(leading(organization)) as usize % self.shards.len()
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // Nothing under this lock leaves a meter half changed.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What decides in which share an organization is: its beginning, which shortened names have too.
fn leading(organization: &[u8]) -> &[u8] {
    &organization[..organization.len().min(LEADING)]
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
