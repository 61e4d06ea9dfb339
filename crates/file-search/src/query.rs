//! A query: words that a path must contain, each as letters in order with any others between them.
//!
//! A word with an upper-case letter is compared with regard to case, another one without.

use crate::error::Error;
use crate::letter::{Letter, NOT_ASCII, bit, pairs};

/// Longest query, in characters.
pub const MAX_QUERY_CHARS: usize = 256;
/// Most words of a query.
pub const MAX_QUERY_WORDS: usize = 16;

/// Letters of a word whose places are known by bits.
pub(crate) const MAX_PLACES: usize = 64;

/// A query that is within the bounds.
#[derive(Clone, Debug)]
pub struct Query {
    text: String,
    pub(crate) words: Words,
}

#[derive(Clone, Debug)]
pub(crate) enum Words {
    /// All of them are ASCII.
    Bytes(Vec<Word<u8>>),
    Chars(Vec<Word<char>>),
}

#[derive(Clone, Debug)]
pub(crate) struct Word<L> {
    letters: Vec<L>,
    minds_case: bool,
    /// The mask of the letters from each one to the end; the last is 0.
    masks: Vec<u32>,
    /// See [`pairs`]; without those with a slash, or what is not ASCII.
    pairs: u64,
    /// For each bit of a mask, which of the first 64 letters have it.
    places: [u64; 32],
    has_slash: bool,
    /// Letters after the last slash.
    in_last_part: usize,
    later_separators: usize,
    /// A mask alone says whether a text contains the last letter.
    ends_in_own_bit: bool,
}

impl Query {
    /// Reads a query. One without words matches every path.
    ///
    /// # Errors
    /// [`Error::QueryTooLong`].
    pub fn new(text: &str) -> Result<Self, Error> {
        let check = |unit, found: usize, most| match found > most {
            true => Err(Error::QueryTooLong { unit, found, most }),
            false => Ok(()),
        };
        check("characters", text.chars().count(), MAX_QUERY_CHARS)?;
        check("words", text.split_whitespace().count(), MAX_QUERY_WORDS)?;
        let words = if text.is_ascii() {
            Words::Bytes(text.split_whitespace().map(Word::new).collect())
        } else {
            Words::Chars(text.split_whitespace().map(Word::new).collect())
        };
        Ok(Self { text: text.to_owned(), words })
    }

    /// The query as it was given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl<L: Letter> Word<L> {
    fn new(word: &str) -> Self {
        let minds_case = word.chars().any(char::is_uppercase);
        let letters = L::letters(word.as_bytes());
        let letters = letters.map(|letter| if minds_case { letter } else { letter.fold() });
        let bit = |char: char| match u8::try_from(char) {
            Ok(byte) if byte.is_ascii() => bit(byte),
            _ => NOT_ASCII,
        };
        let mut masks: Vec<u32> = std::iter::once(0)
            .chain(word.chars().rev().map(bit).scan(0, |mask, bit| {
                *mask |= bit;
                Some(*mask)
            }))
            .collect();
        masks.reverse();
        let letters: Vec<L> = letters.collect();
        // Characters that are not ASCII are compared without regard to how they are encoded.
        let pairs = word.split(|c: char| c == '/' || !c.is_ascii());
        let pairs = pairs.fold(0, |all, part| all | self::pairs(part.as_bytes()));
        let later_separators = letters.iter().skip(1).filter(|l| l.is_ascii_separator()).count();
        let mut places = [0; 32];
        for (at, letter) in letters.iter().enumerate().take(MAX_PLACES) {
            places[letter.bit_number()] |= 1 << at;
        }
        let has_slash = word.contains('/');
        let last_part = word.rsplit('/').next().unwrap_or_default();
        let in_last_part = L::letters(last_part.as_bytes()).count();
        let last = letters.last();
        let ends_in_own_bit = !minds_case && last.is_some_and(|letter| letter.has_own_bit());
        Self {
            letters,
            minds_case,
            masks,
            pairs,
            places,
            has_slash,
            in_last_part,
            later_separators,
            ends_in_own_bit,
        }
    }

    /// Number of letters, at least 1.
    pub(crate) fn len(&self) -> usize {
        self.letters.len()
    }

    pub(crate) fn has_slash(&self) -> bool {
        self.has_slash
    }

    /// Returns whether a text with these pairs of letters, or two texts around a slash, may contain
    /// the word without gaps.
    #[inline]
    pub(crate) fn may_be_run_in(&self, pairs: u64) -> bool {
        self.pairs & !pairs == 0
    }

    /// Number of letters but the first that are slashes, dots and the like.
    pub(crate) fn later_separators(&self) -> usize {
        self.later_separators
    }

    /// Number of letters after the last slash.
    pub(crate) fn in_last_part(&self) -> usize {
        self.in_last_part
    }

    /// Returns whether `name` begins with the letters after the last slash.
    pub(crate) fn begins_last_part(&self, name: &[u8]) -> bool {
        let mut letters = L::letters(name);
        (self.len() - self.in_last_part..self.len())
            .all(|at| letters.next().is_some_and(|letter| self.is_at(at, letter)))
    }

    /// Returns whether the letter at `at` is a slash, a dot or the like, whatever its case.
    #[inline]
    pub(crate) fn is_separator(&self, at: usize) -> bool {
        self.letters[at].is_ascii_separator()
    }

    /// Returns whether `letter` is the word's letter at `at`.
    #[inline]
    pub(crate) fn is_at(&self, at: usize, letter: L) -> bool {
        self.letters[at] == if self.minds_case { letter } else { letter.fold() }
    }

    /// Which letters may be `letter`, as bits; all of them when the word has at most [`MAX_PLACES`].
    #[inline]
    pub(crate) fn places_of(&self, letter: L) -> u64 {
        self.places[letter.bit_number()]
    }

    /// Returns whether `name` contains the word without gaps.
    #[inline]
    pub(crate) fn is_run_in(&self, name: &[u8]) -> bool {
        if self.letters.len() == 1 {
            return self.advance(0, name) == 1;
        }
        let mut rest = name;
        while rest.len() >= self.letters.len() {
            let mut letters = L::letters(rest);
            if (0..self.letters.len())
                .all(|at| letters.next().is_some_and(|letter| self.is_at(at, letter)))
            {
                return true;
            }
            // A byte within a character begins no match: as a letter it would be U+FFFD, which a query can have.
            rest = &rest[L::first_len(rest)..];
        }
        false
    }

    /// Returns whether a text with letters of this mask at the starts of words may have the letter
    /// `at` there.
    #[inline]
    pub(crate) fn may_start(&self, at: usize, starts: u32) -> bool {
        starts & (1 << self.letters[at].bit_number()) != 0
    }

    /// Finds the letters from `at` on in `text`, in order. Returns which letter comes next: the number
    /// of letters when all were found. Taking each letter where it comes first finds them whenever they
    /// are there. This is what a search does most.
    #[inline]
    pub(crate) fn advance(&self, mut at: usize, text: &[u8]) -> usize {
        let Some(mut wanted) = self.letters.get(at).copied() else { return at };
        for letter in L::letters(text) {
            if wanted == if self.minds_case { letter } else { letter.fold() } {
                at += 1;
                match self.letters.get(at) {
                    Some(next) => wanted = *next,
                    None => break,
                }
            }
        }
        at
    }

    /// Returns whether `name`, which has this mask and may contain the letters from `at` on, does.
    #[inline]
    pub(crate) fn rest_is_in(&self, at: usize, name: &[u8], mask: u32) -> bool {
        debug_assert!(self.may_be_in(at, mask));
        self.letters.len() - at == 1 && self.ends_in_own_bit || self.advance(at, name) == self.len()
    }

    /// The mask of the letters from `at` on.
    #[inline]
    pub(crate) fn mask_from(&self, at: usize) -> u32 {
        self.masks[at]
    }

    /// Returns whether a text with this mask may contain the letters from `at` on.
    #[inline]
    pub(crate) fn may_be_in(&self, at: usize, mask: u32) -> bool {
        self.masks[at] & !mask == 0
    }

    /// Returns whether a text with this mask may contain the last letter.
    #[inline]
    pub(crate) fn may_end_in(&self, mask: u32) -> bool {
        self.may_be_in(self.len() - 1, mask)
    }
}
