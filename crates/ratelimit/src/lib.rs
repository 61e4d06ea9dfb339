//! Exact rate limits: one decision over all that a request draws on, all or nothing, settled once
//! when it is known what it really took (specification: Rate Limits).
//!
//! Everything is integers. A decision in memory reads no clock and is one call under one lock; one
//! over a shared store is at most one round trip.

mod bucket;
mod decision;
mod limits;
mod memory;
mod meter;
mod redis;
mod shard;
mod state;

pub use bucket::Bucket;
pub use decision::{Bound, Decision, Draw, Remedy, RequestId, State, Unavailable};
pub use limits::Limits;
pub use memory::Memory;
pub use redis::{REQUEST_MEMORY, Redis, RedisOptions};
pub use state::{StateError, check_state, empty_state};

/// A moment or a span, in microseconds.
pub type Micros = u64;

/// A minute.
pub const MINUTE: Micros = 60_000_000;
/// A day.
pub const DAY: Micros = 86_400_000_000;

/// Reservations that are open at once, in all.
pub const MAX_OPEN: usize = 262_144;
/// How long until a reservation counts as one whose owner is gone.
pub const ABANDONED_AFTER: Micros = DAY;

/// So many units a window. The bucket refills continuously and holds one window's worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Units.
    pub amount: u64,
    /// The window.
    pub window: Micros,
}
