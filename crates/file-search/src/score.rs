//! The score of a word in a path, and the letters of the path that it matches.
//!
//! A letter counts more at the start of a folder's or file's name or of a part of it, and next to the
//! letter before; gaps cost. A word within the file's name counts more than one that needs the folders,
//! and a word that stands in the path as it is more than one with gaps.

use crate::letter::{Class, Letter, bit};
use crate::query::{MAX_PLACES, Word};
use crate::ways::{GAP, GAP_START, NEXT, NONE, Ways};

const LETTER: i32 = 16;
/// For a letter in the name of the file.
const IN_NAME: i32 = 4;
/// The most that a letter's place counts.
const MAX_PLACE: i32 = 10;
/// The most that it counts after the start of a name.
const MAX_PART_PLACE: i32 = 8;
/// The score of a place after a slash, a dot and the like.
const SEPARATOR_PLACE: i32 = 4;
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
    /// The score of each letter's place.
    places: Vec<u8>,
    name: usize,
}

/// Returns whether the best of all ways to find `word` in so many letters takes too long.
fn is_long<L: Letter>(word: &Word<L>, letters: usize) -> bool {
    word.len() > MAX_PLACES || letters * word.len() > MAX_CELLS
}

/// The match of a word in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Without gaps, from this letter on.
    Run(usize),
    /// With gaps, within the letters from this one on.
    Gapped(usize),
}

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

    /// The score of `word` in the path, which contains it; `in_name`: its name contains it.
    pub(crate) fn score(&self, word: &Word<L>, in_name: bool, ways: &mut Ways) -> (i32, Fit) {
        let from = if in_name { self.name } else { 0 };
        self.run_score(word, in_name)
            .unwrap_or_else(|| (self.gapped_score(word, in_name, ways), Fit::Gapped(from)))
    }

    /// As [`Text::score`], if the word is there without gaps.
    pub(crate) fn run_score(&self, word: &Word<L>, in_name: bool) -> Option<(i32, Fit)> {
        if !in_name {
            return self.run(word, 0, self.letters.len());
        }
        let (score, fit) = self.run(word, self.name, self.letters.len())?;
        Some((score + self.whole_name(word, fit) + WITHIN_NAME, fit))
    }

    /// As [`Text::score`], for a word that is not there without gaps.
    pub(crate) fn gapped_score(&self, word: &Word<L>, in_name: bool, ways: &mut Ways) -> i32 {
        let end = self.letters.len();
        match in_name {
            true => self.gapped(word, self.name, end, ways) + WITHIN_NAME,
            false => self.gapped(word, 0, end, ways),
        }
    }

    /// The best place of `word` without gaps, the last one among equals.
    fn run(&self, word: &Word<L>, from: usize, to: usize) -> Option<(i32, Fit)> {
        let count = word.len();
        let mut best: Option<(i32, Fit)> = None;
        for start in from..(to + 1).saturating_sub(count).max(from) {
            if !(0..count).all(|at| word.is_at(at, self.letters[start + at])) {
                continue;
            }
            let score = self.run_at(word, start);
            if best.is_none_or(|(known, _)| score >= known) {
                best = Some((score, Fit::Run(start)));
            }
        }
        best
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
    fn gapped(&self, word: &Word<L>, from: usize, to: usize, ways: &mut Ways) -> i32 {
        if is_long(word, to - from) {
            return self.score_of(&self.last_letters(word, from, to));
        }
        ways.begin(word.len());
        self.extend(word, from, to, ways);
        ways.best()
    }

    /// Finds more ways, in the letters from `from` to `to`, which come next.
    fn extend(&self, word: &Word<L>, from: usize, to: usize, ways: &mut Ways) {
        for at in from..to {
            let counts = (self.value(at), i32::from(self.places[at]));
            ways.extend(word, (at, self.letters[at]), counts);
        }
    }

    /// Finds the ways in the folders' part; false where that takes too long.
    pub(crate) fn ways_in_folders(&self, word: &Word<L>, ways: &mut Ways) -> bool {
        if is_long(word, self.name) {
            return false;
        }
        ways.begin(word.len());
        self.extend(word, 0, self.name, ways);
        true
    }

    /// As [`Text::gapped_score`] for a word that is not in the name; `above` are the ways in the folders'
    /// part.
    pub(crate) fn gapped_score_from(
        &self,
        word: &Word<L>,
        above: &Ways,
        scratch: &mut Ways,
    ) -> i32 {
        let end = self.letters.len();
        if is_long(word, end) {
            return self.gapped(word, 0, end, scratch);
        }
        scratch.copy(above);
        self.extend(word, self.name, end, scratch);
        scratch.best()
    }

    /// The most that `word` can score with gaps in a path with these folders, `ways` being those there, by
    /// which letter is the last one in the folders' part.
    pub(crate) fn most_below(&self, word: &Word<L>, ways: &Ways, most: &mut Vec<i32>) {
        let letter = LETTER + IN_NAME + MAX_PART_PLACE;
        let count = word.len();
        most.clear();
        most.extend((0..count).map(|at| match number(count - at - 1) {
            0 => ways.best(),
            // The first letter of the name can count as the start of a name.
            left => {
                let above = ways.best_before(at, self.name);
                above.saturating_add(left * letter + MAX_PLACE - MAX_PART_PLACE)
            }
        }));
    }

    /// The score of `word` without gaps in the folders' part.
    pub(crate) fn run_in_folders(&self, word: &Word<L>) -> Option<i32> {
        Some(self.run(word, 0, self.name)?.0)
    }

    /// Where a word with a slash, without gaps, would begin whose last slash is that before the name, if
    /// the folders' part allows for it; its letters from the slash on are in the name.
    pub(crate) fn run_into_name(&self, word: &Word<L>) -> Option<usize> {
        let start = self.name.checked_sub(word.len() - word.in_last_part())?;
        (0..word.len() - word.in_last_part())
            .all(|at| word.is_at(at, self.letters[start + at]))
            .then_some(start)
    }

    /// The score of `word`, which is at `start` without gaps.
    pub(crate) fn run_at(&self, word: &Word<L>, start: usize) -> i32 {
        let mut score = self.value(start) + 2 * i32::from(self.places[start]);
        for at in start + 1..start + word.len() {
            score += self.value(at) + i32::from(self.places[at]).max(NEXT);
        }
        score + RUN + RUN_LETTER * length(word)
    }

    /// The places of `word`'s letters, ascending.
    pub(crate) fn positions(&self, word: &Word<L>, fit: Fit) -> Vec<usize> {
        let from = match fit {
            Fit::Run(start) => return (start..start + word.len()).collect(),
            Fit::Gapped(from) => from,
        };
        let to = self.letters.len();
        if is_long(word, to - from) {
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
                        let next = here[j - 1][i - 1] + place.max(NEXT);
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
            let next = here[j - 1][i - 1] + place.max(NEXT);
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
                Some(0) => place.max(NEXT),
                Some(gap) => place - GAP_START - GAP * (i32::try_from(gap).unwrap_or(i32::MAX) - 1),
            };
            before = Some(at);
        }
        score
    }
}

/// The mask of the letters of a name whose places count: a word's letters that are not among them count
/// less.
pub(crate) fn starts(name: &[u8]) -> u32 {
    let mut before = Class::Slash;
    let mut starts = 0;
    for &byte in name {
        let class = byte.class();
        if place(before, class) > 0 || byte >= 0x80 {
            starts |= bit(byte);
        }
        before = class;
    }
    starts
}

/// The most that `word` can score in a name that contains it, whose letters at places that count are
/// `starts`; `is_run`: without gaps.
pub(crate) fn most_in_name<L: Letter>(
    word: &Word<L>,
    name: &[u8],
    starts: u32,
    is_run: bool,
) -> i32 {
    let count = length(word);
    let mut letters = L::letters(name);
    let is_start = letters.next().is_some_and(|letter| word.is_at(0, letter));
    let first = match (is_start, word.may_start(0, starts)) {
        _ if word.is_separator(0) => SEPARATOR_PLACE,
        (true, _) => MAX_PLACE,
        (false, true) => MAX_PART_PLACE,
        (false, false) => 0,
    };
    let most = count * (LETTER + IN_NAME) + 2 * first + WITHIN_NAME;
    if is_run {
        let whole = match letters.nth(word.len() - 1).map(Letter::class) {
            _ if !is_start => 0,
            None => IS_NAME,
            Some(Class::Separator) => IS_STEM,
            Some(_) => 0,
        };
        return most + (count - 1) * MAX_PART_PLACE + RUN + RUN_LETTER * count + whole;
    }
    // The second letter of two is not next to the first.
    let others = match count {
        2 if !word.may_start(1, starts) => 0,
        _ => (count - 1) * MAX_PART_PLACE,
    };
    most + others - GAP_START
}

/// The most that `word` can score in a path whose name does not contain it; `is_gapped`: with gaps.
pub(crate) fn most_in_path<L: Letter>(word: &Word<L>, is_gapped: bool) -> i32 {
    let (count, later_separators) = (length(word), number(word.later_separators()));
    let first = if word.is_separator(0) { SEPARATOR_PLACE } else { MAX_PLACE };
    let places = 2 * first + (count - 1) * MAX_PLACE - later_separators * (MAX_PLACE - NEXT);
    // At least the first letter is in a folder, and those up to the last slash.
    let in_folders = number(word.len() - word.in_last_part()).max(1);
    let gapped = count * LETTER + (count - in_folders) * IN_NAME + places - GAP_START;
    if is_gapped {
        return gapped;
    }
    // Without gaps, it is outside of the name: only a word with a slash reaches into it.
    let in_name = if word.has_slash() { number(word.in_last_part()) * IN_NAME } else { 0 };
    (count * (LETTER + RUN_LETTER) + in_name + RUN + places).max(gapped)
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX / 64)
}

fn length<L: Letter>(word: &Word<L>) -> i32 {
    number(word.len())
}

/// Returns the score of a place with a letter of this class after one of the class `before`.
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
            prop_assert_eq!(text.gapped(&word, 0, to, &mut Ways::default()), best);
            let traced = text.traced(&word, 0, to);
            prop_assert!(ways.contains(&traced), "{:?}", traced);
            prop_assert_eq!(text.score_of(&traced), best);
            prop_assert!(ways.contains(&text.last_letters(&word, 0, to)));
        }

        #[test]
        fn ways_go_on_in_the_name_within_the_most_that_their_folders_allow_for(
            folder in "[abA/_]{1,6}", name in "[abA1._]{1,7}", letters in "[abA/]{1,3}",
        ) {
            let mut text = Text::of_folder(folder.as_bytes());
            let word = word(&letters);
            let (mut ways, mut most) = (Ways::default(), Vec::new());
            prop_assert!(text.ways_in_folders(&word, &mut ways));
            text.most_below(&word, &ways, &mut most);
            text.set_name(name.as_bytes());
            prop_assume!(!every_way(&text, &word, 0, 0).is_empty());
            let score = text.gapped_score_from(&word, &ways, &mut Ways::default());
            prop_assert_eq!(score, text.gapped_score(&word, false, &mut Ways::default()));
            // Its best way within the folders, or into the name.
            let in_name = word.advance(0, name.as_bytes()) == word.len();
            prop_assert!(in_name || most.iter().any(|most| score <= *most), "{} {:?}", score, most);
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
            let (score, fit) = text.score(&word, in_name, &mut Ways::default());
            let is_gapped = matches!(fit, Fit::Gapped(_));
            let most = match in_name {
                true => {
                    prop_assert_eq!(word.is_run_in(name.as_bytes()), !is_gapped);
                    most_in_name(&word, name.as_bytes(), starts(name.as_bytes()), !is_gapped)
                }
                false => most_in_path(&word, is_gapped).min(most_in_path(&word, false)),
            };
            prop_assert!(score <= most, "{} > {}", score, most);
            prop_assert_eq!(text.positions(&word, fit).len(), word.len());
        }
    }
}
