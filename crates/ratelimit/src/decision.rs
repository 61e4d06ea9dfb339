//! Requests to a store of limits, and its decisions.

use crate::{Limit, Micros};

/// The id of a request, unique across all nodes.
pub type RequestId = u128;

/// The draw of one request on one meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw<'a> {
    /// The meter's name, unique within its organization. Two draws of one request on one meter are
    /// added.
    pub meter: &'a str,
    /// The kind of the meter, and its bound.
    pub bound: Bound,
    /// The amount.
    pub amount: u64,
    /// Names the draws of a request that belong together, such as the limits of one project: a refusal counts
    /// only where a draw of the same set was refused.
    pub set: u8,
}

/// The kind of a meter, and its maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Units that are refilled over time.
    Rate {
        /// The limit.
        limit: Limit,
        /// True if a request that a rate of the same set refuses counts as one unit here.
        counts_refusals: bool,
    },
    /// Spend of one month, in any sufficiently small unit.
    Spend {
        /// The maximum; `None`: spend is only counted.
        most: Option<u64>,
        /// A number for the month: a new month starts at zero.
        month: u32,
    },
    /// Units that are held until they are released.
    Held {
        /// The maximum held at a time.
        most: u64,
    },
}

impl Draw<'_> {
    /// Returns whether a refusal by these draws counts here. One for the lack of money counts nowhere, and one by
    /// a rate only in the set of that rate: a project that exceeds its own limits uses up none of its
    /// organization's.
    pub(crate) fn counts_refusal_by(&self, refusing: &[Draw<'_>]) -> bool {
        let is_rate = |draw: &Draw<'_>| matches!(draw.bound, Bound::Rate { .. });
        matches!(self.bound, Bound::Rate { counts_refusals: true, .. })
            && refusing.iter().all(is_rate)
            && refusing.iter().any(|draw| draw.set == self.set)
    }
}

/// The state of a meter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Units used, rounded up. May exceed the limit: debt.
    pub used: u64,
    /// Units left, rounded down.
    pub remaining: u64,
    /// Time until the meter is full again, for rates.
    pub until_full: Micros,
}

/// The decision about a reservation, with the state of each draw's meter after it, in the order of
/// the draws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Everything was taken.
    Admitted(Vec<State>),
    /// Nothing was taken, except that the refusal itself may have been counted.
    Refused {
        /// The draw that is reported as the reason: the one with the longest wait.
        which: usize,
        /// The remedy for the client.
        remedy: Remedy,
        /// The states of the meters.
        states: Vec<State>,
    },
}

/// Time after which a request that only reservations refuse is worth another attempt. Nothing says when they end.
pub const RESERVED_WAIT: Micros = 5_000_000;

/// The remedy for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Wait for this time.
    Wait(Micros),
    /// Ask for less: the amount exceeds the whole limit.
    AskForLess,
    /// None, until the month ends or the limit is raised: what is settled leaves no room.
    NothingSoon,
    /// Wait until open reservations of other requests are settled: what is settled leaves room.
    Reserved,
    /// Wait until a held amount is released.
    GiveBack,
}

impl Remedy {
    /// Ranks several refusals, of which the most severe one is reported; longer waits rank higher.
    pub(crate) fn severity(self) -> (u8, Micros) {
        match self {
            Self::Wait(time) => (0, time),
            Self::Reserved => (0, RESERVED_WAIT),
            Self::GiveBack => (1, 0),
            Self::AskForLess => (2, 0),
            Self::NothingSoon => (3, 0),
        }
    }
}
