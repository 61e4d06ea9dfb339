//! How well a word fits a path, as a number, and which letters of the path it stands for.
//!
//! A letter counts more at the start of a folder's or file's name or of a part of it, and next to the
//! letter before; gaps cost. A word within the file's name counts more than one that needs the folders,
//! and a word that stands in the path as it is more than one with gaps.

use crate::letter::{Class, Letter};
use crate::query::Word;

const LETTER: i32 = 16;
/// For a letter in the name of the file.
const IN_NAME: i32 = 4;
/// For a letter next to the one before, where its place does not count more.
const NEXT: u8 = 8;
const GAP_START: i32 = 3;
const GAP: i32 = 1;
/// The most that a letter's place counts.
const MAX_PLACE: i32 = 10;
/// For a word within the name.
const WITHIN_NAME: i32 = 30;
/// For a word without gaps.
const RUN: i32 = 8;
const RUN_LETTER: i32 = 6;
/// For a word that is the name without its extension, and for one that is the whole name.
const IS_STEM: i32 = 32;
const IS_NAME: i32 = 40;
/// Beyond so many combinations of letters, a word's letters are taken where they come last.
const MAX_CELLS: usize = 8192;

/// A path as it is scored: the folder's part is prepared once for all of its entries.
pub(crate) struct Text<L> {
    letters: Vec<L>,
    /// What the place of each letter counts.
    places: Vec<u8>,
    name: usize,
}

/// Scratch space of [`Text::gapped`], kept between calls.
#[derive(Default)]
pub(crate) struct Scratch {
    adjacent: Vec<i32>,
    apart: Vec<i32>,
}

/// How a word stands in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Without gaps, from this letter on.
    Run(usize),
    /// With gaps, within the letters from this one on.
    Gapped(usize),
}

/// A score that no path may have.
const NONE: i32 = i32::MIN / 2;

impl<L: Letter> Text<L> {
    /// A text for the entries of `folder`, a path relative to the root.
    pub(crate) fn of_folder(folder: &[u8]) -> Self {
        let mut text = Self { letters: Vec::new(), places: Vec::new(), name: 0 };
        text.set_folder(folder);
        text
    }

    pub(crate) fn set_folder(&mut self, folder: &[u8]) {
        self.letters.clear();
        self.places.clear();
        self.push(folder);
        if !folder.is_empty() {
            self.push(b"/");
        }
        self.name = self.letters.len();
    }

    pub(crate) fn set_name(&mut self, name: &[u8]) {
        self.letters.truncate(self.name);
        self.places.truncate(self.name);
        self.push(name);
    }

    fn push(&mut self, part: &[u8]) {
        let mut before = self.letters.last().map_or(Class::Slash, |letter| letter.class());
        for letter in L::letters(part) {
            let class = letter.class();
            self.letters.push(letter);
            self.places.push(place(before, class));
            before = class;
        }
    }

    /// The score of `word` within the folders' part, which contains it.
    pub(crate) fn score_in_folders(&self, word: &Word<L>, scratch: &mut Scratch) -> (i32, Fit) {
        self.run(word, 0, self.name)
            .unwrap_or_else(|| (self.gapped(word, 0, self.name, scratch), Fit::Gapped(0)))
    }

    /// The score of `word` in the path, which contains it; `in_name`: its name contains it.
    pub(crate) fn score(&self, word: &Word<L>, in_name: bool, scratch: &mut Scratch) -> (i32, Fit) {
        let end = self.letters.len();
        if in_name {
            let (score, fit) = match self.run(word, self.name, end) {
                Some((score, fit)) => (score + self.whole_name(word, fit), fit),
                None => (self.gapped(word, self.name, end, scratch), Fit::Gapped(self.name)),
            };
            return (score + WITHIN_NAME, fit);
        }
        self.run(word, 0, end)
            .unwrap_or_else(|| (self.gapped(word, 0, end, scratch), Fit::Gapped(0)))
    }

    /// The best place of `word` without gaps, the last one among equals.
    fn run(&self, word: &Word<L>, from: usize, to: usize) -> Option<(i32, Fit)> {
        let count = word.len();
        let mut best: Option<(i32, Fit)> = None;
        for start in from..(to + 1).saturating_sub(count).max(from) {
            if !(0..count).all(|at| word.is_at(at, self.letters[start + at])) {
                continue;
            }
            let mut score = self.value(start) + 2 * i32::from(self.places[start]);
            for at in start + 1..start + count {
                score += self.value(at) + i32::from(self.places[at].max(NEXT));
            }
            if best.is_none_or(|(known, _)| score >= known) {
                best = Some((score, Fit::Run(start)));
            }
        }
        best.map(|(score, fit)| (score + RUN + RUN_LETTER * length(word), fit))
    }

    fn whole_name(&self, word: &Word<L>, fit: Fit) -> i32 {
        if fit != Fit::Run(self.name) {
            return 0;
        }
        let end = self.name + word.len();
        match self.letters.get(end).map(|letter| letter.class()) {
            None => IS_NAME,
            Some(Class::Separator) if self.letters[end..].iter().any(|l| l.is_dot()) => IS_STEM,
            Some(_) => 0,
        }
    }

    #[inline]
    fn value(&self, at: usize) -> i32 {
        if at >= self.name { LETTER + IN_NAME } else { LETTER }
    }

    /// The best score of `word` in the letters from `from` to `to`, with gaps. The letters contain it.
    fn gapped(&self, word: &Word<L>, from: usize, to: usize, scratch: &mut Scratch) -> i32 {
        let count = word.len();
        if (to - from) * count > MAX_CELLS {
            return self.score_of(&self.last_letters(word, from, to));
        }
        // The best scores of the letters so far: with the last one at the place before, or earlier.
        let Scratch { adjacent, apart } = scratch;
        for scores in [&mut *adjacent, &mut *apart] {
            scores.clear();
            scores.resize(count, NONE);
        }
        let mut best = NONE;
        let mut reached = 0;
        for at in from..to {
            let letter = self.letters[at];
            let (value, place) = (self.value(at), i32::from(self.places[at]));
            let next = place.max(i32::from(NEXT));
            for j in (0..=reached).rev() {
                let here = match j {
                    _ if !word.is_at(j, letter) => NONE,
                    0 => value + 2 * place,
                    _ => value + (apart[j - 1] + place).max(adjacent[j - 1] + next),
                };
                // Row `j` is read by row `j + 1` only, which is done for this place.
                apart[j] = (apart[j] - GAP).max(adjacent[j] - GAP_START);
                adjacent[j] = here;
            }
            best = best.max(adjacent[count - 1]);
            if adjacent[reached] > NONE && reached + 1 < count {
                reached += 1;
            }
        }
        best
    }

    /// The places of `word`'s letters, ascending.
    pub(crate) fn positions(&self, word: &Word<L>, fit: Fit) -> Vec<usize> {
        let from = match fit {
            Fit::Run(start) => return (start..start + word.len()).collect(),
            Fit::Gapped(from) => from,
        };
        let to = self.letters.len();
        if (to - from) * word.len() > MAX_CELLS {
            return self.last_letters(word, from, to);
        }
        self.traced(word, from, to)
    }

    /// As [`Text::gapped`], with every score kept, so that the way to the best can be followed back.
    fn traced(&self, word: &Word<L>, from: usize, to: usize) -> Vec<usize> {
        let (count, width) = (word.len(), to - from);
        // By letter of the word, by place: the score with the letter there, and with it earlier.
        let mut here = vec![vec![NONE; width]; count];
        let mut apart = vec![vec![NONE; width]; count];
        for i in 0..width {
            let at = from + i;
            let (value, place) = (self.value(at), i32::from(self.places[at]));
            for j in 0..count {
                if i > 0 {
                    apart[j][i] = match i {
                        1 => NONE,
                        _ => (apart[j][i - 1] - GAP).max(here[j][i - 2] - GAP_START),
                    };
                }
                if !word.is_at(j, self.letters[at]) {
                    continue;
                }
                here[j][i] = match j {
                    0 => value + 2 * place,
                    _ if i == 0 => NONE,
                    _ => {
                        let next = here[j - 1][i - 1] + place.max(i32::from(NEXT));
                        value + next.max(apart[j - 1][i] + place)
                    }
                };
            }
        }
        self.follow(&here, &apart, from)
    }

    fn follow(&self, here: &[Vec<i32>], apart: &[Vec<i32>], from: usize) -> Vec<usize> {
        let mut positions = Vec::with_capacity(here.len());
        let last = here.last().into_iter().flat_map(|row| row.iter().enumerate());
        // The first of the best, as the score takes it.
        let Some((mut i, _)) = last.rev().max_by_key(|(_, score)| **score) else {
            return positions;
        };
        for j in (0..here.len()).rev() {
            positions.push(from + i);
            if j == 0 || i == 0 {
                break;
            }
            let place = i32::from(self.places[from + i]);
            let next = here[j - 1][i - 1] + place.max(i32::from(NEXT));
            if next >= apart[j - 1][i] + place {
                i -= 1;
                continue;
            }
            // The place whose score, less the gap up to here, is the one that was taken.
            let mut wanted = apart[j - 1][i];
            i -= 2;
            while i > 0 && here[j - 1][i] - GAP_START != wanted {
                wanted += GAP;
                i -= 1;
            }
        }
        positions.reverse();
        positions
    }

    /// The word's letters where they come last.
    fn last_letters(&self, word: &Word<L>, from: usize, to: usize) -> Vec<usize> {
        let mut positions = Vec::with_capacity(word.len());
        let mut wanted = word.len();
        for at in (from..to).rev() {
            if wanted > 0 && word.is_at(wanted - 1, self.letters[at]) {
                positions.push(at);
                wanted -= 1;
            }
        }
        positions.reverse();
        positions
    }

    /// The score of letters at these places.
    fn score_of(&self, positions: &[usize]) -> i32 {
        let mut score = 0;
        let mut before: Option<usize> = None;
        for &at in positions {
            let place = i32::from(self.places[at]);
            score += self.value(at);
            score += match before.map(|before| at - before - 1) {
                None => 2 * place,
                Some(0) => place.max(i32::from(NEXT)),
                Some(gap) => place - GAP_START - GAP * (i32::try_from(gap).unwrap_or(i32::MAX) - 1),
            };
            before = Some(at);
        }
        score
    }
}

/// The most that `word` can score in a path whose name contains it, or does not.
pub(crate) fn most<L: Letter>(word: &Word<L>, in_name: bool) -> i32 {
    let count = length(word);
    let places = 2 * MAX_PLACE + (count - 1) * MAX_PLACE;
    match in_name {
        true => count * (LETTER + IN_NAME + RUN_LETTER) + places + RUN + WITHIN_NAME + IS_NAME,
        // Without gaps, it is outside of the name: only a word with a slash reaches into it.
        false if !word.has_slash() => {
            (count * (LETTER + RUN_LETTER) + RUN).max(count * (LETTER + IN_NAME)) + places
        }
        false => count * (LETTER + IN_NAME + RUN_LETTER) + places + RUN,
    }
}

fn length<L: Letter>(word: &Word<L>) -> i32 {
    i32::try_from(word.len()).unwrap_or(i32::MAX)
}

/// What the place of a letter of this class counts, after one of the class `before`.
fn place(before: Class, class: Class) -> u8 {
    match (before, class) {
        (_, Class::Slash | Class::Separator) => 4,
        (Class::Slash, _) => 10,
        (Class::Separator, _) => 8,
        (Class::Lower, Class::Upper) => 7,
        (Class::Lower | Class::Upper, Class::Digit) => 5,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::query::{Query, Words};

    fn word(text: &str) -> Word<u8> {
        match Query::new(text).unwrap().words {
            Words::Bytes(mut words) => words.remove(0),
            Words::Chars(_) => panic!("not ASCII"),
        }
    }

    /// Every way to find the word's letters in order.
    fn every_way(text: &Text<u8>, word: &Word<u8>, from: usize, at: usize) -> Vec<Vec<usize>> {
        if at == word.len() {
            return vec![vec![]];
        }
        let mut ways = Vec::new();
        for place in from..text.letters.len() {
            if word.is_at(at, text.letters[place]) {
                for mut rest in every_way(text, word, place + 1, at + 1) {
                    rest.insert(0, place);
                    ways.push(rest);
                }
            }
        }
        ways
    }

    proptest! {
        #[test]
        fn gapped_is_the_best_of_all_ways_and_its_positions_have_that_score(
            folder in "[abA/_]{0,6}", name in "[abA1._]{0,7}", letters in "[abA]{1,3}",
        ) {
            let mut text = Text::of_folder(folder.as_bytes());
            text.set_name(name.as_bytes());
            let word = word(&letters);
            let ways = every_way(&text, &word, 0, 0);
            prop_assume!(!ways.is_empty());
            let best = ways.iter().map(|way| text.score_of(way)).max().unwrap();
            let to = text.letters.len();
            prop_assert_eq!(text.gapped(&word, 0, to, &mut Scratch::default()), best);
            let traced = text.traced(&word, 0, to);
            prop_assert!(ways.contains(&traced), "{:?}", traced);
            prop_assert_eq!(text.score_of(&traced), best);
            prop_assert!(ways.contains(&text.last_letters(&word, 0, to)));
        }

        #[test]
        fn no_score_exceeds_the_most(
            folder in "[abA/_]{0,6}", name in "[abA1._]{1,7}", letters in "[abA/]{1,3}",
        ) {
            let mut text = Text::of_folder(folder.as_bytes());
            text.set_name(name.as_bytes());
            let word = word(&letters);
            prop_assume!(!every_way(&text, &word, 0, 0).is_empty());
            let in_name = word.advance(0, name.as_bytes()) == word.len();
            let (score, fit) = text.score(&word, in_name, &mut Scratch::default());
            prop_assert!(score <= most(&word, in_name));
            prop_assert_eq!(text.positions(&word, fit).len(), word.len());
        }
    }
}
