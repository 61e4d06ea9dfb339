//! All meters of a process, in memory and optionally in a state file. A decision takes one lock,
//! that of the organization's shard: so it is atomic over all draws of a request, and decisions of
//! different organizations rarely contend.
//!
//! Bounds: [`MAX_OPEN`] reservations are open at a time, and further ones are refused as
//! unavailable. A reservation that is not settled within [`crate::ABANDONED_AFTER`] is closed as
//! reserved, unless it holds an amount. The sweep drops meters that are equal to new ones and have
//! no open reservation.

use std::hash::BuildHasher;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use crate::shard::{Entry, Open, Shard};
use crate::state::{self, StateFile};
use crate::{Bound, Decision, Draw, Error, MAX_OPEN, Micros, RequestId, State, SteadyTime};

/// Shards of the table.
const SHARDS: usize = 64;
/// Bytes of an organization's name that select its shard.
const LEADING: usize = 64;

/// The meters of one process.
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
    /// Opens the state file at `path`, created if missing. Usage from before the last end of the
    /// process is restored, however the process ended. Errors: the file is in use, damaged, or not
    /// a state file; it is never replaced.
    pub fn open(path: &Path, now: SteadyTime) -> Result<Self, Error> {
        let now = now.micros();
        let mut memory = Self::default();
        let file = StateFile::open(path, |record, slot| {
            let meter = state::not_ahead(record.meter, now);
            let entry = Entry::new(record.name, meter, Some(slot));
            let organization = entry.name.split(|byte| *byte == 0).next().unwrap_or(&[]);
            let hash = memory.hash(&entry.name);
            let at = memory.share(organization);
            lock(&memory.shards[at]).insert(hash, entry, |name| memory.hash(name));
        })?;
        memory.file = Some(file);
        Ok(memory)
    }

    /// Takes all of `draws` at the time `now`, or none. A request that is reserved and not settled
    /// gets the same decision again. Errors: a bound of this process is reached, or a meter must be seeded.
    pub fn reserve(
        &self,
        organization: &str,
        request: RequestId,
        draws: &[Draw<'_>],
        now: Micros,
    ) -> Result<Decision, Error> {
        self.reserve_for(organization, (request, request as u64), draws, now)
    }

    /// As [`Memory::reserve`], where each request is of a client of its own, for a client.
    pub fn reserve_for(
        &self,
        organization: &str,
        (request, client): (RequestId, u64),
        draws: &[Draw<'_>],
        now: Micros,
    ) -> Result<Decision, Error> {
        let mut shard = self.shard(organization);
        let now = shard.turn(now);
        if let Some(open) = shard.open.get(&request) {
            return Ok(Decision::Admitted(open.reserved.iter().map(|one| one.state).collect()));
        }
        let closed = shard.sweep(now, self.file.as_ref(), |name| self.hash(name));
        self.open.fetch_sub(closed, Ordering::Relaxed);
        if self.open.load(Ordering::Relaxed) >= self.most_open {
            return Err(Error::full(format_args!("{} requests are open", self.most_open)));
        }
        if draws.iter().any(|draw| self.is_of_another_time(&shard, organization, draw)) {
            return Err(Error::unseeded());
        }
        let mut places: SmallVec<[usize; 8]> = SmallVec::new();
        for draw in draws {
            places.push(self.place(&mut shard, organization, draw, now)?);
        }
        let (decision, open) = shard.decide(&places, draws, client, now);
        for place in &places {
            shard.keep(*place, self.file.as_ref())?;
        }
        if let Some(open) = open {
            self.open.fetch_add(1, Ordering::Relaxed);
            shard.open.insert(request, open);
        }
        Ok(decision)
    }

    /// Replaces the reservation of `request` by its actual usage, in the order of its draws; a draw
    /// without a number stays as reserved. Only the first call counts: returns `false` for a
    /// request that is not open.
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

    /// See [`crate::Limits::shrink`].
    pub fn shrink(
        &self,
        organization: &str,
        request: RequestId,
        to: &[Option<u64>],
        now: Micros,
    ) -> bool {
        let mut shard = self.shard(organization);
        let now = shard.turn(now);
        shard.shrink(request, to, now, self.file.as_ref())
    }

    /// The states of these meters at `now`. Neither takes anything nor creates meters.
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

    /// See [`crate::Limits::seed`]. Errors: the state file cannot store it.
    pub fn seed(
        &self,
        organization: &str,
        meter: &str,
        bound: Bound,
        at_least: u64,
    ) -> Result<(), Error> {
        if matches!(bound, Bound::Held { .. }) {
            return Ok(());
        }
        let mut shard = self.shard(organization);
        let now = shard.latest();
        let draw = Draw { meter, bound, amount: 0, set: 0 };
        let place = self.place(&mut shard, organization, &draw, now)?;
        shard.raise(place, bound, at_least);
        shard.keep(place, self.file.as_ref())
    }

    /// See [`crate::Limits::restore`]. Errors: the state file cannot store it.
    pub fn restore(
        &self,
        organization: &str,
        meter: &str,
        bound: Bound,
        settled: u64,
    ) -> Result<(), Error> {
        let mut shard = self.shard(organization);
        let now = shard.latest();
        let draw = Draw { meter, bound, amount: 0, set: 0 };
        let place = self.place(&mut shard, organization, &draw, now)?;
        shard.set_settled(place, bound, settled);
        shard.keep(place, self.file.as_ref())
    }

    /// See [`crate::Limits::correct`]. Errors: the state file cannot store a meter.
    pub fn correct(
        &self,
        organization: &str,
        draw: &Draw<'_>,
        actual: u64,
        now: Micros,
    ) -> Result<(), Error> {
        let mut shard = self.shard(organization);
        let now = shard.turn(now);
        let place = self.place(&mut shard, organization, draw, now)?;
        shard.correct(place, draw, actual);
        shard.keep(place, self.file.as_ref())
    }

    /// Flushes the state file to the disk: call it once a second, off the request's path.
    pub fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), StateFile::sync)
    }

    /// Reservations that are not settled.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Number of meters.
    #[must_use]
    pub fn meters(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// The index of the draw's meter, created if missing and brought to `now`.
    fn place(
        &self,
        shard: &mut Shard,
        organization: &str,
        draw: &Draw<'_>,
        now: Micros,
    ) -> Result<usize, Error> {
        let name = state::name(organization, draw.meter);
        let hash = self.hash(&name);
        if let Some(place) = shard.find(hash, &name) {
            shard.follow(place, draw.bound, now);
            return Ok(place);
        }
        let entry = Entry::made(&name, draw.bound, self.file.as_ref(), now)?;
        Ok(shard.insert(hash, entry, |name| self.hash(name)))
    }

    /// Returns whether the draw is on a meter of spend whose month it does not follow.
    fn is_of_another_time(&self, shard: &Shard, organization: &str, draw: &Draw<'_>) -> bool {
        if !matches!(draw.bound, Bound::Spend { .. }) {
            return false;
        }
        let name = state::name(organization, draw.meter);
        let found = shard.find(self.hash(&name), &name);
        found.is_some_and(|place| shard.meter(place).is_of_another_time(draw.bound))
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
    // Safe after a panic: no code under this lock leaves a meter half changed.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes that select an organization's shard: its beginning, which shortened names also have.
fn leading(organization: &[u8]) -> &[u8] {
    &organization[..organization.len().min(LEADING)]
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
