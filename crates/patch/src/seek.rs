//! Finds a run of lines in a file: exactly, then ignoring white space at the ends of lines, then
//! around them, then with typographic punctuation as plain. Time grows with the length of the
//! file, not with its product with the length of the run.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use crate::lines::FileLine;

/// How many line comparisons one file may cost. A patch of many hunks that match only
/// loosely reads the whole rest of the file for each.
const MAX_STEPS: usize = 400_000_000;

/// How lines are compared, in the order in which it is tried.
type Form = for<'a> fn(&'a str) -> Cow<'a, str>;
const FORMS: [Form; 4] = [
    |text| Cow::Borrowed(text),
    |text| Cow::Borrowed(text.trim_end()),
    |text| Cow::Borrowed(text.trim()),
    plain,
];
/// The one that finds most.
const LOOSEST: usize = FORMS.len() - 1;

/// The search took too long.
#[derive(Debug)]
pub(crate) struct TooCostly;

/// The lines of a file, numbered so that equal lines have equal numbers.
pub(crate) struct Haystack<'t> {
    lines: Vec<&'t str>,
    numbered: [Option<Numbered<'t>>; FORMS.len()],
    steps: usize,
}

struct Numbered<'t> {
    numbers: HashMap<Cow<'t, str>, u32>,
    lines: Vec<u32>,
}

impl<'t> Haystack<'t> {
    pub(crate) fn new(lines: &[FileLine<'t>]) -> Self {
        Self {
            lines: lines.iter().map(|line| line.text).collect(),
            numbered: [None, None, None, None],
            steps: 0,
        }
    }

    /// The first place within `range` where all of `needle` stands.
    pub(crate) fn find(
        &mut self,
        needle: &[&str],
        range: Range<usize>,
    ) -> Result<Option<usize>, TooCostly> {
        if range.len() < needle.len() {
            return Ok(None);
        }
        for form in 0..FORMS.len() {
            let wanted = self.wanted(form, needle);
            if wanted.contains(&NOWHERE) {
                self.spend(needle.len())?;
                continue;
            }
            let found = position(&self.numbered(form).lines[range.clone()], &wanted);
            self.spend(needle.len() + found.map_or(range.len(), |at| at + needle.len()))?;
            if let Some(at) = found {
                return Ok(Some(range.start + at));
            }
        }
        Ok(None)
    }

    /// The first line within `range` that begins with `start` and then a character that does not
    /// continue its last word.
    pub(crate) fn find_start(
        &mut self,
        start: &str,
        range: Range<usize>,
    ) -> Result<Option<usize>, TooCostly> {
        self.spend(range.len())?;
        let start = start.trim();
        let in_word = |c: char| c.is_alphanumeric() || c == '_';
        let begins = |line: &&str| {
            let rest = line.trim_start().strip_prefix(start);
            rest.is_some_and(|rest| !(start.ends_with(in_word) && rest.starts_with(in_word)))
        };
        Ok(self.lines[range.clone()].iter().position(begins).map(|at| range.start + at))
    }

    /// Whether the lines of `needle` stand in the file at `at`, compared in the loosest way.
    pub(crate) fn is_at(&mut self, at: usize, needle: &[&str]) -> Result<bool, TooCostly> {
        self.spend(needle.len())?;
        let wanted = self.wanted(LOOSEST, needle);
        Ok(self.numbered(LOOSEST).lines.get(at..at + needle.len()) == Some(&wanted[..]))
    }

    /// Where within `range` the longest beginning of `needle` stands, and how long it is.
    pub(crate) fn closest(
        &mut self,
        needle: &[&str],
        range: Range<usize>,
    ) -> Result<Option<(usize, usize)>, TooCostly> {
        self.spend(range.len() + needle.len())?;
        let wanted = self.wanted(LOOSEST, needle);
        Ok(longest_beginning(&self.numbered(LOOSEST).lines[range.clone()], &wanted)
            .map(|(at, length)| (range.start + at, length)))
    }

    fn spend(&mut self, steps: usize) -> Result<(), TooCostly> {
        self.steps += steps;
        if self.steps > MAX_STEPS { Err(TooCostly) } else { Ok(()) }
    }

    fn wanted(&mut self, form: usize, needle: &[&str]) -> Vec<u32> {
        let numbers = &self.numbered(form).numbers;
        let number = |line: &&str| numbers.get(&FORMS[form](line)).copied();
        needle.iter().map(|line| number(line).unwrap_or(NOWHERE)).collect()
    }

    fn numbered(&mut self, form: usize) -> &Numbered<'t> {
        let lines = &self.lines;
        self.numbered[form].get_or_insert_with(|| {
            let mut numbers = HashMap::new();
            let lines = lines
                .iter()
                .map(|line| {
                    let next = u32::try_from(numbers.len()).unwrap_or(NOWHERE);
                    *numbers.entry(FORMS[form](line)).or_insert(next)
                })
                .collect();
            Numbered { numbers, lines }
        })
    }
}

/// The number of a line that the file does not have.
const NOWHERE: u32 = u32::MAX;

/// Whether two lines are the same, compared in the loosest way.
pub(crate) fn is_alike(one: &str, other: &str) -> bool {
    plain(one) == plain(other)
}

/// Without white space around it, and with plain punctuation and blanks in place of typographic
/// ones.
fn plain(text: &str) -> Cow<'_, str> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    if text.chars().all(|c| plain_char(c) == c) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(plain_char).collect())
}

fn plain_char(c: char) -> char {
    match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    }
}

/// Knuth, Morris and Pratt: the first place of `needle`, each element looked at once or twice.
fn position(haystack: &[u32], needle: &[u32]) -> Option<usize> {
    if needle.is_empty() {
        return Some(0);
    }
    let mut search = Search::new(needle);
    let end = haystack.iter().position(|item| search.step(*item) == needle.len())?;
    Some(end + 1 - needle.len())
}

/// Where the longest beginning of `needle` stands first, and how long it is. For a `needle` that
/// is nowhere as a whole.
fn longest_beginning(haystack: &[u32], needle: &[u32]) -> Option<(usize, usize)> {
    let mut search = Search::new(needle);
    let mut longest = None;
    for (at, item) in haystack.iter().enumerate() {
        let length = search.step(*item);
        if length > longest.map_or(0, |(_, length)| length) {
            longest = Some((at + 1 - length, length));
        }
    }
    longest
}

struct Search<'n> {
    needle: &'n [u32],
    borders: Vec<usize>,
    matched: usize,
}

impl<'n> Search<'n> {
    fn new(needle: &'n [u32]) -> Self {
        Self { needle, borders: borders(needle), matched: 0 }
    }

    /// How many elements of the needle end here.
    fn step(&mut self, item: u32) -> usize {
        while self.matched > 0 && self.needle.get(self.matched) != Some(&item) {
            self.matched = self.borders[self.matched - 1];
        }
        if self.needle.get(self.matched) == Some(&item) {
            self.matched += 1;
        }
        self.matched
    }
}

/// For each prefix of `needle` the length of its longest proper border.
fn borders(needle: &[u32]) -> Vec<usize> {
    let mut borders = vec![0; needle.len()];
    let mut length = 0;
    for at in 1..needle.len() {
        while length > 0 && needle[length] != needle[at] {
            length = borders[length - 1];
        }
        if needle[length] == needle[at] {
            length += 1;
        }
        borders[at] = length;
    }
    borders
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn finds_what_a_plain_search_finds(
            haystack in prop::collection::vec(0u32..3, 0..30),
            needle in prop::collection::vec(0u32..3, 1..6),
        ) {
            let plain = haystack.windows(needle.len()).position(|window| window == needle);
            prop_assert_eq!(position(&haystack, &needle), plain);
            let longest = (1..=needle.len()).rev().find_map(|length| {
                let at = haystack.windows(length).position(|window| *window == needle[..length]);
                at.map(|at| (at, length))
            });
            prop_assert_eq!(longest_beginning(&haystack, &needle), longest);
        }
    }

    #[test]
    fn equal_lines_are_searched_in_linear_time() {
        let text = "a\n".repeat(100_000);
        let lines = crate::lines::lines(&text);
        let mut needle = vec!["a"; 50_000];
        needle.push(" a ");
        let mut haystack = Haystack::new(&lines);
        assert_eq!(haystack.find(&needle, 0..lines.len()).ok().flatten(), Some(0));
        assert!(haystack.steps < 1_000_000);
    }

    #[test]
    fn searches_that_cost_too_much_are_given_up() {
        let lines = crate::lines::lines("a\nb\na\n");
        let mut haystack = Haystack::new(&lines);
        haystack.steps = MAX_STEPS - 20;
        assert_eq!(haystack.find(&["b"], 0..3).ok().flatten(), Some(1));
        // Each line is there, but not one behind the other: all of the file is read in every form.
        assert!(haystack.find(&["b", "b"], 0..3).is_err());
    }

    #[test]
    fn typographic_punctuation_is_like_plain() {
        for (one, other) in [
            ("\u{201c}it\u{2019}s\u{201d} \u{2014} x", "\"it's\" - x"),
            ("\u{feff}a\u{a0}b ", "a b"),
            ("a\u{2212}b", "a\u{2010}b"),
        ] {
            assert!(is_alike(one, other), "{one} {other}");
        }
        assert!(!is_alike("a b", "ab"));
    }
}
