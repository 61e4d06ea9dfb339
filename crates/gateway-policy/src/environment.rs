//! The gateway's environment: time and randomness. The program injects them, so that tests are
//! deterministic.

use std::sync::{Arc, Mutex, PoisonError};

pub use ratelimit::SteadyTime;
use ratelimit::{DAY, Micros};

/// Two clocks, which tests control. Their times have different types: an interval cannot be measured with the clock
/// that an operator or NTP sets, and a date cannot be taken from the one that no one sets.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock, in microseconds since 1970-01-01 UTC: for everything that is a date. It may be set while the
    /// program runs, in both directions.
    fn now(&self) -> Micros;

    /// The monotonic clock: for intervals. It never goes back.
    fn steady(&self) -> SteadyTime;
}

/// A cryptographically secure source of randomness.
pub trait Random: Send + Sync + 'static {
    /// Fills `bytes` with randomness.
    fn fill(&self, bytes: &mut [u8]);
}

/// The sources of time and randomness.
#[derive(Clone)]
pub struct Environment {
    /// The current time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for ids and keys.
    pub random: Arc<dyn Random>,
}

/// A step of the wall clock of at least this size is noted.
const NOTED: Micros = 10_000_000;
/// A step forward up to this size is followed at once, as that of a machine that was suspended for a while.
const BELIEVED: Micros = 3_600_000_000;
/// The time after which a larger step forward is followed.
const DOUBT: Micros = DAY;

/// The wall clock for what cannot be undone: deletions, and what ends or is given up at a date. It follows a step back
/// and a small step forward at once, a larger step forward only when it has lasted for a day: a clock that is set wrong
/// by a year deletes nothing before it can be set right.
pub struct ExpiryClock {
    clock: Arc<dyn Clock>,
    followed: Mutex<Followed>,
}

struct Followed {
    /// The time of this clock when it was last read.
    at: Micros,
    /// The wall clock then.
    wall: Micros,
    /// The monotonic clock then.
    steady: SteadyTime,
    /// The beginning of the doubt about a step forward.
    doubted_since: Option<SteadyTime>,
    /// The last step of the wall clock, unless it was taken.
    step: Option<Step>,
}

/// A step of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Microseconds; negative: it was set back.
    pub by: i64,
    /// True if the expiry clock does not follow it yet.
    pub is_doubted: bool,
}

impl ExpiryClock {
    /// A clock that begins at the wall clock's time.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let (now, steady) = (clock.now(), clock.steady());
        let followed = Followed { at: now, wall: now, steady, doubted_since: None, step: None };
        Self { clock, followed: Mutex::new(followed) }
    }

    /// Its time, in microseconds since 1970-01-01 UTC. Notes steps of the wall clock since the last call.
    pub fn now(&self) -> Micros {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        let (wall, steady) = (self.clock.now(), self.clock.steady());
        followed.turn(wall, steady)
    }

    /// The last step of the wall clock of ten seconds or more, once.
    pub fn take_step(&self) -> Option<Step> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).step.take()
    }
}

impl Followed {
    fn turn(&mut self, wall: Micros, steady: SteadyTime) -> Micros {
        let passed = steady.since(self.steady);
        let expected = self.at.saturating_add(passed);
        let is_believed = wall <= expected.saturating_add(BELIEVED);
        let since = *self.doubted_since.get_or_insert(steady);
        if is_believed || steady.since(since) >= DOUBT {
            self.doubted_since = None;
            self.at = wall;
        } else {
            self.at = expected;
        }
        let step =
            wall.cast_signed().saturating_sub(self.wall.saturating_add(passed).cast_signed());
        if step.unsigned_abs() >= NOTED {
            self.step = Some(Step { by: step, is_doubted: self.at != wall });
        }
        (self.wall, self.steady) = (wall, steady);
        self.at
    }
}

impl std::fmt::Debug for ExpiryClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ExpiryClock")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: Micros = 3_600_000_000;
    const YEAR: Micros = 365 * DAY;
    const START: Micros = 1_794_268_800_000_000;

    fn followed() -> Followed {
        let steady = SteadyTime::from_micros(0);
        Followed { at: START, wall: START, steady, doubted_since: None, step: None }
    }

    #[test]
    fn a_step_forward_counts_when_it_has_lasted_for_a_day() {
        let mut followed = followed();
        let mut turn = |wall, steady| followed.turn(wall, SteadyTime::from_micros(steady)) - START;
        assert_eq!(turn(START + HOUR, HOUR), HOUR);
        // A suspended machine.
        assert_eq!(turn(START + 2 * HOUR, HOUR), 2 * HOUR);
        assert_eq!(turn(START + YEAR, HOUR), 2 * HOUR);
        assert_eq!(turn(START + YEAR + HOUR, 2 * HOUR), 3 * HOUR);
        assert_eq!(turn(START + YEAR + DAY - 1, HOUR + DAY - 1), 2 * HOUR + DAY - 1);
        assert_eq!(turn(START + YEAR + DAY, HOUR + DAY), YEAR + DAY);
    }

    #[test]
    fn steps_are_noted_once() {
        let mut followed = followed();
        let mut step = |wall, steady| {
            followed.turn(wall, SteadyTime::from_micros(steady));
            followed.step.take()
        };
        assert_eq!(step(START + HOUR, HOUR), None);
        // What NTP corrects little by little is no step.
        assert_eq!(step(START + 2 * HOUR + 9_000_000, 2 * HOUR), None);
        let is_doubted = |by, is_doubted| Some(Step { by, is_doubted });
        assert_eq!(
            step(START + YEAR, 2 * HOUR + 9_000_000),
            is_doubted((YEAR - 2 * HOUR - 18_000_000).cast_signed(), true)
        );
        assert_eq!(step(START + YEAR, 2 * HOUR + 9_000_000), None);
        assert_eq!(step(START, 2 * HOUR + 9_000_000), is_doubted(-YEAR.cast_signed(), false));
    }

    #[test]
    fn a_step_that_is_taken_back_never_counts() {
        let mut followed = followed();
        let mut turn = |wall, steady| followed.turn(wall, SteadyTime::from_micros(steady));
        turn(START + YEAR, HOUR);
        assert_eq!(turn(START + 5 * HOUR, 5 * HOUR), START + 5 * HOUR);
        // The doubt begins again.
        turn(START + YEAR, 6 * HOUR);
        assert_eq!(turn(START + YEAR, 25 * HOUR), START + 25 * HOUR);
        assert_eq!(turn(START - YEAR, 26 * HOUR), START - YEAR, "a step back counts at once");
        assert_eq!(turn(START, 27 * HOUR), START - YEAR + HOUR, "and the way back is a step");
    }

    proptest! {
        /// Whatever the wall clock does, this one never gains more than the bound on the time that has passed, unless a
        /// step has lasted for a day.
        #[test]
        fn it_is_never_hurried(steps in prop::collection::vec((0..HOUR, -400..400_i64), 1..40)) {
            let mut followed = followed();
            let (mut steady, mut before) = (0, START);
            for (passed, days) in steps.into_iter().take(23) {
                steady += passed;
                let wall = START.saturating_add_signed(days * DAY.cast_signed());
                let now = followed.turn(wall, SteadyTime::from_micros(steady));
                prop_assert!(now <= before + passed + BELIEVED);
                before = now;
            }
        }
    }
}
