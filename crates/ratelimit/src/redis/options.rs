//! A node's settings for the shared store.

use std::time::Duration;

/// A node's settings for the shared store.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// `redis://[user:password@]host[:port][/database]`, or `redis+unix:///path`.
    pub url: String,
    /// Duration of this node's leases: `[limits] lease_ms`.
    pub lease: Duration,
    /// A random id of this node for as long as it runs.
    pub node: u64,
    /// True to treat an empty store as a new one, in which every limit starts unused: set it only
    /// if these limits have never been used. Otherwise an empty store has lost its data: limits
    /// start used up and refill. No effect on a store that has the library.
    pub first_start: bool,
    /// True if the operator guarantees that a restart of the store loses nothing (`appendfsync
    /// always`, no failover to a replica). Otherwise limits start used up after a restart.
    pub durable: bool,
}
