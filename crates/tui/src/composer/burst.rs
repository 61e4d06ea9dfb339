//! Recognises text that is pasted into a terminal which does not mark pastes: characters arrive faster
//! than a person types them.

use super::buffer::Pos;

/// Characters closer together than this, in milliseconds, were not typed by a person.
const INTERVAL: u64 = 8;
/// So long after the last character, in milliseconds, a burst is over.
const END: u64 = 40;
/// Short intervals that a burst needs before a line break is one of it: fingers that roll over two keys are
/// quicker than [`INTERVAL`] now and then, but not over three.
const ENOUGH: usize = 1;

/// The characters that came last.
#[derive(Clone, Debug, Default)]
pub(super) struct Burst {
    disabled: bool,
    /// When the last character came.
    last: Option<u64>,
    /// Where the first character was put.
    start: Pos,
    /// Short intervals since then.
    intervals: usize,
}

impl Burst {
    pub(super) fn set_disabled(&mut self, disabled: bool) {
        *self = Self { disabled, ..Self::default() };
    }

    /// A character is about to be put at `cursor`.
    pub(super) fn character(&mut self, now_ms: u64, cursor: Pos) {
        if self.disabled {
            return;
        }
        if self.continues(now_ms) {
            self.intervals += 1;
        } else {
            self.start = cursor;
            self.intervals = 0;
        }
        self.last = Some(now_ms);
    }

    /// Returns whether a key that arrives now belongs to a burst.
    pub(super) fn includes(&self, now_ms: u64) -> bool {
        self.intervals >= ENOUGH && self.continues(now_ms)
    }

    fn continues(&self, now_ms: u64) -> bool {
        self.last.is_some_and(|last| now_ms.saturating_sub(last) < INTERVAL)
    }

    /// When the burst is over unless another character comes.
    pub(super) fn deadline(&self) -> Option<u64> {
        let last = self.last.filter(|_| self.intervals >= ENOUGH)?;
        Some(last.saturating_add(END))
    }

    /// Ends what has come so far; returns where it began if it was a burst.
    pub(super) fn end(&mut self) -> Option<Pos> {
        let was_burst = self.intervals >= ENOUGH;
        self.last = None;
        self.intervals = 0;
        was_burst.then_some(self.start)
    }
}
