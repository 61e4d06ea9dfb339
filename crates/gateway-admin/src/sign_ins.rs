//! Failed sign-ins: each is counted, and logged with the client's address. Neither the log nor the
//! audit log can be flooded: beyond a rate, a failure is counted only, and the next line says how
//! many were left out.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use ratelimit::{Bucket, Limit, MINUTE, SteadyTime};

/// Most lines of the log per minute.
const LINES: Limit = Limit { amount: 60, window: MINUTE };
/// Most rows of the audit log per minute, which are kept forever.
const ROWS: Limit = Limit { amount: 10, window: MINUTE };

/// Where a client failed to sign in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// The API of the models.
    Api,
    /// The administration API.
    Administration,
    /// The dashboard.
    Dashboard,
    /// The metrics.
    Metrics,
}

impl Surface {
    /// Its name in the log and in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Administration => "administration",
            Self::Dashboard => "dashboard",
            Self::Metrics => "metrics",
        }
    }
}

/// Counts a failure by its surface and reason.
type Count = dyn Fn(Surface, &'static str) + Send + Sync;

/// The failed sign-ins of a node.
pub struct SignIns {
    count: Box<Count>,
    bounds: Mutex<Bounds>,
}

#[derive(Default)]
struct Bounds {
    lines: Bucket,
    rows: Bucket,
    /// Failures since the last line that had none.
    left_out: u64,
}

impl SignIns {
    /// Calls `count` for each failure.
    pub fn new(count: impl Fn(Surface, &'static str) + Send + Sync + 'static) -> Self {
        Self { count: Box::new(count), bounds: Mutex::default() }
    }

    /// Notes a failure. `reason` is the code of the error that the client gets.
    pub fn failed(
        &self,
        surface: Surface,
        reason: &'static str,
        address: Option<IpAddr>,
        now: SteadyTime,
    ) {
        (self.count)(surface, reason);
        let Some(left_out) = self.line(now) else { return };
        let address = address.map(|address| address.to_string()).unwrap_or_default();
        let surface = surface.name();
        tracing::warn!(surface, reason, address, left_out, "a sign-in failed");
    }

    /// Returns whether the audit log may get a row about a failure.
    pub(crate) fn takes_row(&self, now: SteadyTime) -> bool {
        let mut bounds = self.bounds.lock().unwrap_or_else(PoisonError::into_inner);
        takes(&mut bounds.rows, ROWS, now)
    }

    /// The number of failures without a line since the last one, if there may be a line now.
    fn line(&self, now: SteadyTime) -> Option<u64> {
        let mut bounds = self.bounds.lock().unwrap_or_else(PoisonError::into_inner);
        if takes(&mut bounds.lines, LINES, now) {
            return Some(std::mem::take(&mut bounds.left_out));
        }
        bounds.left_out += 1;
        None
    }
}

fn takes(bucket: &mut Bucket, limit: Limit, now: SteadyTime) -> bool {
    bucket.advance(limit, now.micros());
    let fits = bucket.fits(limit, 1);
    if fits {
        bucket.take(limit, 1);
    }
    fits
}

impl fmt::Debug for SignIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignIns")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn all_failures_are_counted_and_few_are_written() {
        let counted = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&counted);
        let sign_ins = SignIns::new(move |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let now = SteadyTime::from_micros(1_700_000_000_000_000);
        for _ in 0..500 {
            sign_ins.failed(Surface::Api, "invalid_api_key", None, now);
        }
        assert_eq!(counted.load(Ordering::Relaxed), 500);
        assert_eq!(sign_ins.line(now), None);
        assert_eq!(sign_ins.line(now.after(MINUTE)), Some(441));
        assert_eq!(sign_ins.line(now.after(MINUTE)), Some(0));
        let rows = (0..100).filter(|_| sign_ins.takes_row(now)).count();
        assert_eq!(rows, 10);
    }
}
