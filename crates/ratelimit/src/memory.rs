//! All meters of a process, in memory. A decision takes one lock, that of the organization's share
//! of the table: so it is atomic over everything that a request draws on, and decisions of
//! different organizations seldom meet.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::meter::{Meter, Reserved};
use crate::{Bound, Decision, Draw, Micros, Remedy, RequestId, State};

/// Shares of the table.
const SHARDS: usize = 64;

/// Why a state file was not opened.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StateError(pub String);

/// See the module.
#[derive(Debug)]
pub struct Memory {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Shard {
    organizations: HashMap<Box<str>, Organization>,
    /// Reservations that are not settled.
    open: HashMap<RequestId, Open>,
}

#[derive(Debug, Default)]
struct Organization {
    names: HashMap<Box<str>, usize>,
    meters: Vec<Meter>,
}

#[derive(Debug)]
struct Open {
    organization: Box<str>,
    reserved: Vec<(usize, Reserved)>,
    states: Vec<State>,
}

impl Default for Memory {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, hasher: RandomState::new() }
    }
}

impl Memory {
    /// Takes all of `draws` at the time `now`, or nothing. A request that is reserved already, and
    /// not settled, is answered as it was.
    pub fn reserve(
        &self,
        organization: &str,
        request: RequestId,
        draws: &[Draw<'_>],
        now: Micros,
    ) -> Decision {
        let mut shard = self.shard(organization);
        let Shard { organizations, open } = &mut *shard;
        let place = match open.entry(request) {
            Entry::Occupied(known) => return Decision::Admitted(known.get().states.clone()),
            Entry::Vacant(place) => place,
        };
        if !organizations.contains_key(organization) {
            organizations.insert(organization.into(), Organization::default());
        }
        let Some(ours) = organizations.get_mut(organization) else {
            return Decision::Admitted(Vec::new());
        };
        let places: Vec<usize> = draws.iter().map(|draw| ours.place(draw, now)).collect();
        // Draws on one meter are judged together.
        let on_same = |at: usize| -> u64 {
            let same = places.iter().zip(draws).filter(|(place, _)| **place == places[at]);
            same.fold(0, |sum: u64, (_, draw)| sum.saturating_add(draw.amount))
        };
        let fits = |at: usize| ours.meters[places[at]].fits(draws[at].bound, on_same(at));
        if (0..draws.len()).all(fits) {
            let reserved = places.iter().zip(draws).map(|(place, draw)| {
                let meter = &mut ours.meters[*place];
                meter.take(draw.amount);
                (*place, Reserved { since: now, month: meter.month(), amount: draw.amount })
            });
            let reserved = reserved.collect();
            let states = ours.states(&places, draws);
            let organization = organization.into();
            place.insert(Open { organization, reserved, states: states.clone() });
            return Decision::Admitted(states);
        }
        for (place, draw) in places.iter().zip(draws) {
            ours.meters[*place].count_refusal(draw.bound);
        }
        let mut worst = (0, Remedy::Wait(0));
        for (at, draw) in draws.iter().enumerate() {
            let more = on_same(at);
            if let Some(remedy) = ours.meters[places[at]].remedy(draw.bound, more)
                && severity(remedy) > severity(worst.1)
            {
                worst = (at, remedy);
            }
        }
        let (which, remedy) = worst;
        Decision::Refused { which, remedy, states: ours.states(&places, draws) }
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
        let Some(open) = shard.open.remove(&request) else { return false };
        let Some(ours) = shard.organizations.get_mut(&open.organization) else { return false };
        for ((place, reserved), actual) in open.reserved.into_iter().zip(actual) {
            if let Some(actual) = actual {
                ours.meters[place].settle(reserved, *actual, now);
            }
        }
        true
    }

    /// How these meters stand at `now`. Nothing is taken and nothing made.
    #[must_use]
    pub fn look(&self, organization: &str, draws: &[Draw<'_>], now: Micros) -> Vec<State> {
        let shard = self.shard(organization);
        let known = shard.organizations.get(organization);
        let one = |draw: &Draw<'_>| {
            let place = known.and_then(|ours| ours.names.get(draw.meter));
            let meter = place.and_then(|place| known.map(|ours| ours.meters[*place].clone()));
            let mut meter = meter.unwrap_or_else(|| Meter::new(draw.bound));
            meter.follow(draw.bound, now);
            meter.state(draw.bound)
        };
        draws.iter().map(one).collect()
    }

    /// Raises a spend meter to at least this much in its month. Other kinds are left alone.
    pub fn seed(&self, organization: &str, meter: &str, bound: Bound, at_least: u64) {
        if !matches!(bound, Bound::Spend { .. }) {
            return;
        }
        let mut shard = self.shard(organization);
        let ours = shard.organizations.entry(organization.into()).or_default();
        let place = ours.place(&Draw { meter, bound, amount: 0 }, 0);
        ours.meters[place].raise(bound, at_least);
    }

    /// Opens the state file at `path`, made if need be: what was used before is used.
    pub fn open(_path: &std::path::Path) -> Result<Self, StateError> {
        Ok(Self::default())
    }

    /// Writes the state file through to the disk: call it once a second, off the request's path.
    pub fn sync(&self) -> std::io::Result<()> {
        Ok(())
    }

    /// Requests that are reserved and not settled.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).open.len()).sum()
    }

    fn shard(&self, organization: &str) -> MutexGuard<'_, Shard> {
        let at = self.hasher.hash_one(organization) as usize % self.shards.len();
        lock(&self.shards[at])
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // Nothing under this lock leaves a meter half changed.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Organization {
    /// Where the draw's meter is, made if need be, brought to `now`.
    fn place(&mut self, draw: &Draw<'_>, now: Micros) -> usize {
        let place = match self.names.get(draw.meter) {
            Some(place) => *place,
            None => {
                self.meters.push(Meter::new(draw.bound));
                self.names.insert(draw.meter.into(), self.meters.len() - 1);
                self.meters.len() - 1
            }
        };
        self.meters[place].follow(draw.bound, now);
        place
    }

    fn states(&self, places: &[usize], draws: &[Draw<'_>]) -> Vec<State> {
        let both = places.iter().zip(draws);
        both.map(|(place, draw)| self.meters[*place].state(draw.bound)).collect()
    }
}

/// Which of two refusals stands for both: waiting helps less than asking for less, and so on.
fn severity(remedy: Remedy) -> (u8, Micros) {
    match remedy {
        Remedy::Wait(time) => (0, time),
        Remedy::GiveBack => (1, 0),
        Remedy::AskForLess => (2, 0),
        Remedy::NothingSoon => (3, 0),
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
