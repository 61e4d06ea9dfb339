//! Finds a sequence of lines in a file: exactly, then ignoring trailing white space, then all
//! surrounding white space, then treating typographic punctuation as plain. Takes time linear in
//! the length of the file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use crate::lines::FileLine;

/// Bound on line comparisons per file: a patch with many loosely matching hunks reads the rest of
/// the file for each of them.
const MAX_STEPS: usize = 400_000_000;

/// The forms in which lines are compared, in the order of the attempts.
type Form = for<'a> fn(&'a str) -> Cow<'a, str>;
const FORMS: [Form; 4] = [
    |text| Cow::Borrowed(text),
    |text| Cow::Borrowed(text.trim_end()),
    |text| Cow::Borrowed(text.trim()),
    plain,
];
/// The most tolerant form.
const LOOSEST: usize = FORMS.len() - 1;

/// The search takes too long.
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

    /// The first position of `needle` within `range`.
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
            if wanted.contains(&NOT_IN_FILE) {
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

    /// The first line within `range` that begins with `start`, followed by a word boundary.
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

    /// Returns whether the file has the lines of `needle` at `at`, in the most tolerant form.
    pub(crate) fn is_at(&mut self, at: usize, needle: &[&str]) -> Result<bool, TooCostly> {
        self.spend(needle.len())?;
        let wanted = self.wanted(LOOSEST, needle);
        Ok(self.numbered(LOOSEST).lines.get(at..at + needle.len()) == Some(&wanted[..]))
    }

    /// The position within `range`, and the length, of the longest prefix of `needle`.
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
        needle.iter().map(|line| number(line).unwrap_or(NOT_IN_FILE)).collect()
    }

    fn numbered(&mut self, form: usize) -> &Numbered<'t> {
        let lines = &self.lines;
        self.numbered[form].get_or_insert_with(|| {
            let mut numbers = HashMap::new();
            let lines = lines
                .iter()
                .map(|line| {
                    let next = u32::try_from(numbers.len()).unwrap_or(NOT_IN_FILE);
                    *numbers.entry(FORMS[form](line)).or_insert(next)
                })
                .collect();
            Numbered { numbers, lines }
        })
    }
}

/// The number of a line that the file does not have.
const NOT_IN_FILE: u32 = u32::MAX;

/// Returns whether two lines are equal in the most tolerant form.
pub(crate) fn is_alike(one: &str, other: &str) -> bool {
    plain(one) == plain(other)
}

/// `text` without surrounding white space, and with plain punctuation and blanks instead of
/// typographic ones.
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

/// The first position of `needle` (algorithm of Knuth, Morris and Pratt).
fn position(haystack: &[u32], needle: &[u32]) -> Option<usize> {
    if needle.is_empty() {
        return Some(0);
    }
    let mut search = Search::new(needle);
    let end = haystack.iter().position(|item| search.step(*item) == needle.len())?;
    Some(end + 1 - needle.len())
}

/// The first position and the length of the longest prefix of `needle`, which as a whole must not
/// occur.
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

    /// The length of the prefix of the needle that ends with `item`.
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
        fn finds_the_same_as_a_naive_search(
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
    fn costly_searches_are_abandoned() {
        let lines = crate::lines::lines("a\nb\na\n");
        let mut haystack = Haystack::new(&lines);
        haystack.steps = MAX_STEPS - 20;
        assert_eq!(haystack.find(&["b"], 0..3).ok().flatten(), Some(1));
        // Both lines exist, but not in sequence: the whole file is read in every form.
        assert!(haystack.find(&["b", "b"], 0..3).is_err());
    }

    #[test]
    fn typographic_punctuation_equals_plain() {
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
