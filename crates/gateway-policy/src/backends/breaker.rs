//! The circuit breaker of a backend: failures in a row open it for a time that grows, then one request at a time tries
//! the backend again. Probes may open it too, and end its time early.

use std::time::Duration;

use ratelimit::{Micros, SteadyTime};

/// Failures in a row that open a closed breaker.
const FAILURES: u32 = 3;
/// Failed probes in a row that open it.
const PROBES: u32 = 2;
/// The time for which it is open at first. Doubles with each trial that fails.
const FIRST: Micros = 1_000_000;
/// The longest time for which it is open.
const LONGEST: Micros = 60_000_000;
/// Time for which a trial keeps further ones away: an answer that takes minutes does not keep the backend out of use.
const TRIAL: Micros = 10_000_000;

/// The circuit breaker of a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    /// Failures since the last success.
    failures: u32,
    /// Failed probes since the last one that succeeded.
    failed_probes: u32,
    /// Openings since it was closed.
    openings: u32,
    /// The time until the next trial; `None`: it is closed.
    until: Option<SteadyTime>,
}

/// The availability of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It takes requests.
    Ready,
    /// It takes one request, which decides.
    Trial,
    /// It takes none until that moment.
    Away(SteadyTime),
}

/// The part of a request in the decision about a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// A request like any other.
    Usual,
    /// A request that tries a backend whose breaker is open.
    Trial,
    /// The same before its time, because no backend was available.
    Early,
}

impl Breaker {
    /// The availability at that time.
    #[must_use]
    pub fn health(&self, now: SteadyTime) -> Health {
        match self.until {
            None => Health::Ready,
            Some(until) if now >= until => Health::Trial,
            Some(until) => Health::Away(until),
        }
    }

    /// Begins a request. On an open breaker it is a trial. Before its time, when no backend was available, it may close
    /// the breaker, but says nothing new when it fails: else a moment in which all backends fail would put each of them
    /// aside for as long as possible.
    pub fn begin(&mut self, now: SteadyTime) -> Pass {
        match self.until {
            None => Pass::Usual,
            Some(until) if now < until => Pass::Early,
            Some(_) => {
                self.until = Some(now.after(TRIAL));
                Pass::Trial
            }
        }
    }

    /// The backend answered. Answers to requests from before it was opened do not close it. Returns whether it was
    /// closed now.
    pub fn succeed(&mut self, pass: Pass) -> bool {
        match pass {
            Pass::Usual if self.until.is_some() => false,
            Pass::Usual => {
                self.failures = 0;
                false
            }
            Pass::Trial | Pass::Early => {
                let was_open = self.until.is_some();
                *self = Self { failed_probes: self.failed_probes, ..Self::default() };
                was_open
            }
        }
    }

    /// The backend failed a request. Returns for how long it is opened, if it is opened now.
    pub fn fail(&mut self, pass: Pass, now: SteadyTime) -> Option<Duration> {
        match (pass, self.until) {
            // It was opened in the meantime, or is open anyway.
            (Pass::Usual | Pass::Early, Some(_)) => None,
            (Pass::Usual, None) => {
                self.failures = self.failures.saturating_add(1);
                (self.failures >= FAILURES).then(|| self.open(now))
            }
            // Another trial has closed it; this failure is the first one since.
            (Pass::Trial | Pass::Early, None) => {
                self.failures = self.failures.saturating_add(1);
                None
            }
            (Pass::Trial, Some(_)) => Some(self.open(now)),
        }
    }

    /// The request ended without a verdict, such as that of a client that went away. The next one is the trial.
    pub fn abandon(&mut self, pass: Pass, now: SteadyTime) {
        if let (Pass::Trial, Some(until)) = (pass, &mut self.until) {
            *until = now.min(*until);
        }
    }

    /// A probe has ended; the next one is after `interval`. Returns whether it opened the breaker.
    pub fn probed(&mut self, succeeded: bool, interval: Duration, now: SteadyTime) -> bool {
        if succeeded {
            self.failed_probes = 0;
            if let Some(until) = &mut self.until {
                *until = now.min(*until);
            }
            return false;
        }
        self.failed_probes = self.failed_probes.saturating_add(1);
        if self.failed_probes < PROBES {
            return false;
        }
        let was_closed = self.until.is_none();
        let interval = u64::try_from(interval.as_micros()).unwrap_or(u64::MAX);
        let next = now.after(interval.saturating_mul(2));
        self.until = Some(self.until.map_or(next, |until| until.max(next)));
        was_closed
    }

    fn open(&mut self, now: SteadyTime) -> Duration {
        let time = FIRST.saturating_mul(1 << self.openings.min(16)).min(LONGEST);
        self.openings = self.openings.saturating_add(1);
        self.failures = 0;
        self.until = Some(now.after(time));
        Duration::from_micros(time)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Micros = 1_000_000;

    fn at(micros: Micros) -> SteadyTime {
        SteadyTime::from_micros(micros)
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_trial_closes_it() {
        let mut breaker = Breaker::default();
        assert_eq!(breaker.fail(Pass::Usual, at(0)), None);
        assert_eq!(breaker.fail(Pass::Usual, at(0)), None);
        assert!(!breaker.succeed(Pass::Usual), "a success in between starts the row again");
        assert_eq!(breaker.fail(Pass::Usual, at(0)), None);
        assert_eq!(breaker.fail(Pass::Usual, at(0)), None);
        assert_eq!(breaker.fail(Pass::Usual, at(0)), Some(Duration::from_secs(1)));
        assert_eq!(breaker.health(at(0)), Health::Away(at(SECOND)));
        assert_eq!(breaker.fail(Pass::Usual, at(0)), None, "requests in flight do not prolong it");
        assert!(!breaker.succeed(Pass::Usual), "nor do they close it");
        assert_eq!(breaker.health(at(SECOND)), Health::Trial);
        assert_eq!(breaker.begin(at(SECOND)), Pass::Trial);
        assert_eq!(
            breaker.health(at(SECOND)),
            Health::Away(at(SECOND + TRIAL)),
            "one trial at a time"
        );
        assert!(breaker.succeed(Pass::Trial));
        assert_eq!(breaker.health(at(SECOND)), Health::Ready);
    }

    #[test]
    fn the_time_doubles_up_to_a_bound_and_starts_again_once_closed() {
        let mut breaker = Breaker::default();
        let mut now = 0;
        for _ in 0..FAILURES {
            breaker.fail(Pass::Usual, at(now));
        }
        for seconds in [2, 4, 8, 16, 32, 60, 60, 60] {
            let Health::Away(until) = breaker.health(at(now)) else { panic!("it is open") };
            now = until.micros();
            let pass = breaker.begin(at(now));
            assert_eq!(breaker.fail(pass, at(now)), Some(Duration::from_secs(seconds)));
        }
        let pass = breaker.begin(at(now));
        assert!(breaker.succeed(pass));
        breaker.fail(Pass::Usual, at(now));
        breaker.fail(Pass::Usual, at(now));
        assert_eq!(breaker.fail(Pass::Usual, at(now)), Some(Duration::from_secs(1)));
    }

    /// While no backend is available, each request tries one: however many fail, the next trial comes when it was due.
    #[test]
    fn requests_before_its_time_close_it_and_do_not_prolong_it() {
        let mut breaker = Breaker::default();
        for _ in 0..FAILURES {
            breaker.fail(Pass::Usual, at(0));
        }
        for moment in 1..100 {
            let pass = breaker.begin(at(moment));
            assert_eq!((pass, breaker.fail(pass, at(moment))), (Pass::Early, None));
        }
        assert_eq!(breaker.health(at(100)), Health::Away(at(SECOND)));
        let pass = breaker.begin(at(100));
        breaker.abandon(pass, at(100));
        assert_eq!(breaker.health(at(100)), Health::Away(at(SECOND)));
        let pass = breaker.begin(at(100));
        assert!(breaker.succeed(pass));
        assert_eq!(breaker.health(at(100)), Health::Ready);
    }

    #[test]
    fn a_trial_without_a_verdict_leaves_the_place_to_the_next_request() {
        let mut breaker = Breaker::default();
        for _ in 0..FAILURES {
            breaker.fail(Pass::Usual, at(0));
        }
        let pass = breaker.begin(at(SECOND));
        breaker.abandon(pass, at(SECOND));
        assert_eq!(breaker.health(at(SECOND)), Health::Trial);
        // One that takes long does not hold up the others.
        breaker.begin(at(SECOND));
        assert_eq!(breaker.health(at(SECOND + TRIAL)), Health::Trial);
    }

    #[test]
    fn probes_open_it_and_end_its_time() {
        let interval = Duration::from_secs(5);
        let mut breaker = Breaker::default();
        assert!(!breaker.probed(false, interval, at(0)));
        assert_eq!(breaker.health(at(0)), Health::Ready, "one failed probe is none");
        assert!(breaker.probed(false, interval, at(0)));
        assert_eq!(breaker.health(at(9 * SECOND)), Health::Away(at(10 * SECOND)));
        assert!(!breaker.probed(false, interval, at(5 * SECOND)));
        assert_eq!(breaker.health(at(10 * SECOND)), Health::Away(at(15 * SECOND)));
        breaker.probed(true, interval, at(11 * SECOND));
        assert_eq!(breaker.health(at(11 * SECOND)), Health::Trial);
        let pass = breaker.begin(at(11 * SECOND));
        breaker.succeed(pass);
        assert_eq!(breaker.health(at(11 * SECOND)), Health::Ready);
    }

    #[derive(Clone, Copy, Debug)]
    enum Event {
        Begin,
        Succeed,
        Fail,
        Abandon,
        Probe(bool),
        Pass(u32),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            Just(Event::Begin),
            Just(Event::Succeed),
            Just(Event::Fail),
            Just(Event::Abandon),
            any::<bool>().prop_map(Event::Probe),
            (0..90_000_000u32).prop_map(Event::Pass),
        ]
    }

    proptest! {
        /// Whatever happens, a backend gets a trial within a bounded time, and only failures put it aside.
        #[test]
        fn it_never_stays_open_for_ever(events in proptest::collection::vec(event(), 0..200)) {
            let (mut breaker, mut now, mut running) = (Breaker::default(), 0, Vec::new());
            let mut failures = 0;
            for event in events {
                match event {
                    Event::Begin => running.push(breaker.begin(at(now))),
                    Event::Succeed => {
                        let _ = running.pop().map(|pass| breaker.succeed(pass));
                    }
                    Event::Fail => {
                        failures += u32::from(!running.is_empty());
                        let _ = running.pop().map(|pass| breaker.fail(pass, at(now)));
                    }
                    Event::Abandon => {
                        let _ = running.pop().map(|pass| breaker.abandon(pass, at(now)));
                    }
                    Event::Probe(succeeded) => {
                        failures += u32::from(!succeeded);
                        breaker.probed(succeeded, Duration::from_secs(10), at(now));
                    }
                    Event::Pass(time) => now += u64::from(time),
                }
                if let Health::Away(until) = breaker.health(at(now)) {
                    prop_assert!(until > at(now) && until.since(at(now)) <= LONGEST);
                    prop_assert!(failures >= FAILURES.min(PROBES));
                }
            }
            prop_assert_ne!(breaker.health(at(now + LONGEST)), Health::Away(at(now + LONGEST)));
            let pass = breaker.begin(at(now + LONGEST));
            breaker.succeed(pass);
            prop_assert_eq!(breaker.health(at(now + LONGEST)), Health::Ready);
        }
    }
}
