//! A node's view of all organizations that it serves from the shared store: their meters, their
//! open reservations, and pending reports. It makes no calls: it returns what to call, and
//! processes replies.
//!
//! Bounds: [`MAX_OPEN`] open reservations in all. Pending reports are a bounded number of refunds,
//! one debt and one report per meter, however long the store is unreachable. An organization that
//! is unused for [`IDLE`], and has no open reservations or pending reports, is dropped.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use super::local::{Ask, LocalMeter, ReplyTime, Taken, is_leasable, month};
use super::wire::{self, MeterReply, Terms};
use crate::{ABANDONED_AFTER, Bound, Draw, MAX_OPEN, Micros, RequestId, State};

/// Shards of the table.
const SHARDS: usize = 64;
/// Changes in a batch, from which no further meter is added.
const BATCH: usize = 64;
/// Time that an unused organization is kept.
const IDLE: Micros = 60_000_000;

/// A node's view of all organizations.
#[derive(Debug)]
pub(super) struct Table {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    open: AtomicUsize,
    /// Batches in flight, neither done nor failed.
    telling: AtomicUsize,
    next_lease: AtomicU64,
    next_batch: AtomicU64,
    node: u64,
    /// Duration of a lease by this node's clock.
    span: Micros,
}

#[derive(Debug, Default)]
struct Shard {
    organizations: HashMap<Box<str>, Organization, RandomState>,
    /// Organizations with pending reports.
    dirty: Vec<Box<str>>,
}

#[derive(Debug, Default)]
struct Organization {
    names: HashMap<Box<str>, usize, RandomState>,
    meters: Vec<LocalMeter>,
    open: HashMap<RequestId, Open, RandomState>,
    is_dirty: bool,
    /// The last batch, until it is known to be done.
    unsure: Option<Batch>,
    is_telling: bool,
    used_at: Micros,
}

#[derive(Debug)]
struct Open {
    at: Micros,
    taken: SmallVec<[(usize, Taken); 8]>,
    states: Box<[State]>,
}

/// Changes to report for one organization. Idempotent: a repeated batch is applied once.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) organization: Box<str>,
    pub(super) number: u64,
    pub(super) args: Vec<Vec<u8>>,
    meters: Vec<(usize, u64)>,
}

/// A reservation that requires a call.
#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) args: Vec<Vec<u8>>,
    /// The moment of the call, by this node's clock.
    pub(super) sent: Micros,
    terms: SmallVec<[(usize, Terms); 8]>,
}

/// The outcome of a reservation without a call.
#[derive(Debug)]
pub(super) enum Start {
    /// The reservation is admitted.
    Admitted(Vec<State>),
    /// A call to the store is required.
    Ask(Box<PendingCall>),
    /// Too many reservations are open.
    Full,
}

impl Table {
    pub(super) fn new(node: u64, span: Micros) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
            open: AtomicUsize::new(0),
            telling: AtomicUsize::new(0),
            next_lease: AtomicU64::new(1),
            next_batch: AtomicU64::new(1),
            node,
            span,
        }
    }

    pub(super) fn open_requests(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Admits from leases, or returns the call to make.
    pub(super) fn start(
        &self,
        organization: &str,
        request: RequestId,
        draws: &[Draw<'_>],
        now: Micros,
    ) -> Start {
        let mut shard = self.shard(organization);
        let ours = shard.organization(organization);
        ours.used_at = now;
        if let Some(open) = ours.open.get(&request) {
            return Start::Admitted(open.states.to_vec());
        }
        if self.open.load(Ordering::Relaxed) >= MAX_OPEN {
            return Start::Full;
        }
        let places: SmallVec<[usize; 8]> = draws.iter().map(|draw| ours.place(draw)).collect();
        let on_same = |at: usize| -> u64 {
            let same = places.iter().zip(draws).filter(|(place, _)| **place == places[at]);
            same.fold(0, |sum: u64, (_, draw)| sum.saturating_add(draw.amount))
        };
        let meters = &mut ours.meters;
        let is_here =
            (0..draws.len()).all(|at| meters[places[at]].has(draws[at].bound, on_same(at), now));
        if is_here && !draws.is_empty() {
            let one = |(place, draw): (&usize, &Draw<'_>)| {
                (*place, ours.meters[*place].take(draw.amount, now))
            };
            let taken = places.iter().zip(draws).map(one).collect();
            let states = ours.states(&places, now);
            self.open(ours, request, Open { at: now, taken, states: states.clone().into() });
            shard.mark(organization);
            return Start::Admitted(states);
        }
        Start::Ask(Box::new(self.ask(ours, &places, draws, now)))
    }

    fn ask(
        &self,
        ours: &mut Organization,
        places: &[usize],
        draws: &[Draw<'_>],
        now: Micros,
    ) -> PendingCall {
        let leases = draws.iter().all(|draw| is_leasable(draw.bound, draw.amount));
        let ask = Ask { now, until: now + self.span, leases };
        let mut args = Vec::with_capacity(3 + 11 * draws.len());
        let mut terms: SmallVec<[(usize, Terms); 8]> = SmallVec::new();
        for (place, draw) in places.iter().zip(draws) {
            let fresh = self.next_lease.fetch_add(1, Ordering::Relaxed);
            let mut one = ours.meters[*place].terms(draw.bound, draw.amount, fresh, ask);
            if terms.iter().any(|(other, _)| other == place) {
                // One lease per meter: it is requested already.
                one.want = 0;
            }
            wire::push_draw(&mut args, self.node, draw, one);
            terms.push((*place, one));
        }
        PendingCall { args, sent: now, terms }
    }

    /// Applies a reply of the store to meters and open reservations.
    pub(super) fn answered(
        &self,
        organization: &str,
        request: RequestId,
        (asked, draws): (&PendingCall, &[(Bound, u64)]),
        replies: &[MeterReply],
        (admitted_at, reply_time): (Option<Micros>, ReplyTime),
    ) {
        let mut shard = self.shard(organization);
        let ours = shard.organization(organization);
        let reply_time = ReplyTime { until: asked.sent + self.span, ..reply_time };
        for ((place, terms), reply) in asked.terms.iter().zip(replies) {
            ours.meters[*place].apply_reply(reply, terms.id, reply_time);
        }
        if let Some(since) = admitted_at {
            let one = |((place, _), (bound, amount)): (&(usize, Terms), &(Bound, u64))| {
                (*place, Taken { amount: *amount, month: month(*bound), since, from: None })
            };
            let taken = asked.terms.iter().zip(draws).map(one).collect();
            let states = replies.iter().map(|reply| reply.state).collect();
            self.open(ours, request, Open { at: reply_time.now, taken, states });
        } else {
            ours.withdraw(asked, draws);
        }
        shard.mark(organization);
    }

    /// Handles a call with unknown outcome.
    pub(super) fn unanswered(
        &self,
        organization: &str,
        asked: &PendingCall,
        draws: &[(Bound, u64)],
    ) {
        let mut shard = self.shard(organization);
        let ours = shard.organization(organization);
        for (place, terms) in &asked.terms {
            ours.meters[*place].forget_lease(terms.id);
        }
        // The store may have it.
        for ((place, _), (bound, amount)) in asked.terms.iter().zip(draws) {
            ours.meters[*place].release(*amount, month(*bound));
        }
    }

    pub(super) fn settle(
        &self,
        organization: &str,
        request: RequestId,
        actual: &[Option<u64>],
        now: Micros,
    ) -> bool {
        let mut shard = self.shard(organization);
        let ours = shard.organization(organization);
        let Some(open) = ours.open.remove(&request) else { return false };
        self.open.fetch_sub(1, Ordering::Relaxed);
        for (at, (place, taken)) in open.taken.into_iter().enumerate() {
            ours.meters[place].settle(taken, actual.get(at).copied().flatten(), now);
        }
        shard.mark(organization);
        true
    }

    pub(super) fn shrink(
        &self,
        organization: &str,
        request: RequestId,
        to: &[Option<u64>],
        now: Micros,
    ) -> bool {
        let mut shard = self.shard(organization);
        let Organization { open, meters, .. } = shard.organization(organization);
        let Some(open) = open.get_mut(&request) else { return false };
        for ((place, taken), to) in open.taken.iter_mut().zip(to) {
            if let Some(to) = to {
                meters[*place].shrink(taken, *to, now);
            }
        }
        shard.mark(organization);
        true
    }

    /// See [`crate::Limits::correct`].
    pub(super) fn correct(&self, organization: &str, draw: &Draw<'_>, actual: u64, now: Micros) {
        let mut shard = self.shard(organization);
        let ours = shard.organization(organization);
        ours.used_at = now;
        let place = ours.place(draw);
        ours.meters[place].correct(draw, actual, now);
        shard.mark(organization);
    }

    /// The batches to send now. Each one ends with [`Table::done`] or [`Table::failed`].
    pub(super) fn batches(&self, now: Micros, all: bool) -> Vec<Batch> {
        let mut batches = Vec::new();
        for shard in &self.shards {
            let mut shard = lock(shard);
            for name in std::mem::take(&mut shard.dirty) {
                let Some(ours) = shard.organizations.get_mut(&name) else { continue };
                ours.is_dirty = false;
                if ours.is_telling {
                    shard.mark(&name);
                    continue;
                }
                if let Some(batch) = ours.batch(&name, self, now, all) {
                    ours.is_telling = true;
                    self.telling.fetch_add(1, Ordering::AcqRel);
                    batches.push(batch);
                } else if ours.meters.iter().any(LocalMeter::is_pending) {
                    shard.mark(&name);
                }
            }
        }
        batches
    }

    /// The store has applied this batch: now, or earlier if `replies` is absent.
    pub(super) fn done(
        &self,
        batch: &Batch,
        replies: Option<&[MeterReply]>,
        sent: Micros,
        reply_time: ReplyTime,
    ) {
        let mut shard = self.shard(&batch.organization);
        let ours = shard.organization(&batch.organization);
        (ours.is_telling, ours.unsure) = (false, None);
        self.telling.fetch_sub(1, Ordering::AcqRel);
        let reply_time = ReplyTime { until: sent + self.span, ..reply_time };
        for (at, (place, lease)) in batch.meters.iter().enumerate() {
            match replies.and_then(|reply| reply.get(at)) {
                Some(reply) => ours.meters[*place].apply_reply(reply, *lease, reply_time),
                None => ours.meters[*place].forget_lease(*lease),
            }
        }
        shard.mark(&batch.organization);
    }

    /// The batch must be sent again.
    pub(super) fn failed(&self, batch: Batch) {
        let mut shard = self.shard(&batch.organization);
        let name = batch.organization.clone();
        let ours = shard.organization(&name);
        for (place, lease) in &batch.meters {
            ours.meters[*place].forget_lease(*lease);
        }
        (ours.is_telling, ours.unsure) = (false, Some(batch));
        self.telling.fetch_sub(1, Ordering::AcqRel);
        shard.mark(&name);
    }

    /// Returns whether there are neither pending reports nor leases.
    pub(super) fn is_quiet(&self) -> bool {
        let is_told = self.telling.load(Ordering::Acquire) == 0;
        is_told && self.shards.iter().all(|shard| lock(shard).dirty.is_empty())
    }

    /// Drops idle organizations of one shard, and abandoned reservations; renews the others.
    pub(super) fn sweep(&self, share: usize, now: Micros) {
        let mut shard = lock(&self.shards[share % SHARDS]);
        let mut closed = 0;
        let Shard { organizations, dirty } = &mut *shard;
        organizations.retain(|name, ours| {
            let before = ours.open.len();
            let Organization { open, meters, .. } = ours;
            open.retain(|_, open| {
                let holds = |place: &usize| matches!(meters[*place].bound, Bound::Held { .. });
                let stays = now.saturating_sub(open.at) < ABANDONED_AFTER
                    || open.taken.iter().any(|(place, _)| holds(place));
                if !stays {
                    for (place, taken) in &open.taken {
                        meters[*place].release(taken.amount, taken.month);
                    }
                }
                stays
            });
            closed += before - open.len();
            meters.iter_mut().for_each(|meter| meter.renew(now));
            let is_pending = meters.iter().any(LocalMeter::is_pending);
            if is_pending && !std::mem::replace(&mut ours.is_dirty, true) {
                dirty.push(name.clone());
            }
            let is_idle = now.saturating_sub(ours.used_at) > IDLE;
            let is_done = ours.open.is_empty() && !ours.is_dirty && !ours.is_telling;
            !is_idle || !is_done || ours.unsure.is_some()
        });
        self.open.fetch_sub(closed, Ordering::Relaxed);
    }

    fn open(&self, ours: &mut Organization, request: RequestId, open: Open) {
        match ours.open.insert(request, open) {
            None => drop(self.open.fetch_add(1, Ordering::Relaxed)),
            // It was asked for twice at once, and is one reservation.
            Some(same) => {
                for (place, taken) in same.taken {
                    ours.meters[place].release(taken.amount, taken.month);
                }
            }
        }
    }

    fn shard(&self, organization: &str) -> MutexGuard<'_, Shard> {
        use std::hash::BuildHasher;
        lock(&self.shards[self.hasher.hash_one(organization) as usize % SHARDS])
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    fn organization(&mut self, name: &str) -> &mut Organization {
        if !self.organizations.contains_key(name) {
            self.organizations.insert(name.into(), Organization::default());
        }
        self.organizations.get_mut(name).expect("it was inserted if it was missing")
    }

    fn mark(&mut self, name: &str) {
        let Some(ours) = self.organizations.get_mut(name) else { return };
        if !std::mem::replace(&mut ours.is_dirty, true) {
            self.dirty.push(name.into());
        }
    }
}

impl Organization {
    fn place(&mut self, draw: &Draw<'_>) -> usize {
        if let Some(place) = self.names.get(draw.meter) {
            return *place;
        }
        self.meters.push(LocalMeter::new(draw.meter, draw.bound));
        self.names.insert(draw.meter.into(), self.meters.len() - 1);
        self.meters.len() - 1
    }

    /// Forgets the reservations of a call that was refused.
    fn withdraw(&mut self, asked: &PendingCall, draws: &[(Bound, u64)]) {
        for ((place, _), (bound, amount)) in asked.terms.iter().zip(draws) {
            self.meters[*place].withdraw(*amount, month(*bound), asked.sent);
        }
    }

    fn states(&self, places: &[usize], now: Micros) -> Vec<State> {
        places.iter().map(|place| self.meters[*place].state(now)).collect()
    }

    fn batch(&mut self, name: &str, table: &Table, now: Micros, all: bool) -> Option<Batch> {
        if let Some(unsure) = &self.unsure {
            return Some(unsure.clone());
        }
        let (mut args, mut meters) = (Vec::new(), Vec::new());
        for (place, meter) in self.meters.iter_mut().enumerate() {
            if meters.len() >= BATCH {
                break;
            }
            if !meter.is_pending() {
                continue;
            }
            for change in meter.changes(now, all) {
                wire::push_change(&mut args, table.node, &meter.name, &change);
                meters.push((place, change.terms.id));
            }
        }
        if meters.is_empty() {
            return None;
        }
        // A node never reuses a number, even after it has dropped the organization.
        let number = table.next_batch.fetch_add(1, Ordering::Relaxed);
        Some(Batch { organization: name.into(), number, args, meters })
    }
}
