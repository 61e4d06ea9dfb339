//! The limits of a node, over any backend: none, this process's memory, or a store that many nodes
//! share. It dispatches, and decides nothing itself.

use crate::{Bound, Decision, Draw, Error, Memory, Redis, RequestId, State, SteadyTime};

/// The limits of a node. Share it in an `Arc`.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one in a process")]
pub enum Limits {
    /// Admits everything and reports every meter as unused.
    Off,
    /// One process, with or without a state file.
    Memory(Memory),
    /// A store that many nodes share.
    Redis(Redis),
}

impl Limits {
    /// Takes all of `draws`, or none. `now` is this node's monotonic clock; a
    /// shared store uses its own clock. A request that is reserved and not settled gets the same
    /// decision again. `client` tells apart who waits for a limit: a client that asks again before its time
    /// gets no longer wait. Waits only for a shared store, at most a second. Fails with
    /// [`crate::ErrorKind::Unseeded`], without effect, when a month does not follow the one of its meter: a clock was
    /// set, and [`Limits::seed`] moves the meter.
    pub async fn reserve(
        &self,
        organization: &str,
        request: (RequestId, u64),
        draws: &[Draw<'_>],
        now: SteadyTime,
    ) -> Result<Decision, Error> {
        match self {
            Self::Off => Ok(Decision::Admitted(unused(draws))),
            Self::Memory(memory) => memory.reserve_for(organization, request, draws, now.micros()),
            Self::Redis(redis) => redis.reserve_for(organization, request, draws).await,
        }
    }

    /// Replaces the reservation of `request` by its actual usage, in the order of its draws; a draw
    /// without a number stays as reserved. Only the first call counts: returns `false` for a
    /// request that is not open on this node. Never waits: a shared store receives the change
    /// within a fraction of a second.
    pub fn settle(
        &self,
        organization: &str,
        request: RequestId,
        actual: &[Option<u64>],
        now: SteadyTime,
    ) -> bool {
        match self {
            Self::Off => true,
            Self::Memory(memory) => memory.settle(organization, request, actual, now.micros()),
            Self::Redis(redis) => redis.settle(organization, request, actual),
        }
    }

    /// Lowers the reservation of `request` to these amounts, in the order of its draws, because its
    /// bound is known better now; a draw without a number, or with a larger one, keeps its amount.
    /// Returns `false` for a request that is not open on this node. Never waits.
    pub fn shrink(
        &self,
        organization: &str,
        request: RequestId,
        to: &[Option<u64>],
        now: SteadyTime,
    ) -> bool {
        match self {
            Self::Off => true,
            Self::Memory(memory) => memory.shrink(organization, request, to, now.micros()),
            Self::Redis(redis) => redis.shrink(organization, request, to),
        }
    }

    /// The states of these meters. Neither takes anything nor creates meters.
    pub async fn look(
        &self,
        organization: &str,
        draws: &[Draw<'_>],
        now: SteadyTime,
    ) -> Result<Vec<State>, Error> {
        match self {
            Self::Off => Ok(unused(draws)),
            Self::Memory(memory) => Ok(memory.look(organization, draws, now.micros())),
            Self::Redis(redis) => redis.look(organization, draws).await,
        }
    }

    /// Raises a [`Bound::Spend`] meter to the ledger's sum of its month, or a rate over at least
    /// [`crate::LONG_WINDOW`] to the use that the ledger knows; never lowers one, and ignores other
    /// kinds. For use after a loss of the state file or the store. A [`Bound::Spend`] meter whose month is neither the
    /// bound's nor next to it begins with that month again.
    pub async fn seed(
        &self,
        organization: &str,
        meter: &str,
        bound: Bound,
        at_least: u64,
    ) -> Result<(), Error> {
        match self {
            Self::Off => Ok(()),
            Self::Memory(memory) => memory.seed(organization, meter, bound, at_least),
            Self::Redis(redis) => redis.seed(organization, meter, bound, at_least).await,
        }
    }

    /// Sets a [`Bound::Spend`] meter of a process to what is settled in its month, and lowers it too; what is reserved
    /// since the start stays. For use at the start, when the ledger has all that the last process had settled or
    /// open. Returns `false`, without effect, for a shared store, on which other nodes have reservations.
    pub fn restore(
        &self,
        organization: &str,
        meter: &str,
        bound: Bound,
        settled: u64,
    ) -> Result<bool, Error> {
        match self {
            Self::Off => Ok(true),
            Self::Memory(memory) => {
                memory.restore(organization, meter, bound, settled).map(|()| true)
            }
            Self::Redis(_) => Ok(false),
        }
    }

    /// Replaces an amount that [`Limits::settle`] left as reserved by the actual one, for a request whose end is seen
    /// long after, by this node or another. `draw` has the meter, its bound and the reserved amount. Spend counts the
    /// actual amount then, in that month; a rate, which has refilled meanwhile, only what exceeds the reservation; held
    /// amounts stay. The caller calls it once for each reservation. Never waits.
    pub fn correct(
        &self,
        organization: &str,
        draw: &Draw<'_>,
        actual: u64,
        now: SteadyTime,
    ) -> Result<(), Error> {
        match self {
            Self::Off => Ok(()),
            Self::Memory(memory) => memory.correct(organization, draw, actual, now.micros()),
            Self::Redis(redis) => redis.correct(organization, draw, actual),
        }
    }

    /// Returns whether decisions are available: `false` while a shared store is unreachable.
    #[must_use]
    pub fn is_available(&self) -> bool {
        match self {
            Self::Off | Self::Memory(_) => true,
            Self::Redis(redis) => redis.is_available(),
        }
    }

    /// The fault of a shared store: why it is unreachable, or what an operator should change. It lasts until the store
    /// is found well again, which takes at most ten seconds.
    #[must_use]
    pub fn problem(&self) -> Option<Error> {
        match self {
            Self::Off | Self::Memory(_) => None,
            Self::Redis(redis) => redis.problem(),
        }
    }

    /// Reservations of this node that are not settled.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        match self {
            Self::Off => 0,
            Self::Memory(memory) => memory.open_requests(),
            Self::Redis(redis) => redis.open_requests(),
        }
    }

    /// At shutdown, when no request is open: flushes the state file, or releases the leases. May be
    /// called more than once.
    pub async fn close(&self) -> std::io::Result<()> {
        match self {
            Self::Off => Ok(()),
            Self::Memory(memory) => memory.sync(),
            Self::Redis(redis) => {
                redis.close().await;
                Ok(())
            }
        }
    }
}

fn unused(draws: &[Draw<'_>]) -> Vec<State> {
    draws.iter().map(|draw| State::unused(draw.bound)).collect()
}
