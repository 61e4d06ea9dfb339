//! The time that a budget has used, without its pauses.

use std::time::Duration;

use tokio::time::Instant;

/// The time that a budget has used.
#[derive(Debug)]
pub(super) struct Stopwatch {
    /// Before `since`.
    passed: Duration,
    /// When it was started, or last went on.
    since: Instant,
    /// While there are any it stands still.
    pauses: usize,
}

impl Stopwatch {
    pub(super) fn start(now: Instant) -> Self {
        Self { passed: Duration::ZERO, since: now, pauses: 0 }
    }

    pub(super) fn elapsed(&self, now: Instant) -> Duration {
        match self.pauses {
            0 => self.passed.saturating_add(now.saturating_duration_since(self.since)),
            _ => self.passed,
        }
    }

    /// When `elapsed` will have passed; `None` while it stands still.
    pub(super) fn time_of(&self, elapsed: Duration) -> Option<Instant> {
        (self.pauses == 0).then(|| self.since + elapsed.saturating_sub(self.passed))
    }

    pub(super) fn pause(&mut self, now: Instant) {
        self.passed = self.elapsed(now);
        self.pauses += 1;
    }

    /// Ends one pause.
    pub(super) fn resume(&mut self, now: Instant) {
        self.pauses = self.pauses.saturating_sub(1);
        if self.pauses == 0 {
            self.since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_do_not_count() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut watch = Stopwatch::start(start);
        watch.pause(at(3));
        watch.pause(at(5));
        watch.resume(at(7));
        assert_eq!((watch.elapsed(at(9)).as_secs(), watch.time_of(Duration::MAX)), (3, None));
        watch.resume(at(10));
        assert_eq!(watch.elapsed(at(14)).as_secs(), 7);
        assert_eq!(watch.time_of(Duration::from_secs(8)), Some(at(15)));
        assert_eq!(watch.time_of(Duration::from_secs(1)), Some(at(10)), "over already");
    }
}
