//! How a node uses the shared store.

use std::time::Duration;

/// How the shared store is used.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// `redis://[user:password@]host[:port][/database]`, or `redis+unix:///path`.
    pub url: String,
    /// How long capacity that this node has leased stays its own: `[limits] lease_ms`.
    pub lease: Duration,
    /// A random number that names this node for as long as it runs.
    pub node: u64,
    /// Whether an empty store is a new one, so that every limit begins unused: true only if nobody
    /// has ever used these limits. Otherwise an empty store is one that lost its data: limits begin
    /// used up and refill. It does not matter for a store that has the library.
    pub first_start: bool,
    /// Whether the operator promises that a restart of the store loses nothing
    /// (`appendfsync always`, no failover to a replica). Otherwise limits begin used up after one.
    pub durable: bool,
}
