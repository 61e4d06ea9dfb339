//! The ways to find a word's letters in a text, in order and with gaps: only the best ones are kept, and
//! they are extended as the text goes on. The ways in a folder's path are found once for all of its
//! entries.

use crate::letter::Letter;
use crate::query::Word;

/// A score that no path may have.
pub(crate) const NONE: i32 = i32::MIN / 2;
/// For a letter next to the one before, where its place does not count more.
pub(crate) const NEXT: i32 = 8;
pub(crate) const GAP_START: i32 = 3;
pub(crate) const GAP: i32 = 1;

/// The best ways so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ways {
    /// One for each letter of the word.
    rows: Vec<Row>,
    /// The best score of the whole word.
    best: i32,
}

/// The best scores with a letter of a word at the places so far.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// The last place, and the best score with the letter there.
    last: usize,
    score: i32,
    /// The best score with the letter at an earlier place, plus [`GAP`] for each place up to that.
    earlier: i32,
}

impl Default for Row {
    fn default() -> Self {
        Self { last: 0, score: NONE, earlier: NONE }
    }
}

impl Row {
    /// The best scores before the next letter at `at`: with this letter next to it, and earlier.
    #[inline]
    fn before(&mut self, at: usize) -> (i32, i32) {
        let mut next = NONE;
        if self.score != NONE {
            if self.last + 1 == at {
                next = self.score;
            } else {
                self.pass();
            }
        }
        (next, self.earlier.saturating_sub(GAP * distance(at)))
    }

    #[inline]
    fn set(&mut self, at: usize, score: i32) {
        if self.score != NONE {
            self.pass();
        }
        (self.last, self.score) = (at, score);
    }

    /// Counts the last place among the earlier ones: the next letter comes after a gap.
    #[inline]
    fn pass(&mut self) {
        let score = self.score - GAP_START + GAP * distance(self.last + 2);
        self.earlier = self.earlier.max(score);
        self.score = NONE;
    }
}

impl Ways {
    /// Begins with a word of so many letters, and no text.
    pub(crate) fn begin(&mut self, letters: usize) {
        self.rows.clear();
        self.rows.resize(letters, Row::default());
        self.best = NONE;
    }

    /// As [`Clone::clone`], into the same memory.
    pub(crate) fn copy(&mut self, from: &Self) {
        self.rows.clone_from(&from.rows);
        self.best = from.best;
    }

    /// The best score of the whole word; [`NONE`] when the text does not contain it.
    pub(crate) fn best(&self) -> i32 {
        self.best
    }

    /// The best score of the word's letters up to `letter`, for those after it, which are at `at` or later.
    pub(crate) fn best_before(&self, letter: usize, at: usize) -> i32 {
        let mut row = self.rows[letter];
        let (next, apart) = row.before(at);
        next.max(apart)
    }

    /// Finds the ways that end with `letter` of the text, at `at`, which counts `value`, and `place` for
    /// its place.
    #[inline]
    pub(crate) fn extend<L: Letter>(
        &mut self,
        word: &Word<L>,
        (at, letter): (usize, L),
        (value, place): (i32, i32),
    ) {
        let mut places = word.places_of(letter);
        // Later letters first: they read the rows of earlier letters as they were before this place.
        while places != 0 {
            let j = 63 - places.leading_zeros() as usize;
            places &= !(1 << j);
            if !word.is_at(j, letter) {
                continue;
            }
            let score = match j.checked_sub(1) {
                None => value + 2 * place,
                Some(before) => {
                    let (next, apart) = self.rows[before].before(at);
                    value + (apart + place).max(next + place.max(NEXT))
                }
            };
            if score > NONE / 2 {
                self.rows[j].set(at, score);
                if j + 1 == self.rows.len() {
                    self.best = self.best.max(score);
                }
            }
        }
    }
}

fn distance(at: usize) -> i32 {
    i32::try_from(at).unwrap_or(i32::MAX / 4)
}
