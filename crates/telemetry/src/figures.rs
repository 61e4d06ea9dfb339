//! The figures of a server since its start, summed up where they arise: for the page of metrics,
//! which works without any exporter.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::metrics::Metrics;
use crate::names::{self, Name};
use crate::span::{Measured, Operation, Value};

/// Attributes that tell series apart on the page. Unlike exported metrics, it names no tool: clients, MCP
/// servers and models choose those names.
const BY: &[Name] = &[names::PROVIDER, names::REQUEST_MODEL, names::TOOL_KIND];

/// The statuses with which turns end.
const STATUSES: [&str; 3] = ["completed", "interrupted", "failed"];

/// The figures of a server since its start. Adding to it takes a lock for about a microsecond.
pub struct Figures {
    sums: Mutex<Metrics>,
    turns_started: AtomicU64,
    /// By the place in [`STATUSES`].
    turns_ended: [AtomicU64; STATUSES.len()],
    /// By the code of the error.
    refused: Mutex<BTreeMap<i64, u64>>,
}

impl Default for Figures {
    fn default() -> Self {
        Self {
            // The page gives no time of its own: Prometheus knows when it asked.
            sums: Mutex::new(Metrics::new(0, BY)),
            turns_started: AtomicU64::new(0),
            turns_ended: Default::default(),
            refused: Mutex::default(),
        }
    }
}

impl std::fmt::Debug for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Figures")
            .field("turns_started", &self.turns_started)
            .finish_non_exhaustive()
    }
}

impl Figures {
    /// An operation begins.
    pub fn begin(&self, operation: Operation) {
        if operation == Operation::InvokeAgent {
            self.turns_started.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// An operation has ended.
    pub fn add(&self, measured: &Measured<'_>) {
        self.lock().add(measured);
        if measured.operation == Operation::InvokeAgent {
            // A turn without a status ended with its actor, which counts as failed.
            let place = match measured.value(names::TURN_STATUS) {
                Some(Value::Text(status)) => STATUSES.iter().position(|known| known == status),
                _ => None,
            };
            let place = place.unwrap_or(STATUSES.len() - 1);
            self.turns_ended[place].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a request that was answered with an error. The codes are few: callers choose them from a fixed list.
    pub fn count_refused(&self, code: i64) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner).entry(code).or_default() += 1;
    }

    /// Refused requests by code.
    pub(crate) fn refused(&self) -> BTreeMap<i64, u64> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts spans and log records that no collector got.
    pub fn count_dropped(&self, signal: &str, items: u64) {
        self.lock().count_dropped(signal, items);
    }

    /// Turns that began, and those that ended by status.
    pub(crate) fn turns(&self) -> (u64, [(&'static str, u64); STATUSES.len()]) {
        // The ends are read first, so that they are never more than the starts.
        let ended = std::array::from_fn(|place| {
            (STATUSES[place], self.turns_ended[place].load(Ordering::Acquire))
        });
        (self.turns_started.load(Ordering::Acquire), ended)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Metrics> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
