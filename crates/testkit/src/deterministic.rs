//! Time and ids that are the same in every run.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use server::{Clock, Ids};

/// 2026-01-01 00:00:00 UTC.
const START_MS: i64 = 1_767_225_600_000;

/// A clock that tests advance.
pub struct ManualClock {
    now_ms: AtomicI64,
    is_broken: AtomicBool,
}

impl Default for ManualClock {
    fn default() -> Self {
        Self { now_ms: AtomicI64::new(START_MS), is_broken: AtomicBool::new(false) }
    }
}

impl ManualClock {
    /// Advances the clock by `ms` milliseconds.
    pub fn advance(&self, ms: i64) {
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Makes the next reading of the clock panic: a defect at a point of the test's choice.
    pub fn panic_next(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        assert!(!self.is_broken.swap(false, Ordering::Relaxed), "the clock is broken");
        self.now_ms.load(Ordering::Relaxed)
    }

    fn today(&self) -> String {
        "2026-01-01".to_owned()
    }

    fn time_zone(&self) -> String {
        "Etc/UTC".to_owned()
    }
}

/// Creates `id-000001`, `id-000002`, …, which sort in the order of creation.
#[derive(Default)]
pub struct SequentialIds(AtomicU64);

impl Ids for SequentialIds {
    fn next(&self) -> String {
        format!("id-{:06}", self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
