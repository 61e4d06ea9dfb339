//! The state of a queue: the limits, the waiting requests, and the kept places. Pure: the caller
//! brings the time.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::meter::Meter;
use super::{LONGEST, Outlook};
use crate::rate_limits::{RateLimit, RateLimits};

/// A request, its tokens, and its tokens of the project.
pub(super) type Units = [f64; 3];

/// Time for which the place of a refused request is kept beyond the wait that the provider asks
/// for: the longest random part of a wait before a retry is 5 s.
const GRACE: Duration = Duration::from_secs(6);

/// A place in the order of arrival; two requests of one arrival differ by the second number.
pub(super) type Position = (u64, u64);

#[derive(Default)]
pub(super) struct State {
    /// Requests, tokens, tokens of the project.
    meters: [Option<Meter>; 3],
    /// Units of the requests that have no answer yet, by number.
    pending: BTreeMap<u64, Units>,
    waiting: BTreeMap<Position, Waiting>,
    /// Places of refused requests that come again.
    kept: BTreeMap<u64, Kept>,
    /// The provider asked for this wait.
    blocked: Option<Instant>,
    last: u64,
    /// Requests that were sent, and the newest of them that has a report.
    sent: u64,
    reported: u64,
}

/// A request in the queue.
struct Waiting {
    units: Units,
    /// Its turn may have come.
    turn: Arc<Notify>,
}

/// The place of a request that was refused: later requests leave its units to it.
struct Kept {
    units: Units,
    until: Instant,
    /// Ends with the request.
    arrival: Weak<u64>,
}

impl State {
    /// Adds a request of this arrival to the queue.
    pub(super) fn join(&mut self, arrival: u64, units: Units) -> (Position, Arc<Notify>) {
        self.last += 1;
        let (position, turn) = ((arrival, self.last), Arc::new(Notify::new()));
        self.waiting.insert(position, Waiting { units, turn: Arc::clone(&turn) });
        (position, turn)
    }

    /// Takes a request out of the queue.
    pub(super) fn leave(&mut self, position: Position) {
        self.waiting.remove(&position);
        self.wake_first();
    }

    /// The first request looks again whether its turn has come.
    pub(super) fn wake_first(&self) {
        if let Some(first) = self.waiting.values().next() {
            first.turn.notify_one();
        }
    }

    /// Returns the wait of the request at `position`; `None`: that of the requests before it.
    pub(super) fn wait_at(&self, position: Position, now: Instant) -> Option<Duration> {
        let (first, waiting) = self.waiting.first_key_value()?;
        (*first == position).then(|| self.wait(position.0, &waiting.units, now))
    }

    /// Takes the units of a request that is sent now. Returns its number among those that were sent.
    pub(super) fn take(&mut self, arrival: u64, units: &Units, now: Instant) -> u64 {
        self.sent += 1;
        self.kept.remove(&arrival);
        self.pending.insert(self.sent, *units);
        take_from(&mut self.meters, units, now);
        self.sent
    }

    /// Returns the units of a request that was not sent.
    pub(super) fn give_back(&mut self, number: u64, units: Units, now: Instant) {
        self.pending.remove(&number);
        for (meter, units) in self.meters.iter_mut().zip(units) {
            if let Some(meter) = meter {
                meter.give_back(units, now);
            }
        }
        self.wake_first();
    }

    /// The provider has answered the request of this number.
    pub(super) fn answered(&mut self, number: u64) {
        self.pending.remove(&number);
    }

    /// The provider reported limits with the answer to the request of this number.
    pub(super) fn report(&mut self, limits: Option<&RateLimits>, number: u64, now: Instant) {
        if let Some(limits) = limits {
            let is_newest = number >= self.reported;
            self.reported = self.reported.max(number);
            let RateLimits { requests, tokens, project_tokens } = limits;
            let reports: [&Option<RateLimit>; 3] = [requests, tokens, project_tokens];
            // Whether the provider has counted those that were sent before is not known.
            let pending = self.pending.values().copied().fold([0.0; 3], add);
            let sent = pending[0];
            for ((meter, pending), report) in self.meters.iter_mut().zip(pending).zip(reports) {
                let before = meter.as_ref();
                let new = |report| Meter::new(report, (sent, pending), before, now);
                let new = |report| match is_newest {
                    true => new(report),
                    false => new(report).no_more_than(before, now),
                };
                *meter = report.as_ref().map(new);
            }
        }
        self.wake_first();
    }

    /// The provider has refused a request for its limit, and perhaps asked for a wait. Its place is
    /// kept until it comes again.
    pub(super) fn refused(
        &mut self,
        arrival: &Arc<u64>,
        units: Units,
        wait: Option<Duration>,
        now: Instant,
    ) {
        let Some(until) = now.checked_add(wait.unwrap_or_default().min(LONGEST)) else { return };
        self.kept.retain(|_, kept| kept.is_alive(now));
        if wait.is_none_or(|wait| wait <= LONGEST) {
            let arrival = (**arrival, Arc::downgrade(arrival));
            self.kept.insert(arrival.0, Kept { units, until: until + GRACE, arrival: arrival.1 });
        }
        if wait.is_some_and(|wait| wait <= LONGEST) {
            self.blocked = Some(self.blocked.map_or(until, |blocked| blocked.max(until)));
        }
        self.wake_first();
    }

    /// Returns the outlook of a request of this arrival.
    pub(super) fn outlook(&self, arrival: u64, units: &Units, now: Instant) -> Outlook {
        let before = self.waiting.range(..(arrival, 0));
        let mut ahead: BTreeMap<u64, &Units> =
            before.map(|((arrival, _), waiting)| (*arrival, &waiting.units)).collect();
        let kept = self.kept.range(..arrival).filter(|(_, kept)| kept.is_alive(now));
        ahead.extend(kept.map(|(arrival, kept)| (*arrival, &kept.units)));
        let (mut meters, mut at) = (self.meters, self.blocked.map_or(now, |until| until.max(now)));
        for units in ahead.values().copied().chain([units]) {
            let wait = wait_for(&meters, units, &[0.0; 3], at);
            // With a longer wait it is sent at once.
            if wait <= LONGEST {
                at += wait;
            }
            take_from(&mut meters, units, at);
        }
        Outlook { wait: at.saturating_duration_since(now), ahead: ahead.len() }
    }

    /// Returns the wait of a request of this arrival when it is the first: also for the units that
    /// are reserved for earlier requests that come again.
    fn wait(&self, arrival: u64, units: &Units, now: Instant) -> Duration {
        let blocked = self.blocked.map(|until| until.saturating_duration_since(now));
        let own = wait_for(&self.meters, units, &[0.0; 3], now).max(blocked.unwrap_or_default());
        let (mut kept, mut until) = ([0.0; 3], now);
        for (_, place) in self.kept.range(..arrival).filter(|(_, place)| place.is_alive(now)) {
            kept = add(kept, place.units);
            until = until.max(place.until);
        }
        let with_kept = wait_for(&self.meters, units, &kept, now);
        own.max(with_kept.min(until.saturating_duration_since(now)).min(LONGEST))
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

impl Kept {
    fn is_alive(&self, now: Instant) -> bool {
        self.until > now && self.arrival.strong_count() > 0
    }
}

/// The wait before `units` are available in addition to those that are `kept`.
fn wait_for(meters: &[Option<Meter>; 3], units: &Units, kept: &Units, now: Instant) -> Duration {
    let waits = meters.iter().zip(units.iter().zip(kept));
    let waits =
        waits.filter_map(|(meter, (units, kept))| Some(meter.as_ref()?.wait(*units, *kept, now)));
    waits.max().unwrap_or_default()
}

fn take_from(meters: &mut [Option<Meter>; 3], units: &Units, now: Instant) {
    for (meter, units) in meters.iter_mut().zip(units) {
        if let Some(meter) = meter {
            meter.take(*units, now);
        }
    }
}

fn add(one: Units, other: Units) -> Units {
    std::array::from_fn(|n| one[n] + other[n])
}
