//! Log lines that many requests would repeat: one in a minute, with the number of those that it stands for.

use std::sync::{Mutex, PoisonError};

use ratelimit::{MINUTE, SteadyTime};

/// The events of one kind.
#[derive(Debug, Default)]
pub(crate) struct Throttle(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    /// When the last line was logged.
    last: Option<SteadyTime>,
    /// Events since then.
    silent: u64,
}

impl Throttle {
    /// Counts an event. Returns how many were not logged before it, if it is to be logged.
    pub(crate) fn count(&self, now: SteadyTime) -> Option<u64> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.last.is_some_and(|last| now < last.after(MINUTE)) {
            counted.silent += 1;
            return None;
        }
        counted.last = Some(now);
        Some(std::mem::take(&mut counted.silent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_in_a_minute_is_logged_with_the_number_of_the_others() {
        let throttle = Throttle::default();
        for (now, expected) in [
            (MINUTE, Some(0)),
            (MINUTE, None),
            (2 * MINUTE - 1, None),
            (2 * MINUTE, Some(2)),
            (3 * MINUTE, Some(0)),
            (9 * MINUTE, Some(0)),
        ] {
            assert_eq!(throttle.count(SteadyTime::from_micros(now)), expected, "{now}");
        }
    }
}
