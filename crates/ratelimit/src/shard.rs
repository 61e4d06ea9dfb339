//! A shard of the table of meters: lookup, decisions, persistence and removal. The caller holds its
//! lock; it reads no clock.

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashTable};

use crate::meter::{Meter, Reserved};
use crate::state::{MeterSlot, StateFile};
use crate::{ABANDONED_AFTER, Bound, Decision, Draw, Error, Micros, Remedy, RequestId, State};

/// Decisions between two sweeps of one meter.
const SWEEP_EVERY: u32 = 4;
/// Meters swept for each new one, so that the table does not grow forever.
const SWEEP: usize = 4;
/// Interval of sweeps over all open reservations.
const SWEEP_OPEN: Micros = 3_600_000_000;

/// A shard of the table.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    table: HashTable<usize>,
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    /// Reservations that are not settled.
    pub(crate) open: HashMap<RequestId, Open, RandomState>,
    decisions: u32,
    /// Meters left to sweep.
    to_sweep: usize,
    swept: usize,
    swept_open: Micros,
    latest: Micros,
}

/// A meter of an organization.
#[derive(Debug)]
pub(crate) struct Entry {
    /// See [`crate::state::name`].
    pub(crate) name: Box<[u8]>,
    meter: Meter,
    slot: Option<MeterSlot>,
    /// Open reservations with a draw on it.
    open: u32,
}

/// A reservation that is not settled.
#[derive(Debug)]
pub(crate) struct Open {
    since: Micros,
    pub(crate) reserved: Box<[One]>,
}

/// The draw of a reservation on one meter.
#[derive(Debug)]
pub(crate) struct One {
    place: usize,
    reserved: Reserved,
    /// The state in the decision.
    pub(crate) state: State,
}

impl Entry {
    pub(crate) fn new(name: Box<[u8]>, meter: Meter, slot: Option<MeterSlot>) -> Self {
        Self { name, meter, slot, open: 0 }
    }

    /// A new meter, with its slot in the state file.
    pub(crate) fn made(
        name: &[u8],
        bound: Bound,
        file: Option<&StateFile>,
        now: Micros,
    ) -> Result<Self, Error> {
        let mut meter = Meter::new(bound);
        meter.follow(bound, now);
        let mut entry = Self::new(name.into(), meter, None);
        entry.keep(file)?;
        Ok(entry)
    }

    fn keep(&mut self, file: Option<&StateFile>) -> Result<(), Error> {
        let Some(file) = file else { return Ok(()) };
        let kept = match &mut self.slot {
            Some(slot) => file.write(slot, &self.meter),
            None => file.add(&self.name, &self.meter).map(|slot| self.slot = slot),
        };
        kept.map_err(|error| Error::full(format_args!("the state file: {error}")))
    }
}

impl Shard {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// The shard's time, which does not go back with the clock. Dropped meters do not keep their
    /// own.
    pub(crate) fn turn(&mut self, now: Micros) -> Micros {
        self.latest = self.latest.max(now);
        self.latest
    }

    pub(crate) fn latest(&self) -> Micros {
        self.latest
    }

    pub(crate) fn find(&self, hash: u64, name: &[u8]) -> Option<usize> {
        let is_it = |place: &usize| self.name(*place) == name;
        self.table.find(hash, is_it).copied()
    }

    pub(crate) fn insert(
        &mut self,
        hash: u64,
        entry: Entry,
        hasher: impl Fn(&[u8]) -> u64,
    ) -> usize {
        self.to_sweep += SWEEP;
        let place = self.free.pop().unwrap_or(self.entries.len());
        if place == self.entries.len() {
            self.entries.push(None);
        }
        self.entries[place] = Some(entry);
        let Self { table, entries, .. } = self;
        let name = |place: &usize| entries[*place].as_ref().map_or(&[][..], |entry| &entry.name);
        table.insert_unique(hash, place, |place| hasher(name(place)));
        place
    }

    pub(crate) fn meter(&self, place: usize) -> &Meter {
        &self.entry(place).meter
    }

    pub(crate) fn follow(&mut self, place: usize, bound: Bound, now: Micros) {
        self.entry_mut(place).meter.follow(bound, now);
    }

    pub(crate) fn raise(&mut self, place: usize, bound: Bound, at_least: u64) {
        self.entry_mut(place).meter.raise(bound, at_least);
    }

    pub(crate) fn set_settled(&mut self, place: usize, bound: Bound, settled: u64) {
        self.entry_mut(place).meter.set_settled(bound, settled);
    }

    /// Writes the meter's state to the state file.
    pub(crate) fn keep(&mut self, place: usize, file: Option<&StateFile>) -> Result<(), Error> {
        self.entry_mut(place).keep(file)
    }

    /// Takes all draws or none; `places` are the indexes of their meters, which are brought to
    /// `now`.
    pub(crate) fn decide(
        &mut self,
        places: &[usize],
        draws: &[Draw<'_>],
        client: u64,
        now: Micros,
    ) -> (Decision, Option<Open>) {
        // Draws on one meter are checked together.
        let on_same = |at: usize| -> u64 {
            let same = places.iter().zip(draws).filter(|(place, _)| **place == places[at]);
            same.fold(0, |sum: u64, (_, draw)| sum.saturating_add(draw.amount))
        };
        let fits = |at: usize| self.meter(places[at]).fits(draws[at].bound, on_same(at));
        if (0..draws.len()).all(fits) {
            return self.admit(places, draws, now);
        }
        let refusing: Vec<Draw<'_>> =
            (0..draws.len()).filter(|at| !fits(*at)).map(|at| draws[at]).collect();
        for (place, draw) in places.iter().zip(draws) {
            if draw.counts_refusal_by(&refusing) {
                self.entry_mut(*place).meter.count_refusal();
            }
        }
        let mut worst = (0, Remedy::Wait(0));
        for (at, draw) in draws.iter().enumerate() {
            let more = on_same(at);
            if let Some(remedy) = self.entry_mut(places[at]).meter.remedy(draw.bound, more, client)
                && remedy.severity() > worst.1.severity()
            {
                worst = (at, remedy);
            }
        }
        let (which, remedy) = worst;
        let both = places.iter().zip(draws);
        let states = both.map(|(place, draw)| self.meter(*place).state(draw.bound)).collect();
        (Decision::Refused { which, remedy, states }, None)
    }

    fn admit(
        &mut self,
        places: &[usize],
        draws: &[Draw<'_>],
        now: Micros,
    ) -> (Decision, Option<Open>) {
        for (place, draw) in places.iter().zip(draws) {
            let entry = self.entry_mut(*place);
            entry.meter.take(draw.amount);
            entry.open += 1;
        }
        let one = |(place, draw): (&usize, &Draw<'_>)| {
            let meter = self.meter(*place);
            let reserved = Reserved { since: now, month: meter.month(), amount: draw.amount };
            One { place: *place, reserved, state: meter.state(draw.bound) }
        };
        let reserved: Box<[One]> = places.iter().zip(draws).map(one).collect();
        let states = reserved.iter().map(|one| one.state).collect();
        (Decision::Admitted(states), Some(Open { since: now, reserved }))
    }

    /// Settles the draw of a reservation on one meter; without `actual` it stays as reserved.
    pub(crate) fn settle(
        &mut self,
        one: &One,
        actual: Option<u64>,
        now: Micros,
        file: Option<&StateFile>,
    ) {
        let entry = self.entry_mut(one.place);
        entry.open = entry.open.saturating_sub(1);
        let Some(actual) = actual else { return entry.meter.close(one.reserved) };
        entry.meter.settle(one.reserved, actual, now);
        // The slot exists since the reservation, and writing to a slot cannot fail.
        let _ = entry.keep(file);
    }

    /// Lowers a reservation to these amounts; returns `false` when it is not open.
    pub(crate) fn shrink(
        &mut self,
        request: RequestId,
        to: &[Option<u64>],
        now: Micros,
        file: Option<&StateFile>,
    ) -> bool {
        let Self { open, entries, .. } = self;
        let Some(open) = open.get_mut(&request) else { return false };
        for (one, to) in open.reserved.iter_mut().zip(to) {
            let (Some(to), Some(entry)) = (*to, &mut entries[one.place]) else { continue };
            if to >= one.reserved.amount {
                continue;
            }
            entry.meter.shrink(one.reserved, to, now);
            one.reserved.amount = to;
            // As when it is settled.
            let _ = entry.keep(file);
        }
        true
    }

    /// Replaces a reserved amount, whose reservation is no longer open, by its actual one.
    pub(crate) fn correct(&mut self, place: usize, draw: &Draw<'_>, actual: u64) {
        self.entry_mut(place).meter.correct(draw.bound, draw.amount, actual);
    }

    /// Checks a few meters and drops unused ones; at intervals, also checks all reservations.
    /// Returns the number of reservations closed. Invalidates all indexes of meters.
    pub(crate) fn sweep(
        &mut self,
        now: Micros,
        file: Option<&StateFile>,
        hasher: impl Fn(&[u8]) -> u64,
    ) -> usize {
        self.decisions = self.decisions.wrapping_add(1);
        self.to_sweep += usize::from(self.decisions.is_multiple_of(SWEEP_EVERY));
        for _ in 0..std::mem::take(&mut self.to_sweep).min(self.entries.len()) {
            self.swept = (self.swept + 1) % self.entries.len();
            self.drop_unused(self.swept, now, file, &hasher);
        }
        if now.saturating_sub(self.swept_open) < SWEEP_OPEN {
            return 0;
        }
        self.swept_open = now;
        self.close_forgotten(now)
    }

    fn drop_unused(
        &mut self,
        place: usize,
        now: Micros,
        file: Option<&StateFile>,
        hasher: impl Fn(&[u8]) -> u64,
    ) {
        let Some(entry) = &mut self.entries[place] else { return };
        if entry.open > 0 || !entry.meter.is_unused(now) {
            return;
        }
        let hash = hasher(&entry.name);
        if let Ok(found) = self.table.find_entry(hash, |other| *other == place) {
            found.remove();
        }
        if let (Some(file), Some(kept)) = (file, entry.slot) {
            file.remove(kept);
        }
        self.entries[place] = None;
        self.free.push(place);
    }

    fn close_forgotten(&mut self, now: Micros) -> usize {
        let entries = &mut self.entries;
        let before = self.open.len();
        self.open.retain(|_, open| {
            let holds = |one: &One| {
                let entry = entries[one.place].as_ref();
                entry.is_some_and(|entry| matches!(entry.meter, Meter::Held { .. }))
            };
            if now.saturating_sub(open.since) < ABANDONED_AFTER || open.reserved.iter().any(holds) {
                return true;
            }
            for one in &open.reserved {
                if let Some(entry) = &mut entries[one.place] {
                    entry.open = entry.open.saturating_sub(1);
                    entry.meter.close(one.reserved);
                }
            }
            false
        });
        before - self.open.len()
    }

    fn name(&self, place: usize) -> &[u8] {
        self.entries[place].as_ref().map_or(&[], |entry| &entry.name)
    }

    fn entry(&self, place: usize) -> &Entry {
        self.entries[place].as_ref().expect("a place that somebody holds is not dropped")
    }

    fn entry_mut(&mut self, place: usize) -> &mut Entry {
        self.entries[place].as_mut().expect("a place that somebody holds is not dropped")
    }
}
