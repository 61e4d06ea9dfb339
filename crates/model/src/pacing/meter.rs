//! The remaining amount of a provider's limit at a moment, computed from its last report. Pure: the
//! caller brings the time.

use std::time::Duration;

use tokio::time::Instant;

use crate::rate_limits::RateLimit;

/// Shortest window: a shorter one is the rounding of a reset.
const SHORTEST_WINDOW: Duration = Duration::from_millis(1);

/// The ends of a window that two reports show differ by this part of its length at most.
const WINDOW_TOLERANCE: u32 = 20;

/// One limit of a provider.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meter {
    limit: f64,
    /// The remaining amount at `at`; below zero when more was sent than the provider reported.
    level: f64,
    at: Instant,
    refill: Refill,
}

/// The way in which a limit becomes available again.
#[derive(Debug, Clone, Copy)]
enum Refill {
    /// Continuously, this many units a second.
    Constant(f64),
    /// All of it at this moment, and again after each window.
    Window { ends: Instant, length: Duration },
}

impl Meter {
    /// From a report that arrived at `now`, when so many requests of `pending` units altogether were on
    /// their way whose reports have not arrived. `previous` is the meter of the last report.
    pub(super) fn new(
        report: &RateLimit,
        (requests, pending): (f64, f64),
        previous: Option<&Self>,
        now: Instant,
    ) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let (limit, remaining) = (report.limit as f64, report.remaining as f64);
        let ends = now.checked_add(report.reset).unwrap_or(now);
        // The reset of a report within a window is only the rest of it.
        let known = previous.filter(|previous| previous.limit == limit);
        let known = known.and_then(|previous| previous.window(now));
        let is_known = known.is_some_and(|(known, length)| {
            let apart =
                known.saturating_duration_since(ends) + ends.saturating_duration_since(known);
            apart <= length / WINDOW_TOLERANCE
        });
        let (refill, level) = match report.agreeing_windows().next().filter(|_| !is_known) {
            Some(window) => {
                let level = limit - limit * report.reset.as_secs_f64() / window;
                (Refill::Constant(limit / window), level)
            }
            None => {
                let known = known.map_or(SHORTEST_WINDOW, |(_, length)| length);
                (Refill::Window { ends, length: report.reset.max(known) }, remaining)
            }
        };
        // A request is charged all of the limit at most.
        let pending = pending.min(requests * limit);
        Self { limit, level: level.clamp(0.0, limit) - pending, at: now, refill }
    }

    /// This meter, from a report that is older than the one that `newer` is from: what was left then
    /// includes what has been used since.
    pub(super) fn no_more_than(mut self, newer: Option<&Self>, now: Instant) -> Self {
        if let Some(newer) = newer.filter(|newer| newer.limit == self.limit) {
            self.level = self.level.min(newer.level(now));
        }
        self
    }

    /// Returns the time until `units` are available and `kept` more are left. More than the limit
    /// is available when all of it is.
    pub(super) fn wait(&self, units: f64, kept: f64, now: Instant) -> Duration {
        let missing = units.min(self.limit) + kept - self.level(now);
        if missing <= 0.0 {
            return Duration::ZERO;
        }
        match self.refill {
            Refill::Constant(rate) => {
                Duration::try_from_secs_f64(missing / rate).unwrap_or(Duration::MAX)
            }
            Refill::Window { .. } => {
                self.window(now).map_or(Duration::ZERO, |(ends, _)| ends - now)
            }
        }
    }

    /// Takes `units`, available or not.
    pub(super) fn take(&mut self, units: f64, now: Instant) {
        self.set(self.level(now) - units.min(self.limit), now);
    }

    /// Returns `units` that were taken for a request that was not sent.
    pub(super) fn give_back(&mut self, units: f64, now: Instant) {
        self.set((self.level(now) + units.min(self.limit)).min(self.limit), now);
    }

    fn set(&mut self, level: f64, now: Instant) {
        if let Some((ends, length)) = self.window(now) {
            self.refill = Refill::Window { ends, length };
        }
        (self.level, self.at) = (level, now);
    }

    fn level(&self, now: Instant) -> f64 {
        match self.refill {
            Refill::Constant(rate) => {
                let refilled = now.saturating_duration_since(self.at).as_secs_f64() * rate;
                (self.level + refilled).min(self.limit)
            }
            Refill::Window { ends, .. } if now < ends => self.level,
            Refill::Window { .. } => self.limit,
        }
    }

    /// The window that `now` is in: its end and its length.
    fn window(&self, now: Instant) -> Option<(Instant, Duration)> {
        let Refill::Window { ends, length } = self.refill else { return None };
        let Some(over) = now.checked_duration_since(ends) else { return Some((ends, length)) };
        let into = u64::try_from(over.as_nanos() % length.as_nanos().max(1)).unwrap_or(0);
        Some((now + length.saturating_sub(Duration::from_nanos(into)), length))
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
            let wait = Meter::new(&report, (pending, pending), None, now).wait(units, 0.0, now);
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
        check(report(20, 0, 30_000), 0.0, 1.0, 30_000);
        check(report(20, 3, 30_000), 2.0, 1.0, 0);
        check(report(20, 3, 30_000), 3.0, 1.0, 30_000);
        // More than the limit, which is nearly all used.
        check(report(1_000, 10, 1), 0.0, 3_000.0, 1);
    }

    #[test]
    fn all_of_a_fixed_window_is_available_at_its_end() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let first = Meter::new(&report(6, 4, 6_000), (0.0, 0.0), None, start);
        // Later reports show the rest of the window.
        let mut meter = Meter::new(&report(6, 0, 4_000), (0.0, 0.0), Some(&first), after(2));
        assert_eq!(meter.wait(1.0, 0.0, after(3)), Duration::from_secs(3));
        for _ in 0..6 {
            assert_eq!(meter.wait(1.0, 0.0, after(7)), Duration::ZERO);
            meter.take(1.0, after(7));
        }
        assert_eq!(meter.wait(1.0, 0.0, after(7)), Duration::from_secs(5));
        assert_eq!(meter.wait(1.0, 0.0, after(13)), Duration::ZERO);
        meter.take(6.0, after(100));
        assert_eq!(meter.wait(1.0, 0.0, after(100)), Duration::from_secs(2));
        meter.give_back(2.0, after(101));
        assert_eq!(meter.wait(2.0, 0.0, after(101)), Duration::ZERO);
        assert_eq!(meter.wait(2.0, 1.0, after(101)), Duration::from_secs(1));
        // A report that agrees with a minute too, at the beginning of a window.
        let agrees = report(6, 5, 6_000);
        assert!(agrees.agreeing_windows().count() > 0);
        let mut meter = Meter::new(&agrees, (0.0, 0.0), Some(&meter), after(102));
        meter.take(5.0, after(102));
        assert_eq!(meter.wait(1.0, 0.0, after(103)), Duration::from_secs(5));
    }

    #[test]
    fn what_is_taken_counts_until_it_is_given_back() {
        let now = Instant::now();
        let mut meter = Meter::new(&report(20, 2, 54_000), (0.0, 0.0), None, now);
        meter.take(2.0, now);
        assert_eq!(meter.wait(1.0, 0.0, now), Duration::from_secs(3));
        assert_eq!(meter.wait(1.0, 1.0, now), Duration::from_secs(6));
        assert_eq!(meter.wait(1.0, 0.0, now + Duration::from_secs(2)), Duration::from_secs(1));
        meter.give_back(1.0, now);
        assert_eq!(meter.wait(1.0, 0.0, now), Duration::ZERO);
        meter.give_back(100.0, now);
        assert_eq!(meter.wait(20.0, 0.0, now), Duration::ZERO);
        assert!(meter.wait(20.0, 0.0, now + Duration::from_secs(1_000)).is_zero());
    }
}
