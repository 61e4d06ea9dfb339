//! Exact rate limits: one atomic decision over all draws of a request, settled once when its actual
//! usage is known (specification: Rate Limits).
//!
//! All amounts are integers. A decision in memory reads no clock and takes one lock; a decision
//! over a shared store takes at most one round trip.
//!
//! # How a limit is decided
//!
//! [`Limits::reserve`] takes all draws of a request or none. [`Memory`] decides under one lock and
//! writes each meter into a mapped slot before it answers, so that `kill -9` loses nothing.
//! [`Redis`] admits from capacity that the node has leased, otherwise with a single call of a
//! function (`limits.lua`), which counts in integers with the store's clock. Leased capacity
//! counts as used and does not refill until it is reported, given back or expired. A restarted
//! store begins with its short rates used up, and has its spend and its long rates seeded.
//!
//! Spend knows its open reservations apart from what is settled. They count alike for what is
//! admitted; a refusal says whether the money is gone ([`Remedy::NothingSoon`]) or only reserved
//! ([`Remedy::Reserved`]).

mod bucket;
mod decision;
mod error;
mod limits;
mod mapped;
mod memory;
mod meter;
mod redis;
mod shard;
mod state;
mod steady;

pub use bucket::Bucket;
pub use decision::{Bound, Decision, Draw, RESERVED_WAIT, Remedy, RequestId, State};
pub use error::{Error, ErrorKind};
pub use limits::Limits;
pub use mapped::{MappedFile, OpenFailure, checksum, open_locked};
pub use memory::Memory;
pub use redis::{REQUEST_MEMORY, Redis, RedisOptions};
pub use state::{check_state, empty_state};
pub use steady::SteadyTime;

/// A duration, or a moment of the wall clock since 1970-01-01 UTC, in microseconds.
pub type Micros = u64;

/// A minute.
pub const MINUTE: Micros = 60_000_000;
/// A day.
pub const DAY: Micros = 86_400_000_000;
/// Rates over a window of at least this length are not used up by a loss of the store: they are seeded, as spend is.
pub const LONG_WINDOW: Micros = 3_600_000_000;

/// Most open reservations in all.
pub const MAX_OPEN: usize = 262_144;
/// Age at which a reservation counts as abandoned.
pub const ABANDONED_AFTER: Micros = DAY;

/// Units per window. The bucket refills continuously and holds one window's worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Units.
    pub amount: u64,
    /// The window.
    pub window: Micros,
}
