//! The limits of a node, whatever keeps them: nothing, this process's memory, or a store that many
//! nodes share. It decides nothing itself.

use crate::{Bound, Decision, Draw, Memory, Micros, Redis, RequestId, State, Unavailable};

/// See the module. Share it in an `Arc`.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one in a process")]
pub enum Limits {
    /// Admits everything and shows every meter as unused.
    Off,
    /// One process, with or without a state file.
    Memory(Memory),
    /// A store that many nodes share.
    Redis(Redis),
}

impl Limits {
    /// Takes all of `draws`, or nothing. `now` is this node's clock, in microseconds of Unix time;
    /// a shared store goes by its own. A request that is reserved already, and not settled, is
    /// answered as it was. Only a shared store is ever waited for, and for at most a second.
    pub async fn reserve(
        &self,
        organization: &str,
        request: RequestId,
        draws: &[Draw<'_>],
        now: Micros,
    ) -> Result<Decision, Unavailable> {
        match self {
            Self::Off => Ok(Decision::Admitted(unused(draws))),
            Self::Memory(memory) => memory.reserve(organization, request, draws, now),
            Self::Redis(redis) => redis.reserve(organization, request, draws).await,
        }
    }

    /// Replaces what `request` reserved by what it really took, in the order of its draws; a draw
    /// for which there is no number stays as it was reserved. Only the first time counts: `false`
    /// for a request that is not open on this node. It never waits: a shared store is told within
    /// a fraction of a second.
    pub fn settle(
        &self,
        organization: &str,
        request: RequestId,
        actual: &[Option<u64>],
        now: Micros,
    ) -> bool {
        match self {
            Self::Off => true,
            Self::Memory(memory) => memory.settle(organization, request, actual, now),
            Self::Redis(redis) => redis.settle(organization, request, actual),
        }
    }

    /// How these meters stand. Nothing is taken and nothing made.
    pub async fn look(
        &self,
        organization: &str,
        draws: &[Draw<'_>],
        now: Micros,
    ) -> Result<Vec<State>, Unavailable> {
        match self {
            Self::Off => Ok(unused(draws)),
            Self::Memory(memory) => Ok(memory.look(organization, draws, now)),
            Self::Redis(redis) => redis.look(organization, draws).await,
        }
    }

    /// Raises a [`Bound::Spend`] meter to what the ledger knows of its month; it is never lowered,
    /// and other kinds are left alone. For a state file or a store that was lost.
    pub async fn seed(
        &self,
        organization: &str,
        meter: &str,
        bound: Bound,
        at_least: u64,
    ) -> Result<(), Unavailable> {
        match self {
            Self::Off => Ok(()),
            Self::Memory(memory) => memory.seed(organization, meter, bound, at_least),
            Self::Redis(redis) => redis.seed(organization, meter, bound, at_least).await,
        }
    }

    /// Whether decisions can be had: `false` while a shared store is away.
    #[must_use]
    pub fn is_available(&self) -> bool {
        match self {
            Self::Off | Self::Memory(_) => true,
            Self::Redis(redis) => redis.is_available(),
        }
    }

    /// Requests that are reserved and not settled on this node.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        match self {
            Self::Off => 0,
            Self::Memory(memory) => memory.open_requests(),
            Self::Redis(redis) => redis.open_requests(),
        }
    }

    /// At shutdown, when no request is open any more: writes the state file through, or gives the
    /// leases back. It may be called more than once.
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
