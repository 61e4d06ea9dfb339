//! One meter of any kind, and reservations on it.

use crate::bucket::Bucket;
use crate::{Bound, LONG_WINDOW, Limit, Micros, Remedy, State};

/// Time that an unused meter is kept, because creating a meter takes longer than finding one.
const KEPT: Micros = 10_000_000;

/// The state of a meter, by kind.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all meters are of the largest kind")]
pub(crate) enum Meter {
    Rate {
        bucket: Bucket,
        /// The limit of the latest call: the level has fallen at this rate until now.
        limit: Limit,
    },
    Spend {
        month: u32,
        /// Settled and reserved.
        amount: u64,
        /// Of these, reserved by requests that are open.
        reserved: u64,
    },
    Held {
        amount: u64,
    },
}

impl Meter {
    pub(crate) fn new(bound: Bound) -> Self {
        match bound {
            Bound::Rate { limit, .. } => Self::Rate { bucket: Bucket::default(), limit },
            Bound::Spend { month, .. } => Self::Spend { month, amount: 0, reserved: 0 },
            Bound::Held { .. } => Self::Held { amount: 0 },
        }
    }

    /// Brings the meter to `now` and to this bound. A meter of another kind is reset.
    pub(crate) fn follow(&mut self, bound: Bound, now: Micros) {
        match (&mut *self, bound) {
            (Self::Rate { bucket, limit }, Bound::Rate { limit: new, .. })
                if limit.window == new.window =>
            {
                bucket.advance(*limit, now);
                *limit = new;
            }
            // Requests only advance months: a late one of the previous month counts in the current one,
            // so that no clock restores spent money. Only `raise` goes back.
            (Self::Spend { month, amount, reserved }, Bound::Spend { month: new, .. }) => {
                if new > *month {
                    (*month, *amount, *reserved) = (new, 0, 0);
                }
            }
            (Self::Held { .. }, Bound::Held { .. }) => {}
            _ => {
                *self = Self::new(bound);
                if let Self::Rate { bucket, limit } = self {
                    bucket.advance(*limit, now);
                }
            }
        }
    }

    pub(crate) fn fits(&self, bound: Bound, more: u64) -> bool {
        match (self, bound) {
            (Self::Rate { bucket, limit }, _) => bucket.fits(*limit, more),
            (Self::Spend { amount, .. }, Bound::Spend { most, .. }) => {
                most.is_none_or(|most| amount.saturating_add(more) <= most)
            }
            (Self::Held { amount }, Bound::Held { most }) => amount.saturating_add(more) <= most,
            _ => false,
        }
    }

    pub(crate) fn take(&mut self, more: u64) {
        match self {
            Self::Rate { bucket, limit } => bucket.take(*limit, more),
            Self::Spend { amount, reserved, .. } => {
                *amount = amount.saturating_add(more);
                *reserved = reserved.saturating_add(more);
            }
            Self::Held { amount } => *amount = amount.saturating_add(more),
        }
    }

    /// Counts a refusal on a rate.
    pub(crate) fn count_refusal(&mut self) {
        if let Self::Rate { bucket, limit } = self {
            bucket.count_refusal(*limit);
        }
    }

    /// The remedy when `more` does not fit; `None` when it fits.
    pub(crate) fn remedy(&mut self, bound: Bound, more: u64, client: u64) -> Option<Remedy> {
        if self.fits(bound, more) {
            return None;
        }
        Some(match (self, bound) {
            (Self::Rate { bucket, limit }, _) => {
                bucket.promise(*limit, more, client).map_or(Remedy::AskForLess, Remedy::Wait)
            }
            (Self::Held { .. }, Bound::Held { most }) if more <= most => Remedy::GiveBack,
            (Self::Held { .. }, _) => Remedy::AskForLess,
            (Self::Spend { amount, reserved, .. }, Bound::Spend { most: Some(most), .. })
                if amount.saturating_sub(*reserved).saturating_add(more) <= most =>
            {
                Remedy::Reserved
            }
            (Self::Spend { .. }, _) => Remedy::NothingSoon,
        })
    }

    /// Replaces a reservation by its actual amount.
    pub(crate) fn settle(&mut self, reserved: Reserved, actual: u64, now: Micros) {
        match self {
            Self::Rate { bucket, limit } => {
                bucket.advance(*limit, now);
                if actual <= reserved.amount {
                    bucket.refund(*limit, reserved.amount - actual, reserved.since);
                } else {
                    bucket.owe(*limit, actual - reserved.amount);
                }
            }
            // A reservation in a month that has ended went with that month.
            Self::Spend { month, .. } if *month != reserved.month => {}
            Self::Spend { amount, .. } | Self::Held { amount } => {
                *amount = amount.saturating_sub(reserved.amount).saturating_add(actual);
            }
        }
        self.close(reserved);
    }

    /// Ends a reservation whose amount stays used, or was replaced.
    pub(crate) fn close(&mut self, closed: Reserved) {
        if let Self::Spend { month, reserved, .. } = self
            && *month == closed.month
        {
            *reserved = reserved.saturating_sub(closed.amount);
        }
    }

    /// Lowers a reservation to an amount, which is not larger.
    pub(crate) fn shrink(&mut self, reserved: Reserved, to: u64, now: Micros) {
        self.settle(reserved, to, now);
        if let Self::Spend { month, reserved: open, .. } = self
            && *month == reserved.month
        {
            *open = open.saturating_add(to);
        }
    }

    /// Returns whether the bound's month is neither that of the meter nor next to it. Then a clock was set: what is spent
    /// in that month must be known before the meter decides.
    pub(crate) fn is_of_another_time(&self, bound: Bound) -> bool {
        match (self, bound) {
            (Self::Spend { month, .. }, Bound::Spend { month: named, .. }) => {
                month.abs_diff(named) > 1
            }
            _ => false,
        }
    }

    /// Raises what is settled of the bound's month, or the use of a long rate, to at least this amount. A meter of another
    /// time begins with that month again.
    pub(crate) fn raise(&mut self, bound: Bound, at_least: u64) {
        if self.is_of_another_time(bound) {
            *self = Self::new(bound);
        }
        match (self, bound) {
            (Self::Spend { month, amount, reserved }, Bound::Spend { month: named, .. })
                if *month == named =>
            {
                *amount = (*amount).max(at_least.saturating_add(*reserved));
            }
            (Self::Rate { bucket, limit }, _) if limit.window >= LONG_WINDOW => {
                bucket.owe(*limit, at_least.saturating_sub(bucket.used(*limit)));
            }
            _ => {}
        }
    }

    /// Sets what is settled of the bound's month; without effect on other kinds, and in other months.
    pub(crate) fn set_settled(&mut self, bound: Bound, settled: u64) {
        if let (Self::Spend { month, amount, reserved }, Bound::Spend { month: named, .. }) =
            (self, bound)
            && *month == named
        {
            *amount = settled.saturating_add(*reserved);
        }
    }

    /// Replaces an amount, whose reservation is no longer open, by the actual one. A rate has refilled meanwhile by a
    /// part of the reservation that is not known, so that it gets nothing back.
    pub(crate) fn correct(&mut self, bound: Bound, held: u64, actual: u64) {
        match (self, bound) {
            (Self::Spend { month, amount, .. }, Bound::Spend { month: named, .. })
                if *month == named =>
            {
                *amount = amount.saturating_sub(held).saturating_add(actual);
            }
            (Self::Rate { bucket, limit }, _) => {
                bucket.owe(*limit, actual.saturating_sub(held));
            }
            _ => {}
        }
    }

    /// Returns whether it is equal to a new meter, so that it can be dropped.
    pub(crate) fn is_unused(&mut self, now: Micros) -> bool {
        match self {
            Self::Rate { bucket, limit } => {
                let (_, last, _) = bucket.kept();
                if now.saturating_sub(last) < KEPT {
                    return false;
                }
                bucket.advance(*limit, now);
                let (level, _, promised) = bucket.kept();
                level == 0 && promised <= now
            }
            // Without its month, an earlier month could start again.
            Self::Spend { .. } => false,
            Self::Held { amount } => *amount == 0,
        }
    }

    pub(crate) fn month(&self) -> u32 {
        match self {
            Self::Spend { month, .. } => *month,
            _ => 0,
        }
    }

    pub(crate) fn state(&self, bound: Bound) -> State {
        match (self, bound) {
            (Self::Rate { bucket, limit }, _) => State {
                until_full: bucket.until_full(*limit).unwrap_or(Micros::MAX),
                ..State::with_usage(bucket.used(*limit), limit.amount)
            },
            (Self::Spend { amount, .. }, Bound::Spend { most, .. }) => {
                State::with_usage(*amount, most.unwrap_or(u64::MAX))
            }
            (Self::Held { amount }, Bound::Held { most }) => State::with_usage(*amount, most),
            _ => State::default(),
        }
    }
}

impl State {
    pub(crate) fn unused(bound: Bound) -> Self {
        match bound {
            Bound::Rate { limit, .. } => Self::with_usage(0, limit.amount),
            Bound::Spend { most, .. } => Self::with_usage(0, most.unwrap_or(u64::MAX)),
            Bound::Held { most } => Self::with_usage(0, most),
        }
    }

    fn with_usage(used: u64, most: u64) -> Self {
        Self { used, remaining: most.saturating_sub(used), until_full: 0 }
    }
}

/// A reservation on a meter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserved {
    pub(crate) since: Micros,
    pub(crate) month: u32,
    pub(crate) amount: u64,
}
