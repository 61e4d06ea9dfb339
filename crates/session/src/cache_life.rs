//! The life of a thread's prefix in the provider's prompt cache, for marks of providers that take them. A prefix stays
//! for five minutes after its last use, and for an hour where a request says so, at a higher price.
//!
//! Relative to other input, a write costs 1.25 for five minutes and 2 for an hour, and a read 0.1. So the hour costs 0.75
//! of the prefix more, once, and saves 1.15 of it after each pause between the two. A thread that has paused once is
//! likely to pause again: from then on the history up to the pause is kept for the hour. After a pause of more
//! than an hour it would be lost anyway, so it is kept for the short time until the next shorter pause.

use crate::Millis;
use crate::port::prompt::CacheHints;

/// A prefix stays so long after its last use.
const SHORT: Millis = 5 * 60 * 1000;
/// A prefix stays so long where a request asks for it.
const LONG: Millis = 60 * 60 * 1000;

/// The requests of a thread as the provider's prompt cache sees them.
#[derive(Debug, Default)]
pub(crate) struct CacheLife {
    last: Option<Last>,
    /// Number of items of the history up to which the provider keeps it for longer.
    kept: usize,
    is_long: bool,
}

/// The last request.
#[derive(Debug)]
struct Last {
    at: Millis,
    /// Number of items of the history.
    items: usize,
    hints: CacheHints,
}

impl CacheLife {
    /// A request with a history of so many items is sent. `compacted`: those of the last compaction.
    pub(crate) fn request(&mut self, now: Millis, items: usize, compacted: usize) -> CacheHints {
        let pause = self.last.as_ref().map_or(0, |last| now.saturating_sub(last.at));
        if let Some(last) = &mut self.last
            && last.items == items
            && pause <= SHORT
        {
            // The same request is tried again: the first one may not have been answered.
            last.at = now;
            return last.hints;
        }
        self.kept = self.kept.max(compacted);
        let before = self.kept;
        if let Some(last) = &self.last
            && pause > SHORT
        {
            self.is_long = pause <= LONG;
            self.kept = self.kept.max(last.items.min(items));
        }
        let stable = if before == self.kept { [before, 0] } else { [before, self.kept] };
        let hints = CacheHints { stable, is_long: self.is_long, passing: 0 };
        self.last = Some(Last { at: now, items, hints });
        hints
    }

    /// The history was replaced, or its end removed.
    pub(crate) fn replaced(&mut self) {
        self.kept = 0;
        if let Some(last) = &mut self.last {
            last.items = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(stable: [usize; 2], is_long: bool) -> CacheHints {
        CacheHints { stable, passing: 0, is_long }
    }

    #[test]
    fn a_pause_keeps_what_was_sent_for_an_hour() {
        let mut life = CacheLife::default();
        let minute = 60_000;
        for (at, items, expect) in [
            (0, 3, hints([0, 0], false)),
            (5, 9, hints([0, 0], false)),
            // Ten minutes: what the last request had is kept.
            (15, 12, hints([0, 9], true)),
            (16, 20, hints([9, 0], true)),
            (17, 30, hints([9, 0], true)),
            // What was kept is read, and more is kept.
            (40, 33, hints([9, 30], true)),
            (41, 33, hints([9, 30], true)),
            (42, 35, hints([30, 0], true)),
            // More than an hour.
            (120, 40, hints([30, 35], false)),
            (121, 44, hints([35, 0], false)),
            (130, 46, hints([35, 44], true)),
        ] {
            assert_eq!(life.request(at * minute, items, 0), expect, "minute {at}");
        }
    }

    #[test]
    fn a_compaction_begins_again() {
        let mut life = CacheLife::default();
        life.request(0, 50, 0);
        assert_eq!(life.request(SHORT + 1, 60, 0), hints([0, 50], true));
        life.replaced();
        assert_eq!(life.request(SHORT + 2, 5, 4), hints([4, 0], true));
        assert_eq!(life.request(SHORT + 3, 9, 4), hints([4, 0], true));
        assert_eq!(life.request(3 * SHORT, 12, 4), hints([4, 9], true));
    }
}
