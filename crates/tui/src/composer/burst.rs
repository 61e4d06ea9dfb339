//! Recognises text that is pasted into a terminal which does not mark pastes: characters arrive faster
//! than a person types them, in pieces with pauses between them.

use super::buffer::Pos;

/// Characters closer together than this, in milliseconds, were not typed by a person.
const QUICK: u64 = 8;
/// The longest pause between two pieces of a paste, in milliseconds; later, a burst is over.
pub(super) const PAUSE: u64 = 60;
/// Quick intervals after which it is a burst: fingers that roll over two keys are quicker than [`QUICK`] now
/// and then, but not over four.
const ENOUGH_QUICK: usize = 3;
/// Intervals up to [`PAUSE`] after which it is one: no one types so many characters so steadily.
const ENOUGH_STEADY: usize = 12;

/// The characters that came last.
#[derive(Clone, Debug, Default)]
pub(super) struct Burst {
    disabled: bool,
    /// When the last character came.
    last: Option<u64>,
    /// Where the first character was put.
    start: Pos,
    /// Intervals since then: those that were quick, and all.
    quick: usize,
    all: usize,
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
        match self.since_last(now_ms).filter(|interval| *interval <= PAUSE) {
            Some(interval) => {
                self.quick += usize::from(interval < QUICK);
                self.all += 1;
            }
            None => (self.start, self.quick, self.all) = (cursor, 0, 0),
        }
        self.last = Some(now_ms);
    }

    /// Returns whether a key that arrives now belongs to a burst.
    pub(super) fn includes(&self, now_ms: u64) -> bool {
        self.is_burst() && self.may_go_on(now_ms)
    }

    /// Returns whether a character that arrives now would belong to what came last.
    pub(super) fn may_go_on(&self, now_ms: u64) -> bool {
        self.since_last(now_ms).is_some_and(|interval| interval <= PAUSE)
    }

    /// When the burst is over unless another character comes.
    pub(super) fn deadline(&self) -> Option<u64> {
        let last = self.last.filter(|_| self.is_burst())?;
        Some(last.saturating_add(PAUSE))
    }

    /// Ends what has come so far; returns where it began if it was a burst.
    pub(super) fn end(&mut self) -> Option<Pos> {
        let was_burst = self.is_burst();
        (self.last, self.quick, self.all) = (None, 0, 0);
        was_burst.then_some(self.start)
    }

    /// When the last character came.
    #[cfg(test)]
    pub(super) fn last_ms(&self) -> Option<u64> {
        self.last
    }

    fn is_burst(&self) -> bool {
        self.quick >= ENOUGH_QUICK || self.all >= ENOUGH_STEADY
    }

    fn since_last(&self, now_ms: u64) -> Option<u64> {
        now_ms.checked_sub(self.last?)
    }
}
