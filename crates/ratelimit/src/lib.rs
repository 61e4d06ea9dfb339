//! Exact rate limits: one decision over all that a request draws on, all or nothing, settled once
//! when it is known what it really took (specification: Rate Limits).
//!
//! Everything is integers, nothing here reads a clock, and a decision is one call under one lock.

mod bucket;
mod decision;
mod memory;
mod meter;

pub use bucket::Bucket;
pub use decision::{Bound, Decision, Draw, Remedy, RequestId, State};
pub use memory::Memory;

/// A moment or a span, in microseconds.
pub type Micros = u64;

/// A minute.
pub const MINUTE: Micros = 60_000_000;
/// A day.
pub const DAY: Micros = 86_400_000_000;

/// So many units a window. The bucket refills continuously and holds one window's worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Units.
    pub amount: u64,
    /// The window.
    pub window: Micros,
}
