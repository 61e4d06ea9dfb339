//! A token bucket, in integers: how much of a limit is used, whether an amount fits, how long until
//! it fits, and how much a refund gives back.
//!
//! A bucket of limit L and window W is stored as its *level*: the used units times W, which falls
//! by L with each microsecond. So nothing is ever rounded, and a change of L keeps what is used.
//! Admissions in any interval T are at most L + L·T/W units.

use crate::{Limit, Micros};

/// A token bucket. It does not store its limit, which may change: callers pass it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Units used, times the window.
    level: u128,
    /// The moment of the level.
    at: Micros,
    /// Recent minima of the level.
    minima: Minima,
    /// Deadline of the last promised wait.
    promised: Micros,
    /// The clients that wait.
    waiting: Waiting,
}

impl Bucket {
    /// Restores a bucket from its level, the moment of the level, and the deadline of promised
    /// waits. Draws from before the restoration cannot be refunded.
    pub(crate) fn restored(level: u128, at: Micros, promised: Micros) -> Self {
        Self { level, at, promised, ..Self::default() }
    }

    /// The arguments of [`Bucket::restored`].
    pub(crate) fn kept(&self) -> (u128, Micros, Micros) {
        (self.level, self.at, self.promised)
    }

    /// Brings the level to `now`. A clock that goes backwards has no effect.
    pub fn advance(&mut self, limit: Limit, now: Micros) {
        let passed = now.saturating_sub(self.at);
        self.level = self.level.saturating_sub(u128::from(passed) * u128::from(limit.amount));
        self.at = self.at.max(now);
    }

    /// Returns whether `amount` fits into the remaining capacity. Nothing always fits, in debt too.
    #[must_use]
    pub fn fits(&self, limit: Limit, amount: u64) -> bool {
        amount == 0 || self.level + scaled(limit, amount) <= scaled(limit, limit.amount)
    }

    /// Uses `amount`, which must fit.
    pub fn take(&mut self, limit: Limit, amount: u64) {
        self.minima.note(self.at, self.level);
        self.level += scaled(limit, amount);
    }

    /// Uses one unit for a refused request, if it fits and no client waits: refusals never take what is refilled
    /// for one that does, so that it is served after the wait that was returned.
    pub fn count_refusal(&mut self, limit: Limit) {
        if self.promised <= self.at && self.fits(limit, 1) {
            self.take(limit, 1);
        }
    }

    /// Uses an `amount` that is known only afterwards, even if it does not fit: the excess is debt,
    /// for which later requests wait.
    pub fn owe(&mut self, limit: Limit, amount: u64) {
        self.minima.note(self.at, self.level);
        self.level = self.level.saturating_add(scaled(limit, amount));
    }

    /// Refunds `amount` of what was taken at `since`, so that the bucket is as if it had never been
    /// taken. The part that has been refilled since then, while the bucket would have been full
    /// without it, cannot be refunded.
    pub fn refund(&mut self, limit: Limit, amount: u64, since: Micros) {
        let lowest = self.minima.lowest_after(since).unwrap_or(u128::MAX).min(self.level);
        let refund = scaled(limit, amount).min(lowest);
        self.level -= refund;
        self.minima.lower_after(since, refund);
    }

    /// Units used, rounded up.
    #[must_use]
    pub fn used(&self, limit: Limit) -> u64 {
        divided_up(self.level, limit.window)
    }

    /// Units left, rounded down; none while there is debt.
    #[must_use]
    pub fn remaining(&self, limit: Limit) -> u64 {
        limit.amount.saturating_sub(self.used(limit))
    }

    /// Time until nothing is used, in microseconds, rounded up.
    #[must_use]
    pub fn until_full(&self, limit: Limit) -> Option<Micros> {
        time_for(self.level, limit)
    }

    /// Time until `amount` fits if there is no other request; `None` when it never fits.
    #[must_use]
    pub fn wait(&self, limit: Limit, amount: u64) -> Option<Micros> {
        if amount > limit.amount {
            return None;
        }
        let over = (self.level + scaled(limit, amount)).saturating_sub(scaled(limit, limit.amount));
        time_for(over, limit)
    }

    /// Promises a wait to a client that was refused `amount`: after the pending promises to
    /// earlier clients, but within one window. A client that asks again before its time gets no later one.
    #[must_use]
    pub fn promise(&mut self, limit: Limit, amount: u64, client: u64) -> Option<Micros> {
        let alone = self.at.saturating_add(self.wait(limit, amount)?);
        let behind = self.promised.saturating_add(time_for(scaled(limit, amount), limit)?);
        let due = match self.waiting.due(client).filter(|due| *due > self.at) {
            Some(due) => due,
            None if self.promised > self.at => behind.min(self.at.saturating_add(limit.window)),
            None => alone,
        };
        let due = due.max(alone);
        self.waiting.set(client, due);
        self.promised = self.promised.max(due);
        Some(due - self.at)
    }
}

fn scaled(limit: Limit, amount: u64) -> u128 {
    u128::from(amount) * u128::from(limit.window)
}

/// Time in which the level falls by `level`; `None` when it does not fall.
fn time_for(level: u128, limit: Limit) -> Option<Micros> {
    match limit.amount {
        0 if level > 0 => None,
        0 => Some(0),
        amount => Some(divided_up(level, amount)),
    }
}

/// The fast path needs one instruction; most levels fit into 64 bits.
fn divided_up(level: u128, by: u64) -> u64 {
    match u64::try_from(level) {
        Ok(level) => level.div_ceil(by),
        Err(_) => u64::try_from(level.div_ceil(u128::from(by))).unwrap_or(u64::MAX),
    }
}

/// The lowest level since each of several moments: entries with rising times and levels, at most
/// [`MAX_MINIMA`]. When full, two entries are merged so that the reported level is never too high.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Minima {
    /// Allocated with the first entry, because most meters are rarely in use.
    entries: Option<Box<[Low; MAX_MINIMA]>>,
    len: usize,
}

const MAX_MINIMA: usize = 8;

/// A recorded minimum and its timestamp. Stored as two `u64`s, because a `u128` would add 8 bytes
/// of padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Low {
    at: Micros,
    halves: [u64; 2],
}

impl Low {
    fn level(&self) -> u128 {
        u128::from(self.halves[1]) << 64 | u128::from(self.halves[0])
    }

    fn set(&mut self, level: u128) {
        self.halves = [level as u64, (level >> 64) as u64];
    }
}

impl Minima {
    /// Records that the level was `level` at `at`, before it rises.
    fn note(&mut self, at: Micros, level: u128) {
        let entries = self.entries.get_or_insert_default();
        while self.len > 0 && entries[self.len - 1].level() >= level {
            self.len -= 1;
        }
        if self.len == MAX_MINIMA {
            // Merge the two with the smallest difference: the older has the lower level, the newer
            // covers more time. The loss of precision is small even with many open requests.
            let nearest =
                (0..MAX_MINIMA - 1).min_by_key(|at| entries[at + 1].level() - entries[*at].level());
            let nearest = nearest.unwrap_or(0);
            entries[nearest + 1].halves = entries[nearest].halves;
            entries.copy_within(nearest + 1.., nearest);
            self.len -= 1;
        }
        entries[self.len].at = at;
        entries[self.len].set(level);
        self.len += 1;
    }

    fn entries(&self) -> &[Low] {
        self.entries.as_ref().map_or(&[], |entries| &entries[..self.len])
    }

    /// The lowest level after `since` and before the current one; `None` when it has only fallen
    /// since.
    fn lowest_after(&self, since: Micros) -> Option<u128> {
        self.entries().iter().find(|low| low.at > since).map(Low::level)
    }

    /// Lowers the minima after `since` by `by`, because an earlier draw was refunded.
    fn lower_after(&mut self, since: Micros, by: u128) {
        let Some(entries) = &mut self.entries else { return };
        let mut lowest = u128::MAX;
        for low in entries[..self.len].iter_mut().rev() {
            let less = if low.at > since { by } else { 0 };
            lowest = lowest.min(low.level().saturating_sub(less));
            low.set(lowest);
        }
    }
}

/// The clients that were promised a wait last, each with its deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Waiting {
    /// Allocated with the first promise, because most meters refuse rarely.
    entries: Option<Box<[(u64, Micros); MAX_WAITING]>>,
}

/// Clients that a bucket knows by their deadlines; a further one replaces the one whose deadline is first.
const MAX_WAITING: usize = 8;

impl Waiting {
    fn due(&self, client: u64) -> Option<Micros> {
        let entries = self.entries.as_ref()?;
        entries.iter().find(|(known, _)| *known == client).map(|(_, due)| *due)
    }

    fn set(&mut self, client: u64, due: Micros) {
        let entries = self.entries.get_or_insert_default();
        let place = entries
            .iter()
            .position(|(known, _)| *known == client)
            .or_else(|| (0..MAX_WAITING).min_by_key(|place| entries[*place].1));
        entries[place.unwrap_or(0)] = (client, due);
    }
}

#[cfg(test)]
#[path = "bucket_tests.rs"]
mod tests;
