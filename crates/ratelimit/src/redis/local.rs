//! A node's view of one meter of the shared store: its leased capacity, and its pending reports.
//! Times are this node's monotonic clock; `since` is the store's.

use super::wire::{self, Change, MeterReply, Terms};
use crate::{Bound, Draw, Micros, State};

/// Interval over which usage is measured, and about the duration of a lease's capacity.
const PACE: Micros = 100_000;
/// Requests within two intervals from which a lease is worthwhile.
const BUSY: u32 = 3;
/// Smallest useful lease, in requests.
const LEAST: u64 = 4;

/// Age of a report of open reservations from which it is repeated; the store keeps one for three times as long.
const RENEWED_AFTER: Micros = 100_000_000;

/// Most pending refunds of one meter.
const REFUNDS: usize = 32;

/// A node's view of one meter.
#[derive(Debug)]
pub(super) struct LocalMeter {
    pub(super) name: Box<str>,
    pub(super) bound: Bound,
    lease: Option<Lease>,
    last_state: State,
    /// The moment of the latest reply, here and at the store.
    replied_at: Micros,
    store_at: Micros,
    /// Units used from leases since then.
    since_reply: u64,
    /// Ordered by the time of their draws.
    refunds: Vec<Refund>,
    owe: u64,
    pace: Pace,
    /// For spend: what open reservations of this month hold, those in calls included.
    open: u64,
    /// Number of calls.
    calls: u64,
    /// True if the store must receive that.
    is_open_stale: bool,
    /// The moment at which it was last sent.
    open_sent_at: Micros,
}

/// Capacity that is reserved for this node until the lease ends.
#[derive(Debug)]
struct Lease {
    id: u64,
    /// Unused units.
    free: u64,
    /// Used units that are not reported.
    used: u64,
    /// Number of reports.
    reports: u64,
    until: Micros,
    /// The bound at the time of the lease.
    bound: Bound,
    /// By the store's clock, since when the store is known to know the lease.
    known_at: Option<Micros>,
}

#[derive(Clone, Copy, Debug)]
struct Refund {
    amount: u64,
    since: Micros,
    month: u32,
}

/// Recent usage.
#[derive(Debug, Default)]
struct Pace {
    began: Micros,
    units: u64,
    requests: u32,
    units_before: u64,
    requests_before: u32,
}

/// The draw of one request on a meter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) amount: u64,
    pub(super) month: u32,
    /// At or before the moment at which the store counted it.
    pub(super) since: Micros,
    /// The lease that it was taken from, and the number of the lease's reports until then.
    pub(super) from: Option<(u64, u64)>,
}

impl Pace {
    fn turn(&mut self, now: Micros) {
        let passed = now.saturating_sub(self.began);
        if passed < PACE {
            return;
        }
        let is_next = passed < 2 * PACE;
        self.units_before = if is_next { self.units } else { 0 };
        self.requests_before = if is_next { self.requests } else { 0 };
        (self.began, self.units, self.requests) = (now, 0, 0);
    }

    fn note(&mut self, amount: u64, now: Micros) {
        self.turn(now);
        self.units = self.units.saturating_add(amount);
        self.requests = self.requests.saturating_add(1);
    }

    fn is_busy(&self) -> bool {
        self.requests.saturating_add(self.requests_before) >= BUSY
    }

    fn target(&self) -> u64 {
        self.units.max(self.units_before)
    }

    /// Average units per request.
    fn each(&self) -> u64 {
        let requests = u64::from(self.requests.saturating_add(self.requests_before)).max(1);
        (self.units.saturating_add(self.units_before) / requests).max(1)
    }
}

impl LocalMeter {
    pub(super) fn new(name: &str, bound: Bound) -> Self {
        Self {
            name: name.into(),
            bound,
            lease: None,
            last_state: State::unused(bound),
            replied_at: 0,
            store_at: 0,
            since_reply: 0,
            refunds: Vec::new(),
            owe: 0,
            pace: Pace::default(),
            open: 0,
            calls: 0,
            is_open_stale: false,
            open_sent_at: 0,
        }
    }

    /// Returns whether `amount` is available without a call.
    pub(super) fn has(&mut self, bound: Bound, amount: u64, now: Micros) -> bool {
        self.end_lease(now);
        self.lease.as_ref().is_some_and(|lease| lease.bound == bound && lease.free >= amount)
    }

    /// Takes an amount for which [`LocalMeter::has`] returned true.
    pub(super) fn take(&mut self, amount: u64, now: Micros) -> Taken {
        self.pace.note(amount, now);
        let (month, since) = (month(self.bound), self.store_at);
        let from = self.lease.as_mut().map(|lease| {
            lease.free = lease.free.saturating_sub(amount);
            lease.used = lease.used.saturating_add(amount);
            (lease.id, lease.reports)
        });
        self.since_reply = self.since_reply.saturating_add(amount);
        self.hold(amount);
        Taken { amount, month, since, from }
    }

    /// The terms of a lease in a call for `amount`. This node's unused capacity is released with
    /// the call, so that it does not compete with itself. `fresh` is the id of a new lease.
    pub(super) fn terms(&mut self, bound: Bound, amount: u64, fresh: u64, ask: Ask) -> Terms {
        self.end_lease(ask.now);
        self.pace.note(amount, ask.now);
        // Only a late request of the previous month leaves the meter's month as it is.
        if month(bound) > month(self.bound) || month(bound) + 1 < month(self.bound) {
            self.open = 0;
        }
        self.bound = bound;
        self.hold(amount);
        self.calls += 1;
        if self.lease.as_ref().is_some_and(|lease| lease.bound != bound) {
            self.lease = None;
        }
        let least = self.pace.each().saturating_mul(LEAST);
        let wanted = ask.leases && self.pace.is_busy();
        let want = if wanted { self.pace.target().max(2 * least) } else { 0 };
        let lease = self.lease.get_or_insert(Lease {
            id: fresh,
            free: 0,
            used: 0,
            reports: 0,
            until: ask.until,
            bound,
            known_at: None,
        });
        let back = std::mem::take(&mut lease.free);
        Terms { id: lease.id, back, want, least, number: self.calls }
    }

    /// Applies a reply: the meter's state, and the capacity leased under `terms`.
    pub(super) fn apply_reply(&mut self, reply: &MeterReply, id: u64, reply_time: ReplyTime) {
        (self.last_state, self.replied_at, self.since_reply) = (reply.state, reply_time.now, 0);
        self.store_at = self.store_at.max(reply_time.store);
        let Some(lease) = self.lease.as_mut().filter(|lease| lease.id == id) else { return };
        self.since_reply = lease.used;
        if !reply_time.renewed {
            return;
        }
        // Replies may arrive out of order: an older reply in which the lease is unknown is ignored
        // once a newer one knows it.
        if !reply.known && lease.known_at.is_some_and(|known_at| known_at < reply_time.store) {
            // The lease has lapsed at the store, and all of it counts as used.
            self.lease = None;
            return;
        }
        if reply.known || reply.granted > 0 {
            lease.known_at = Some(lease.known_at.unwrap_or(reply_time.store).min(reply_time.store));
        }
        lease.free = lease.free.saturating_add(reply.granted);
        lease.until = lease.until.max(reply_time.until);
    }

    /// After a call with unknown outcome: abandons whatever it leased, which then lapses.
    pub(super) fn forget_lease(&mut self, id: u64) {
        if self.lease.as_ref().is_some_and(|lease| lease.id == id) {
            self.lease = None;
        }
    }

    /// The meter's state as estimated by this node.
    pub(super) fn state(&self, now: Micros) -> State {
        let mut state = self.last_state;
        state.used = state.used.saturating_add(self.since_reply);
        let Bound::Rate { limit, .. } = self.bound else {
            state.remaining = state.remaining.saturating_sub(self.since_reply);
            return state;
        };
        let passed = u128::from(now.saturating_sub(self.replied_at));
        let back = passed * u128::from(limit.amount) / u128::from(limit.window.max(1));
        state.used = state.used.saturating_sub(u64::try_from(back).unwrap_or(u64::MAX));
        state.remaining = limit.amount.saturating_sub(state.used);
        let full = u128::from(state.used) * u128::from(limit.window);
        let full = full.div_ceil(u128::from(limit.amount.max(1)));
        state.until_full = u64::try_from(full).unwrap_or(Micros::MAX);
        state
    }

    /// Replaces a draw by the actual amount; `None`: it stays.
    pub(super) fn settle(&mut self, taken: Taken, actual: Option<u64>, now: Micros) {
        self.end_lease(now);
        self.release(taken.amount, taken.month);
        match actual {
            Some(actual) if actual > taken.amount => self.charge(actual - taken.amount),
            Some(actual) => self.give_back(taken, taken.amount - actual),
            None => {}
        }
    }

    /// Lowers a draw that stays open; a larger amount has no effect.
    pub(super) fn shrink(&mut self, taken: &mut Taken, to: u64, now: Micros) {
        let Some(amount) = taken.amount.checked_sub(to).filter(|amount| *amount > 0) else {
            return;
        };
        self.end_lease(now);
        self.release(amount, taken.month);
        self.give_back(*taken, amount);
        taken.amount = to;
    }

    /// Notes an open reservation.
    fn hold(&mut self, amount: u64) {
        if matches!(self.bound, Bound::Spend { .. }) {
            self.open = self.open.saturating_add(amount);
        }
    }

    /// Notes that a reservation of that month, or a part of it, is no longer open.
    pub(super) fn release(&mut self, amount: u64, in_month: u32) {
        if matches!(self.bound, Bound::Spend { month, .. } if month == in_month) && amount > 0 {
            self.open = self.open.saturating_sub(amount);
            self.is_open_stale = true;
        }
    }

    /// The same for one that a call since `sent` was refused: the store knows it only from a report meanwhile.
    pub(super) fn withdraw(&mut self, amount: u64, in_month: u32, sent: Micros) {
        let was_stale = self.is_open_stale;
        self.release(amount, in_month);
        self.is_open_stale = was_stale || (self.is_open_stale && self.open_sent_at >= sent);
    }

    /// Has the open reservations sent again before the store forgets them.
    pub(super) fn renew(&mut self, now: Micros) {
        self.is_open_stale |=
            self.open > 0 && now.saturating_sub(self.open_sent_at) >= RENEWED_AFTER;
    }

    fn give_back(&mut self, taken: Taken, amount: u64) {
        let lease = self.lease.as_mut();
        // Only what the store does not count as used yet: otherwise its refill has started.
        let same = lease
            .filter(|lease| taken.from == Some((lease.id, lease.reports)) && lease.used >= amount);
        if let Some(lease) = same {
            lease.used -= amount;
            lease.free = lease.free.saturating_add(amount);
            self.since_reply = self.since_reply.saturating_sub(amount);
        } else if amount > 0 {
            self.add_refund(Refund { amount, since: taken.since, month: taken.month });
        }
    }

    /// See [`crate::Limits::correct`]. Whatever the store has lost, spend was seeded with the reserved amount, so that
    /// its refund has no date.
    pub(super) fn correct(&mut self, draw: &Draw<'_>, actual: u64, now: Micros) {
        self.end_lease(now);
        if actual > draw.amount {
            self.charge(actual - draw.amount);
        } else if let Bound::Spend { month, .. } = draw.bound
            && actual < draw.amount
        {
            self.add_refund(Refund { amount: draw.amount - actual, since: wire::UNDATED, month });
        }
    }

    fn charge(&mut self, amount: u64) {
        match &mut self.lease {
            Some(lease) if lease.free >= amount => {
                lease.free -= amount;
                lease.used = lease.used.saturating_add(amount);
                self.since_reply = self.since_reply.saturating_add(amount);
            }
            _ => self.owe = self.owe.saturating_add(amount),
        }
    }

    /// Merges refunds of draws at the same time. When full, merges the two nearest ones as if both
    /// had been drawn with the earlier one, which never refunds more.
    fn add_refund(&mut self, one: Refund) {
        let all = &mut self.refunds;
        // Draws in an earlier month went with that month.
        all.retain(|known| known.month >= one.month);
        if all.iter().any(|known| known.month > one.month) {
            return;
        }
        let at = all.partition_point(|known| known.since < one.since);
        match all.get_mut(at).filter(|known| known.since == one.since) {
            Some(known) => known.amount = known.amount.saturating_add(one.amount),
            None => all.insert(at, one),
        }
        if all.len() > REFUNDS {
            let nearest = (0..REFUNDS).min_by_key(|at| all[at + 1].since - all[*at].since);
            let nearest = nearest.unwrap_or(0);
            let later = all.remove(nearest + 1);
            all[nearest].amount = all[nearest].amount.saturating_add(later.amount);
        }
    }

    /// Returns whether there is something to report, or a lease to manage.
    pub(super) fn is_pending(&self) -> bool {
        !self.refunds.is_empty() || self.owe > 0 || self.lease.is_some() || self.is_open_stale
    }

    /// The changes to report now, in this order. `all` at shutdown, when everything is released.
    pub(super) fn changes(&mut self, now: Micros, all: bool) -> Vec<Change> {
        self.end_lease(now);
        self.pace.turn(now);
        let bound = self.bound;
        let terms = Terms { number: self.calls, ..Terms::default() };
        let plain = Change { open: self.open, terms, ..Change::none(bound) };
        let refund = |one: Refund| Change {
            refund: one.amount,
            since: one.since,
            month: one.month,
            ..plain
        };
        let mut changes: Vec<Change> =
            std::mem::take(&mut self.refunds).into_iter().map(refund).collect();
        let mut change = Change { owe: std::mem::take(&mut self.owe), ..plain };
        let least = self.pace.each().saturating_mul(LEAST);
        let (is_busy, target) = (self.pace.is_busy() && !all, self.pace.target().max(2 * least));
        if let Some(lease) = &mut self.lease {
            change.used = std::mem::take(&mut lease.used);
            lease.reports += 1;
            change.terms = Terms { id: lease.id, least, ..terms };
            if !is_busy {
                change.terms.back = lease.free;
                self.lease = None;
            } else if lease.free < target / 2 {
                change.terms.want = target - lease.free;
            } else if lease.free / 4 > target {
                change.terms.back = lease.free - target;
                lease.free = target;
            }
        }
        let Terms { back, want, .. } = change.terms;
        if [change.owe, change.used, back, want] != [0; 4]
            || (self.is_open_stale && changes.is_empty())
        {
            changes.push(change);
        }
        if !changes.is_empty() {
            (self.is_open_stale, self.open_sent_at) = (false, now);
        }
        changes
    }

    /// Usage that was not reported before a lease ended counts as used when the lease lapses.
    fn end_lease(&mut self, now: Micros) {
        if self.lease.as_ref().is_some_and(|lease| lease.until <= now) {
            self.lease = None;
        }
    }
}

/// The moment of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) now: Micros,
    /// End of the validity of a lease from this call.
    pub(super) until: Micros,
    /// True to lease: pointless if another meter requires a call anyway.
    pub(super) leases: bool,
}

/// The moment of a reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyTime {
    pub(super) now: Micros,
    /// The store's clock.
    pub(super) store: Micros,
    /// End of the validity of leases from this call.
    pub(super) until: Micros,
    /// True if the call got as far as leasing.
    pub(super) renewed: bool,
}

/// Returns whether leases of such a meter are large enough for requests of this size.
pub(super) fn is_leasable(bound: Bound, amount: u64) -> bool {
    let needed = amount.max(1).saturating_mul(LEAST * 8);
    match bound {
        Bound::Rate { limit, .. } => limit.amount >= needed,
        Bound::Spend { most, .. } => most.is_none_or(|most| most >= needed),
        Bound::Held { .. } => false,
    }
}

pub(super) fn month(bound: Bound) -> u32 {
    match bound {
        Bound::Spend { month, .. } => month,
        _ => 0,
    }
}

#[cfg(test)]
#[path = "local_tests.rs"]
mod tests;
