//! Time and ids that are the same in every run.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use server::{Clock, Ids};

/// 2026-01-01 00:00:00 UTC.
const START_MS: i64 = 1_767_225_600_000;

/// A clock that stands still until it is moved.
pub struct HandClock(AtomicI64);

impl Default for HandClock {
    fn default() -> Self {
        Self(AtomicI64::new(START_MS))
    }
}

impl HandClock {
    /// Moves the clock on by `ms` milliseconds.
    pub fn advance(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for HandClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn today(&self) -> String {
        "2026-01-01".to_owned()
    }

    fn time_zone(&self) -> String {
        "Etc/UTC".to_owned()
    }
}

/// `id-000001`, `id-000002`, …: they sort in the order of their making.
#[derive(Default)]
pub struct CountedIds(AtomicU64);

impl Ids for CountedIds {
    fn next(&self) -> String {
        format!("id-{:06}", self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
