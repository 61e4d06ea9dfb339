//! When frames are drawn and when the server is read: at once for a key, fewer times for a stream, and
//! less than 60 times a second in all.

use std::time::Duration;

use tokio::time::Instant;

/// Between two frames for what the server sends by itself.
const STREAM: Duration = Duration::from_millis(50);
/// Between two frames in the long run: 55 a second, which leaves room for [`EXTRA`].
const LONG_RUN: Duration = Duration::from_millis(18);
/// Frames that may come earlier: a key, the rows that it searches for and their preview.
const EXTRA: u32 = 4;
/// Between two frames at least.
const LEAST: Duration = Duration::from_millis(1);
/// A batch of at least so many messages is a burst: the server is read on without a rest.
const BURST: usize = 64;

/// The wait of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// Nothing changed.
    Never,
    /// Something that the server sent by itself.
    Soon,
    /// Something that the user typed or waits for.
    Now,
}

/// The schedule of frames and of reading the server.
#[derive(Debug)]
pub(super) struct Pace {
    due: Due,
    /// When the last frame was drawn.
    drawn: Option<Instant>,
    /// When all frames so far would have been drawn at the pace of the long run.
    paid: Option<Instant>,
    /// Number of messages of the server at the last reading.
    batch: usize,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { due: Due::Never, drawn: None, paid: None, batch: 0 }
    }

    /// Something changed.
    pub(super) fn changed(&mut self, due: Due) {
        self.due = self.due.max(due);
    }

    /// When the next frame is to be drawn, where something changed.
    pub(super) fn frame_at(&self, now: Instant) -> Option<Instant> {
        let wait = match self.due {
            Due::Never => return None,
            Due::Soon => STREAM,
            Due::Now => LEAST,
        };
        let after_last = self.drawn.map_or(now, |drawn| drawn + wait);
        let paid = self.paid.and_then(|paid| paid.checked_sub(LONG_RUN * EXTRA));
        Some(paid.map_or(after_last, |paid| paid.max(after_last)))
    }

    /// A frame was drawn.
    pub(super) fn drew(&mut self, now: Instant) {
        self.due = Due::Never;
        self.drawn = Some(now);
        self.paid = Some(self.paid.map_or(now, |paid| paid.max(now)) + LONG_RUN);
    }

    /// The server was read: so many messages had come.
    pub(super) fn read(&mut self, messages: usize) {
        self.batch = messages;
    }

    /// Returns whether messages of the server can wait for the frame that is due. Each message of a
    /// slow stream would otherwise wake the process, which takes longer than to handle it.
    pub(super) fn rests(&self) -> bool {
        self.due == Due::Soon && self.batch < BURST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    /// Draws whenever it may, for two seconds in which something changes all the time; returns when.
    fn frames(due: Due) -> Vec<u64> {
        let start = Instant::now();
        let mut pace = Pace::new();
        let mut drawn = Vec::new();
        for ms in 0..2_000 {
            pace.changed(due);
            if pace.frame_at(after(start, ms)).is_some_and(|at| at <= after(start, ms)) {
                pace.drew(after(start, ms));
                drawn.push(ms);
            }
        }
        drawn
    }

    #[test]
    fn a_key_its_answer_and_the_preview_are_drawn_at_once() {
        assert_eq!(frames(Due::Now)[..4], [0, 1, 2, 3]);
    }

    #[test]
    fn no_second_has_more_than_sixty_frames() {
        let drawn = frames(Due::Now);
        for second in 0..1_000 {
            let count = drawn.iter().filter(|at| (second..second + 1_000).contains(*at)).count();
            assert!(count <= 60, "{count} frames from {second} ms on");
        }
    }

    #[test]
    fn a_stream_is_drawn_twenty_times_a_second() {
        assert_eq!(frames(Due::Soon)[..4], [0, 50, 100, 150]);
    }

    #[test]
    fn nothing_is_drawn_without_a_change() {
        assert_eq!(Pace::new().frame_at(Instant::now()), None);
    }

    #[test]
    fn the_server_rests_only_in_a_slow_stream() {
        let mut pace = Pace::new();
        assert!(!pace.rests(), "nothing changed");
        pace.changed(Due::Soon);
        pace.read(3);
        assert!(pace.rests());
        pace.read(BURST);
        assert!(!pace.rests(), "more is on its way");
        pace.read(3);
        pace.changed(Due::Now);
        assert!(!pace.rests(), "the user waits");
    }
}
