//! What is asked of a store, and what it answers.

use crate::{Limit, Micros};

/// A request, named by whoever sends it on: no two have the same number.
pub type RequestId = u128;

/// What one request draws on one meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw<'a> {
    /// The meter's name, within its organization. Two draws of one request on one meter are added.
    pub meter: &'a str,
    /// What kind of meter it is, and its bound.
    pub bound: Bound,
    /// How much.
    pub amount: u64,
}

/// What a meter measures, and how much it lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Units that come back with time.
    Rate {
        /// The limit.
        limit: Limit,
        /// Whether a request that is refused, for whatever reason, counts here as one.
        counts_refusals: bool,
    },
    /// Money in one month, in whatever unit is small enough.
    Spend {
        /// The most; `None`: it is only counted.
        most: Option<u64>,
        /// A number for the month: another one begins at nothing.
        month: u32,
    },
    /// Units that are held until they are given back.
    Held {
        /// The most at once.
        most: u64,
    },
}

/// How a meter stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Units used, rounded up. It may be more than the limit: debt.
    pub used: u64,
    /// Units left, rounded down.
    pub remaining: u64,
    /// Time until the meter is full again, for rates.
    pub until_full: Micros,
}

/// The answer to a reservation, with the state of each draw's meter after it, in the order of the
/// draws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Everything was taken.
    Admitted(Vec<State>),
    /// Nothing was taken; the refusal itself may have been counted.
    Refused {
        /// The draw that stands for the refusal: the one that takes the longest.
        which: usize,
        /// What helps.
        remedy: Remedy,
        /// See [`Decision`].
        states: Vec<State>,
    },
}

/// What helps against a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// To wait for so long.
    Wait(Micros),
    /// To ask for less: what was asked for is more than the whole limit.
    AskForLess,
    /// Nothing, until the month is over or the limit is raised.
    NothingSoon,
    /// To wait until something that is held is given back.
    GiveBack,
}

impl Remedy {
    /// Which of two refusals stands for both: waiting helps less than asking for less, and so on.
    pub(crate) fn severity(self) -> (u8, Micros) {
        match self {
            Self::Wait(time) => (0, time),
            Self::GiveBack => (1, 0),
            Self::AskForLess => (2, 0),
            Self::NothingSoon => (3, 0),
        }
    }
}

/// Why nothing could be decided. Nothing was admitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The shared store does not answer, and what was leased from it is spent.
    #[error("the store of the limits does not answer: {0}; try again in a second")]
    Away(String),
    /// A bound of this process or of its disk is reached.
    #[error("the limits are full: {0}; try again when fewer requests are open")]
    Full(String),
    /// The shared store was restarted and may have forgotten money that was spent: read the ledger,
    /// call [`crate::Limits::seed`] for this organization's spend meters, and ask again.
    #[error(
        "the store of the limits was restarted; seed the spend from the ledger, then try again"
    )]
    Unseeded,
}
