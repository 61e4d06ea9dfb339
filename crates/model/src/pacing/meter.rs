//! What is left of a provider's limit at a moment, computed from its last report. Pure: the caller
//! brings the time.

use std::time::Duration;

use tokio::time::Instant;

use crate::rate_limits::RateLimit;

/// A limit that refills at a constant rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meter {
    limit: f64,
    /// Units a second.
    rate: f64,
    /// What was left at `at`; below zero when more was sent than the provider reported.
    level: f64,
    at: Instant,
}

impl Meter {
    /// From a report that arrived at `now`, when requests of `pending` units were on their way whose
    /// reports have not arrived.
    pub(super) fn new(report: &RateLimit, pending: f64, now: Instant) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let (limit, remaining) = (report.limit as f64, report.remaining as f64);
        let reset = report.reset.as_secs_f64();
        let (rate, level) = match report.agreeing_windows().next() {
            Some(window) => (limit / window, limit - limit * reset / window),
            None => ((limit - remaining).max(1.0) / reset.max(1.0), remaining),
        };
        Self { limit, rate, level: level.clamp(0.0, limit) - pending, at: now }
    }

    /// How long to wait before `units` are available. More than the limit is available when all of it
    /// is.
    pub(super) fn wait(&self, units: f64, now: Instant) -> Duration {
        let missing = units.min(self.limit) - self.level(now);
        if missing <= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(missing / self.rate).unwrap_or(Duration::MAX)
    }

    /// How long it takes until `units` have become available in total, also more than the limit.
    pub(super) fn expected(&self, units: f64, now: Instant) -> Duration {
        let missing = (units - self.level(now)).max(0.0);
        Duration::try_from_secs_f64(missing / self.rate).unwrap_or(Duration::MAX)
    }

    /// Takes `units`, available or not.
    pub(super) fn take(&mut self, units: f64, now: Instant) {
        (self.level, self.at) = (self.level(now) - units, now);
    }

    /// Returns `units` that were taken for a request that was not sent.
    pub(super) fn give_back(&mut self, units: f64, now: Instant) {
        (self.level, self.at) = ((self.level(now) + units).min(self.limit), now);
    }

    fn level(&self, now: Instant) -> f64 {
        let refilled = now.saturating_duration_since(self.at).as_secs_f64() * self.rate;
        (self.level + refilled).min(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(limit: u64, remaining: u64, reset_ms: u64) -> RateLimit {
        RateLimit { limit, remaining, reset: Duration::from_millis(reset_ms) }
    }

    #[test]
    fn a_limit_refills_in_its_window() {
        let now = Instant::now();
        let check = |report: RateLimit, pending: f64, units: f64, ms: u128| {
            let wait = Meter::new(&report, pending, now).wait(units, now);
            assert_eq!(wait.as_millis(), ms, "{report:?} less {pending} for {units}");
        };
        // 20 a minute: one in three seconds.
        check(report(20, 0, 60_000), 0.0, 1.0, 3_000);
        check(report(20, 0, 59_000), 0.0, 1.0, 2_000);
        check(report(20, 19, 3_000), 0.0, 1.0, 0);
        check(report(20, 19, 3_000), 18.5, 1.0, 1_500);
        check(report(20, 20, 0), 0.0, 30.0, 0);
        check(report(20, 0, 60_000), 5.0, 1.0, 18_000);
        // A day of 14,400.
        check(report(14_400, 0, 86_400_000), 0.0, 1.0, 6_000);
        // Tokens.
        check(report(60_000, 10_000, 50_000), 0.0, 15_000.0, 5_000);
        // A fixed window that ends in 30 s.
        check(report(20, 0, 30_000), 0.0, 20.0, 30_000);
    }

    #[test]
    fn what_is_taken_counts_until_it_is_given_back() {
        let now = Instant::now();
        let mut meter = Meter::new(&report(20, 2, 54_000), 0.0, now);
        meter.take(2.0, now);
        assert_eq!(meter.wait(1.0, now), Duration::from_secs(3));
        assert_eq!(meter.wait(1.0, now + Duration::from_secs(2)), Duration::from_secs(1));
        meter.give_back(1.0, now);
        assert_eq!(meter.wait(1.0, now), Duration::ZERO);
        meter.give_back(100.0, now);
        assert_eq!(meter.wait(20.0, now), Duration::ZERO);
        assert!(meter.wait(20.0, now + Duration::from_secs(1_000)).is_zero());
    }
}
